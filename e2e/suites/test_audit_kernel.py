"""The article's scenarios on this kernel, with real control groups and threads; the auditor's figures are the kernel's.

Figures of the article are for machines with ten CPUs and more. Where there are fewer, its quota of 200 ms for ten
threads is scaled to the CPUs: 20 ms of the period for each, so that the picture is the same. Root only.
"""

import itertools
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.harness.errors import UnavailableError
from e2e.harness.node.busy_threads import Done, Threads, Work
from e2e.harness.node.cgroups import Cgroup, Hierarchy, cpu_hierarchy, cpu_stat, hierarchies, set_burst, set_quota
from e2e.harness.node.neighbours import on_a_quiet_machine
from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.period_shape import period_shape
from slack.audit.findings.sample import CgroupLevel, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import compare
from slack.audit.sources.walker import CgroupWalker

CPUS = len(os.sched_getaffinity(0))
PERIOD_US = 100_000
BUSY = min(10, CPUS)
"""Of ten busy threads, those that run at once."""
ARTICLE_QUOTA_US = 20_000 * BUSY
"""200 ms where ten CPUs can use them."""
WINDOW_SECONDS = 5.0
LEAST_PERIODS = 40
PAIR = tuple(sorted(os.sched_getaffinity(0))[:2])
ONE_THREAD = Work(threads=1, seconds=WINDOW_SECONDS + 1.5, cpus=PAIR)
BUSY_NEIGHBOUR = Work(threads=len(PAIR), seconds=WINDOW_SECONDS + 3, cpus=PAIR)


@pytest.fixture(scope="module")
def hierarchy() -> Hierarchy:
    try:
        return cpu_hierarchy()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def ours(hierarchy: Hierarchy) -> Iterator[Cgroup]:
    """A control group of our own, gone after the test with all that runs in it.

    It comes before all else on this machine, as far as shares can make it so: neighbours would stop the threads, too.
    So the auditor is in it, too, or it would look when all is over.
    """
    # Version 1 may count the time that is used in a hierarchy of its own; pressure is version 2's, on a hybrid too.
    beside = [other for other in hierarchies() if other != hierarchy and (other.has("cpuacct") or other.version == 2)]
    with Cgroup([hierarchy, *beside]) as group:
        name, most = ("cpu.shares", "262144") if hierarchy.version == 1 else ("cpu.weight", "10000")
        (group.path("cpu") / name).write_text(most, encoding="ascii")
        with group.joined("auditor"):
            yield group


@dataclass(frozen=True)
class Pod:
    """The groups that a kubelet makes for a pod with one container."""

    pod: Path
    folders: Sequence[Path]
    """The container's, in each hierarchy; that with the quota first."""

    @property
    def container(self) -> Path:
        """The container's group with the quota."""
        return self.folders[0]


@dataclass(frozen=True)
class Audited:
    """What the auditor says of a pod and its container, and what the threads in it saw."""

    pod: Finding
    container: Finding
    done: Done


_numbers = itertools.count()


def make_pod(ours: Cgroup) -> Pod:
    """Make the groups, with the names that they have on a node whose kubelet has a cgroupRoot."""
    pod = f"kubepods/burstable/pod{uuid.uuid4()}"
    folders = ours.make(f"{pod}/{next(_numbers):064x}")
    return Pod(folders[0].parent, folders)


def audit(
    pod: Pod, work: Work, window_seconds: float = WINDOW_SECONDS, *, neighbours: Sequence[tuple[Pod, Work]] = ()
) -> Audited:
    """Let the threads work in the container and take a window from the midst of that; neighbours work all the while."""
    walker = CgroupWalker(Path("/"))
    try:
        with ExitStack() as stack:
            for other, others_work in neighbours:
                stack.enter_context(Threads(others_work, other.folders))
            threads = stack.enter_context(Threads(work, pod.folders))
            time.sleep(0.4)
            before, kernel_before = sample_as_the_kernel_says(walker, pod)
            time.sleep(window_seconds)
            after, kernel_after = sample_as_the_kernel_says(walker, pod)
            done = threads.result()
    finally:
        walker.close()
    windows = compare(before, after, least_periods=LEAST_PERIODS)
    found = {finding.window.target.path: finding for finding in judge(windows.windows, windows.nodes)}
    for folder in (pod.pod, pod.container):
        the_window_is_the_kernels(find(found, folder), kernel_before[folder], kernel_after[folder])
    return Audited(find(found, pod.pod), find(found, pod.container), done)


def sample_as_the_kernel_says(walker: CgroupWalker, pod: Pod) -> tuple[Sampled, Mapping[Path, Mapping[str, int]]]:
    """Sample at a moment at which the counters did not move, and return both: they must be equal to the last digit."""
    folders = (pod.pod, pod.container)
    for _ in range(100):
        before = {folder: cpu_stat(folder) for folder in folders}
        sampled = walker.sample()
        if before == {folder: cpu_stat(folder) for folder in folders}:
            break
    else:
        pytest.fail("the counters moved during each of a hundred samples")
    for folder, stat in before.items():
        sample = next(
            sample for sample in sampled.samples if str(folder).endswith(sample.target.path) and sample.target.pod_uid
        )
        seen = (sample.periods, sample.throttled, sample.throttled_ns)
        if seen != (stat["nr_periods"], stat["nr_throttled"], stat["throttled_time"]):
            pytest.fail(f"{folder}: the walker says {seen}, cpu.stat {stat}")
    return sampled, before


