"""Trees of real kernels, two moments each, and what an audit must say of them: v2, v1 together and alone, hybrid.

trees/README.md tells what ran while they were recorded. Counters and figures here were worked out from the files by
hand, so that a wrong unit, a missed level or a counter of the wrong hierarchy shows.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import Windows, WindowState, compare
from slack.audit.kernel.quota_bugs import kernel_verdict
from slack.audit.kernel.states import KernelState
from slack.audit.sources.walker import CgroupWalker
from tests.audit.tree import TREES, entries, unpack, uptime
from tests.cases import run_for_each

GUESTS = ("v2-5.10", "v2-6.1", "v2-6.12", "v1-together", "hybrid")
"""16 CPUs each."""
RECORDED = (*GUESTS, "v1-alone")
LIMITED_TO_BYTES = 60_000
LIMITED_TO_CGROUPS = 40


def container_id(label: str) -> str:
    """Containers and pods have ids that are made of what runs in them."""
    return hashlib.sha256(label.encode()).hexdigest()


def pod_uid(label: str) -> str:
    if label == "static":
        return container_id(label)[:32]
    digits = container_id(f"pod {label}")
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


@cache
def windows_of(name: str) -> Windows:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        before, after = (_sampled(root, f"{name}.{moment}") for moment in ("before", "after"))
    return compare(before, after)


def _sampled(root: Path, name: str) -> Sampled:
    unpack(TREES / f"{name}.tree", root)
    walker = CgroupWalker(root, clock=lambda: uptime(root))
    try:
        return walker.sample()
    finally:
        walker.close()


@cache
def findings_of(name: str) -> Mapping[str, Finding]:
    """By path."""
    found = windows_of(name)
    return {finding.window.target.path: finding for finding in judge(found.windows, found.nodes)}


def container(name: str, label: str) -> Finding:
    (found,) = (
        finding for finding in findings_of(name).values() if finding.window.target.container_id == container_id(label)
    )
    return found


def pod(name: str, label: str) -> Finding:
    (found,) = (
        finding
        for finding in findings_of(name).values()
        if finding.window.target.level is CgroupLevel.POD and finding.window.target.pod_uid == pod_uid(label)
    )
    return found


def facts(name: str) -> CgroupNodeFacts:
    return windows_of(name).nodes[""]


class Figures(NamedTuple):
    """What the counters of a cgroup say, from one moment to the other."""

    throttled: int
    periods: int
    lost_percent: float
    """Throttled time / (wall time x busy CPUs); busy CPUs are (throttled time a throttled period + quota) / period."""
    stop_ms: float
    """Throttled time / throttled periods / busy CPUs."""
    use_cores: float


FIGURES: dict[str, dict[str, Figures]] = {
    "v2-5.10": {
        "two": Figures(84, 267, 1.62, 5.16, 1.915),
        "ten": Figures(267, 267, 76.22, 76.29, 1.997),
        "/parent": Figures(260, 267, 69.25, 71.17, 0.497),
        "/burst": Figures(122, 238, 27.61, 60.49, 0.126),
        "burst": Figures(122, 239, 27.77, 60.82, 0.126),
        "kube-apiserver": Figures(266, 267, 86.41, 86.81, 0.250),
        "resized": Figures(265, 266, 78.44, 79.11, 0.332),
        "credit": Figures(116, 242, 27.08, 62.38, 0.120),
        "unit": Figures(264, 268, 73.74, 74.64, 0.200),
    },
    "v2-6.1": {
        "two": Figures(90, 272, 3.43, 10.36, 1.834),
        "ten": Figures(271, 271, 76.14, 76.39, 1.986),
        "/parent": Figures(262, 271, 68.91, 71.50, 0.491),
        "/burst": Figures(127, 238, 30.80, 65.92, 0.122),
        "burst": Figures(124, 238, 29.69, 65.08, 0.122),
        "kube-apiserver": Figures(270, 271, 85.99, 86.59, 0.246),
        "resized": Figures(271, 272, 78.52, 78.77, 0.331),
        "credit": Figures(32, 175, 7.81, 66.37, 0.107),
        "unit": Figures(263, 271, 71.06, 73.45, 0.196),
    },
    "v2-6.12": {
        "two": Figures(70, 268, 1.11, 4.24, 1.976),
        "ten": Figures(267, 267, 79.53, 79.73, 1.996),
        "/parent": Figures(266, 268, 73.71, 74.18, 0.497),
        "/burst": Figures(78, 213, 15.77, 54.10, 0.089),
        "burst": Figures(38, 217, 8.69, 61.19, 0.089),
        "kube-apiserver": Figures(268, 268, 49.74, 49.68, 0.999),
        "resized": Figures(266, 268, 32.26, 32.46, 1.270),
        "credit": Figures(11, 162, 1.14, 27.74, 0.093),
        "unit": Figures(267, 268, 79.73, 79.93, 0.200),
    },
    "v1-together": {
        "two": Figures(103, 266, 3.19, 8.27, 1.861),
        "ten": Figures(266, 266, 76.28, 76.65, 1.985),
        "/parent": Figures(260, 266, 69.98, 71.94, 0.491),
        "/burst": Figures(131, 241, 28.73, 58.63, 0.125),
        "burst": Figures(126, 240, 26.99, 57.25, 0.125),
        "kube-apiserver": Figures(264, 266, 85.25, 86.31, 0.248),
        "resized": Figures(259, 266, 77.11, 79.57, 0.332),
        "credit": Figures(126, 240, 29.68, 62.95, 0.125),
        "unit": Figures(255, 266, 67.77, 71.04, 0.194),
    },
    "hybrid": {
        "two": Figures(111, 273, 6.69, 16.73, 1.757),
        "ten": Figures(273, 273, 75.98, 77.25, 1.895),
        "/parent": Figures(260, 272, 69.15, 73.82, 0.465),
        "/burst": Figures(141, 247, 39.75, 78.25, 0.128),
        "burst": Figures(135, 249, 38.13, 78.40, 0.128),
        "kube-apiserver": Figures(267, 273, 83.94, 87.26, 0.235),
        "resized": Figures(263, 272, 75.85, 80.04, 0.317),
        "credit": Figures(105, 219, 30.52, 80.68, 0.139),
        "unit": Figures(252, 274, 73.41, 80.85, 0.182),
    },
    "v1-alone": {
        "two": Figures(0, 161, 0.00, 0.00, 0.400),
        "ten": Figures(160, 160, 68.03, 68.12, 0.399),
        "/parent": Figures(153, 160, 37.99, 39.78, 0.498),
        "/burst": Figures(53, 160, 7.35, 22.22, 0.101),
        "burst": Figures(9, 160, 0.01, 0.20, 0.101),
        "credit": Figures(0, 106, 0.00, 0.00, 0.101),
        "unit": Figures(160, 160, 73.03, 73.12, 0.200),
    },
}
"""By tree and by what ran; `/` begins a pod's own cgroup, and `unit` is the systemd unit."""
EVERY = [(name, label) for name, labels in FIGURES.items() for label in labels]


