"""Two numbers and what they mean. The measured runs are real ones: counters of kernels 6.18 (v1), 6.1 and 6.12 (v2)."""

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from slack.audit.findings.finding import Finding, Mark, Severity, Thresholds
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.throttling import judge, lost_cores_total
from slack.audit.findings.window import WindowState, compare
from tests.audit.build import API, POD, POD_PATH, SIDECAR, judged, sample, throttled_for, windows_of
from tests.cases import run_for_each


@dataclass(frozen=True)
class Run:
    """A measured run: what was configured, what the kernel counted, and what it means."""

    quota_ms: float
    cpus: int
    periods: int
    throttled: int
    use_of_limit: float
    stop_ms: float
    lost: float
    severity: Severity
    marks: frozenset[Mark]
    period_ms: float = 100


def marks(*some: Mark) -> frozenset[Mark]:
    return frozenset(some)


STOPPED = marks(Mark.STOPS, Mark.AT_LIMIT, Mark.MANY_THREADS)
RUNS = {
    "scenario 1, two threads on 200 ms": Run(200, 2, 80, 1, 0.97, 0.7, 0.0001, Severity.NONE, marks()),
    "scenario 2 on two CPUs, which cannot burn 200 ms": Run(200, 2, 80, 0, 0.97, 0, 0, Severity.NONE, marks()),
    "scenario 2, ten threads on 200 ms and 16 CPUs": Run(200, 16, 43, 42, 1.02, 68, 0.664, Severity.HIGH, STOPPED),
    "scenario 2 scaled to two CPUs": Run(40, 2, 81, 80, 1.01, 79.4, 0.784, Severity.HIGH, STOPPED),
    "a limit of one core and two threads": Run(
        100, 2, 80, 79, 1.01, 46.5, 0.459, Severity.HIGH, marks(Mark.AT_LIMIT, Mark.MANY_THREADS)
    ),
    "a burst of 30 ms each 300 ms": Run(20, 2, 81, 27, 0.50, 38.9, 0.130, Severity.HIGH, marks(Mark.BURSTY)),
    "the same with a burst credit": Run(20, 2, 81, 0, 0.50, 0, 0, Severity.NONE, marks()),
    "ten threads of 1 ms, the bug's probe on a good kernel": Run(20, 2, 81, 0, 0.50, 0, 0, Severity.NONE, marks()),
    "the parent's 50 ms": Run(50, 2, 81, 81, 1.00, 73, 0.73, Severity.HIGH, STOPPED),
    "the false alarm of the ratio, two threads on 16 CPUs": Run(
        200, 16, 42, 17, 0.99, 2.2, 0.009, Severity.INFO, marks(Mark.BOUNDARY)
    ),
}


def the_sample(run: Run, target: CgroupTarget = API) -> Sample:
    if run.quota_ms == 20:  # one thread: it stops alone, and its quota leaves most of the CPU free
        throttled_ms = run.stop_ms * run.throttled
    else:
        throttled_ms = throttled_for(run.stop_ms, run.quota_ms, run.period_ms, run.throttled)
    return sample(
        target,
        at=run.periods * run.period_ms / 1000,
        quota_ms=run.quota_ms,
        period_ms=run.period_ms,
        periods=run.periods,
        throttled=run.throttled,
        throttled_ms=throttled_ms,
        usage_ms=run.use_of_limit * run.quota_ms * run.periods,
    )


@run_for_each("name", RUNS)
def test_a_measured_run_is_judged_as_it_was(name: str) -> None:
    run = RUNS[name]
    finding = judged(the_sample(run), cpus=run.cpus)[API.path]
    assert finding.throttled_ratio == pytest.approx(run.throttled / run.periods)
    assert finding.stop_seconds == pytest.approx(run.stop_ms / 1000, rel=0.01, abs=1e-4)
    assert finding.use_of_limit == pytest.approx(run.use_of_limit)
    assert finding.lost_ratio == pytest.approx(run.lost, abs=0.001)
    assert (finding.severity, finding.marks) == (run.severity, run.marks)
    assert finding.blamed == (API if run.throttled else None)


def test_the_articles_ten_threads_as_it_draws_them() -> None:
    """20 ms of running and 80 ms of standing still in each period, on ten CPUs."""
    drawn = sample(at=10, quota_ms=200, periods=100, throttled=100, throttled_ms=80 * 10 * 100, usage_ms=20_000)
    finding = judged(drawn, cpus=16)[API.path]
    assert finding.busy_cpus == pytest.approx(10)
    assert finding.stop_seconds == pytest.approx(0.080)
    assert finding.lost_ratio == pytest.approx(0.8)
    assert finding.lost_cores == pytest.approx(8)


