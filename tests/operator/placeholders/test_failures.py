"""Placeholders that have failed: seen, counted by cause, deleted, and held where they fail as fast as they come."""

import json
from typing import Any

import msgspec
import pytest

from slack.cluster import wire
from slack.kube.watch import EventType
from slack.planner.model.result import Answer, AutoscalerEvent, ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.decide import deletions_of_ended
from slack.planner.objects.manifests import replica_set_name
from slack.planner.policy.spec import Policy, PolicySpec
from slack.planner.removal.reasons import MOST_ENDED, FailedPlaceholder
from slack.planner.rollout.backoff import ShapePods, hold_back
from slack_operator.placeholders.view.cluster_view import ClusterView
from slack_operator.placeholders.view.failures import HOT, Failures, cause_of_failure
from slack_operator.placeholders.view.sinks import FinishedSink, PodSink
from tests.cluster import build
from tests.cluster.build import NAMESPACE, NOW

SHAPE = Shape((("cpu", 500), ("memory", 1 << 30)))
SET = replica_set_name("default", SHAPE)


def pod(name: str, **rest: Any) -> wire.Pod:
    rest.setdefault("shape", SHAPE.name)
    rest.setdefault("node", "n1")
    return msgspec.json.decode(json.dumps(build.placeholder(name, **rest)), type=wire.Pod)


def failed(name: str, reason: str = "Evicted", message: str = "", phase: str = "Failed", **rest: Any) -> wire.Pod:
    return pod(name, phase=phase, status={"reason": reason, "message": message}, **rest)


def young(name: str, reason: str = "OutOfcpu") -> wire.Pod:
    return failed(name, reason, "Node didn't have enough resource: cpu", created="2027-01-15T07:59:58Z")


@pytest.mark.parametrize(
    ("reason", "phase", "cause"),
    [
        ("Evicted", "Failed", "Evicted"),
        ("OutOfcpu", "Failed", "OutOfcpu"),
        ("OutOfexample.com/gpu", "Failed", "OutOfOther"),
        ("Terminated", "Failed", "Terminated"),
        ("", "Succeeded", "Completed"),
        ("SomethingOfATenant", "Failed", "Other"),
    ],
)
def test_a_cause_is_one_of_a_few_words(reason: str, phase: str, cause: str) -> None:
    assert cause_of_failure(failed("a", reason, phase=phase)) == cause


def test_one_that_a_kubelet_has_ended_and_that_exits_with_0_is_told_by_its_condition() -> None:
    """As a kubelet 1.36 leaves what it evicts: phase Succeeded, and no reason in the status."""
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    completed = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
    evicted = pod("a", phase="Succeeded", status={"conditions": [disrupted, completed]})
    assert cause_of_failure(evicted) == "TerminationByKubelet"
    assert cause_of_failure(pod("b", phase="Succeeded", status={"conditions": [completed]})) == "Completed"


def test_a_failed_placeholder_is_counted_once_and_lies_there_until_it_is_deleted() -> None:
    failures = Failures()
    assert failures.seen(failed("a"), NOW) == "Evicted"
    assert failures.seen(failed("a"), NOW + 1) is None
    assert failures.counts == {("default", "Evicted"): 1}
    assert [corpse.name for corpse in failures.corpses] == ["a"]
    failures.gone("pod-resource-slack-a")
    assert failures.corpses == ()
    assert failures.counts == {("default", "Evicted"): 1}


def test_what_is_shown_and_has_not_ended_is_left_alone() -> None:
    """A proxy may ignore field selectors, and what lies in Failures is deleted."""
    failures = Failures()
    for phase in ("Pending", "Running", "Unknown"):
        assert failures.seen(failed("a", phase=phase), NOW) is None
    assert (failures.corpses, failures.counts) == ((), {})


def test_so_many_are_deleted_a_turn_and_none_of_a_dry_run() -> None:
    many = [FailedPlaceholder(f"p{n}", f"u{n}", "web", "rs", "Evicted") for n in range(MOST_ENDED + 10)]
    assert len(deletions_of_ended(many, ())) == MOST_ENDED
    assert deletions_of_ended(many, {"web"}) == ()
    assert deletions_of_ended(many[:1], ())[0].why == "it has ended: Evicted"


