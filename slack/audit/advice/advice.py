"""An advice, and what it rests on: the words that all rules share."""

from dataclasses import dataclass
from enum import StrEnum

from slack.audit.advice import patches
from slack.audit.advice.patches import Patch
from slack.audit.findings.finding import Finding, Mark
from slack.audit.findings.pressure import CROWDED
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts
from slack.audit.kernel.quota_bugs import KernelState, KernelVerdict
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts

HOGS = (
    "without a limit one container can take all CPUs that its neighbours' requests leave, above all one that is not "
    "tuned for its runtime: watch utilisation, saturation and errors of the nodes"
)
"""The catch of doing without limits."""


class AdviceId(StrEnum):
    """Stable names, in the order in which advice is given."""

    UPGRADE_KERNEL = "upgrade-kernel"
    CHECK_KERNEL = "check-kernel"
    """Throttled below its limit on a kernel that the table does not know."""
    RAISE_LIMIT = "raise-limit"
    ALLOW_BURST = "allow-burst"
    MATCH_THREADS = "match-threads"
    REQUESTS_ONLY = "requests-only"
    SHORTER_PERIOD = "shorter-period"
    EXCLUSIVE_CPUS = "exclusive-cpus"
    POD_LIMIT = "pod-limit"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known besides the counters; all of it may be missing."""

    pod: AuditedPodFacts | None = None
    """The finding's own pod."""
    container: AuditedContainerFacts | None = None
    node: CgroupNodeFacts | None = None
    p99_cores: float | None = None
    """The 99th percentile of its use over hours or days, from Prometheus."""
    static_cpu_manager: bool | None = None
    """The node's cpuManagerPolicy is static; None when nobody knows."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    id: AdviceId
    title: str
    evidence: str
    """The figures that it rests on."""
    reason: str
    risk: str | None
    """The catch."""
    patches: tuple[Patch, ...] = ()
    """The best first; empty where there is nothing to apply."""
    no_patch: str | None = None
    """Why there is none; None where there is one."""

    @property
    def patch(self) -> Patch | None:
        """The best patch, None where there is none (`no_patch` says why)."""
        return self.patches[0] if self.patches else None


@dataclass(frozen=True, slots=True)
class Case:
    """A finding with what is known about it: what rules decide by."""

    finding: Finding
    facts: Facts
    kernel: KernelVerdict | None

    @property
    def marks(self) -> frozenset[Mark]:
        """The finding's."""
        return self.finding.marks

    @property
    def level(self) -> CgroupLevel:
        """Of the finding's cgroup."""
        return self.finding.window.target.level

    @property
    def above(self) -> bool:
        """Whether the quota to change is not the cgroup's own container's."""
        return (
            Mark.INHERITED in self.marks
            or self.has_the_pods_limit
            or self.level in (CgroupLevel.POD, CgroupLevel.QOS, CgroupLevel.KUBEPODS, CgroupLevel.NODE)
        )

    @property
    def has_the_pods_limit(self) -> bool:
        """Whether its quota is the pod's: the kubelet gives that to containers without a limit in a pod with one."""
        pod, container = self.facts.pod, self.facts.container
        if self.level is not CgroupLevel.CONTAINER or pod is None or container is None:
            return False
        return pod.cpu_limit_millis is not None and container.cpu_limit_millis is None

    @property
    def kernel_is_good(self) -> bool:
        """Whether the table knows that the kernel has no quota bug."""
        return self.kernel is not None and self.kernel.state in (KernelState.FIXED, KernelState.NEVER_HAD_IT)

    @property
    def unnamed(self) -> str | None:
        """Why no object can be patched; None where one can."""
        if self.level is CgroupLevel.OTHER:
            return "not a cgroup of the kubelet: change the limit where it was set (systemd CPUQuota, docker --cpus)"
        if self.facts.pod is None:
            return "the pod's name and spec are not known"
        return patches.no_template(self.facts.pod) if self.facts.pod.static else None


def evidence(finding: Finding) -> str:
    """Return a finding's figures in words; both numbers, always."""
    parts = []
    if Mark.INHERITED in finding.marks and finding.blamed is not None and finding.blamed_ratio is not None:
        parts.append(f"its {finding.blamed.level.value} throttled in {finding.blamed_ratio:.1%} of periods")
    elif finding.throttled_ratio is not None:
        parts.append(f"throttled in {finding.throttled_ratio:.1%} of {finding.window.periods} periods")
    if finding.lost_ratio is not None:
        parts.append(f"{finding.lost_ratio:.1%} of its time lost")
    if finding.stop_seconds:
        parts.append(f"stops of {finding.stop_seconds * 1000:.1f} ms")
    if finding.neighbours_ratio is not None and finding.neighbours_ratio >= CROWDED:
        parts.append(f"{finding.neighbours_ratio:.1%} more for CPUs that neighbours had")
    if finding.use_cores is not None:
        of = f" of {finding.limit_cores:.2f}" if finding.limit_cores else ""
        parts.append(f"uses {finding.use_cores:.2f}{of} cores")
    return ", ".join(parts)
