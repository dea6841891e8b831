"""Writes one by one: what they are remembered for, and what becomes of refusals."""

import threading

import pytest

from slack.kube.apply import Writer
from slack.kube.breaker import FAILURES, LONGEST_PAUSE_SECONDS
from slack.kube.errors import ApiError, InvalidAnswer, KubeError, Unreachable
from slack.kube.retry import retrying
from slack.planner.objects.actions import Apply, DeletePod, DeleteSet, SetCost
from slack.planner.objects.decide import stamped
from slack.planner.removal.reasons import RemovalReason
from slack.supervision.heartbeat import Heartbeat
from slack_operator.placeholders.act.actuator import PROBLEMS_SHOWN, REFUSED_SECONDS, TURN_SECONDS, Actuator
from slack_operator.placeholders.view.displaced import Displaced
from slack_operator.runtime.leading import NotLeading
from tests.operator.fakes import Clock, FakeApi
from tests.planner.objects.test_decide import NAME, manifest, placeholder, shape_plan, there

POD = "/api/v1/namespaces/slack/pods/a"


def actuator(api: FakeApi, displaced: Displaced, clock: Clock, *, leading: bool = True) -> Actuator:
    once = retrying(threading.Event(), deadline_seconds=0.0)
    writer = Writer(api, threading.Event(), retry=once, clock=clock)  # type: ignore[arg-type]
    return Actuator(writer, namespace="slack", may_write=lambda: leading, expectations=displaced, clock=clock)


def apply(before: int | None, after: int, leaving: int = 0) -> Apply:
    return Apply(stamped(manifest(shape_plan(after))), before, after, leaving)


def test_a_pushed_out_pod_is_deleted_by_its_uid_only() -> None:
    api, displaced = FakeApi(), Displaced()
    api.put(POD, {"metadata": {"name": "a", "uid": "another"}})
    push_out = [DeletePod("a", "uid-a", RemovalReason.PUSHED_OUT)]
    problems = actuator(api, displaced, Clock()).carry_out("web", push_out, {})
    assert problems == ("Pod a: another uid",)
    assert POD in api.objects
    api.put(POD, {"metadata": {"name": "a", "uid": "uid-a"}})
    displaced.seen(placeholder("a"), 0.0)
    assert actuator(api, displaced, Clock()).carry_out("web", push_out, {}) == ()
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


def test_a_failing_webhook_costs_a_turn_few_requests_and_is_named_once() -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    api.refuse = lambda _verb, _path: ApiError(500, "InternalError", "failed calling webhook")
    costs = [SetCost(f"slack-{number}", NAME, -1000) for number in range(300)]
    hands.begin_turn()
    problems = hands.carry_out("web", costs, {})
    assert len(api.log) == FAILURES
    words = "deletion costs of placeholders cannot be written now, and are retried with growing pauses"
    assert problems == (f"{words}: failed calling webhook",)
    for _ in range(10):
        hands.begin_turn()
        assert hands.carry_out("web", costs, {}) == problems
    assert len(api.log) == FAILURES
    clock.now += LONGEST_PAUSE_SECONDS
    api.refuse = lambda *_: None
    for cost in costs:
        api.put(f"/api/v1/namespaces/slack/pods/{cost.pod}", {"metadata": {"name": cost.pod}})
    hands.begin_turn()
    assert hands.carry_out("web", costs, {}) == ()
    assert len(api.log) == FAILURES + 300


def test_a_failure_that_passes_by_itself_is_tried_again_in_the_next_turn() -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    api.refuse = lambda _verb, _path: ApiError(503, "Unavailable", "restarting")
    assert hands.carry_out("web", [apply(None, 2)], {}) == (
        "ReplicaSets cannot be written now, and are retried with growing pauses: restarting",
    )
    api.refuse = lambda *_: None
    assert hands.carry_out("web", [apply(None, 2)], {}) == ()


@pytest.mark.parametrize(
    "failure", [Unreachable("PATCH: timed out", timed_out=True), InvalidAnswer("PATCH: timed out")]
)
def test_no_answer_to_one_write_does_not_stop_the_others(failure: KubeError) -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    api.put(POD, {"metadata": {"name": "a", "uid": "uid-a"}})

    def request(method: str, path: str, **_: object) -> bytes:
        if method == "PATCH" and "replicasets" in path:
            raise failure
        return b"{}"

    api.request = request  # type: ignore[method-assign]
    problems = hands.carry_out("web", [apply(None, 2), SetCost("a", NAME, -1000)], {})
    assert len(problems) == 1
    assert "timed out" in problems[0]


@pytest.mark.parametrize("pods", [30, 300, 3000])
def test_slow_writes_end_with_the_budget_of_the_turn_and_the_next_one_goes_on(pods: int) -> None:
    api, clock = FakeApi(), Clock()
    hands = actuator(api, Displaced(), clock)
    costs = [SetCost(f"slack-{number}", NAME, -1000) for number in range(pods)]
    for cost in costs:
        api.put(f"/api/v1/namespaces/slack/pods/{cost.pod}", {"metadata": {"name": cost.pod}})

    def slow(_verb: str, _path: str) -> None:
        clock.now += 2.0

    api.refuse = slow
    hands.begin_turn()
    before = clock.now
    assert hands.carry_out("web", costs, {}) == ()
    assert clock.now - before <= TURN_SECONDS + 2.0
    assert hands.unserved == "web"
    assert len(api.log) == TURN_SECONDS / 2.0
    hands.begin_turn()
    assert hands.unserved is None
    hands.carry_out("web", costs[len(api.log) :], {})
    assert len(api.log) == TURN_SECONDS


def test_hundreds_of_refusals_are_a_few_lines_of_a_status() -> None:
    api = FakeApi()
    hands = actuator(api, Displaced(), Clock())
    api.refuse = lambda _verb, _path: ApiError(403, "Forbidden", "no right")
    problems = hands.carry_out("web", [SetCost(f"slack-{number}", NAME, -1000) for number in range(300)], {})
    assert len(problems) == PROBLEMS_SHOWN + 1
    assert problems[-1] == "and 295 more"


def test_each_write_is_progress_so_that_slow_ones_are_not_taken_for_a_dead_loop() -> None:
    api, clock = FakeApi(), Clock()
    heart = Heartbeat("the loop", 130.0, clock=clock)
    once = retrying(threading.Event(), deadline_seconds=0.0)
    hands = Actuator(
        Writer(api, threading.Event(), retry=once, clock=clock),  # type: ignore[arg-type]
        namespace="slack",
        may_write=lambda: True,
        expectations=Displaced(),
        clock=clock,
        progress=heart.beat,
    )
    unhealthy: list[str] = []

    def slow(_verb: str, _path: str) -> ApiError | None:
        clock.now += 60.0
        unhealthy.extend(filter(None, [heart.late()]))
        return ApiError(500, "InternalError", "failed calling webhook")

    api.refuse = slow
    heart.beat()
    hands.carry_out("web", [SetCost(f"slack-{number}", NAME, -1000) for number in range(300)], {})
    assert clock.now >= 1000.0 + 3 * 60.0
    assert unhealthy == []
    clock.now += 131.0
    assert heart.late() is not None
