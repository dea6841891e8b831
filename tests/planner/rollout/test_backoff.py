"""Giving up in time: hold, probe, back-off, release; and silence."""

from dataclasses import replace

import pytest

from slack.planner.model.result import Answer, AutoscalerEvent, Backoff, ConditionType, ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.objects.manifests import replica_set_name
from slack.planner.rollout.backoff import LONGEST_SECONDS, HeldBack, ShapePods, hold_back, latest_events
from tests.cluster.build import NOW
from tests.planner.scenes import policy_of
from tests.planner.world import Group, World

SHAPE = Shape((("cpu", 100),))
NAME = SHAPE.name
UNBOUND = replace(SHAPE, unbound_scheduler="nobody")
POLICY = policy_of()
GIVE_UP = 1200.0


def judge(
    answer: Answer | None,
    *,
    bound: int = 2,
    pending: int = 3,
    age: float = 1300.0,
    replicas: int = 5,
    said: float = -10.0,
    hold: Backoff | None = None,
    now: float = NOW,
    start: float = 60.0,
    shape: Shape = SHAPE,
) -> HeldBack:
    name = replica_set_name("default", shape)
    events = {} if answer is None else {name: AutoscalerEvent(name, answer, "max size reached", now + said)}
    return hold_back(
        POLICY,
        [ExistingShape("default", shape, Role.FILL, replicas)],
        {shape.name: ShapePods(bound, pending, age if pending else 0.0)},
        events,
        {shape.name: hold} if hold else {},
        now,
        start,
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(Answer.REFUSED, "NoNodeGroupFits"), (Answer.LIMIT, "AutoscalerLimit"), (Answer.QUOTA, "QuotaExceeded")],
)
def test_pending_too_long_against_a_refusal_is_held_at_bound_and_one_probe(answer: Answer, reason: str) -> None:
    replicas = 9 if answer is Answer.QUOTA else 5
    found = judge(answer, replicas=replicas)
    assert found.caps == {NAME: 3}
    assert found.reason == reason
    assert "held at 2 bound and one probe" in found.limits[0]
    assert "max size reached" in found.limits[0]
    assert found.backoffs[NAME].tries == 1


def test_before_the_time_and_with_a_node_on_its_way_nothing_is_held() -> None:
    assert not judge(Answer.REFUSED, age=1100.0).backoffs
    assert not judge(Answer.TRIGGERED, age=9000.0).backoffs
    assert not judge(None, age=9000.0).backoffs


def test_a_refusal_is_shown_when_it_is_said_and_is_no_alarm_before_a_node_is_late() -> None:
    for answer in (Answer.LIMIT, Answer.REFUSED):
        found = judge(answer, age=5.0, said=-1.0)
        assert found.refusals == (f"{NAME} is refused, 3 wait: max size reached",)
        assert (found.limits, found.reason, found.caps) == ((), None, {})
        late = judge(answer, age=1100.0, said=-1.0)
        assert (late.refusals, late.limits) == ((), found.refusals)
    assert judge(Answer.TRIGGERED, age=5.0, said=-1.0).refusals == ()
    assert judge(Answer.LIMIT, age=5.0, pending=0, said=-1.0).refusals == ()


def test_a_quota_is_believed_at_once_but_not_for_ever() -> None:
    assert judge(Answer.QUOTA, bound=5, pending=0, replicas=9).caps == {NAME: 6}
    assert not judge(Answer.QUOTA, bound=9, pending=0, replicas=9).backoffs
    assert not judge(Answer.QUOTA, bound=5, pending=0, replicas=9, said=-GIVE_UP - 1).backoffs  # of last night


def test_a_word_about_placeholders_that_wait_no_more_is_no_word() -> None:
    assert not judge(Answer.REFUSED, pending=0).backoffs
    assert judge(Answer.REFUSED, age=1300.0, said=-1400.0).ignored_seconds == 120.0


def test_it_is_tried_again_and_waits_twice_as_long_each_time() -> None:
    hold, now, waits = None, NOW, []
    for _ in range(6):
        found = judge(Answer.LIMIT, hold=hold, now=now)
        hold = found.backoffs[NAME]
        waits.append(hold.until_seconds - now)
        assert judge(Answer.LIMIT, hold=hold, now=hold.until_seconds - 1).caps
        trying = judge(Answer.LIMIT, hold=hold, now=hold.until_seconds + 1)
        assert not trying.caps
        assert trying.backoffs
        now = hold.until_seconds + GIVE_UP
    assert waits == [2400.0, 4800.0, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]


def test_what_is_said_of_a_hold_does_not_run_with_the_clock() -> None:
    hold = judge(Answer.LIMIT).backoffs[NAME]
    said = {judge(Answer.LIMIT, hold=hold, now=NOW + seconds).limits for seconds in range(1, 1200, 50)}
    assert len(said) == 1, "each other text would be a write of the status"
    assert "until 08:40 UTC: max size reached" in "".join(*said)