def figured(name: str, label: str) -> Finding:
    if label == "unit":
        return findings_of(name)["/system.slice/backup.service"]
    return pod(name, label[1:]) if label.startswith("/") else container(name, label)


@run_for_each(("name", "label"), EVERY)
def test_counters_and_figures_are_the_kernels(name: str, label: str) -> None:
    finding, expected = figured(name, label), FIGURES[name][label]
    window = finding.window
    assert (window.state, window.throttled, window.periods) == (
        WindowState.MEASURED,
        expected.throttled,
        expected.periods,
    )
    assert finding.throttled_ratio == pytest.approx(expected.throttled / expected.periods)
    assert finding.use_cores == pytest.approx(expected.use_cores, abs=0.001)
    if Mark.INHERITED not in finding.marks:
        assert finding.lost_ratio == pytest.approx(expected.lost_percent / 100, abs=0.001)
        assert finding.stop_seconds == pytest.approx(expected.stop_ms / 1000, abs=0.0001)


@pytest.mark.parametrize(
    ("name", "cpus", "release", "hierarchy"),
    [
        ("v2-5.10", 16, "5.10.0-46-cloud-amd64", "v2"),
        ("v2-6.1", 16, "6.1.0-50-cloud-amd64", "v2"),
        ("v2-6.12", 16, "6.12.117+deb12-cloud-amd64", "v2"),
        ("v1-together", 16, "5.10.0-46-cloud-amd64", "v1"),
        ("hybrid", 16, "6.1.0-50-cloud-amd64", "hybrid"),
        ("v1-alone", 2, "6.18.44", "hybrid"),
    ],
)
def test_a_tree_says_which_kernel_and_how_many_cpus(name: str, cpus: int, release: str, hierarchy: str) -> None:
    found = facts(name)
    assert (found.cpus, found.kernel_release, found.hierarchy) == (cpus, release, hierarchy)
    assert kernel_verdict(found.kernel_release, found.kernel_version).state is KernelState.FIXED


