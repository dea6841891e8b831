"""Refused only where the namespace is full of containers and messages come faster than they are run."""

from typing import Any

import pytest

from slack.demand.model import OPEN, Refusal, Verdict
from slack.demand.verdict import Held, Pressure, judge, told


def pressure(**values: Any) -> Pressure:
    given: dict[str, Any] = {"containers": 100, "limit": 100, "lag": 50}
    return Pressure(**(given | {"rate_per_second": 20.0, "speed_per_second": 10.0} | values))


def verdict(**values: Any) -> Verdict:
    return judge(pressure(**values), Held()).verdict


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("faster", [False, True])
@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_truth_table(full: bool, faster: bool, growing: bool, waits: bool) -> None:
    found = verdict(
        containers=100 if full else 99,
        rate_per_second=10.1 if faster else 10.0,
        growing_ticks=2 if growing else 1,
        lag=1 if waits else 0,
    )
    assert found.reject == (full and waits and (faster or growing))
    assert found.reason == (Refusal.NAMESPACE_FULL if found.reject else None)


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
    assert verdict(speed_per_second=speed, rate_per_second=1e10).retry_after_ms == milliseconds


def test_a_verdict_of_three_ticks_is_gone_by_and_an_older_one_is_not() -> None:
    rejected = verdict()
    assert told(rejected, 0.3, 0.1) == rejected
    assert told(rejected, 0.31, 0.1) == OPEN
