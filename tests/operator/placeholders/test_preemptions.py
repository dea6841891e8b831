"""What hangs and what does not, from pods as an API server shows them."""

import sys
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.hangs import HELD_PATIENCE_SECONDS, PATIENCE_SECONDS
from slack_operator.placeholders.view.preemptions import MAX_LEFT, MAX_PREEMPTORS, MAX_UNBOUND, Preemptions
from slack_operator.placeholders.view.sinks import NodeSink, PodSink
from tests.operator.fakes import NAMESPACE, Clock, node
from tests.operator.fakes import pod as document

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
DISPLACED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
DAEMON = [{"kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}]
PLACEHOLDER = {"resource-slack.io/placeholder": "true", "resource-slack.io/policy": "web"}


def pod(name: str, node: str = "", *, spec: Any = None, metadata: Any = None, **status: Any) -> wire.Pod:
    made = document(name, node, **status)
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7", **(metadata or {})}
    made["spec"] |= spec or {}
    return msgspec.json.decode(msgspec.json.encode(made), type=wire.Pod)


def preemptor(name: str, node: str = "n1", *conditions: Any, **more: Any) -> wire.Pod:
    return pod(name, nominatedNodeName=node, conditions=list(conditions) or [UNSCHEDULABLE], **more)


def victim(name: str, node: str = "n1", priority: int = -10, **metadata: Any) -> wire.Pod:
    return pod(name, node, spec={"priority": priority}, metadata=metadata, conditions=[DISPLACED])


class Cluster:
    """The view behind the pods' sink, and the time."""

    def __init__(self) -> None:
        self.clock = Clock(0.0)
        self.view = ClusterView(NAMESPACE, lambda: None, clock=self.clock, wall=Clock())
        self.sink = PodSink(self.view)
        self.lists()

    def lists(self, *pods: wire.Pod) -> None:
        self.sink.begin()
        self.sink.apply([(EventType.ADDED, pod) for pod in pods])
        self.sink.end()

    def see(self, *pods: wire.Pod) -> None:
        self.sink.apply([(EventType.MODIFIED, pod) for pod in pods])

    def lose(self, *pods: wire.Pod) -> None:
        self.sink.apply([(EventType.DELETED, pod) for pod in pods])

    def hangs(self, scheduler: str | None = "default-scheduler") -> list[str]:
        return sorted(hang.name for hang in self.view.hangs(self.clock(), lambda _: scheduler))

    def preempts(self, pod: wire.Pod, **of_victim: Any) -> None:
        """A pod is created, promised a node, and its victim leaves."""
        waiting = msgspec.json.decode(msgspec.json.encode(document(pod.metadata.name)), type=wire.Pod)
        waiting.metadata = pod.metadata
        waiting.spec = pod.spec
        self.see(waiting)
        self.see(pod)
        node = pod.status.nominated_node_name if pod.status else None
        self.lose(victim(f"victim-of-{pod.metadata.name}", node or "n1", **of_victim))


def hung(**more: Any) -> Cluster:
    """A cluster in which `a` has been hanging long enough, but for what a test changes in it."""
    cluster = Cluster()
    cluster.preempts(preemptor("a", **more))
    cluster.clock.now += PATIENCE_SECONDS
    return cluster


def test_a_pod_whose_victims_are_gone_and_that_does_not_fit_hangs() -> None:
    cluster = hung()
    assert cluster.hangs() == ["a"]
    (hang,) = cluster.view.hangs(cluster.clock(), lambda _: "default-scheduler")
    assert (hang.node, hang.uid, hang.resource_version) == ("n1", "uid-a", "7")


def test_patience_counts_from_the_last_victim() -> None:
    cluster = hung()
    cluster.clock.now -= 0.1
    assert cluster.hangs() == []
    cluster.lose(victim("another"))
    cluster.clock.now += PATIENCE_SECONDS - 0.1
    assert cluster.hangs() == []
    cluster.clock.now += 0.1
    assert cluster.hangs() == ["a"]


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{**UNSCHEDULABLE, "reason": "SchedulerError"}],
        [{**UNSCHEDULABLE, "status": "True"}],
        [{**UNSCHEDULABLE, "reason": "SchedulingGated"}],
    ],
)
def test_an_assumed_pod_that_waits_before_it_is_bound_is_left_alone(conditions: list[Any]) -> None:
    cluster = hung()
    cluster.see(pod("a", nominatedNodeName="n1", conditions=conditions))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_nomination_without_a_victim_is_no_hang() -> None:
    cluster = Cluster()
    cluster.see(preemptor("a"))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


