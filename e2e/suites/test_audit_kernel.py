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

from e2e.harness.cgroups import Cgroup, Hierarchy, cpu_hierarchy, cpu_stat, hierarchies, set_burst, set_quota
from e2e.harness.errors import UnavailableError
from e2e.harness.neighbours import on_a_quiet_machine
from e2e.harness.threads import Done, Threads, Work
from slack.cfs.finding import Finding, Mark, Severity, judge
from slack.cfs.sample import Level, Sampled
from slack.cfs.shape import period_shape
from slack.cfs.shares import divide
from slack.cfs.walker import CgroupWalker
from slack.cfs.window import compare

CPUS = len(os.sched_getaffinity(0))
PERIOD_US = 100_000
BUSY = min(10, CPUS)
"""Of ten busy threads, those that run at once."""
ARTICLE_QUOTA_US = 20_000 * BUSY
"""200 ms where ten CPUs can use them."""
WINDOW_SECONDS = 5.0
LEAST_PERIODS = 40
SHARES = {"system": 1024, "user": 1024, "kubepods": 4096}
"""The article's picture of a node's root."""


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
    # Version 1 may count the time that is used in a hierarchy of its own.
    usage = [one for one in hierarchies() if one.has("cpuacct") and one != hierarchy]
    with Cgroup([hierarchy, *usage]) as group:
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


def audit(pod: Pod, work: Work, window_seconds: float = WINDOW_SECONDS) -> Audited:
    """Let the threads work in the container and take a window from the midst of that."""
    walker = CgroupWalker(Path("/"))
    try:
        with Threads(work, pod.folders) as threads:
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
        sample = next(one for one in sampled.samples if str(folder).endswith(one.target.path) and one.target.pod_uid)
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
        # What one period and the next begin with differs by microseconds, so that one of a hundred may be throttled.
        assert audited.container.throttled_ratio <= 0.05
        assert (audited.container.lost_ratio or 0.0) < 0.01
        assert audited.container.severity is Severity.NONE
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
        assert container.blamed.level is Level.CONTAINER

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
    """30 ms of work each 300 ms under 20 ms a period: half of the limit, and yet throttled; burst credit cures it."""

    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 20_000)
        if burst_us:
            set_burst(pod.container, burst_us)
        audited = audit(pod, Work(threads=1, seconds=2 * WINDOW_SECONDS + 1.5, busy_ms=30, every_ms=300), 9.0)
        container = audited.container
        assert container.throttled_ratio is not None
        assert container.use_of_limit == pytest.approx(0.5, abs=0.1)
        if burst_us:
            assert container.throttled_ratio <= 0.02
            assert container.severity is Severity.NONE
            assert audited.done.piece_ms < 45
            assert (container.window.bursts or 0) > 20
            assert container.window.burst_us == burst_us
        else:
            assert container.throttled_ratio == pytest.approx(1 / 3, abs=0.1)
            assert Mark.BURSTY in container.marks
            assert Mark.BELOW_LIMIT not in container.marks
            assert audited.done.piece_ms > 50

    try:
        on_a_quiet_machine(scenario)
    except UnavailableError as error:
        pytest.skip(str(error))


def test_ten_threads_of_a_millisecond_are_not_throttled_by_this_kernel(ours: Cgroup) -> None:
    """The kernel's bug: throttled with half of the quota used, as slices that CPUs hold expire (CVE-2019-19922)."""

    def scenario() -> None:
        pod = make_pod(ours)
        set_quota(pod.container, 20_000)
        audited = audit(pod, Work(threads=10, seconds=WINDOW_SECONDS + 1.5, busy_ms=1, every_ms=100))
        assert audited.container.throttled_ratio is not None
        assert audited.container.throttled_ratio <= 0.02
        assert Mark.BELOW_LIMIT not in audited.container.marks
        assert audited.container.use_of_limit is not None
        assert audited.container.use_of_limit < 0.75

    on_a_quiet_machine(scenario)


def make_slices(ours: Cgroup) -> dict[str, Path]:
    """Make groups of 1024, 1024 and 4096 shares, or of weights that are as far apart."""
    found = {name: ours.make(name)[0] for name in SHARES}
    for name, folder in found.items():
        if (folder / "cpu.shares").exists():
            (folder / "cpu.shares").write_text(str(SHARES[name]), encoding="ascii")
        else:
            (folder / "cpu.weight").write_text(str(SHARES[name] // 10), encoding="ascii")
    return found


def parts_of_4096(slices: Mapping[str, Path], work: Work) -> dict[str, float]:
    """Let the groups work side by side and return the CPU time that each got, of 4096 in all.

    On one CPU: the kernel divides each of them by the shares; how it spreads threads over several is another matter.
    """
    with ExitStack() as stack:
        running = {name: stack.enter_context(Threads(work, [folder])) for name, folder in slices.items()}
        seconds = {name: threads.result().cpu_seconds for name, threads in running.items()}
    return {name: 4096 * one / sum(seconds.values()) for name, one in seconds.items()}


def test_shares_of_1024_1024_and_4096_divide_a_busy_cpu(ours: Cgroup) -> None:
    def scenario() -> None:
        busy = Work(threads=2, seconds=WINDOW_SECONDS, cpus=[min(os.sched_getaffinity(0))])
        parts = parts_of_4096(make_slices(ours), busy)
        expected = divide(4096, SHARES)
        assert [round(value, 2) for value in expected.values()] == [682.67, 682.67, 2730.67]
        assert parts == pytest.approx(expected, rel=0.12)

    on_a_quiet_machine(scenario)


def test_idle_groups_give_their_shares_away(ours: Cgroup) -> None:
    def scenario() -> None:
        slices = make_slices(ours)
        cpu = [min(os.sched_getaffinity(0))]
        began = time.monotonic()
        with Threads(Work(threads=2, seconds=2, cpus=cpu), [slices["kubepods"]]) as threads:
            used = threads.result().cpu_seconds
        assert used / (time.monotonic() - began) > 0.85  # of the one CPU, the process' own start in it
        assert divide(4096, SHARES, {"system": 0, "user": 0}) == {"system": 0, "user": 0, "kubepods": 4096}

    on_a_quiet_machine(scenario)