def the_window_is_the_kernels(finding: Finding, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """The two numbers are what one works out from cpu.stat with a pencil."""
    rise = {name: after[name] - before[name] for name in ("nr_periods", "nr_throttled", "throttled_time")}
    window = finding.window
    if (window.periods, window.throttled, window.throttled_ns) != tuple(rise.values()):
        pytest.fail(f"{window} is not {rise}")
    if finding.throttled_ratio is None or Mark.INHERITED in finding.marks:
        return
    if finding.throttled_ratio != pytest.approx(rise["nr_throttled"] / rise["nr_periods"]):
        pytest.fail(f"{finding.throttled_ratio} of {rise}")
    lost = rise["throttled_time"] / 1e9 / (window.seconds * (finding.busy_cpus or 1.0))
    if finding.lost_ratio != pytest.approx(min(1.0, lost)):
        pytest.fail(f"{finding.lost_ratio} of {rise} in {window.seconds} s")


def find(found: Mapping[str, Finding], folder: Path) -> Finding:
    """Return the finding of a group by its folder."""
    return next(finding for path, finding in found.items() if path != "/" and str(folder).endswith(path))


def test_two_threads_on_a_limit_of_two_cores_never_stop(ours: Cgroup) -> None:
    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 200_000)
        audited = audit(pod, Work(threads=2, seconds=WINDOW_SECONDS + 1.5))
        assert audited.container.throttled_ratio is not None
        # A timer that comes late makes a period longer than its quota, for microseconds. Ticks divide the period, so
        # where a tick falls into them once, it does in many periods: hence nothing is said of their number.
        assert (audited.container.lost_ratio or 0.0) < 0.01
        assert audited.container.severity is Severity.NONE or audited.container.marks == {Mark.BOUNDARY}
        assert len(audited.done.stops_ns) <= 2
        assert not period_shape(200_000, PERIOD_US, 2).stops

    on_a_quiet_machine(scenario)


def test_ten_threads_stop_when_the_quota_is_used_up_and_for_the_rest_of_the_period(ours: Cgroup) -> None:
    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, ARTICLE_QUOTA_US)
        audited = audit(pod, Work(threads=10, seconds=WINDOW_SECONDS + 1.5))
        shape = period_shape(ARTICLE_QUOTA_US, PERIOD_US, BUSY)
        assert (shape.runs_us, shape.stops_us) == (20_000, 80_000)
        # From inside: what the threads themselves noticed.
        assert audited.done.run_ms == pytest.approx(shape.runs_us / 1e3, abs=8)
        assert audited.done.stop_ms == pytest.approx(shape.stops_us / 1e3, abs=8)
        # From outside: what the kernel's counters say.
        container = audited.container
        assert container.throttled_ratio is not None
        assert container.throttled_ratio > 0.9
        assert container.stop_seconds == pytest.approx(audited.done.stop_ms / 1e3, abs=0.02)
        assert container.busy_cpus == pytest.approx(BUSY, rel=0.25)
        assert container.lost_ratio == pytest.approx(0.8, abs=0.12)
        assert container.severity is Severity.HIGH
        assert {Mark.STOPS, Mark.AT_LIMIT} <= container.marks
        assert (Mark.MANY_THREADS in container.marks) is (max(1, ARTICLE_QUOTA_US / PERIOD_US) < BUSY)
        assert container.blamed is not None
        assert container.blamed.level is CgroupLevel.CONTAINER

    on_a_quiet_machine(scenario)


def test_a_container_stands_still_for_the_pods_quota_and_the_pod_is_blamed(ours: Cgroup) -> None:
    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.pod, 50_000)
        audited = audit(pod, Work(threads=2, seconds=WINDOW_SECONDS + 1.5))
        assert cpu_stat(pod.container)["nr_throttled"] == 0  # its own counters say nothing
        assert audited.pod.throttled_ratio is not None
        assert audited.pod.throttled_ratio > 0.9
        assert audited.pod.blamed == audited.pod.window.target
        container = audited.container
        assert Mark.INHERITED in container.marks
        assert container.severity is Severity.HIGH
        assert container.blamed == audited.pod.window.target
        assert container.lost_ratio == pytest.approx(audited.pod.lost_ratio or 0.0, abs=0.15)
        assert container.counted_cores == 0.0  # the pod's finding has it already
        stops_ms = period_shape(50_000, PERIOD_US, min(2, CPUS)).stops_us / 1e3
        assert audited.done.stop_ms == pytest.approx(stops_ms, abs=10)

    on_a_quiet_machine(scenario)


