"""The second axis: of the time in line for a CPU, what quotas took is no neighbour's."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from slack.audit.findings.finding import Finding
from slack.audit.findings.sample import CgroupNodeFacts, Sample
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import WindowState, window_between
from tests.audit.build import API, POD, judged, sample, zero

# Ten threads on two CPUs under 40 ms a period, alone, for 10 s: run 20 ms, stop 80 ms. Measured: some 0.96, full 0.76.
ALONE = sample(
    at=10, quota_ms=40, periods=100, throttled=100, throttled_ms=16_000, usage_ms=4000, waiting_ms=9600, stalled_ms=7630
)
# One thread without a limit beside others, which have the CPU half of the time.
CROWDED = sample(at=10, quota_ms=None, usage_ms=5000, waiting_ms=5100, stalled_ms=5000)
# A pod with 50 ms, which its one container uses up: throttled time is the pod's.
ABOVE = sample(POD, 10, quota_ms=50, periods=100, throttled=100, throttled_ms=15_000, usage_ms=5000)
BELOW = sample(at=10, quota_ms=None, usage_ms=5000, waiting_ms=9000, stalled_ms=8000)


def the(*samples: Sample) -> Finding:
    return judged(*samples)[API.path]


def test_a_throttled_container_alone_has_pressure_and_no_neighbours() -> None:
    found = the(ALONE)
    assert found.pressure_ratio == pytest.approx(0.96)
    assert found.lost_ratio == pytest.approx(0.8)
    assert found.neighbours_ratio == 0


def test_a_container_without_a_limit_beside_busy_ones_has_neighbours() -> None:
    found = the(CROWDED)
    assert (found.lost_ratio, found.window.state) == (None, WindowState.NO_LIMIT)
    assert found.neighbours_ratio == pytest.approx(0.5)


def test_of_a_throttled_container_beside_busy_ones_each_axis_has_its_share() -> None:
    both = changed(ALONE, throttled_ns=5_000 * 10**6, throttled=50, waiting_ns=9 * 10**9, stalled_ns=7 * 10**9)
    found = the(both)
    assert found.lost_ratio is not None
    assert found.neighbours_ratio == pytest.approx(0.7 - found.lost_ratio)
    assert found.lost_ratio < 0.5


def test_its_own_threads_in_line_behind_each_other_are_no_neighbours() -> None:
    crowd = changed(CROWDED, waiting_ns=99 * 10**8, stalled_ns=10**8)
    found = the(crowd)
    assert found.pressure_ratio == pytest.approx(0.99)
    assert found.neighbours_ratio == pytest.approx(0.01)


@pytest.mark.parametrize("local", [True, False])
def test_what_the_quota_of_its_pod_took_is_no_neighbours(local: bool) -> None:
    below = changed(BELOW, inherited_ns=15 * 10**9) if local else BELOW
    found = the(ABOVE, below)
    assert found.lost_ratio == pytest.approx(0.75)
    assert found.neighbours_ratio == pytest.approx(0.05)


def test_a_level_above_that_cannot_be_judged_leaves_the_share_unknown_unless_the_kernel_tells() -> None:
    few = changed(ABOVE, periods=20, throttled=20, throttled_ns=3 * 10**9)

    def share(below: Sample) -> Finding:
        pairs = [window_between(zero(sample), sample, least_periods=30) for sample in (few, below)]
        return next(found for found in judge(pairs, {"": CgroupNodeFacts(2)}) if found.window.target == API)

    assert share(BELOW).neighbours_ratio is None
    assert share(BELOW).pressure_ratio == pytest.approx(0.9)
    assert share(changed(BELOW, inherited_ns=3 * 10**9)).neighbours_ratio == pytest.approx(0.5)


def test_throttled_time_in_too_few_periods_for_a_verdict_is_taken_away_all_the_same() -> None:
    few = replace(window_between(zero(ALONE), ALONE), state=WindowState.TOO_FEW, throttled_ns=7 * 10**9)
    (found,) = judge([few], {"": CgroupNodeFacts(2)})
    assert found.lost_ratio is None
    assert found.neighbours_ratio == pytest.approx(0.063)


@pytest.mark.parametrize(
    ("pressure", "known"),
    [({"waiting_ns": None, "stalled_ns": None}, False), ({"stalled_ns": None}, True)],
    ids=["cgroup v1", "before 5.13"],
)
def test_what_the_kernel_does_not_tell_is_unknown_and_not_0(pressure: dict[str, None], known: bool) -> None:
    found = the(changed(CROWDED, **pressure))
    assert (found.pressure_ratio is not None) is known
    assert found.neighbours_ratio is None


def test_totals_that_fall_are_unknown_and_reset_nothing() -> None:
    before, after = changed(zero(CROWDED), waiting_ns=6 * 10**9, stalled_ns=6 * 10**9), CROWDED
    window = window_between(before, after)
    assert (window.state, window.waiting_ns, window.stalled_ns) == (WindowState.NO_LIMIT, None, None)
    assert window.usage_ns == 5 * 10**9


def test_a_share_is_never_below_0_and_never_above_the_pressure() -> None:
    # Totals are means over CPUs, and weighed by how long each was busy: they may be below what was lost, or differ.
    found = the(changed(ALONE, stalled_ns=10**9))
    assert found.neighbours_ratio == 0
    found = the(changed(CROWDED, waiting_ns=10**9, stalled_ns=2 * 10**9))
    assert found.neighbours_ratio == found.pressure_ratio == pytest.approx(0.1)
