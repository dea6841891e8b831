"""Writes one by one: what they are remembered for, and what becomes of refusals."""

import threading

import pytest

from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack.planner.objects.actions import Apply, DeletePod, DeleteSet, SetCost
from slack.planner.objects.decide import stamped
from slack_operator.placeholders.actuator import REFUSED_SECONDS, Actuator
from slack_operator.placeholders.displaced import Displaced
from slack_operator.runtime.leading import NotLeading
from tests.operator.fakes import Clock, FakeApi
from tests.planner.objects.test_decide import NAME, manifest, placeholder, shape_plan, there

POD = "/api/v1/namespaces/slack/pods/a"


def actuator(api: FakeApi, displaced: Displaced, clock: Clock, *, leading: bool = True) -> Actuator:
    writer = Writer(api, threading.Event())  # type: ignore[arg-type]
    return Actuator(writer, namespace="slack", may_write=lambda: leading, expectations=displaced, clock=clock)


def apply(before: int | None, after: int, leaving: int = 0) -> Apply:
    return Apply(stamped(manifest(shape_plan(after))), before, after, leaving)


def test_a_pushed_out_pod_is_deleted_by_its_uid_only() -> None:
    api, displaced = FakeApi(), Displaced()
    api.put(POD, {"metadata": {"name": "a", "uid": "another"}})
    problems = actuator(api, displaced, Clock()).carry_out("web", [DeletePod("a", "uid-a")], {})
    assert problems == ("Pod a: another uid",)
    assert POD in api.objects
    api.put(POD, {"metadata": {"name": "a", "uid": "uid-a"}})
    displaced.seen(placeholder("a"), 0.0)
    assert actuator(api, displaced, Clock()).carry_out("web", [DeletePod("a", "uid-a")], {}) == ()
    displaced.gone(placeholder("a"), 1.0)
    assert displaced.counts == {("web", "NodeOvercommitted"): 1}


def test_pods_that_go_with_their_replica_set_are_expected() -> None:
    api, displaced = FakeApi(), Displaced()
    api.put(f"/apis/apps/v1/namespaces/slack/replicasets/{NAME}", {"metadata": {"name": NAME, "uid": "rs"}})
    displaced.seen(placeholder("a"), 0.0)
    actuator(api, displaced, Clock(0.0)).carry_out("web", [DeleteSet(NAME, "rs", "its policy is no more")], {})
    displaced.gone(placeholder("a"), 1.0)
    assert displaced.counts == {}
    assert api.objects == {}


def test_a_victim_that_went_by_itself_is_no_problem() -> None:
    assert actuator(FakeApi(), Displaced(), Clock()).carry_out("web", [SetCost("a", NAME, -1000)], {}) == ()


def test_an_apply_that_the_watch_has_not_shown_yet_is_not_repeated() -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    hands.carry_out("web", [apply(None, 2)], {})
    hands.carry_out("web", [apply(None, 2)], {})
    assert len(api.log) == 1
    clock.now += 5.0
    hands.carry_out("web", [apply(None, 2)], {})
    assert len(api.log) == 2


def test_a_refused_apply_is_told_each_time_and_tried_once_a_minute() -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    api.refuse = lambda _verb, _path: ApiError(403, "Forbidden", "exceeded quota")
    first = hands.carry_out("web", [apply(2, 3)], {NAME: there(2)})
    assert first == (f"ReplicaSet {NAME}: exceeded quota",)
    assert hands.carry_out("web", [apply(2, 3)], {NAME: there(2)}) == first
    assert len(api.log) == 1
    hands.carry_out("web", [apply(2, 4)], {NAME: there(2)})
    assert len(api.log) == 2  # another apply is another question
    clock.now += REFUSED_SECONDS
    hands.carry_out("web", [apply(2, 4)], {NAME: there(2)})
    assert len(api.log) == 3


def test_nobody_writes_without_leading() -> None:
    api = FakeApi()
    with pytest.raises(NotLeading):
        actuator(api, Displaced(), Clock(), leading=False).carry_out("web", [apply(None, 1)], {})
    assert api.log == []