@pytest.mark.parametrize("scheduler", [None, "volcano"])
def test_a_node_of_no_policy_or_of_a_policy_with_another_scheduler_is_not_ours(scheduler: str | None) -> None:
    assert hung().hangs(scheduler) == []


def test_a_pod_of_another_scheduler_is_left_alone_and_that_of_the_policys_is_not() -> None:
    cluster = hung(spec={"schedulerName": "second"})
    assert cluster.hangs() == []
    assert cluster.hangs("second") == ["a"]


@pytest.mark.parametrize("priority", [0, 5])
def test_a_victim_that_is_not_of_lower_priority_went_for_somebody_else(priority: int) -> None:
    cluster = Cluster()
    cluster.preempts(preemptor("a"), priority=priority)
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_victim_that_left_before_the_pod_was_created_went_for_somebody_else() -> None:
    cluster = Cluster()
    cluster.lose(victim("v"))
    cluster.clock.now += 1
    cluster.see(pod("a"))
    cluster.see(preemptor("a"))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_victim_that_left_before_the_nomination_was_written_counts_and_one_of_long_ago_does_not() -> None:
    for before, expected in ((59.0, ["a"]), (61.0, [])):
        cluster = Cluster()
        cluster.see(pod("a"))
        cluster.lose(victim("v"))
        cluster.clock.now += before
        cluster.see(preemptor("a"))
        cluster.clock.now += PATIENCE_SECONDS
        assert cluster.hangs() == expected


def test_a_victim_of_another_node_is_nothing_to_the_pod() -> None:
    cluster = Cluster()
    cluster.see(pod("a"), preemptor("a"))
    cluster.lose(victim("v", "n2"))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_pod_that_left_for_another_reason_is_no_victim() -> None:
    cluster = Cluster()
    cluster.see(pod("a"), preemptor("a"))
    cluster.lose(pod("v", "n1", conditions=[{**DISPLACED, "reason": "EvictionByEvictionAPI"}]))
    cluster.lose(pod("w", "n1", conditions=[{**DISPLACED, "status": "False"}]))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


@pytest.mark.parametrize("node", ["n1", ""])
@pytest.mark.parametrize("nominated_first", [True, False])
def test_a_pod_whose_victim_made_way_before_it_was_marked_hangs_too(node: str, nominated_first: bool) -> None:
    """Seen on 1.36.3: the scheduler chose a placeholder that was only assumed, and that the operator had just deleted;
    it answered the victim's mark with 404, and the pod stayed pending for good."""
    cluster = Cluster()
    owner = {"kind": "ReplicaSet", "name": "slack-web-1", "uid": "rs", "controller": True}
    kept = {"namespace": NAMESPACE, "labels": PLACEHOLDER, "ownerReferences": [owner]}
    placeholder = pod("slack-web-1-x", node, spec={"priority": -10}, metadata=kept)
    cluster.see(pod("a"), placeholder)
    cluster.view.suspended["slack-web-1"] = wire.OwnReplicaSet(metadata=wire.OwnMetadata(name="slack-web-1"))
    if nominated_first:
        cluster.see(preemptor("a"))
    cluster.lose(placeholder)
    cluster.see(preemptor("a"))
    cluster.clock.now += PATIENCE_SECONDS - 0.1
    assert cluster.hangs() == []
    cluster.clock.now += 0.1
    assert cluster.hangs() == ["a"]