@pytest.mark.parametrize("burst_us", [0, 20_000], ids=["without burst", "with burst"])
def test_bursts_above_a_quota_that_suffices_on_average(ours: Cgroup, burst_us: int) -> None:
    """30 ms of work each 330 ms under 20 ms a period: half of the limit, and yet throttled; burst credit cures it.

    Periods keep their grid, so what comes every 300 ms always falls into the same part of one; begun 80 to 90 ms into
    it, two periods' quota suffices every time. Every 330 ms the work goes through all parts, that one once in ten.
    """

    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 20_000)
        if burst_us:
            set_burst(pod.container, burst_us)
        audited = audit(pod, Work(threads=1, seconds=2 * WINDOW_SECONDS + 1.5, busy_ms=30, every_ms=330), 9.0)
        container = audited.container
        assert container.throttled_ratio is not None
        assert container.use_of_limit == pytest.approx(30 / 330 / 0.2, abs=0.1)
        if burst_us:
            assert container.throttled_ratio <= 0.02
            assert container.severity is Severity.NONE
            assert audited.done.piece_ms < 45
            assert (container.window.bursts or 0) > 15  # of 27 pieces, all but those in two periods
            assert container.window.burst_us == burst_us
        else:
            # Eight or nine pieces of ten, in 31 periods in which something wanted to run.
            assert container.throttled_ratio == pytest.approx(8.5 / 31, abs=0.1)
            assert Mark.BURSTY in container.marks
            assert Mark.BELOW_LIMIT not in container.marks
            assert audited.done.piece_ms > 50  # 30 to 110, each as often as any other

    try:
        on_a_quiet_machine(scenario)
    except UnavailableError as error:
        pytest.skip(str(error))


def test_ten_threads_of_a_millisecond_are_not_throttled_by_this_kernel(ours: Cgroup) -> None:
    """The kernel's bug: throttled with half of the quota used, as slices that CPUs hold expire (CVE-2019-19922)."""

    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 20_000)
        # On two CPUs: each takes a slice of 5 ms at once, so five of them would be throttled, and not by the bug. Every
        # 110 ms, so that the work falls into all parts of a period.
        work = Work(threads=10, seconds=WINDOW_SECONDS + 1.5, busy_ms=1, every_ms=110, cpus=PAIR)
        audited = audit(pod, work)
        assert audited.container.throttled_ratio is not None
        assert audited.container.throttled_ratio <= 0.02
        assert Mark.BELOW_LIMIT not in audited.container.marks
        assert audited.container.use_of_limit is not None
        assert audited.container.use_of_limit < 0.75

    on_a_quiet_machine(scenario)


def shares(finding: Finding) -> tuple[float, float]:
    """Return pressure and the neighbours' share; skip where the kernel does not count them."""
    if finding.pressure_ratio is None or finding.neighbours_ratio is None:
        pytest.skip("no cpu.pressure of control groups with a line full: a kernel before 5.13, or started with psi=0")
    lost = finding.lost_ratio or 0.0
    print(f"pressure {finding.pressure_ratio:.0%}, lost {lost:.0%}, neighbours {finding.neighbours_ratio:.0%}")
    return finding.pressure_ratio, finding.neighbours_ratio


@pytest.mark.parametrize(("threads", "quota_us"), [(1, 40_000), (10, ARTICLE_QUOTA_US)])
def test_pressure_of_a_throttled_container_that_is_alone_is_no_neighbours(
    ours: Cgroup, threads: int, quota_us: int
) -> None:
    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, quota_us)
        audited = audit(pod, Work(threads=threads, seconds=WINDOW_SECONDS + 1.5))
        pressure, neighbours = shares(audited.container)
        assert pressure > 0.5
        assert (audited.container.lost_ratio or 0.0) > 0.5
        assert neighbours < 0.08

    on_a_quiet_machine(scenario)


def test_a_container_without_a_limit_waits_for_its_neighbours(ours: Cgroup) -> None:
    """Four containers of equal weight on two CPUs: one thread beside three that want both has two quarters of a CPU."""

    def scenario() -> None:
        pod = make_pod(ours)
        audited = audit(pod, ONE_THREAD, neighbours=[(make_pod(ours), BUSY_NEIGHBOUR) for _ in range(3)])
        pressure, neighbours = shares(audited.container)
        assert audited.container.lost_ratio is None
        assert audited.container.severity is Severity.NONE, "no limit does that"
        assert neighbours == pytest.approx(pressure, abs=0.05), "one thread has no crowd of its own"
        assert neighbours == pytest.approx(1 - len(PAIR) / 4, abs=0.25)
        assert neighbours > 0.2

    on_a_quiet_machine(scenario)


def test_a_throttled_container_beside_busy_ones_has_both_shares(ours: Cgroup) -> None:
    """What it waits for in all is what it lost to its quota and what its neighbours had."""

    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 20_000)
        audited = audit(pod, ONE_THREAD, neighbours=[(make_pod(ours), BUSY_NEIGHBOUR) for _ in range(3)])
        pressure, neighbours = shares(audited.container)
        lost = audited.container.lost_ratio or 0.0
        assert lost > 0.2
        assert neighbours > 0.05
        assert lost + neighbours == pytest.approx(pressure, abs=0.05)

    on_a_quiet_machine(scenario)
