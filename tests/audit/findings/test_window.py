"""What two samples of a cgroup say, and what they do not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from slack.audit.findings.sample import CgroupNodeFacts, ReadError, Sampled
from slack.audit.findings.window import LEAST_PERIODS, Window, WindowState, compare, window_between
from tests.audit.build import API, MS_NS, POD, SIDECAR, sample, sampled

BEFORE = sample(at=1000.0, periods=500, throttled=40, throttled_ms=900, usage_ms=5000, inherited_ms=950)
AFTER = sample(at=1010.0, periods=600, throttled=60, throttled_ms=1500, usage_ms=7000, inherited_ms=1600)


def only(before: object, after: object) -> Window:
    assert isinstance(before, Sampled)
    assert isinstance(after, Sampled)
    windows = compare(before, after).windows
    assert len(windows) == 1
    return windows[0]


def test_a_window_is_the_rise_of_all_counters_over_the_samples_own_times() -> None:
    window = only(sampled(BEFORE), sampled(AFTER))
    assert window == Window(
        target=API,
        state=WindowState.MEASURED,
        seconds=10.0,
        quota_us=200_000,
        period_us=100_000,
        periods=100,
        throttled=20,
        throttled_ns=600 * MS_NS,
        usage_ns=2000 * MS_NS,
        inherited_ns=650 * MS_NS,
    )


def test_fewer_than_100_periods_are_no_verdict_but_keep_their_figures() -> None:
    assert LEAST_PERIODS == 100
    window = only(sampled(BEFORE), sampled(changed(AFTER, periods=599)))
    assert (window.state, window.periods, window.throttled) == (WindowState.TOO_FEW, 99, 20)


def test_no_limit_is_a_state_of_its_own_with_the_use() -> None:
    free = changed(BEFORE, quota_us=None), changed(AFTER, quota_us=None)
    window = only(sampled(free[0]), sampled(free[1]))
    assert (window.state, window.usage_ns, window.quota_changed) == (WindowState.NO_LIMIT, 2000 * MS_NS, False)


@pytest.mark.parametrize("quota_us", [-1, 0])
def test_a_quota_that_is_none_to_the_kernel_is_no_limit(quota_us: int) -> None:
    window = only(sampled(changed(BEFORE, quota_us=None)), sampled(changed(AFTER, quota_us=quota_us)))
    assert (window.state, window.limited, window.quota_changed) == (WindowState.NO_LIMIT, False, False)


def test_a_container_without_own_quota_keeps_the_time_it_stood_still_for_its_pod() -> None:
    free = changed(BEFORE, quota_us=None, inherited_ns=0), changed(AFTER, quota_us=None)
    window = only(sampled(free[0]), sampled(free[1]))
    assert (window.state, window.inherited_ns) == (WindowState.NO_LIMIT, 1600 * MS_NS)


@pytest.mark.parametrize(
    "fell",
    [{"periods": 499}, {"throttled": 39}, {"usage_ns": 0}, {"inherited_ns": 0}, {"throttled_ns": 0}],
    ids=lambda fell: next(iter(fell)),
)
def test_counters_that_fall_have_begun_anew(fell: dict[str, int]) -> None:
    window = only(sampled(BEFORE), sampled(changed(AFTER, **fell)))
    assert (window.state, window.periods, window.throttled_ns, window.usage_ns) == (WindowState.RESET, 0, 0, None)


def test_bursts_that_fall_have_begun_anew() -> None:
    before, after = changed(BEFORE, bursts=4), changed(AFTER, bursts=3)
    assert only(sampled(before), sampled(after)).state is WindowState.RESET
    assert only(sampled(changed(before, bursts=1)), sampled(after)).bursts == 2


def test_throttled_time_may_step_back_a_little() -> None:
    window = only(sampled(BEFORE), sampled(changed(AFTER, throttled_ns=899_999_000)))
    assert (window.state, window.throttled_ns) == (WindowState.MEASURED, 0)


def test_another_container_under_the_same_name_is_a_reset() -> None:
    before = changed(BEFORE, target=replace(API, path="shop/api/api", container_id="aa"))
    after = changed(AFTER, target=replace(API, path="shop/api/api", container_id="bb"))
    assert only(sampled(before), sampled(after)).state is WindowState.RESET


def test_a_restarted_container_is_another_cgroup_one_gone_and_one_new() -> None:
    restarted = changed(AFTER, target=SIDECAR)
    windows = compare(
        sampled(BEFORE, changed(BEFORE, target=POD)), sampled(changed(AFTER, target=POD), restarted)
    ).windows
    assert [(window.target, window.state) for window in windows] == [
        (POD, WindowState.MEASURED),
        (SIDECAR, WindowState.APPEARED),
        (API, WindowState.GONE),
    ]


def test_of_two_samples_of_one_cgroup_the_latest_counts() -> None:
    stale = changed(AFTER, at_seconds=1005.0, periods=510)
    for order in ((stale, AFTER), (AFTER, stale)):
        assert only(sampled(BEFORE), sampled(*order)).periods == 100


@pytest.mark.parametrize("at", [1000.0, 1000.0000001, 990.0, float("nan"), float("inf")])
def test_time_that_does_not_pass_gives_no_figures(at: float) -> None:
    window = only(sampled(BEFORE), sampled(changed(AFTER, at_seconds=at)))
    assert (window.state, window.seconds, window.periods, window.usage_ns) == (WindowState.TOO_FEW, 0.0, 0, None)
    free = only(sampled(BEFORE), sampled(changed(AFTER, at_seconds=at, quota_us=None)))
    assert free.state is WindowState.NO_LIMIT


@pytest.mark.parametrize("differing", [{"quota_us": 100_000}, {"quota_us": None}, {"period_us": 50_000}])
def test_a_limit_that_was_another_at_the_beginning_is_told(differing: dict[str, int | None]) -> None:
    window = only(sampled(changed(BEFORE, **differing)), sampled(AFTER))
    assert (window.state, window.quota_changed, window.quota_us) == (WindowState.MEASURED, True, 200_000)


def test_a_limit_that_was_taken_away_is_no_limit_and_told() -> None:
    window = only(sampled(BEFORE), sampled(changed(AFTER, quota_us=None)))
    assert (window.state, window.quota_changed) == (WindowState.NO_LIMIT, True)


def test_what_one_sample_does_not_know_stays_unknown() -> None:
    window = only(sampled(changed(BEFORE, usage_ns=None, inherited_ns=None)), sampled(AFTER))
    assert (window.usage_ns, window.inherited_ns, window.bursts) == (None, None, None)


def test_each_windows_seconds_are_its_own_samples() -> None:
    late = changed(AFTER, target=SIDECAR, at_seconds=1025.0)
    result = compare(sampled(BEFORE, changed(BEFORE, target=SIDECAR)), sampled(AFTER, late))
    assert [window.seconds for window in result.windows] == [10.0, 25.0]
    assert result.seconds == 25.0
    assert compare(sampled(), sampled()).seconds == 0.0


def test_nodes_are_kept_apart() -> None:
    there = changed(BEFORE, target=replace(API, node="b"))
    states = [window.state for window in compare(sampled(BEFORE), sampled(there)).windows]
    assert states == [WindowState.APPEARED, WindowState.GONE]


def test_troubles_of_both_samples_are_told_once() -> None:
    before = Sampled(
        (),
        {"a": CgroupNodeFacts(2)},
        {ReadError.EMPTY: 3, ReadError.GONE: 1},
        {ReadError.EMPTY: "x", ReadError.GONE: "g"},
    )
    after = Sampled((), {"a": CgroupNodeFacts(4)}, {ReadError.EMPTY: 2}, {ReadError.EMPTY: "y"})
    result = compare(before, after)
    assert result.troubles == {ReadError.EMPTY: 3, ReadError.GONE: 1}
    assert result.examples == {ReadError.EMPTY: "y", ReadError.GONE: "g"}
    assert result.nodes == {"a": CgroupNodeFacts(4)}


def test_one_pair_of_samples_can_be_compared_by_itself() -> None:
    assert window_between(BEFORE, AFTER) == only(sampled(BEFORE), sampled(AFTER))
    assert window_between(BEFORE, AFTER, least_periods=101).state is WindowState.TOO_FEW


@given(st.integers(min_value=200, max_value=64_000), st.sampled_from([10_000, 50_000, 100_000]))
def test_a_limit_that_systemd_rounds_up_is_no_change_and_the_next_step_is(millis: int, period_us: int) -> None:
    exact, step = millis * period_us // 1000, period_us // 100
    rounded = -(-exact // step) * step
    for old, new, is_changed in ((exact, rounded, False), (rounded, exact, False), (exact, rounded + step, True)):
        before = changed(BEFORE, quota_us=old, period_us=period_us)
        window = window_between(before, changed(AFTER, quota_us=new, period_us=period_us))
        assert window.quota_changed is is_changed, (old, new)


def test_a_small_limit_that_nearly_doubles_is_a_change() -> None:
    assert window_between(changed(BEFORE, quota_us=1_100), changed(AFTER, quota_us=2_000)).quota_changed
