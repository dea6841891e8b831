"""From a pod's creation to Ready: followed on its way, folded into sketches, and kept no longer."""

import sys
from typing import Any

import msgspec

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.report.times_to_ready import MAX_WORKLOADS, TimesToReady
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.instant_starts import Start
from slack_operator.placeholders.view.ready_starts import (
    LONGEST_SECONDS,
    MAX_ON_THE_WAY,
    SETTLE_SECONDS,
    ReadyStart,
    ReadyStarts,
)
from slack_operator.placeholders.view.sinks import PodSink, PulledSink
from tests.operator.fakes import NAMESPACE, Clock, pod

PULLED = 'Successfully pulled image "r/a:1" in 38s (38s including waiting). Image size: 6100000000 bytes.'


class Watched:
    """A view, its clock, and the sinks that feed it."""

    def __init__(self) -> None:
        self.clock = Clock(100.0)
        self.view = ClusterView(NAMESPACE, lambda: None, clock=self.clock, wall=Clock(1_800_000_000.0))
        self.pods, self.events = PodSink(self.view), PulledSink(self.view)
        self.pods.begin()
        self.pods.end()

    def pod(self, name: str, node: str = "", *, ready: bool = False, started: bool = False, **status: Any) -> None:
        said = [{"type": "Ready", "status": str(ready)}]
        containers = [{"name": "c", "started": started}]
        found = pod(name, node, **{"conditions": said, "containerStatuses": containers, **status})
        found["metadata"]["uid"] = f"uid-{name}"
        item = msgspec.json.decode(msgspec.json.encode(found), type=wire.Pod)
        self.pods.apply([(EventType.MODIFIED, item)])

    def pulled(self, name: str, message: str = PULLED, namespace: str = "shop", uid: str = "e1") -> None:
        about = wire.ObjectReference(kind="Pod", namespace=namespace, name=name, uid=f"uid-{name}")
        metadata = wire.Metadata(name="e", namespace=namespace, uid=uid)
        item = wire.Event(metadata=metadata, reason="Pulled", message=message, involved_object=about)
        self.events.apply([(EventType.ADDED, item)])

    def at(self, seconds: float) -> None:
        self.clock.now = 100.0 + seconds

    def taken(self) -> list[ReadyStart]:
        return self.view.ready_starts.drain_starts(self.clock())


def test_a_pod_is_followed_from_its_creation_to_ready() -> None:
    w = Watched()
    w.pod("a")
    w.at(0.1)
    w.pod("a", "n1")
    w.at(39.0)
    w.pulled("a")
    w.at(40.0)
    w.pod("a", "n1", started=True)
    w.at(41.0)
    w.pod("a", "n1", started=True, ready=True)
    assert w.taken() == []  # an Event may still come
    w.at(41.0 + SETTLE_SECONDS)
    (found,) = w.taken()
    stages = (found.start.waited_seconds, found.image_seconds, found.started_seconds, found.ready_seconds)
    assert [round(seconds or 0, 3) for seconds in stages] == [0.1, 39.0, 40.0, 41.0]
    assert (found.pull_seconds, found.pulled_bytes) == (38.0, 6_100_000_000)
    assert not w.view.ready_starts.pods


def test_an_event_counts_once_and_only_for_pods_of_its_own_namespace() -> None:
    w = Watched()
    w.pod("a")
    w.pod("a", "n1")
    w.at(50.0)
    w.pulled("a", namespace="other", uid="forged")
    w.pulled("a")
    w.pulled("a")  # as a new list repeats it
    w.pulled("b")
    w.pod("a", "n1", started=True, ready=True)
    w.at(60.0)
    assert [(found.pull_seconds, found.pulled_bytes) for found in w.taken()] == [(38.0, 6_100_000_000)]


def test_pulls_take_no_longer_than_the_pod_did() -> None:
    w = Watched()
    w.pod("a")
    w.pod("a", "n1")
    w.pulled("a", PULLED.replace("38s", "9000h"))
    w.at(5.0)
    w.pod("a", "n1", started=True, ready=True)
    w.at(10.0)
    assert [found.pull_seconds for found in w.taken()] == [5.0]


def test_pods_that_are_deleted_vanish_or_never_are_ready_are_forgotten() -> None:
    w = Watched()
    for name in ("deleted", "vanished", "never"):
        w.pod(name)
        w.pod(name, "n1")
    gone = msgspec.json.decode(msgspec.json.encode(pod("deleted", "n1")), type=wire.Pod)
    gone.metadata.uid = "uid-deleted"
    w.pods.apply([(EventType.DELETED, gone)])
    w.pods.begin()
    w.pod("never", "n1")
    w.pods.end()
    assert set(w.view.ready_starts.pods) == {"uid-never"}
    w.at(LONGEST_SECONDS + 1)
    assert w.taken() == []
    assert not w.view.ready_starts.pods


def test_conditions_that_cannot_be_read_cost_their_pod_only() -> None:
    w = Watched()
    w.pod("a")
    w.pod("a", "n1")
    w.pod("a", "n1", conditions={"type": 5})
    w.pod("a", "n1", ready=True)
    w.at(10.0)
    assert len(w.taken()) == 1


def test_a_pod_on_its_way_costs_little_and_there_are_at_most_so_many() -> None:
    starts = ReadyStarts()
    for number in range(MAX_ON_THE_WAY + 10):
        starts.follow(f"uid-{number}", Start("n1", 0.1, False, float(number)))
    assert len(starts.pods) == MAX_ON_THE_WAY
    assert "uid-9" not in starts.pods
    one = starts.pods["uid-10"]
    assert sys.getsizeof(one) + sys.getsizeof(one.events) < 600


def ready(number: int, seconds: float = 1.0, node: str = "n1") -> ReadyStart:
    from slack.cluster.snapshot import Workload

    start = Start(node, 0.1, False, float(number), workload=Workload("shop", "deploy", f"w{number}"))
    return ReadyStart(start, seconds, seconds, None, 0.0, 0)


def test_a_policy_shows_its_percentiles_and_slowest_workloads() -> None:
    times = TimesToReady()
    assert times.status("web") is None
    counted = times.add_starts([ready(1), ready(2, 60.0), ready(3, node="strange")], {"n1": "web"})
    assert len(counted) == 2
    found = times.status("web")
    assert found is not None
    assert found.workloads is not None
    assert (found.pods, found.workloads[0].workload) == (2, "shop/deploy/w2")
    assert found.summary == f"{found.p50}/{found.p99}"
    times.keep_only(())
    assert times.status("web") is None


def test_workloads_that_started_long_ago_are_forgotten_for_newer_ones() -> None:
    times = TimesToReady()
    times.add_starts([ready(number) for number in range(MAX_WORKLOADS + 5)], {"n1": "web"})
    assert len(times.slowest("web", 10**6)) == MAX_WORKLOADS
