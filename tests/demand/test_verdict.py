"""Refused only where the namespace is full of containers and messages come faster than they are run."""

from typing import Any

import pytest

from slack.demand.broker import QueueLag
from slack.demand.history import NO_GROWTH, Growth, QueueHistory
from slack.demand.model import AdmissionVerdict, Refusal
from slack.demand.verdict import LEAST_CERTAINTY, ActionPressure, Held, judge
from tests.cases import run_for_each

GREW = Growth(100, 1000)


def pressure(**values: Any) -> ActionPressure:
    given: dict[str, Any] = {"containers": 100, "limit": 100, "lag": 50, "growth": GREW}
    return ActionPressure(**(given | {"rate_per_second": 20.0, "speed_per_second": 10.0} | values))


def verdict(**values: Any) -> AdmissionVerdict:
    return judge(pressure(**values), Held()).verdict


@run_for_each("full", [False, True])
@run_for_each("slower", [False, True])
@run_for_each("waits", [False, True])
@run_for_each("idle", [False, True])
def test_truth_table(full: bool, slower: bool, waits: bool, idle: bool) -> None:
    found = verdict(
        containers=100 if full else 99,
        rate_per_second=10.1 if slower else 10.0,
        lag=50 if waits else 0,
        idle=int(idle),
    )
    assert found.reject == (full and waits and slower and not idle)
    assert found.reason == (Refusal.NAMESPACE_FULL if found.reject else None)


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"growth": Growth(20, 80)}, True),
        ({"growth": Growth(19, 19)}, False),  # so few messages are no evidence
        ({"growth": Growth(20, 100)}, False),  # chance alone does as much
        ({"growth": NO_GROWTH, "rate_per_second": 1e6}, False),
        ({"growth": NO_GROWTH, "exceeds_capacity": True}, True),  # what they can run is known
        ({"exceeds_capacity": True, "rate_per_second": 9.9}, False),
        ({"exceeds_capacity": True, "lag": 49, "speed_per_second": 1000.0, "rate_per_second": 1200.0}, False),
        ({"exceeds_capacity": True, "idle": 1}, False),
        ({"rate_per_second": 9.9}, False),  # it has grown, and shrinks now
        ({"lag": 50, "speed_per_second": 1000.0, "rate_per_second": 1200.0}, True),  # half of 100 ms
        ({"lag": 49, "speed_per_second": 1000.0, "rate_per_second": 1200.0}, False),
        ({"lag": 49, "speed_per_second": 1000.0, "rate_per_second": 1200.0, "stale_seconds": 0.01}, True),
        ({"lag": 30, "speed_per_second": 0.0}, True),
    ],
)
def test_chance_alone_and_what_is_soon_run_refuse_nobody(values: dict[str, Any], refused: bool) -> None:
    assert verdict(**values).reject == refused


def test_an_idle_container_ends_a_refusal() -> None:
    held = judge(pressure(lag=100), Held())
    assert held.verdict.reject
    assert not judge(pressure(lag=100, idle=1), held).verdict.reject


def test_a_queue_that_keeps_up_is_not_taken_for_one_that_grows() -> None:
    """Ten a tick come and are run; the queue goes up and down by as many as chance has it."""
    history, delivered, certainties = QueueHistory(), 0, []
    for tick in range(200):
        backlog = (0, 9, 14, 6, 3)[tick % 5]
        delivered += 10
        history.add_reading(tick * 0.3, QueueLag(backlog=backlog, in_flight=2, delivered_total=delivered), 0.2)
        certainties.append(history.growth().certainty)
    assert max(certainties) < LEAST_CERTAINTY


def test_growth_is_seen_within_seconds_and_over_hours_alike() -> None:
    history, delivered = QueueHistory(), 0
    for tick in range(4):
        delivered += 300
        lag = QueueLag(backlog=60 * tick, in_flight=10, delivered_total=delivered)
        history.add_reading(tick * 0.3, lag, 0.2)
    assert history.growth().grown == 180
    assert history.growth().certainty > LEAST_CERTAINTY
    slow, delivered = QueueHistory(), 0
    for tick in range(2000):  # one more each 100 s, of three that are run
        delivered += tick % 33 == 0
        slow.add_reading(tick * 1.0, QueueLag(backlog=tick // 50, in_flight=1, delivered_total=delivered), 0.2)
    assert slow.growth().grown == 39
    assert slow.growth().certainty > LEAST_CERTAINTY


def test_a_verdict_tells_what_it_went_by() -> None:
    found = verdict()
    assert (found.containers, found.limit, found.lag, found.rate_per_second, found.speed_per_second) == (
        100,
        100,
        50,
        20.0,
        10.0,
    )


def test_a_refusal_ends_when_a_tenth_of_the_lag_is_gone() -> None:
    held = judge(pressure(lag=100), Held())
    faster = {"rate_per_second": 1.0, "speed_per_second": 50.0}
    held = judge(pressure(lag=91, **faster), held)
    assert held.verdict.reject
    assert not judge(pressure(lag=90, **faster), held).verdict.reject


def test_a_refusal_ends_at_once_when_there_is_room_for_a_container() -> None:
    held = judge(pressure(lag=100), Held())
    assert not judge(pressure(lag=200, containers=99), held).verdict.reject


def test_a_queue_is_full_until_it_is_down_to_its_fraction() -> None:
    few = {"containers": 1, "max_messages": 1000}
    held = judge(pressure(lag=999, **few), Held())
    assert not held.verdict.reject
    held = judge(pressure(lag=1000, **few), held)
    assert held.verdict.reason is Refusal.QUEUE_FULL
    held = judge(pressure(lag=901, **few), held)
    assert held.verdict.reject
    assert not judge(pressure(lag=900, **few), held).verdict.reject


@pytest.mark.parametrize("limits", [{"limit": 0, "containers": 0}, {"action_limit": 0}])
def test_where_no_container_may_be_nothing_is_taken(limits: dict[str, float]) -> None:
    assert verdict(**limits, lag=0).reason is Refusal.NO_CONTAINERS


def test_who_waits_for_a_node_is_told_how_long_it_takes() -> None:
    found = verdict(node_wait_seconds=42.0)
    assert (found.reason, found.retry_after_ms) == (Refusal.CAPACITY_SHORT, 42_000)
    assert verdict(node_wait_seconds=0.02).retry_after_ms == 100
    late = verdict(node_wait_seconds=0.0)
    assert (late.reason, late.retry_after_ms) == (Refusal.CAPACITY_SHORT, 1000), (
        "nobody knows how long a late one takes"
    )
    held = judge(pressure(node_wait_seconds=42.0, lag=100), Held())
    assert judge(pressure(node_wait_seconds=41.0, lag=95, rate_per_second=0.0), held).verdict.reject


@pytest.mark.parametrize(("speed", "milliseconds"), [(10.0, 500), (0.0, 1000), (1e9, 100), (0.001, 60_000)])
def test_when_to_ask_again_follows_from_how_fast_messages_are_run(speed: float, milliseconds: int) -> None:
    """A tenth of 50 messages is to go."""
    assert verdict(speed_per_second=speed, rate_per_second=1e10, stale_seconds=0.0).retry_after_ms == milliseconds
