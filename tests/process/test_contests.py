"""When a fight over an object of ours is given up, for how long, and that its memory is bounded."""

from slack.planner.objects.drift import OwnedField
from slack.process.contests import LONGEST_SECONDS, MOST, WINDOW_SECONDS, Contest, Contests, Verdict

RS = "slack-web-1a2b3c4d"
HPA = "kube-controller-manager (scale)"


def fight(
    contests: Contests[OwnedField], now: float, writer: str = HPA, part: OwnedField = OwnedField.REPLICAS
) -> Verdict:
    return contests.written(RS, part, writer, now)


def give_up(contests: Contests[OwnedField], now: float) -> float:
    """Let the writer answer until he is left alone; returns when that was."""
    while fight(contests, now) is not Verdict.LEAVE:
        now += 15.0
    return now


def test_the_first_write_is_told_and_the_sixth_within_ten_minutes_is_left() -> None:
    contests = Contests[OwnedField]()
    verdicts = [fight(contests, now) for now in range(0, 600, 100)]
    assert verdicts == [Verdict.TAKE_AND_TELL, *[Verdict.TAKE] * 4, Verdict.LEAVE]
    assert contests.held(500.0) == {RS: frozenset({OwnedField.REPLICAS})}
    assert contests.standing(500.0) == (Contest(RS, OwnedField.REPLICAS, HPA, WINDOW_SECONDS),)


def test_a_writer_who_is_slower_than_that_is_taken_back_for_ever() -> None:
    contests = Contests[OwnedField]()
    assert all(fight(contests, 130.0 * turn) is not Verdict.LEAVE for turn in range(100))


def test_other_writers_parts_and_objects_are_fights_of_their_own() -> None:
    contests = Contests[OwnedField]()
    for turn in range(5):
        fight(contests, turn)
    assert fight(contests, 5.0, writer="kubectl") is Verdict.TAKE_AND_TELL
    assert fight(contests, 5.0, part=OwnedField.TEMPLATE) is Verdict.TAKE_AND_TELL
    assert contests.written("slack-web-00000000", OwnedField.REPLICAS, HPA, 5.0) is Verdict.TAKE_AND_TELL
    assert fight(contests, 5.0) is Verdict.LEAVE
    assert contests.held(5.0) == {RS: frozenset({OwnedField.REPLICAS})}


def test_it_is_tried_again_once_after_ten_minutes_and_then_after_twice_as_long_each_time_up_to_two_hours() -> None:
    contests, now, waits = Contests[OwnedField](), 0.0, []
    for _ in range(6):
        now = give_up(contests, now)
        assert fight(contests, now + 1.0) is Verdict.LEAVE
        (contest,) = contests.standing(now)
        waits.append(contest.pause_seconds)
        now += contest.pause_seconds
        assert contests.held(now) == {}
        assert fight(contests, now) is Verdict.TAKE  # the one try
        now += 15.0
    assert waits == [600.0, 1200.0, 2400.0, 4800.0, LONGEST_SECONDS, LONGEST_SECONDS]


def test_a_fight_that_has_ended_is_forgotten_and_told_anew_when_it_comes_back() -> None:
    contests = Contests[OwnedField]()
    until = give_up(contests, 0.0) + WINDOW_SECONDS
    assert fight(contests, until) is Verdict.TAKE
    later = until + WINDOW_SECONDS
    assert fight(contests, later) is Verdict.TAKE_AND_TELL
    assert [fight(contests, later + n) for n in range(1, 6)] == [*[Verdict.TAKE] * 4, Verdict.LEAVE]


def test_a_caller_may_allow_fewer_writes_as_for_pods_that_lose_their_nodes_each_time() -> None:
    contests = Contests[OwnedField]()
    verdicts = [contests.written(RS, OwnedField.PODS, HPA, now, most=2) for now in range(3)]
    assert verdicts == [Verdict.TAKE_AND_TELL, Verdict.TAKE, Verdict.LEAVE]


def test_writers_without_end_take_no_memory_without_end() -> None:
    contests = Contests[OwnedField]()
    for number in range(20 * MOST):
        assert fight(contests, float(number), writer=f"w{number}") is Verdict.TAKE_AND_TELL
    assert len(contests._fights) == MOST
