"""The article's scenarios as one enforcement period in numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.audit.findings.period_shape import period_shape


def test_scenario_1_two_threads_on_200_ms_never_stop() -> None:
    shape = period_shape(200_000, 100_000, 2)
    assert (shape.stops, shape.runs_us, shape.stops_us, shape.ending_limit_cores) == (False, 100_000, 0, 2)


def test_scenario_2_ten_threads_on_200_ms_run_20_ms_and_stop_for_80() -> None:
    shape = period_shape(200_000, 100_000, 10)
    assert (shape.runs_us, shape.stops_us, shape.limit_cores, shape.ending_limit_cores) == (20_000, 80_000, 2, 10)
    assert shape.stops


def test_scenario_2_scaled_to_two_cpus() -> None:
    shape = period_shape(40_000, 100_000, 2)
    assert (shape.runs_us, shape.stops_us) == (20_000, 80_000)


def test_a_saved_credit_of_one_quota_carries_a_burst_of_30_ms() -> None:
    without = period_shape(20_000, 100_000, 1, work_us=30_000)
    assert (without.runs_us, without.stops_us, without.ending_limit_cores) == (20_000, 80_000, 0.3)
    assert not period_shape(20_000, 100_000, 1, 20_000, work_us=30_000).stops


def test_a_credit_only_moves_the_stop_of_work_without_an_end() -> None:
    shape = period_shape(200_000, 100_000, 10, 100_000)
    assert (shape.runs_us, shape.stops_us, shape.ending_limit_cores) == (30_000, 70_000, 9)


@pytest.mark.parametrize(
    ("quota", "period", "busy", "burst", "work"),
    [
        (0, 1, 1, 0, None),
        (1, 0, 1, 0, None),
        (1, 1, 0, 0, None),
        (1, 1, float("nan"), 0, None),
        (1, 1, 1, -1, None),
        (1, 1, 1, 0, -1.0),
    ],
)
def test_what_makes_no_period_is_refused_in_words(
    quota: int, period: int, busy: float, burst: int, work: float | None
) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        period_shape(quota, period, busy, burst, work_us=work)


@given(
    st.integers(1_000, 10_000_000),
    st.integers(1_000, 1_000_000),
    st.floats(0.01, 512),
    st.integers(0, 10_000_000),
)
def test_the_limit_that_ends_it_does(quota_us: int, period_us: int, busy: float, burst_us: int) -> None:
    shape = period_shape(quota_us, period_us, busy, burst_us)
    assert shape.runs_us + shape.stops_us == pytest.approx(period_us)
    assert 0 <= shape.stops_us < period_us
    enough_us = int(shape.ending_limit_cores * period_us) + 1
    assert not period_shape(enough_us, period_us, busy, burst_us).stops