def test_throttled_time_of_four_threads_is_more_than_wall_time_and_no_share_of_it() -> None:
    """A container of 100m with four threads: 1.89 s of throttled time a second, counted by the kernel."""
    four = sample(at=10, quota_ms=10, periods=100, throttled=100, throttled_ms=18_900, usage_ms=1_000)
    finding = judged(four, cpus=2)[API.path]
    assert finding.lost_cores == pytest.approx(1.89)
    assert finding.lost_ratio == pytest.approx(0.95, abs=0.001)
    assert finding.busy_cpus == pytest.approx(1.99)


def test_more_cpus_than_the_node_has_are_not_busy() -> None:
    wild = sample(at=10, quota_ms=10, periods=100, throttled=100, throttled_ms=90_000, usage_ms=1_000)
    assert judged(wild, cpus=4)[API.path].busy_cpus == 4
    assert judged(wild, cpus=None)[API.path].busy_cpus == pytest.approx(9.1)


@pytest.mark.parametrize(
    ("throttled", "lost_ms", "severity"),
    [
        (24, 1800, Severity.WARN),
        (25, 500, Severity.HIGH),
        (25, 490, Severity.WARN),
        (5, 200, Severity.WARN),
        (4, 300, Severity.INFO),
        (26, 150, Severity.INFO),
        (25, 150, Severity.NONE),
        (4, 150, Severity.NONE),
    ],
)
def test_both_numbers_must_be_bad(throttled: int, lost_ms: float, severity: Severity) -> None:
    measured = sample(at=10, quota_ms=20, periods=100, throttled=throttled, throttled_ms=lost_ms, usage_ms=1900)
    finding = judged(measured)[API.path]
    assert finding.lost_ratio == pytest.approx(lost_ms / 10_000)
    assert finding.severity is severity
    assert (Mark.BOUNDARY in finding.marks) == (throttled == 26)


def test_thresholds_are_settings() -> None:
    windows = windows_of(the_sample(RUNS["the false alarm of the ratio, two threads on 16 CPUs"]))
    strict = Thresholds(warn_lost=0.005, high_lost=0.008)
    assert judge(windows, {"": CgroupNodeFacts(16)}, strict)[0].severity is Severity.HIGH


def test_throttled_with_quota_left_is_the_kernels_bug_and_no_burst() -> None:
    """Ten threads of 1 ms each under 20 ms: half the quota used; throttled in more periods than that would fill."""
    bad = sample(at=10, quota_ms=20, periods=100, throttled=70, throttled_ms=3000, usage_ms=1000)
    assert judged(bad, cpus=16)[API.path].marks == marks(Mark.BELOW_LIMIT)


def test_periods_that_its_cpu_time_would_fill_are_bursts() -> None:
    bursts = sample(at=10, quota_ms=20, periods=100, throttled=40, throttled_ms=1500, usage_ms=1000)
    assert judged(bursts, cpus=16)[API.path].marks == marks(Mark.BURSTY)


def test_work_that_rests_for_long_is_at_its_limit_while_it_works() -> None:
    rests = sample(at=100, quota_ms=20, periods=200, throttled=190, throttled_ms=12_000, usage_ms=4000)
    finding = judged(rests)[API.path]
    assert finding.use_of_limit == pytest.approx(0.2)
    assert finding.use_of_limit_when_active == pytest.approx(1.0)
    assert finding.marks == marks(Mark.BURSTY, Mark.STOPS)


def test_a_window_of_two_limits_is_not_compared_with_one() -> None:
    before, after = sample(quota_ms=10), the_sample(RUNS["scenario 2 scaled to two CPUs"])
    windows = compare(Sampled((before,), {}), Sampled((after,), {}), least_periods=1).windows
    assert judge(windows, {"": CgroupNodeFacts(2)})[0].marks == marks(Mark.STOPS)


@pytest.mark.parametrize("state", [state for state in WindowState if state is not WindowState.MEASURED])
def test_a_window_without_a_verdict_has_no_figures_and_is_not_0_percent(state: WindowState) -> None:
    window = replace(windows_of(the_sample(RUNS["the parent's 50 ms"]))[0], state=state)
    (finding,) = judge([window], {})
    assert (finding.severity, finding.throttled_ratio, finding.lost_ratio) == (Severity.NONE, None, None)
    assert (finding.stop_seconds, finding.busy_cpus, finding.blamed, finding.marks) == (None, None, None, marks())


PARENT = the_sample(RUNS["the parent's 50 ms"], POD)
STOOD_MS = throttled_for(73, 50, 100, 81)


def child(target: CgroupTarget = API, *, share: float = 1.0, local: bool = True) -> Sample:
    """What cpu.stat of a container without a quota says below PARENT: zeros, and its part of the time."""
    return sample(
        target,
        at=8.1,
        quota_ms=None,
        usage_ms=50 * 81 * share,
        inherited_ms=STOOD_MS * share if local else None,
    )