@pytest.mark.parametrize("name", RECORDED)
def test_everything_in_a_tree_can_be_read(name: str) -> None:
    assert not windows_of(name).troubles, windows_of(name).examples


@pytest.mark.parametrize("name", RECORDED)
def test_ten_threads_use_two_cores_up_in_a_fifth_of_the_period_and_stand_still_for_the_rest(name: str) -> None:
    finding = container(name, "ten")
    assert finding.severity is Severity.HIGH
    assert finding.marks >= {Mark.STOPS, Mark.AT_LIMIT}
    assert finding.throttled_ratio is not None
    assert finding.throttled_ratio > 0.99
    assert finding.blamed == finding.window.target
    assert (Mark.MANY_THREADS in finding.marks) == (name in GUESTS)  # the other machine has two CPUs


@pytest.mark.parametrize("name", ["v2-5.10", "v2-6.12"])
def test_two_threads_under_two_cores_are_throttled_in_a_quarter_of_the_periods_and_harmless(name: str) -> None:
    """Where a rule on periods alone has its false alarms."""
    finding = container(name, "two")
    assert finding.throttled_ratio is not None
    assert finding.throttled_ratio > 0.25
    assert finding.severity is Severity.INFO
    assert finding.marks == {Mark.BOUNDARY}


def test_two_threads_on_two_cpus_are_never_throttled() -> None:
    finding = container("v1-alone", "two")
    assert (finding.severity, finding.window.throttled, finding.blamed) == (Severity.NONE, 0, None)


@pytest.mark.parametrize("name", RECORDED)
def test_a_container_that_its_pods_quota_stops_is_found_although_its_own_counters_are_zero(name: str) -> None:
    above, below = pod(name, "parent"), container(name, "parent")
    assert (above.window.quota_us, above.severity, above.blamed) == (50_000, Severity.HIGH, above.window.target)
    assert below.window.state is WindowState.NO_LIMIT
    assert (below.window.periods, below.window.throttled_ns) == (0, 0)
    assert below.severity is Severity.HIGH
    assert Mark.INHERITED in below.marks
    assert below.blamed == above.window.target
    # It is alone in its pod, so what the pod lost is what it lost, told by cpu.stat.local or not.
    assert below.lost_ratio == pytest.approx(above.lost_ratio, abs=0.01)
    assert below.counted_cores == 0


@pytest.mark.parametrize("name", RECORDED)
def test_only_kernels_from_6_6_on_say_whose_time_it_was(name: str) -> None:
    assert (container(name, "parent").window.inherited_ns is not None) == (name in {"v2-6.12", "v1-alone"})


@pytest.mark.parametrize("name", RECORDED)
def test_a_burst_below_its_limit_on_average_is_told_from_a_limit_that_is_too_low(name: str) -> None:
    """The pod has the same limit as its only container, as the kubelet sets it: either of the two stops it."""
    above, below = pod(name, "burst"), container(name, "burst")
    assert above.severity is Severity.HIGH
    assert Mark.BURSTY in above.marks
    assert Mark.AT_LIMIT not in above.marks | below.marks
    assert below.severity is Severity.HIGH
    assert above.use_of_limit is not None
    assert above.use_of_limit < 0.7


