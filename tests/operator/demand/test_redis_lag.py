"""What one read of Redis says of a queue, together with what is remembered of the reads before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.demand.broker import QueueLag
from slack_operator.demand.brokers.redis_lag import RedisFigures, RedisLags


def lag_of(lags: RedisLags, *figures: int, queue: str = "q", remembers: bool = True) -> QueueLag:
    return lags.lag_of(queue, RedisFigures(*figures), remembers=remembers)


def test_what_nobody_will_get_is_remembered_until_the_next_close_look() -> None:
    lags = RedisLags()
    assert lag_of(lags, 10, 2, 5, -1, 3).backlog == 5
    assert lag_of(lags, 12, 2, 5, -1, -1).backlog == 7, "not looked at this time"
    assert lag_of(lags, 12, 2, 5, -1, 0).backlog == 10


def test_what_nobody_will_get_is_never_more_than_what_is_there() -> None:
    lags = RedisLags()
    lag_of(lags, 10, 0, 5, -1, 8)
    assert lag_of(lags, 1, 0, 5, -1, -1).backlog == 0
    assert lag_of(lags, 9, 0, 5, -1, -1).backlog == 8, "it was trimmed in between"


def test_another_stream_under_the_name_begins_anew() -> None:
    lags = RedisLags()
    assert lag_of(lags, 10, 0, 50, -1, 0).published_total == 60
    assert lag_of(lags, 2, 0, 50, -1, 0).published_total == 60, "eight were trimmed"
    assert lag_of(lags, 2, 0, 0, -1, 0).published_total == 2


def test_a_stream_without_counters_has_no_totals() -> None:
    found = lag_of(RedisLags(), 3, 1, -1, 250, 0)
    assert (found.delivered_total, found.published_total, found.oldest_age_seconds) == (None, None, 0.25)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5), st.integers(-1, 60)), max_size=30))
@pytest.mark.parametrize("remembers", [True, False])
def test_counters_are_never_negative_and_totals_only_grow(
    remembers: bool, reads: list[tuple[int, int, int, int]]
) -> None:
    lags, read, last = RedisLags(), 0, 0
    for length, pending, more, lost in reads:
        read += more
        found = lag_of(lags, length, pending, read, -1, lost, remembers=remembers)
        assert 0 <= found.backlog <= length
        assert 0 <= found.in_flight <= min(pending, length)
        assert found.published_total is not None
        assert found.published_total >= read
        if remembers:
            assert found.published_total >= last
            last = found.published_total