def test_it_ends_when_the_probe_is_bound_or_nothing_is_missing() -> None:
    hold = Backoff(NOW + 1000, 3, bound=2, reason="AutoscalerLimit")
    assert not judge(Answer.LIMIT, bound=3, pending=0, replicas=3, hold=hold).backoffs
    assert not judge(Answer.LIMIT, bound=2, pending=0, replicas=2, hold=hold).backoffs
    assert judge(None, bound=2, pending=1, replicas=3, hold=hold).caps == {NAME: 3}
    old = Backoff(NOW - 5000, 3, bound=2, reason="AutoscalerLimit")
    assert judge(None, hold=old).backoffs == {NAME: old}  # no new word: the tries are not forgotten
    assert not judge(None, hold=old, age=10.0).backoffs


def test_a_probe_says_after_a_restart_what_it_said_before() -> None:
    assert judge(Answer.LIMIT, pending=1, replicas=3, hold=None).caps == {NAME: 3}


def test_silence_for_two_minutes_means_that_placeholders_are_ignored() -> None:
    assert judge(None, age=119.0).ignored_seconds == 0
    assert judge(None, age=120.0).ignored_seconds == 120.0
    assert judge(None, age=7200.0).ignored_seconds == 120.0, "a figure that runs with the clock is a write a minute"
    assert judge(Answer.TRIGGERED, age=120.0).ignored_seconds == 0


def stuck(*, answer: Answer | None, rounds: int = 150) -> World:
    """A cluster of one full node whose autoscaler adds none."""
    group = Group(2000, 8 << 30)
    world = World(groups=[group], policies=[policy_of(extraCapacity={"minRate": 1})], autoscaler=False)
    world.add_node(group)
    world.add_pods("api", 15, 100, 256)
    for _ in range(rounds):
        world.round()
        world.events = [
            AutoscalerEvent(replica_set_name(s.policy, s.shape), answer, "max node group size reached", world.now)
            for s in world.sets.values()
            if answer is not None
        ]
    return world


def test_at_the_autoscalers_limit_the_plan_holds_back_and_says_so() -> None:
    world = stuck(answer=Answer.LIMIT)
    (item,) = world.plan().items
    for told in (ConditionType.LIMIT_REACHED, ConditionType.SLACK_SATISFIED):
        assert item.condition(told).reason == "AutoscalerLimit"
    assert item.condition(ConditionType.READY).status
    assert all(s.replicas == s.bound + 1 for s in item.shapes)
    assert item.pending == len(item.shapes)
    world.planner_state = {}
    (again,) = world.plan().items
    assert [s.replicas for s in again.shapes] == [s.replicas for s in item.shapes]


def test_what_the_autoscaler_refuses_is_said_beside_refilling_in_the_next_plan() -> None:
    satisfied = stuck(answer=Answer.LIMIT, rounds=3).plan().items[0].condition(ConditionType.SLACK_SATISFIED)
    assert satisfied.reason == "Refilling"
    assert "the autoscaler says: " in satisfied.message
    assert "max node group size reached" in satisfied.message


@pytest.mark.thorough
def test_where_no_autoscaler_says_a_word_the_condition_tells() -> None:
    (item,) = stuck(answer=None).plan().items
    ignored = item.condition(ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS)
    assert ignored.status
    assert "--expendable-pods-priority-cutoff" in ignored.message
    assert not item.condition(ConditionType.LIMIT_REACHED).status
    assert item.condition(ConditionType.SLACK_SATISFIED).reason == "NoWord"
    assert item.condition(ConditionType.READY).status


def test_one_refusal_of_unbound_placeholders_is_enough_although_it_is_not_repeated() -> None:
    found = judge(Answer.REFUSED, age=GIVE_UP, said=-GIVE_UP, shape=UNBOUND)
    assert (found.reason, found.caps) == ("NoNodeGroupFits", {UNBOUND.name: 3})
    # They fitted for a moment since, and wait anew: the autoscaler says nothing for five minutes.
    assert judge(Answer.REFUSED, age=GIVE_UP, said=-GIVE_UP - 299.0, shape=UNBOUND).caps == {UNBOUND.name: 3}
    assert judge(Answer.REFUSED, age=GIVE_UP, said=-GIVE_UP - 301.0, shape=UNBOUND).caps == {}
    assert judge(Answer.REFUSED, age=GIVE_UP, said=-GIVE_UP - 2.0).caps == {}


def test_a_scale_up_of_others_hides_no_refusal_of_unbound_placeholders() -> None:
    name = replica_set_name("default", UNBOUND)
    refused = AutoscalerEvent(name, Answer.LIMIT, "max node group size reached", NOW - 30)
    for at, expected in ((NOW - 30, Answer.LIMIT), (NOW - 20, Answer.TRIGGERED)):
        scale_up = AutoscalerEvent(name, Answer.TRIGGERED, "", at)
        for events in ((refused, scale_up), (scale_up, refused)):
            assert latest_events(events, {name}, NOW, 60.0)[name].answer is expected
            assert latest_events(events, {name}, NOW + 600, 60.0)[name].answer is Answer.LIMIT
    assert latest_events((refused, scale_up), (), NOW + 600, 60.0)[name].answer is Answer.TRIGGERED