@pytest.mark.parametrize("name", RECORDED)
def test_time_that_a_pod_and_its_only_container_stand_still_together_is_lost_once(name: str) -> None:
    """Both run out at the same moment, so what the container lost is hardly more than either of the two lost alone."""
    both = [FIGURES[name][label].lost_percent / 100 for label in ("burst", "/burst")]
    lost = container(name, "burst").lost_ratio
    assert lost is not None
    assert min(both) - 0.001 <= lost < max(both) + 0.1


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in {"v2-5.10", "v1-together"}])
def test_burst_credit_is_seen_and_helps(name: str) -> None:
    with_credit, without = container(name, "credit"), pod(name, "burst")
    assert (with_credit.window.burst_us, without.window.burst_us) == (20_000, 0)
    assert with_credit.window.bursts is not None
    assert with_credit.window.bursts > 50
    assert with_credit.lost_ratio is not None
    assert without.lost_ratio is not None
    assert with_credit.lost_ratio < without.lost_ratio * 0.8


@run_for_each("name", ["v2-6.1", "v2-6.12"])
@run_for_each("label", ["ten", "two", "parent", "kube-apiserver", "resized", "burst", "credit", "free", "idle"])
def test_pressure_that_quotas_make_is_no_neighbours(name: str, label: str) -> None:
    """These machines have a CPU for every thread: whatever waits there waits for a quota."""
    finding = container(name, label)
    assert finding.neighbours_ratio is not None
    assert finding.neighbours_ratio < 0.03
    if (finding.lost_ratio or 0.0) > 0.3:
        assert (finding.pressure_ratio or 0.0) > 0.3, "pressure alone would say that the node is full"


def test_what_neighbours_have_is_told_from_what_a_quota_takes() -> None:
    """Two CPUs, three containers that each want both, and two with one thread: without a limit, and under 20 ms."""
    free, limited, idle = (container("v1-neighbours", label) for label in ("waiting", "both", "idle"))
    assert (free.lost_ratio, free.severity) == (None, Severity.NONE)
    assert free.neighbours_ratio == free.pressure_ratio == pytest.approx(0.483, abs=0.001)
    assert limited.severity is Severity.HIGH
    assert limited.lost_ratio == pytest.approx(0.480, abs=0.001)
    assert limited.neighbours_ratio == pytest.approx(0.320, abs=0.001)
    assert limited.pressure_ratio == pytest.approx(0.800, abs=0.001)
    assert (idle.pressure_ratio, idle.neighbours_ratio) == (None, None), "who never waited may be in no v2 cgroup"
    for label in ("busy-1", "busy-2", "busy-3"):
        busy = container("v1-neighbours", label)
        assert busy.neighbours_ratio is not None
        assert 0.5 < busy.neighbours_ratio < (busy.pressure_ratio or 0.0), "its other thread is no neighbour"


def test_before_5_13_pressure_is_known_and_its_reason_is_not() -> None:
    finding = container("v2-5.10", "ten")
    assert (finding.pressure_ratio or 0.0) > 0.6
    assert finding.neighbours_ratio is None


@pytest.mark.parametrize("name", ["v1-together", "v1-alone", "hybrid"])
def test_where_v1_has_the_containers_nothing_is_said_of_neighbours(name: str) -> None:
    """The hybrid's v2 cgroups have nobody in them whose pressure is counted, or are not there."""
    assert {finding.neighbours_ratio for finding in findings_of(name).values()} == {None}


@pytest.mark.parametrize("name", ["v2-5.10", "v1-together"])
def test_a_kernel_without_burst_has_none_rather_than_zero(name: str) -> None:
    window = container(name, "credit").window
    assert (window.burst_us, window.bursts) == (None, None)


@pytest.mark.parametrize("name", GUESTS)
def test_a_limit_raised_in_between_is_told(name: str) -> None:
    finding = container(name, "resized")
    assert finding.window.quota_changed
    assert finding.limit_cores == (1.5 if name == "v2-6.12" else 0.4)
    assert Mark.AT_LIMIT not in finding.marks  # of which of the two limits?


@pytest.mark.parametrize("name", GUESTS)
def test_a_container_that_was_started_anew_is_another_and_a_unit_is_the_same_with_new_counters(name: str) -> None:
    assert container(name, "restarted").window.state is WindowState.GONE
    assert container(name, "restarted anew").window.state is WindowState.APPEARED
    assert findings_of(name)["/system.slice/report.service"].window.state is WindowState.RESET