@pytest.mark.parametrize("local", [True, False], ids=["with cpu.stat.local", "without"])
def test_a_child_of_zeros_is_found_and_its_pod_is_blamed(local: bool) -> None:
    findings = judged(PARENT, child(local=local))
    found = findings[API.path]
    assert found.window.state is WindowState.NO_LIMIT
    assert found.severity is Severity.HIGH
    assert found.marks == marks(Mark.INHERITED, Mark.STOPS, Mark.MANY_THREADS)
    assert found.blamed == POD
    assert (found.throttled_ratio, found.blamed_ratio) == (None, 1.0)
    assert found.lost_ratio == pytest.approx(0.73, abs=0.001)
    assert found.stop_seconds == pytest.approx(0.073, abs=0.0005)
    assert findings[POD_PATH].blamed == POD


def test_a_childs_cpu_time_need_not_be_known_where_the_time_it_stood_still_is() -> None:
    """A cgroup of the cpu hierarchy that has none in cpuacct's."""
    blind = judged(changed(PARENT, usage_ns=None), changed(child(), usage_ns=None))[API.path]
    assert blind.lost_ratio == pytest.approx(0.73, abs=0.001)
    assert blind.stop_seconds == pytest.approx(0.073, abs=0.0005)


def test_a_pod_with_too_few_periods_says_nothing_of_its_containers_yet() -> None:
    short = [changed(PARENT, at_seconds=2.0, periods=20, throttled=20), changed(child(), at_seconds=2.0)]
    findings = {
        finding.window.target.path: finding
        for finding in judge(windows_of(*short, least_periods=100), {"": CgroupNodeFacts(2)})
    }
    assert findings[POD_PATH].window.state is WindowState.TOO_FEW
    assert (findings[API.path].severity, findings[API.path].lost_ratio) == (Severity.NONE, None)


def test_time_lost_to_a_level_that_is_not_seen_needs_a_window_of_a_hundred_periods() -> None:
    assert judged(changed(child(), at_seconds=2.0))[API.path].severity is Severity.NONE
    stood = judged(changed(child(), at_seconds=10.0))[API.path]
    assert (stood.severity, stood.blamed) == (Severity.HIGH, None)
    assert Mark.INHERITED in stood.marks


def test_a_childs_own_limit_that_never_stops_it_does_not_hide_the_pods() -> None:
    """Pod-level resources: a container without a limit gets the pod's, and its counters say 0 throttled of 81."""
    own = changed(child(local=False), quota_us=50_000, periods=81, throttled=0, throttled_ns=0)
    found = judged(PARENT, own)[API.path]
    assert (found.throttled_ratio, found.blamed, found.severity) == (0.0, POD, Severity.HIGH)
    assert found.lost_ratio == pytest.approx(0.73, abs=0.001)


@pytest.mark.parametrize("local", [True, False], ids=["with cpu.stat.local", "without"])
def test_time_lost_to_a_pods_quota_is_counted_once(local: bool) -> None:
    halves = judged(PARENT, child(share=0.5, local=local), child(SIDECAR, share=0.5, local=local))
    assert lost_cores_total(halves.values()) == pytest.approx(STOOD_MS / 8100)
    assert halves[API.path].lost_cores == pytest.approx(STOOD_MS / 8100 / 2)
    assert next(iter(halves)) == POD_PATH, "the one whose quota it is comes first"


@pytest.mark.parametrize("local", [True, False], ids=["with cpu.stat.local", "without"])
def test_a_pod_that_stops_with_its_only_container_is_the_same_time(local: bool) -> None:
    """The kubelet gives a pod the sum of its containers' limits: both run out at the same moment, and both count."""
    twin = changed(PARENT, target=API, inherited_ns=round(STOOD_MS * 1e6) if local else None)
    findings = judged(PARENT, twin)
    assert findings[API.path].lost_ratio == pytest.approx(0.73, abs=0.001)
    assert findings[API.path].blamed == API
    assert lost_cores_total(findings.values()) == pytest.approx(STOOD_MS / 8100)
    assert next(iter(findings)) == API.path


def test_what_its_own_quota_and_its_pods_took_is_lost_by_all_of_its_busy_cpus() -> None:
    """A kubelet's pod of one container of 200m with four busy loops on two CPUs: one stops now, now the other."""
    pod = sample(
        POD, 20.85, quota_ms=20, periods=209, throttled=209, throttled_ms=11_000, usage_ms=4170, inherited_ms=11_000
    )
    own = changed(pod, target=API, throttled=115, throttled_ns=16_380_000_000, inherited_ns=30_440_000_000)
    found = judged(pod, own)[API.path]
    assert found.busy_cpus == pytest.approx(1.66, abs=0.02)
    assert found.lost_ratio == pytest.approx(0.88, abs=0.01)
    assert found.stop_seconds == pytest.approx(0.088, abs=0.001)
    assert found.blamed == API


