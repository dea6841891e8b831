"""The analyser drops what cannot be believed, says why, and drops nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher.analysis import Analyser, Fault
from slack.loadwatcher.payload import MetricType, RollupWindow
from slack.loadwatcher.readings import ReadingKey, Statistic
from tests.loadwatcher.build import NOW, readings

_AVERAGE = ReadingKey(Statistic.AVERAGE, MetricType.CPU, RollupWindow.TEN_MINUTES)
_LATEST = ReadingKey(Statistic.LATEST, MetricType.CPU)
_OBSERVED = ReadingKey(Statistic.OBSERVED_AT, MetricType.CPU)


def analyser() -> Analyser:
    return Analyser(max_age_seconds=300.0)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        (_AVERAGE, math.nan, Fault.NOT_A_NUMBER),
        (_LATEST, math.inf, Fault.NOT_A_NUMBER),
        (_AVERAGE, -0.1, Fault.NEGATIVE),
        (_OBSERVED, NOW - 301, Fault.STALE),
        (_OBSERVED, math.nan, Fault.STALE),
        (_OBSERVED, NOW + 61, Fault.FUTURE),
    ],
)
def test_a_bad_series_is_dropped_and_the_nodes_other_one_is_kept(key: ReadingKey, value: float, fault: Fault) -> None:
    found = analyser().judge(readings(("a", "b"), more={key: {"a": value}}), NOW)
    assert found.good == {MetricType.CPU: {"b"}, MetricType.MEMORY: {"a", "b"}}
    assert [(dropped.name, dropped.type, dropped.fault) for dropped in found.dropped] == [("a", MetricType.CPU, fault)]
    assert found.counts()[fault] == 1
    assert sum(found.counts().values()) == 1


@pytest.mark.parametrize("age", [0.0, 300.0, -60.0])
def test_what_is_just_new_enough_is_kept(age: float) -> None:
    assert not analyser().judge(readings(age_seconds=age), NOW).dropped


def test_a_series_without_a_time_is_stale() -> None:
    found = analyser().judge(readings(more={_AVERAGE: {"ghost": 1.0}}), NOW)
    assert [(dropped.name, dropped.fault) for dropped in found.dropped] == [("ghost", Fault.STALE)]


@pytest.mark.parametrize("value", [100.0, 63.7, 0.0])
def test_a_figure_that_does_not_change_is_kept_while_its_samples_are_new(value: float) -> None:
    """A node at 100 % has one value for hours; without it, memory alone would speak for the hottest node."""
    judge = analyser()
    for minute in range(60):
        now = NOW + 60 * minute
        found = judge.judge(readings(("a", "b"), latest=value, now=now), now)
        assert not found.dropped
        assert found.good[MetricType.CPU] == {"a", "b"}


def test_a_clock_that_jumps_drops_everything_and_then_nothing() -> None:
    judge = analyser()
    assert not judge.judge(readings(), NOW).dropped
    ahead = judge.judge(readings(), NOW + 3600)
    assert {dropped.fault for dropped in ahead.dropped} == {Fault.STALE}
    behind = judge.judge(readings(), NOW - 3600)
    assert {dropped.fault for dropped in behind.dropped} == {Fault.FUTURE}
    assert not judge.judge(readings(), NOW).dropped


@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(allow_nan=True, allow_infinity=True)),
    st.dictionaries(st.sampled_from("abc"), st.floats(allow_nan=True, allow_infinity=True)),
    st.dictionaries(st.sampled_from("abc"), st.floats(NOW - 1000, NOW + 1000) | st.just(math.nan)),
)
def test_each_series_is_either_good_or_dropped_once(
    averages: dict[str, float], latest: dict[str, float], observed: dict[str, float]
) -> None:
    given_ = {_AVERAGE: averages, _LATEST: latest, _OBSERVED: observed}
    found = analyser().judge(readings((), more=given_), NOW)
    dropped = [series.name for series in found.dropped]
    good = found.good.get(MetricType.CPU, frozenset())
    assert sorted([*dropped, *good]) == sorted(averages.keys() | latest.keys())
    for name in good:
        assert all(of.get(name, 0.0) >= 0 and math.isfinite(of.get(name, 0.0)) for of in (averages, latest))
        assert -60 <= NOW - observed[name] <= 300
