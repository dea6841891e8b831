"""What is read from pods as they pass: displacements and starts."""

import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.watch import EventType
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.displaced import SETTLED_SECONDS, Displaced, cause_of
from slack_operator.placeholders.view.instant_starts import InstantRatio, InstantStarts, Start
from slack_operator.placeholders.view.sinks import NodeSink, PodSink
from tests.operator.fakes import NAMESPACE, Clock, pod

NOW = 1_800_000_000.0


def placeholder(name: str, node: str | None = "n1", reason: str = "", *, deleting: bool = False) -> wire.Pod:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}] if reason else None
    return wire.Pod(
        metadata=wire.Metadata(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            labels={"resource-slack.io/policy": "web", "resource-slack.io/placeholder": "true"},
            owner_references=[wire.OwnerReference(kind="ReplicaSet", name="rs", uid="r", controller=True)],
            deletion_timestamp=datetime.now(UTC) if deleting else None,
        ),
        spec=wire.PodSpec(node_name=node),
        status=wire.PodStatus(conditions_json=msgspec.Raw(msgspec.json.encode(conditions))),
    )


@pytest.mark.parametrize(
    "reason",
    ["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet", ""],
)
def test_a_displaced_placeholder_is_counted_once_by_cause(reason: str) -> None:
    displaced = Displaced()
    displaced.seen(placeholder("a"), 0.0)
    assert displaced.seen(placeholder("a", reason=reason, deleting=True), 1.0) == "n1"
    assert displaced.gone(placeholder("a", reason=reason), 2.0) is None
    assert displaced.counts == {("web", reason or "Deleted"): 1}
    assert cause_of(placeholder("a", reason=reason)) == (reason or "Deleted")


def test_a_pending_placeholder_that_goes_is_not_displaced() -> None:
    displaced = Displaced()
    displaced.seen(placeholder("a", node=None), 0.0)
    displaced.gone(placeholder("a", node=None), 1.0)
    assert displaced.counts == {}


def test_our_own_shrinking_does_not_hide_a_preemption() -> None:
    displaced = Displaced()
    for name in "abc":
        displaced.seen(placeholder(name), 0.0)
    displaced.expect("rs", 1, 0.0)
    displaced.gone(placeholder("a", reason="PreemptionByScheduler"), 1.0)
    displaced.gone(placeholder("b"), 1.0)
    displaced.gone(placeholder("c"), 1.0)
    displaced.decide(10.0, lambda node, since: False)
    assert displaced.counts == {("web", "PreemptionByScheduler"): 1, ("web", "Deleted"): 1}


def test_expectations_run_out() -> None:
    displaced = Displaced()
    displaced.seen(placeholder("a"), 0.0)
    displaced.expect("rs", 5, 0.0)
    displaced.gone(placeholder("a"), 61.0)
    displaced.decide(70.0, lambda node, since: False)
    assert displaced.counts == {("web", "Deleted"): 1}


def test_what_we_push_out_has_its_own_cause() -> None:
    displaced = Displaced()
    displaced.seen(placeholder("a"), 0.0)
    assert displaced.push_out("uid-a", 0.5)
    displaced.gone(placeholder("a"), 1.0)
    assert displaced.counts == {("web", "NodeOvercommitted"): 1}


def test_a_node_that_lacks_room_gets_it_from_the_plan_or_for_the_pod_that_grows_there_not_from_both() -> None:
    displaced = Displaced()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2"), ("e", "n3")):
        displaced.seen(placeholder(name, node), 0.0)
    assert displaced.make_way("uid-a", 1.0, growth=True)
    assert not displaced.push_out("uid-b", 1.1)
    assert displaced.push_out("uid-c", 1.2)
    assert not displaced.make_way("uid-d", 1.3, growth=True)
    assert displaced.make_way("uid-d", 1.4)  # for a burst, whose pods need room of their own
    assert displaced.push_out("uid-e", 1.5)
    assert displaced.push_out("uid-b", 1.0 + SETTLED_SECONDS)


def real(name: str, node: str = "", **status: Any) -> wire.Pod:
    document = pod(name, node, **status)
    document["metadata"]["uid"] = f"uid-{name}"
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)


def gated(name: str) -> wire.Pod:
    """Return a pod behind a scheduling gate."""
    found = real(name)
    assert found.spec is not None
    found.spec.scheduling_gates = msgspec.Raw(b'[{"name":"queue"}]')
    return found


def test_a_start_is_timed_from_when_the_pod_was_seen() -> None:
    starts = InstantStarts()
    starts.seen(real("a"), 10.0)
    starts.seen(real("a", nominatedNodeName="n1"), 10.1)
    starts.vacated("n1", 10.2)
    starts.seen(real("a", "n1"), 10.5)
    (start,) = starts.drain_starts()
    assert (start.node, round(start.waited_seconds, 3), start.in_slack) == ("n1", 0.5, True)
    assert starts.drain_starts() == []


def test_a_nomination_without_a_victim_is_no_start_in_slack() -> None:
    starts = InstantStarts()
    starts.vacated("n1", 1.0)
    starts.seen(real("a", nominatedNodeName="n1"), 10.0)
    starts.seen(real("a", "n1"), 10.5)
    assert [s.in_slack for s in starts.drain_starts()] == [False]


def test_a_gated_pod_waits_for_nobody() -> None:
    starts = InstantStarts()
    starts.seen(gated("a"), 0.0, 50.0)
    starts.seen(gated("a"), 100.0)
    starts.seen(real("a"), 200.0)
    starts.seen(real("a", "n1"), 201.0)
    assert [s.waited_seconds for s in starts.drain_starts()] == [1.0]