def test_a_neighbour_that_does_nothing_is_not_harmed() -> None:
    found = judged(PARENT, child(local=False), child(SIDECAR, share=0, local=False))[SIDECAR.path]
    assert (found.severity, found.marks, found.blamed) == (Severity.NONE, marks(), None)


def test_its_own_quota_is_blamed_where_that_took_more() -> None:
    own = changed(
        the_sample(RUNS["scenario 2 scaled to two CPUs"]), at_seconds=8.1, inherited_ns=round((154.2 * 80 + 300) * 1e6)
    )
    trivial = changed(PARENT, throttled=2, throttled_ns=300_000_000)
    assert judged(trivial, own)[API.path].blamed == API


def test_the_nearest_level_that_stops_it_is_blamed() -> None:
    qos = the_sample(RUNS["the parent's 50 ms"], CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable"))
    idle_pod = changed(PARENT, throttled=0, throttled_ns=0)
    assert judged(qos, idle_pod, child())[API.path].blamed == qos.target
    assert judged(qos, PARENT, child())[API.path].blamed == POD


def test_a_pod_beside_its_containers_is_found_by_its_uid() -> None:
    """A source that makes paths of names, and knows no cpu.stat.local."""
    pod = changed(PARENT, target=replace(POD, path="shop/api"))
    container = changed(child(local=False), target=replace(API, path="shop/api/api:c"))
    assert judged(pod, container)["shop/api/api:c"].blamed == pod.target


def test_another_nodes_pod_of_the_same_path_is_not_blamed() -> None:
    there = changed(PARENT, target=replace(POD, node="b"))
    assert judged(there, child(local=False))[API.path].severity is Severity.NONE


def test_the_worst_comes_first_by_its_own_lost_time() -> None:
    small = the_sample(RUNS["a burst of 30 ms each 300 ms"], SIDECAR)
    big = the_sample(RUNS["scenario 2 scaled to two CPUs"])
    harmless = the_sample(RUNS["scenario 1, two threads on 200 ms"], POD)
    assert list(judged(harmless, small, big)) == [API.path, SIDECAR.path, POD_PATH]


counter = st.integers(0, 2**64)
targets = st.sampled_from(
    [
        API,
        SIDECAR,
        POD,
        CgroupTarget(CgroupLevel.QOS, "/kubepods/burstable"),
        CgroupTarget(CgroupLevel.NODE, "/"),
        CgroupTarget(CgroupLevel.OTHER, "a"),
    ]
)
samples = st.builds(
    Sample,
    target=targets,
    at_seconds=st.floats(allow_nan=True, allow_infinity=True),
    quota_us=st.none() | st.integers(-1, 2**63),
    period_us=st.integers(-1, 10**6),
    periods=counter,
    throttled=counter,
    throttled_ns=counter,
    usage_ns=st.none() | counter,
    inherited_ns=st.none() | counter,
    burst_us=st.none() | counter,
    bursts=st.none() | counter,
    waiting_ns=st.none() | counter,
    stalled_ns=st.none() | counter,
)
sampleds = st.builds(
    Sampled,
    st.lists(samples, max_size=6).map(tuple),
    st.dictionaries(st.just(""), st.builds(CgroupNodeFacts, st.none() | st.integers(-1, 512))),
)


def figures(finding: Finding) -> list[float]:
    some = (
        finding.stop_seconds,
        finding.busy_cpus,
        finding.use_cores,
        finding.limit_cores,
        finding.lost_cores,
        finding.counted_cores,
        finding.use_of_limit,
        finding.use_of_limit_when_active,
    )
    return [figure for figure in some if figure is not None]


@given(sampleds, sampleds, st.integers(0, 200))
def test_no_counters_make_it_fail_or_leave_the_range(before: Sampled, after: Sampled, least: int) -> None:
    findings = judge(compare(before, after, least_periods=least).windows, after.nodes)
    for finding in findings:
        for ratio in (
            *(finding.throttled_ratio, finding.lost_ratio),
            *(finding.pressure_ratio, finding.neighbours_ratio),
        ):
            assert ratio is None or 0 <= ratio <= 1
        assert finding.neighbours_ratio is None or finding.neighbours_ratio <= (finding.pressure_ratio or 0.0)
        assert all(math.isfinite(figure) and figure >= 0 for figure in figures(finding))
    assert [finding.severity for finding in findings] == sorted(
        (finding.severity for finding in findings), reverse=True
    )
