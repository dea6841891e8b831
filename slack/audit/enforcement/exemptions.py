"""Containers that may not be touched, whatever their findings say, with the reason."""

from dataclasses import dataclass

from slack.audit.api.policy import SPECIAL_NAMESPACES
from slack.audit.enforcement.raised_limits import Key
from slack.audit.findings.finding import Finding, Mark, Thresholds
from slack.audit.findings.sample import CgroupLevel
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container with a finding, and what else decides."""

    finding: Finding
    pod: AuditedPodFacts
    container: AuditedContainerFacts
    kernel_affected: bool = False
    node_cpus: int | None = None
    resize_under_way: bool = False
    node_writes_bursts: bool = False

    @property
    def key(self) -> Key:
        """Which container."""
        return self.pod.uid, self.container.name

    @property
    def inherited(self) -> bool:
        """Whether the quota of a level above stops it, which no limit of its own changes.

        The kubelet gives a pod the sum of its containers' limits. With one container that is a second quota of the same
        size, and either may run out first: a raise raises both.
        """
        if Mark.INHERITED not in self.finding.marks:
            return False
        blamed, pod = self.finding.blamed, self.pod
        running = [container for container in pod.containers if container.sidecar or not container.init]
        alone = running == [self.container] and pod.cpu_limit_millis is None
        return not (alone and blamed is not None and blamed.level is CgroupLevel.POD)

    @property
    def at_limit(self) -> bool:
        """Whether it uses up what it may; what the pod's quota stops has no such mark of its own."""
        marks, used = self.finding.marks, self.finding.use_of_limit
        if Mark.INHERITED in marks:
            return used is not None and used >= Thresholds().at_limit
        return Mark.AT_LIMIT in marks


def exemption(candidate: Candidate) -> str | None:
    """Say why nothing may be done about a finding at all; None when something may."""
    pod, container, finding = candidate.pod, candidate.container, candidate.finding
    blamed = finding.blamed
    rules: tuple[tuple[bool, str], ...] = (
        (pod.namespace in SPECIAL_NAMESPACES, f"nothing is changed in {pod.namespace}"),
        (pod.deleting, "the pod is being deleted"),
        (pod.static, "a static pod: only its file on the node changes it"),
        (pod.qos_class == "Guaranteed", "the pod's class is Guaranteed, where limits equal requests"),
        (container.init and not container.sidecar, "an init container, which ends by itself"),
        (container.resize_restarts, "its resizePolicy would restart the container"),
        (
            candidate.inherited,
            f"the quota of {f'the {blamed.level}' if blamed else 'a level'} above stops it, not its own",
        ),
        (pod.cpu_limit_millis is not None, "the pod has a limit of its own in spec.resources"),
        (candidate.kernel_affected, "the node's kernel has a bug of CPU quotas, which a higher limit does not cure"),
        (candidate.resize_under_way, "a resize of the pod is under way"),
        (finding.window.quota_changed, "its limit changed within the window"),
        (container.cpu_limit_millis is None, "the pod's spec has no limit for it"),
        (_not_actuated(candidate), "the limit in the pod's spec is not the one in force"),
    )
    return next((reason for holds, reason in rules if holds), None)


def _not_actuated(candidate: Candidate) -> bool:
    spec, found = candidate.container.cpu_limit_millis, candidate.finding.limit_cores
    return spec is not None and found is not None and abs(spec - found * 1000) > max(10.0, 0.02 * spec)
