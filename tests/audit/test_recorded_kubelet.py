"""What a real kubelet 1.36 with containerd made: its cgroups and its cAdvisor's answer, twice, a minute apart.

On two CPUs with kernel 6.18, cgroup v1, the cgroupfs driver and a `cgroupRoot` (/node). Busy loops ran without end in
all but the idle pod: api (one container, four loops, 200m), shared (two containers of two loops without limits of
their own, pod-level limit 100m), edge (a static pod, two loops, 100m); free idles without a limit.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import WindowState, compare
from slack.audit.sources.cadvisor import scraped
from slack.audit.sources.pod_index import PodNames
from slack.audit.sources.pod_objects import decode_pods
from slack.audit.sources.walker import CgroupWalker
from tests.audit.tree import TREES, unpack, uptime

SCRAPES = Path(__file__).parent / "scrapes"
PODS = TREES / "v1-kubelet.pods.json"
STATIC = "edge-node-1"
Key = tuple[CgroupLevel, str, str]
Source = Callable[[], Mapping[Key, Finding]]


@cache
def by_the_walker() -> Mapping[Key, Finding]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        before, after = (_walked(root, moment) for moment in ("before", "after"))
    return _judged(before, after)


@cache
def by_cadvisor() -> Mapping[Key, Finding]:
    before, after = (_scraped(moment) for moment in ("before", "after"))
    return _judged(before, after)


def _walked(root: Path, moment: str) -> Sampled:
    unpack(TREES / f"v1-kubelet.{moment}.tree", root)
    walker = CgroupWalker(root, clock=lambda: uptime(root))
    try:
        found = walker.sample()
    finally:
        walker.close()
    assert not found.troubles, found.examples
    return found


def _scraped(moment: str) -> Sampled:
    found = scraped((SCRAPES / f"recorded-1.36-v1.{moment}.prom").read_bytes())
    assert not found.troubles, found.examples
    return Sampled(found.samples, {"": CgroupNodeFacts(found.cpus, found.kernel_release, hierarchy=found.hierarchy)})


def _judged(before: Sampled, after: Sampled) -> Mapping[Key, Finding]:
    windows = compare(before, after)
    names = PodNames(decode_pods(PODS.read_bytes()))
    found: dict[Key, Finding] = {}
    for finding in judge(windows.windows, windows.nodes):
        target = names.named(finding.window.target)
        if target.level is CgroupLevel.POD or (target.level is CgroupLevel.CONTAINER and target.container):
            found[target.level, target.pod, target.container] = finding
    return found


@pytest.mark.parametrize("source", [by_the_walker, by_cadvisor], ids=["walker", "cadvisor"])
def test_each_pod_and_container_is_found_by_its_name(source: Source) -> None:
    assert set(source()) == {
        (CgroupLevel.POD, "api", ""),
        (CgroupLevel.CONTAINER, "api", "main"),
        (CgroupLevel.POD, "shared", ""),
        (CgroupLevel.CONTAINER, "shared", "web"),
        (CgroupLevel.CONTAINER, "shared", "sidecar"),
        (CgroupLevel.POD, STATIC, ""),
        (CgroupLevel.CONTAINER, STATIC, "main"),
        (CgroupLevel.POD, "free", ""),
        (CgroupLevel.CONTAINER, "free", "main"),
    }


@pytest.mark.parametrize("source", [by_the_walker, by_cadvisor], ids=["walker", "cadvisor"])
def test_limits_are_the_pods(source: Source) -> None:
    limits = {(level, pod, name): finding.limit_cores for (level, pod, name), finding in source().items()}
    assert limits[CgroupLevel.CONTAINER, "api", "main"] == limits[CgroupLevel.POD, "api", ""] == 0.2
    assert limits[CgroupLevel.CONTAINER, STATIC, "main"] == limits[CgroupLevel.POD, STATIC, ""] == 0.1
    # A container without a limit of its own has the pod's, each of them.
    assert limits[CgroupLevel.POD, "shared", ""] == 0.1
    assert limits[CgroupLevel.CONTAINER, "shared", "web"] == limits[CgroupLevel.CONTAINER, "shared", "sidecar"] == 0.1
    assert limits[CgroupLevel.POD, "free", ""] is limits[CgroupLevel.CONTAINER, "free", "main"] is None
    assert source()[CgroupLevel.CONTAINER, "free", "main"].window.state is WindowState.NO_LIMIT


@pytest.mark.parametrize("source", [by_the_walker, by_cadvisor], ids=["walker", "cadvisor"])
def test_what_is_throttled_is_told(source: Source) -> None:
    for key in (
        (CgroupLevel.CONTAINER, "api", "main"),
        (CgroupLevel.CONTAINER, STATIC, "main"),
        (CgroupLevel.POD, "shared", ""),
    ):
        finding = source()[key]
        assert finding.severity is Severity.HIGH, key
        assert Mark.STOPS in finding.marks, key
        assert finding.use_of_limit == pytest.approx(1.0, abs=0.03), key


def test_containers_of_the_pod_with_a_limit_stand_still_for_it() -> None:
    """Their own counters show a tenth of it at most, as their quota is that of both together."""
    found = by_the_walker()
    for name in ("web", "sidecar"):
        finding = found[CgroupLevel.CONTAINER, "shared", name]
        assert finding.window.throttled < 0.15 * finding.window.periods
        assert Mark.INHERITED in finding.marks
        assert finding.severity is Severity.HIGH
        assert finding.blamed is not None
        assert finding.blamed.level is CgroupLevel.POD


def test_both_sources_tell_the_same_numbers() -> None:
    walker, cadvisor = by_the_walker(), by_cadvisor()
    for key in ((CgroupLevel.POD, "api", ""), (CgroupLevel.POD, "shared", ""), (CgroupLevel.POD, STATIC, "")):
        assert walker[key].throttled_ratio == pytest.approx(cadvisor[key].throttled_ratio, abs=0.02), key
        assert walker[key].lost_ratio == pytest.approx(cadvisor[key].lost_ratio, abs=0.08), key


def test_the_static_pods_cgroup_is_called_by_its_manifests_hash() -> None:
    (pod,) = (pod for pod in decode_pods(PODS.read_bytes()) if pod.metadata.name == STATIC)
    target = by_the_walker()[CgroupLevel.POD, STATIC, ""].window.target
    assert target.pod_uid != pod.metadata.uid
    assert len(target.pod_uid) == 32
    assert "-" not in target.pod_uid
