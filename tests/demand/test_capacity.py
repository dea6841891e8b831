"""What the containers of an action can run is learnt, and how much more comes than that."""

import pytest

from slack.demand.capacity import LearntCapacity
from tests.demand.build import key, lag, pool, ready, seen
from tests.demand.test_scheduling import scheduler

TICK = 0.3


def learnt(ticks: int = 60, *, per_slot: float = 10.0, slots: int = 50, busy: float = 40.0) -> LearntCapacity:
    """Return what is known after so many ticks of containers that keep up."""
    found = LearntCapacity()
    for _ in range(ticks):
        messages = round(busy * per_slot * TICK)
        found.learn_from_tick(TICK, busy, messages, messages, slots=slots, idle=True)
    return found


def test_the_rate_of_a_busy_slot_is_learnt_while_others_are_idle() -> None:
    assert learnt().per_second == pytest.approx(10.0)


@pytest.mark.parametrize("ticks", [0, 8, 32])
def test_few_messages_and_few_seconds_tell_nothing(ticks: int) -> None:
    """33 ticks are 3,900 messages, but less than ten seconds."""
    found = learnt(ticks)
    found.learn_from_tick(TICK, 50.0, 150, 10_000, slots=50, idle=False)
    assert (found.per_second, found.is_exceeded) == (None, False)


def test_an_overload_of_a_fifth_is_an_excess_within_two_ticks_and_what_keeps_up_is_none() -> None:
    found = learnt()
    for _ in range(100):
        found.learn_from_tick(TICK, 50.0, 150, 150, slots=50, idle=False)
    assert not found.is_exceeded
    for _ in range(2):
        found.learn_from_tick(TICK, 50.0, 150, 180, slots=50, idle=False)
    assert found.is_exceeded


def test_the_more_messages_come_the_more_of_them_are_chance() -> None:
    """Of 3,000 a tick 40 too many are less than a standard deviation; of 150 they are three."""
    few, many = learnt(), learnt(per_slot=200.0)
    few.learn_from_tick(TICK, 50.0, 150, 150 + 40, slots=50, idle=False)
    many.learn_from_tick(TICK, 50.0, 3000, round(3000 * 1.03) + 40, slots=50, idle=False)
    assert (few.is_exceeded, many.is_exceeded) == (True, False)


def test_an_idle_container_ends_the_excess() -> None:
    found = learnt()
    found.learn_from_tick(TICK, 50.0, 150, 200, slots=50, idle=False)
    assert found.is_exceeded
    found.learn_from_tick(TICK, 49.0, 150, 200, slots=50, idle=True)
    assert not found.is_exceeded


def test_an_overload_that_is_over_is_forgotten_within_seconds() -> None:
    found = learnt()
    for _ in range(1000):
        found.learn_from_tick(TICK, 50.0, 150, 300, slots=50, idle=False)
    assert found.is_exceeded
    for _ in range(4):
        found.learn_from_tick(TICK, 50.0, 150, 135, slots=50, idle=False)  # 90 % of what they can run
    assert not found.is_exceeded


def test_shorter_runs_count_within_seconds_and_longer_ones_once_there_are_enough() -> None:
    found = learnt()
    for _ in range(10):
        found.learn_from_tick(TICK, 40.0, 240, 240, slots=50, idle=False)  # twice as fast
    assert found.per_second == pytest.approx(20.0)
    found = learnt()
    for _ in range(80):
        found.learn_from_tick(TICK, 40.0, 60, 60, slots=50, idle=False)  # half as fast
    assert found.per_second == pytest.approx(5.0, rel=0.05)


def test_messages_that_nobody_holds_any_more_are_not_taken_for_busy_slots() -> None:
    """A container that was killed leaves messages in flight until their ack wait is over."""
    found = LearntCapacity()
    for _ in range(60):
        found.learn_from_tick(TICK, 500.0, 150, 150, slots=50, idle=False)
    assert found.per_second == pytest.approx(10.0)


def test_a_new_revision_is_learnt_anew_and_an_overload_of_a_known_one_is_refused() -> None:
    found = scheduler(pool(stale_seconds=0.1, max_containers=10), limit=10)
    containers = [ready(f"c{number}") for number in range(10)]
    now, delivered, backlog = 5.0, 0, 0
    for _ in range(60):
        now, delivered = now + TICK, delivered + 24
        found.tick(seen(now, {"thumb": lag(0, 8, delivered=delivered)}, containers))
    ticks = 0
    while not found.verdict(key()).reject:
        now, delivered, backlog, ticks = now + TICK, delivered + 30, backlog + 15, ticks + 1
        found.tick(seen(now, {"thumb": lag(backlog, 10, delivered=delivered)}, containers))
    assert ticks == 2, "45 come in a tick, and 30 can be run"
    found.configure([pool(stale_seconds=0.1, max_containers=10, revision="r2")])
    assert found._queues[key()].capacity.per_second is None