@pytest.mark.parametrize("metadata", [{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
def test_a_victim_that_is_still_on_the_node_is_waited_for(metadata: Any) -> None:
    cluster = hung()
    cluster.see(victim("slow", **metadata))
    cluster.clock.now += 3600
    assert cluster.hangs() == []
    cluster.lose(victim("slow", **metadata))
    assert cluster.hangs() == []
    cluster.clock.now += PATIENCE_SECONDS
    assert cluster.hangs() == ["a"]


def test_an_unrelated_pod_that_never_ends_terminating_blocks_nothing() -> None:
    cluster = hung()
    cluster.see(pod("stuck", "n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert cluster.hangs() == ["a"]


def test_a_victim_whose_condition_is_taken_back_stays_and_blocks_nothing() -> None:
    cluster = hung()
    cluster.see(victim("v"))
    assert cluster.hangs() == []
    cluster.see(pod("v", "n1"))
    assert cluster.hangs() == ["a"]


def test_preemptors_and_victims_of_daemon_sets_and_placeholders_count() -> None:
    cluster = Cluster()
    cluster.preempts(preemptor("agent", metadata={"ownerReferences": DAEMON}), ownerReferences=DAEMON)
    cluster.preempts(preemptor("api", "n2"), namespace=NAMESPACE, labels=PLACEHOLDER)
    cluster.clock.now += PATIENCE_SECONDS
    assert cluster.hangs() == ["agent", "api"]


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]},
        {"schedulingGroup": {"podGroupName": "training"}},
        {"schedulingGroup": {}},
        {"workloadRef": {"name": "training", "podGroup": "workers"}},
    ],
)
def test_pods_that_may_wait_before_they_are_bound_are_left_alone_longer_than_the_scheduler_waits(spec: Any) -> None:
    cluster = hung(spec=spec)
    cluster.clock.now = HELD_PATIENCE_SECONDS - 0.1
    assert cluster.hangs() == []
    cluster.clock.now += 0.1
    assert cluster.hangs() == ["a"]


def test_a_gang_of_the_scheduler_plugins_is_one_too() -> None:
    cluster = hung(metadata={"labels": {"scheduling.x-k8s.io/pod-group": "training"}})
    assert cluster.hangs() == []
    cluster.clock.now = HELD_PATIENCE_SECONDS
    assert cluster.hangs() == ["a"]


def test_a_claim_that_the_scheduler_has_made_itself_counts_as_one() -> None:
    cluster = hung()
    claim = {"requestMappings": [], "resourceClaimName": "gpu-x"}
    cluster.see(preemptor("a", extendedResourceClaimStatus=claim))
    assert cluster.hangs() == []


@pytest.mark.parametrize("spec", [{"volumes": [{"name": "token", "projected": {}}]}, {"volumes": None}])
def test_other_volumes_hold_nobody(spec: Any) -> None:
    assert hung(spec=spec).hangs() == ["a"]


def test_a_pod_with_a_gate_is_not_the_schedulers_turn() -> None:
    assert hung(spec={"schedulingGates": [{"name": "quota"}]}).hangs() == []


@pytest.mark.parametrize(
    "then",
    [
        pod("a", "n1", conditions=[UNSCHEDULABLE]),
        pod("a", conditions=[UNSCHEDULABLE]),
        preemptor("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        preemptor("a", "n2"),
    ],
)
def test_a_pod_that_is_bound_deleting_or_promised_no_or_another_node_does_not_hang(then: wire.Pod) -> None:
    cluster = hung()
    cluster.see(then)
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_pod_that_is_deleted_or_vanishes_from_a_list_does_not_hang() -> None:
    cluster = hung()
    cluster.lose(preemptor("a"))
    assert cluster.hangs() == []
    cluster = hung()
    cluster.lists()
    assert cluster.hangs() == []
    assert len(cluster.view.preemptions) == 0


def test_a_victim_that_goes_unseen_left_when_the_next_list_says_so() -> None:
    cluster = Cluster()
    cluster.see(pod("a"), preemptor("a"), victim("v"))
    cluster.clock.now += 100
    cluster.lists(preemptor("a"))
    assert cluster.hangs() == []
    cluster.clock.now += PATIENCE_SECONDS
    assert cluster.hangs() == ["a"]


def test_what_was_before_the_first_list_was_not_seen_and_proves_nothing() -> None:
    cluster = Cluster()
    cluster.lists(preemptor("a"))
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_a_pod_whose_conditions_cannot_be_read_costs_itself_only() -> None:
    cluster = Cluster()
    bad = preemptor("bad")
    assert bad.status is not None
    bad.status.conditions_json = msgspec.Raw(b'{"type": 5}')
    cluster.see(bad)
    cluster.preempts(preemptor("a"))
    cluster.clock.now += PATIENCE_SECONDS
    assert cluster.hangs() == ["a"]


def promised_before(
    room: str = "1", ready: str = "True", taints: Any = (), conditions: Any = (UNSCHEDULABLE,), **spec: Any
) -> Cluster:
    """A cluster as an operator finds it that has just been started: `a` was promised n1, which has some room."""
    cluster = Cluster()
    machine: Any = node("n1", cpu=room)
    machine["metadata"]["resourceVersion"] = "1"
    machine["status"]["conditions"][0]["status"] = ready
    machine["spec"] = {"taints": list(taints)}
    nodes = NodeSink(cluster.view)
    nodes.begin()
    nodes.apply([(EventType.ADDED, msgspec.json.decode(msgspec.json.encode(machine), type=wire.Node))])
    nodes.end()
    cluster.lists(preemptor("a", "n1", *conditions, spec=spec))
    cluster.clock.now += PATIENCE_SECONDS
    return cluster


TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


def test_a_pod_that_was_promised_a_node_before_we_looked_hangs_where_it_would_fit() -> None:
    """The operator was killed in a burst; those who left for the pod had left when it was back."""
    cluster = promised_before()
    assert cluster.hangs() == ["a"]
    cluster.clock.now -= 0.1
    assert cluster.hangs() == []
    cluster.clock.now += 0.1
    assert cluster.hangs("volcano") == []
    cluster.see(victim("still-leaving"))
    assert cluster.hangs() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"room": "999m"},
        {"ready": "False"},
        {"taints": [TAINT]},
        {"nodeSelector": {"team": "red"}},
        {"topologySpreadConstraints": [SPREAD]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"preemptionPolicy": "Never"},
        {"schedulingGates": [{"name": "wait"}]},
        {"conditions": [{**UNSCHEDULABLE, "reason": "SchedulerError"}]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_one_that_would_not_fit_or_waits_for_more_than_room_does_not(changed: Any) -> None:
    cluster = promised_before(**changed)
    cluster.clock.now += 3600
    assert cluster.hangs() == []


def test_it_hangs_once_the_room_is_free_and_pods_that_stand_there_take_it() -> None:
    cluster = promised_before(room="2")
    cluster.see(pod("other", "n1", spec={"containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}))
    assert cluster.hangs() == []
    cluster.lose(pod("other", "n1"))
    assert cluster.hangs() == ["a"]
    cluster.see(*(pod(f"slot-{number}", "n1", spec={"containers": []}) for number in range(110)))
    assert cluster.hangs() == []


def test_a_pod_that_was_seen_before_it_was_promised_its_node_needs_a_victim_still() -> None:
    cluster = promised_before()
    cluster.see(pod("b"))
    cluster.see(preemptor("b"))
    cluster.clock.now += 3600
    assert cluster.hangs() == ["a"]


def test_however_many_pods_a_tenant_makes_memory_is_bounded() -> None:
    preemptions, few = Preemptions(), 500
    for number in range(MAX_UNBOUND + few):
        preemptions.seen(preemptor(f"p{number}"), 0.0)
    assert len(preemptions) == MAX_PREEMPTORS
    assert len(set(preemptions.followed())) <= MAX_UNBOUND
    for number in range(MAX_LEFT + few):
        preemptions.gone(victim(f"v{number}", "n9"), 1.0)
    held = sys.getsizeof(preemptions._left["n9"])
    assert len(preemptions._left["n9"]) == MAX_LEFT
    preemptions.gone(victim("last", "n8"), 100.0)
    assert list(preemptions._left) == ["n8"]
    assert held < 10_000


def test_pods_that_are_on_nodes_and_nobodys_victims_are_not_followed() -> None:
    cluster = Cluster()
    cluster.see(*(pod(f"p{number}", "n1") for number in range(50)))
    cluster.see(*(victim(f"v{number}") for number in range(3)), pod("growing", "n1", conditions=[DEFERRED]))
    assert len(set(cluster.view.preemptions.followed())) == 4


def displaced(cluster: Cluster) -> dict[str, int]:
    cluster.clock.now += 2.0
    return {cause: count for (_, cause), count in cluster.view.observe(0.0).displaced.items()}


def placeholder(name: str, **status: Any) -> wire.Pod:
    return pod(name, "n1", spec={"priority": -10}, metadata={"namespace": NAMESPACE, "labels": PLACEHOLDER}, **status)


def test_a_placeholder_that_went_for_a_pod_that_grows_has_a_cause_of_its_own() -> None:
    cluster = Cluster()
    cluster.see(placeholder("slack"), pod("growing", "n1", conditions=[DEFERRED]))
    cluster.lose(placeholder("slack", conditions=[DISPLACED]))
    cluster.see(pod("growing", "n1"))
    assert displaced(cluster) == {"PreemptionByResize": 1}


@pytest.mark.parametrize("first", [True, False])
def test_a_placeholder_that_went_for_a_pod_that_starts_did_not_go_for_one_that_would_like_to_grow(first: bool) -> None:
    cluster = Cluster()
    cluster.see(placeholder("slack"), pod("growing", "n1", conditions=[DEFERRED]), pod("a"))
    if first:
        cluster.see(preemptor("a"))
    cluster.lose(placeholder("slack", conditions=[DISPLACED]))
    if not first:
        cluster.see(preemptor("a"))
    cluster.see(pod("a", "n1"))
    assert displaced(cluster) == {"PreemptionByScheduler": 1}


def test_who_waits_for_a_resize_elsewhere_or_no_longer_takes_no_placeholders_place() -> None:
    cluster = Cluster()
    cluster.see(placeholder("slack"), pod("growing", "n2", conditions=[DEFERRED]))
    cluster.see(pod("grown", "n1", conditions=[DEFERRED]))
    cluster.lose(pod("grown", "n1", conditions=[DEFERRED]))
    cluster.lose(placeholder("slack", conditions=[DISPLACED]))
    assert displaced(cluster) == {"PreemptionByScheduler": 1}