def test_placeholders_that_fail_as_fast_as_they_come_are_a_loop_and_a_nodes_shutdown_is_not() -> None:
    failures = Failures()
    for number in range(HOT):
        failures.seen(failed(f"old{number}", "Terminated", created="2027-01-15T07:00:00Z"), NOW)
    assert failures.loops({SET}, NOW) == ()
    for number in range(HOT):
        failures.seen(young(f"young{number}"), NOW + number)
    (event,) = failures.loops({SET}, NOW + HOT)
    assert (event.replica_set, event.answer) == (SET, Answer.FAILING)
    assert "on n1: OutOfcpu" in event.message
    assert failures.loops((), NOW + HOT) == (), "its ReplicaSet is gone"


def test_what_a_kubelet_says_makes_no_long_text() -> None:
    failures = Failures()
    for number in range(HOT):
        failures.seen(failed(f"p{number}", "OutOfcpu", "x" * 10_000, created="2027-01-15T07:59:58Z"), NOW)
    (event,) = failures.loops({SET}, NOW)
    assert len(event.message) <= 200


def views() -> tuple[ClusterView, PodSink, FinishedSink]:
    view = ClusterView(NAMESPACE, lambda: None, clock=lambda: clock[0], wall=lambda: NOW)
    clock[0] = 100.0
    view.sets[SET] = wire.OwnReplicaSet(metadata=wire.OwnMetadata(name=SET))
    return view, PodSink(view), FinishedSink(view)


clock = [100.0]


@pytest.mark.parametrize("order", [("finished", "all"), ("all", "finished")])
def test_a_placeholder_that_fails_is_displaced_by_its_cause_whichever_watch_is_first(order: tuple[str, str]) -> None:
    view, everything, finished = views()
    everything.begin()
    everything.apply([(EventType.ADDED, pod("a"))])
    everything.end()
    for watch in order:
        if watch == "all":
            everything.apply([(EventType.DELETED, pod("a"))])  # as it was before: the selector lets it go
        else:
            finished.apply([(EventType.ADDED, failed("a", "OutOfmemory"))])
    clock[0] += 10
    observation = view.observe(NOW)
    assert observation.displaced == {("default", "OutOfmemory"): 1}
    assert observation.failed == {("default", "OutOfmemory"): 1}
    assert [corpse.cause for corpse in observation.corpses] == ["OutOfmemory"]
    assert "a" not in observation.present.pods


def test_what_a_new_list_does_not_have_lies_there_no_more() -> None:
    view, _, finished = views()
    finished.begin()
    finished.apply([(EventType.ADDED, failed("a")), (EventType.ADDED, failed("b"))])
    finished.end()
    finished.begin()
    finished.apply([(EventType.ADDED, failed("b"))])
    finished.end()
    assert [corpse.name for corpse in view.observe(NOW).corpses] == ["b"]


def held(bound: int, seconds: float, seen: float | None, backoffs: Any = None, replicas: int = 8) -> Any:
    there = [ExistingShape("default", SHAPE, Role.FILL, replicas)]
    policy = Policy(name="default", spec=PolicySpec())
    events = {} if seen is None else {SET: AutoscalerEvent(SET, Answer.FAILING, "on n1: OutOfcpu", seen)}
    return hold_back(policy, there, {SHAPE.name: ShapePods(bound, 0, 0.0)}, events, backoffs or {}, seconds, 60.0)


def test_a_loop_is_held_without_a_probe_twice_as_long_each_time_and_ends_by_time_alone() -> None:
    first = held(3, NOW, NOW)
    assert first.caps == {SHAPE.name: 3}
    assert first.reason == "PlaceholdersFail"
    assert "no probe" in first.limits[0]
    assert "OutOfcpu" in first.limits[0]
    again = held(4, NOW + 60, NOW, first.backoffs)
    assert again.caps == {SHAPE.name: 4}, "one that is bound for a moment does not end it"
    tried = held(8, NOW + 130, NOW, first.backoffs)
    assert tried.caps == {}
    assert tried.backoffs
    second = held(3, NOW + 140, NOW + 139, tried.backoffs)
    assert second.caps == {SHAPE.name: 3}
    assert second.backoffs[SHAPE.name].until_seconds == NOW + 140 + 240
    over = held(8, NOW + 130 + 130, None, tried.backoffs)
    assert not over.backoffs
