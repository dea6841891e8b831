"""Events CPUThrottlingHigh on pods: at most one a pod an hour, the worst pods first, a bounded number a turn.

What was told is remembered by this process only: a new leader may tell a pod again within the hour, once.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from slack.audit.api.policy import AuditPolicy
from slack.audit.api.report import PodFinding, cores_text, figures_text
from slack.audit.findings.finding import Severity
from slack.audit.findings.sample import CgroupLevel
from slack.audit.sources.pods import AuditedPodFacts
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack_operator.auditor.controller.aggregation import NamedFinding
from slack_operator.auditor.controller.reasons import CPU_THROTTLING_HIGH

EVERY_SECONDS = 3600.0
MAX_EVENTS = 100
"""In one turn."""


class AuditEventReporter:
    """Who was told when. Owned by the turn's thread."""

    def __init__(
        self,
        recorder: EventRecorder,
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder = recorder
        self._may_write = may_write
        self._clock = clock
        self._told: dict[str, float] = {}

    def report(self, judged: Mapping[str, Iterable[NamedFinding]], policy_of: Mapping[str, AuditPolicy]) -> int:
        """Write Events about high findings; returns how many."""
        now = self._clock()
        self._told = {uid: at for uid, at in self._told.items() if now - at < EVERY_SECONDS}
        pods: dict[str, list[PodFinding]] = {}
        for namespace, found in judged.items():
            if namespace in policy_of and policy_of[namespace].spec.events:
                for named in found:
                    if named.told.finding.severity is Severity.HIGH and named.told.pod.uid not in self._told:
                        pods.setdefault(named.told.pod.uid, []).append(named.told)
        worst_first = sorted(pods.values(), key=lambda told: -sum(row.finding.counted_cores for row in told))
        for told in worst_first[:MAX_EVENTS]:
            if not self._may_write():
                break
            self._told[told[0].pod.uid] = now
            self._recorder.record(about(told[0].pod), EventKind.WARNING, CPU_THROTTLING_HIGH, message(told))
        return min(len(worst_first), MAX_EVENTS)


def about(pod: AuditedPodFacts) -> ObjectRef:
    """Return the reference of a pod."""
    return ObjectRef("v1", "Pod", pod.name, pod.uid, pod.namespace)


def message(told: list[PodFinding]) -> str:
    """Say the worst finding of a pod with both figures, the level and the advice, and how many more there are."""
    worst = told[0]
    finding, target = worst.finding, worst.finding.window.target
    subject = f"container {target.container}" if target.level is CgroupLevel.CONTAINER else "the pod"
    limit = f" at a limit of {cores_text(finding.limit_cores)}" if finding.limit_cores else ""
    text = f"{subject} {figures_text(finding)}{limit} (level {target.level}"
    if finding.blamed is not None and finding.blamed.key != target.key:
        text += f", the quota of level {finding.blamed.level} did it"
    text += ")"
    if worst.advice:
        text += f"; advice: {worst.advice[0].id}"
    others = {row.finding.window.target.container or "the pod" for row in told[1:]}
    return text + (f"; also {', '.join(sorted(others))[:200]}" if others else "")
