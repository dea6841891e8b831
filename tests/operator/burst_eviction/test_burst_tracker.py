"""Who is trusted with room, and how much all together may take away."""

import pytest

from slack_operator.burst_eviction.burst_tracker import (
    BUCKET,
    FIRST_SECONDS,
    LONGEST_SECONDS,
    NAMESPACE_TIMES,
    PER_SECOND,
    PROMISED_SECONDS,
    BurstTracker,
)


def test_no_more_placeholders_leave_than_the_bucket_holds_and_a_second_brings() -> None:
    ledger = BurstTracker()
    assert ledger.take_budget(int(BUCKET) + 500, 10.0) == BUCKET
    assert ledger.take_budget(5, 10.0) == 0
    assert ledger.take_budget(1000, 12.0) == 2 * PER_SECOND
    assert ledger.take_budget(1000, 12.0) == 0


def test_the_bucket_holds_no_more_however_long_nothing_leaves() -> None:
    ledger = BurstTracker()
    ledger.take_budget(100, 0.0)
    assert ledger.take_budget(10 * int(BUCKET), 1e6) == BUCKET


def test_what_did_not_leave_after_all_may_leave_later() -> None:
    ledger = BurstTracker()
    assert ledger.take_budget(int(BUCKET), 0.0) == BUCKET
    ledger.return_budget(7)
    assert ledger.take_budget(10, 0.0) == 7
    ledger.return_budget(10 * int(BUCKET))
    assert ledger.take_budget(10 * int(BUCKET), 0.0) == BUCKET


def breaks(ledger: BurstTracker, key: str, now: float) -> float:
    """Way is made for pods that do not come; return when that was over."""
    way = ledger.track_burst(key, "shop", now, PROMISED_SECONDS)
    way.expected = 4.0
    (over,) = ledger.take_finished(now + PROMISED_SECONDS)
    assert over is way
    return now + PROMISED_SECONDS


def test_a_workload_whose_pods_do_not_come_is_left_alone_twice_as_long_each_time_up_to_an_hour() -> None:
    ledger, now, pauses = BurstTracker(), 0.0, []
    for _ in range(9):
        now = breaks(ledger, "shop/deploy/api", now)
        pause = FIRST_SECONDS
        while not ledger.is_allowed("shop/deploy/api", "elsewhere", now + pause):
            pause *= 2
        pauses.append(min(pause, LONGEST_SECONDS))
        assert not ledger.is_allowed("shop/deploy/api", "elsewhere", now + pauses[-1] - 1.0)
        now += pauses[-1]
    assert pauses[:3] == [60.0, 120.0, 240.0]
    assert pauses[-1] == LONGEST_SECONDS


def test_so_is_a_namespace_when_several_of_its_workloads_do_so() -> None:
    ledger, now = BurstTracker(), 0.0
    for number in range(NAMESPACE_TIMES):
        assert ledger.is_allowed("shop/deploy/other", "shop", now)
        now = breaks(ledger, f"shop/deploy/a{number}", now)
    assert not ledger.is_allowed("shop/deploy/other", "shop", now)
    assert ledger.is_allowed("pay/deploy/other", "pay", now)


@pytest.mark.parametrize("nominated", [False, True])
def test_a_burst_that_came_is_no_broken_promise_whoever_helped_it(nominated: bool) -> None:
    ledger = BurstTracker()
    way = ledger.track_burst("shop/deploy/api", "shop", 0.0)
    way.expected = 4.0
    for _ in range(3):
        ledger.record_placed("shop/deploy/api", 0.5, nominated=nominated)
    (over,) = ledger.take_finished(10.0)
    assert not over.is_broken
    assert ledger.is_allowed("shop/deploy/api", "shop", 10.0)


def test_a_burst_is_not_over_while_one_of_its_pods_waits_whomever_the_scheduler_has_helped() -> None:
    ledger = BurstTracker()
    way = ledger.track_burst("shop/rs/api", "shop", 0.0)
    way.expected, way.first_pod = 2.0, 0.0
    for _ in range(3):  # of four pods; way was made for two of them
        ledger.record_placed(way.key, 0.5, nominated=True)
    ledger.update_waiting({way.key}, set(), 0.5)
    assert ledger.take_finished(0.6) == []
    ledger.update_waiting(set(), set(), 0.7)
    assert ledger.take_finished(0.7) == [way]
