"""The analyser drops what cannot be believed, says why, and drops nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher.analysis import Analyser, Fault
from slack.loadwatcher.payload import MetricType, Window
from slack.loadwatcher.readings import Key, Statistic
from tests.loadwatcher.build import NOW, readings

_AVERAGE = Key(Statistic.AVERAGE, MetricType.CPU, Window.TEN_MINUTES)
_LATEST = Key(Statistic.LATEST, MetricType.CPU)
_OBSERVED = Key(Statistic.OBSERVED_AT, MetricType.CPU)


def analyser(frozen_after_seconds: float = 600.0) -> Analyser:
    return Analyser(max_age_seconds=300.0, frozen_after_seconds=frozen_after_seconds)


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
def test_a_bad_series_is_dropped_and_the_nodes_other_one_is_kept(key: Key, value: float, fault: Fault) -> None:
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


def frozen_at(value: float, *, judge: Analyser, minutes: int = 11, moves: bool = False) -> int:
    dropped = 0
    for minute in range(minutes):
        now = NOW + 60 * minute
        latest = value + minute * 1e-9 * moves
        dropped = len(judge.judge(readings(latest=latest, now=now), now).dropped)
    return dropped


def test_a_figure_that_has_not_moved_at_all_for_ten_minutes_is_frozen() -> None:
    assert frozen_at(25.0, judge=analyser()) == 2
    assert frozen_at(25.0, judge=analyser(), minutes=10) == 0
    assert frozen_at(25.0, judge=analyser(), moves=True) == 0
    assert frozen_at(0.0, judge=analyser()) == 0
    assert frozen_at(25.0, judge=analyser(0.0)) == 0


def test_the_same_sample_seen_often_is_not_frozen_but_old() -> None:
    judge = analyser(frozen_after_seconds=30.0)
    for second in range(0, 120, 10):
        found = judge.judge(readings(latest=7.0, now=NOW, age_seconds=0.0), NOW + second)
        assert not found.dropped


def test_a_frozen_figure_that_moves_is_believed_again_at_once() -> None:
    judge = analyser()
    assert frozen_at(25.0, judge=judge) == 2
    assert not judge.judge(readings(latest=26.0, now=NOW + 900), NOW + 900).dropped


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