def test_a_pod_waits_for_nobody_whose_gates_were_removed_unseen() -> None:
    starts = InstantStarts()
    starts.seen(gated("a"), 0.0)
    starts.seen(real("a", "n1"), 100.0)
    assert [s.waited_seconds for s in starts.drain_starts()] == [0.0]


def test_pods_that_were_bound_before_we_looked_or_went_unbound_count_nowhere() -> None:
    starts = InstantStarts()
    starts.seen(real("a", "n1"), 0.0)
    starts.seen(real("b"), 0.0)
    starts.gone("uid-b")
    starts.seen(real("b", "n1"), 1.0)
    assert starts.drain_starts() == []


def test_the_ratio_is_of_the_hour_before_the_latest_start() -> None:
    ratio = InstantRatio()
    assert ratio.text("web") is None
    ratio.add_starts([Start("n1", 60.0, False, 0.0)], {"n1": "web"})
    ratio.add_starts([Start("n1", 0.1, True, 3599.0), Start("elsewhere", 9.0, False, 3599.0)], {"n1": "web"})
    assert ratio.text("web") == "50%"
    ratio.add_starts([Start("n1", 0.1, True, 3601.0)], {"n1": "web"})
    assert ratio.text("web") == "100%"


def test_a_ratio_is_never_rounded_up_to_all() -> None:
    ratio = InstantRatio()
    ratio.add_starts([Start("n1", 9.0, False, 1.0)] + [Start("n1", 0.1, False, 1.0)] * 999, {"n1": "web"})
    assert ratio.text("web") == "99%"


def test_the_view_survives_a_pod_that_cannot_be_read() -> None:
    woken: list[int] = []
    view = ClusterView(NAMESPACE, lambda: woken.append(1), clock=Clock(), wall=Clock(NOW))
    sink = PodSink(view)
    sink.begin()
    bad = real("bad")
    assert bad.spec is not None
    assert bad.spec.containers is not None
    bad.spec.containers[0].resources = msgspec.Raw(b'{"requests":{"cpu":"much"}}')
    sink.apply([(EventType.ADDED, bad), (EventType.ADDED, real("good"))])
    sink.end()
    assert view.observe(NOW).snapshot.kinds.pending.tolist() == [1]
    assert woken


def test_conditions_of_another_form_cost_their_pod_only() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock(NOW))
    sink = PodSink(view)
    sink.begin()
    bad = placeholder("bad")
    assert bad.status is not None
    bad.status.conditions_json = msgspec.Raw(b'{"type": 5}')
    bad.metadata.deletion_timestamp = datetime.now(UTC)
    sink.apply([(EventType.ADDED, placeholder("bad")), (EventType.MODIFIED, bad), (EventType.ADDED, real("good"))])
    sink.end()
    assert view.observe(NOW).snapshot.kinds.pending.tolist() == [1]


def test_what_is_kept_of_a_page_is_not_the_page() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock(NOW))
    sink = PodSink(view)
    document = {
        "metadata": {"name": "a", "namespace": NAMESPACE, "labels": {"resource-slack.io/placeholder": "true"}},
        "spec": {
            "nodeSelector": {"pool": "web"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"conditions": []},
    }
    page = msgspec.json.encode(document) + b" " * 1_000_000
    pod = msgspec.json.decode(page, type=wire.Pod)
    held = sys.getrefcount(page)
    sink.begin()
    sink.apply([(EventType.ADDED, pod)])
    sink.end()
    assert sys.getrefcount(page) < held
    kept = view.placeholders["a"]
    assert kept.spec is not None
    assert bytes(kept.spec.node_selector) == b'{"pool":"web"}'


def test_a_pod_found_in_a_list_has_been_waiting_since_its_creation() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(50.0), wall=Clock(NOW))
    sink = PodSink(view)
    waiting = real("a")
    waiting.metadata.creation_timestamp = datetime.fromtimestamp(NOW - 31, UTC)
    sink.begin()
    sink.apply([(EventType.ADDED, waiting)])
    sink.end()
    sink.apply([(EventType.MODIFIED, real("a", "n1"))])
    assert [s.waited_seconds for s in view.observe(NOW).starts] == [30.0]


def test_a_placeholder_that_went_unseen_is_counted_by_the_next_list() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock(NOW))
    sink = PodSink(view)
    sink.begin()
    sink.apply([(EventType.ADDED, placeholder("a")), (EventType.ADDED, placeholder("b"))])
    sink.end()
    sink.begin()
    sink.apply([(EventType.ADDED, placeholder("b"))])
    sink.end()
    observation = view.observe(NOW)
    assert observation.displaced == {("web", "Unseen"): 1}
    assert set(observation.present.pods) == {"b"}


def test_placeholders_that_go_after_their_replica_set_are_not_displaced() -> None:
    view = ClusterView(NAMESPACE, lambda: None, clock=Clock(), wall=Clock(NOW))
    sink = PodSink(view)
    sink.begin()
    sink.apply([(EventType.ADDED, placeholder("a"))])
    sink.end()
    sink.apply([(EventType.DELETED, placeholder("a"))])
    assert view.observe(NOW).displaced == {}


def test_a_changed_node_wakes_the_loop_as_what_is_waited_for_and_an_unchanged_one_does_not() -> None:
    woken: list[str] = []
    view = ClusterView(NAMESPACE, lambda: woken.append("change"))
    view.on_node_change = lambda: woken.append("node")
    nodes = NodeSink(view)
    node = wire.Node(metadata=wire.Metadata(name="n1", uid="u1"))
    nodes.apply([(EventType.ADDED, node)])
    nodes.apply([(EventType.MODIFIED, node)])
    assert woken == ["node"]