@pytest.mark.parametrize("name", RECORDED)
def test_what_says_nothing_has_no_figures(name: str) -> None:
    few = container(name, "ten sidecar")
    assert (few.window.state, few.limit_cores) == (WindowState.TOO_FEW, 1.0)
    for label in ("two sidecar", "free", "idle"):
        free = container(name, label)
        assert (free.window.state, free.limit_cores) == (WindowState.NO_LIMIT, None)
    for finding in (few, container(name, "free"), container(name, "idle")):
        assert finding.severity is Severity.NONE
        assert (finding.throttled_ratio, finding.lost_ratio, finding.stop_seconds) == (None, None, None)


@pytest.mark.parametrize("name", RECORDED)
def test_both_drivers_names_are_read(name: str) -> None:
    targets = {target.path: target for target in (finding.window.target for finding in findings_of(name).values())}
    levels = {path: targets[path].level for path in ("/", "/kubepods", "/kubepods.slice", "/kubepods/burstable")}
    assert levels == {
        "/": CgroupLevel.NODE,
        "/kubepods": CgroupLevel.KUBEPODS,
        "/kubepods.slice": CgroupLevel.KUBEPODS,
        "/kubepods/burstable": CgroupLevel.QOS,
    }
    assert targets["/kubepods.slice/kubepods-burstable.slice"].level is CgroupLevel.QOS
    guaranteed = container(name, "burst").window.target
    assert guaranteed.path == f"/kubepods/pod{pod_uid('burst')}/{container_id('burst')}"
    scoped = container(name, "credit").window.target
    assert scoped.path.endswith(f"/cri-containerd-{container_id('credit')}.scope")
    assert scoped.pod_uid == pod_uid("credit")
    assert container(name, "idle").window.target.path.endswith(f"/docker-{container_id('idle')}.scope")
    assert findings_of(name)["/system.slice/backup.service"].window.target.level is CgroupLevel.OTHER
    for label in ("credit", "burst", "parent", "free", "idle"):
        assert container(name, label).window.target.level is CgroupLevel.CONTAINER


@pytest.mark.parametrize("name", GUESTS)
def test_a_static_pods_uid_is_the_hash_of_its_manifest(name: str) -> None:
    target = container(name, "kube-apiserver").window.target
    assert re.fullmatch(r"[0-9a-f]{32}", target.pod_uid)
    assert target.pod_uid == pod_uid("static")
    resized = container(name, "resized").window.target
    assert resized.path.endswith(f"/crio-{container_id('resized')}.scope")
    assert not [path for path in findings_of(name) if "conmon" in path], "monitors of containers are nobody's pods"


@pytest.mark.parametrize("name", RECORDED)
def test_a_unit_counts_only_where_a_quota_is_near(name: str) -> None:
    assert "/system.slice" in findings_of(name)  # above a unit that has one
    assert "/system.slice/ssh.service" not in findings_of(name)


@pytest.mark.parametrize("name", RECORDED)
def test_the_time_used_is_the_cgroups_own_also_where_it_is_counted_elsewhere(name: str) -> None:
    """v1 counts it in cpuacct, together with cpu or in a mount of its own."""
    used = sum(container(name, label).window.usage_ns or 0 for label in ("ten", "ten sidecar"))
    assert used == pytest.approx(pod(name, "ten").window.usage_ns, rel=0.01)


@run_for_each("name", RECORDED)
@run_for_each("moment", ["before", "after"])
def test_a_tree_is_small_enough_to_read(name: str, moment: str) -> None:
    text = (TREES / f"{name}.{moment}.tree").read_text()
    assert len(text) < LIMITED_TO_BYTES
    hierarchy = re.compile(r"sys/fs/cgroup/(?:cpu,cpuacct/|cpu/)?(?!unified|cpuacct/)(.*)cpu\.stat")
    cgroups = {found[1] for path, _ in entries(text) if (found := hierarchy.fullmatch(path))}
    assert 20 < len(cgroups) < LIMITED_TO_CGROUPS
