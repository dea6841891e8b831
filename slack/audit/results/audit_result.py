"""What one audit found: windows with names, what they mean, what to do, the kernels; and which of it is asked for.

The samples and the names come in as values.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from slack.audit.advice.rules import Advice, Facts, advise
from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupLevel, Sampled
from slack.audit.findings.throttling import judge
from slack.audit.findings.window import Windows, WindowState, compare
from slack.audit.kernel.quota_bugs import KernelVerdict, kernel_verdict
from slack.audit.results.source_kind import SourceKind

if TYPE_CHECKING:
    from slack.audit.sources.pod_index import PodNames

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Everything that one audit found."""

    kind: SourceKind
    at: datetime
    windows: Windows
    findings: tuple[Finding, ...]
    """The worst first."""
    advice: Mapping[Key, tuple[Advice, ...]]
    """By `CgroupTarget.key`."""
    kernels: Mapping[str, KernelVerdict]
    """By node."""
    names: "PodNames | None" = None

    @property
    def several_nodes(self) -> bool:
        """Whether a name without its node says too little."""
        return len(self.windows.nodes) > 1

    def advice_for(self, finding: Finding) -> tuple[Advice, ...]:
        """Return the advice for a finding, the first thing to do first."""
        return self.advice.get(finding.window.target.key, ())


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """Which findings somebody asked for."""

    namespace: str | None = None
    pod: str | None = None
    """Its name, or how its uid begins."""
    level: CgroupLevel | None = None
    nodes: tuple[str, ...] = ()
    everything: bool = False
    """Fine ones and those without figures too."""
    rows: int | None = None

    def asked(self, result: AuditResult) -> tuple[Finding, ...]:
        """Return the findings about what was asked for, of any severity."""
        return tuple(finding for finding in result.findings if self._fits(finding, result))

    def shown(self, asked: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return those that are worth a line."""
        found = asked if self.everything else tuple(finding for finding in asked if finding.severity >= Severity.INFO)
        return found[: self.rows]

    def _fits(self, finding: Finding, result: AuditResult) -> bool:
        target = finding.window.target
        if self.nodes and result.kind is not SourceKind.CGROUPS and target.node not in self.nodes:
            return False
        if self.level is not None and target.level is not self.level:
            return False
        if self.namespace and target.namespace != self.namespace:
            return False
        if not self.pod or target.pod == self.pod:
            return True
        return bool(target.pod_uid) and target.pod_uid.startswith(self.pod)


def evaluate(
    kind: SourceKind,
    before: Sampled,
    after: Sampled,
    names: "PodNames | None",
    at: datetime,
    p99_cores: Mapping[Key, float] | None = None,
) -> AuditResult:
    """Compare two samples, name and judge what they say, and find what to do.

    Args:
        kind: the source.
        before: its first result.
        after: its second.
        names: who the pods are, None where nobody knows.
        at: when the window ended.
        p99_cores: what a history knows of the use's 99th percentile, by `CgroupTarget.key`.
    """
    windows = compare(before, after)
    if names is not None:
        # What a sandbox without a limit uses and loses is its pod's, whose row says it already.
        kept = (window for window in windows.windows if window.limited or not names.is_sandbox(window.target))
        named = tuple(replace(window, target=names.named(window.target)) for window in kept)
        windows = replace(windows, windows=named)
    findings = judge(windows.windows, windows.nodes)
    kernels = {
        node: kernel_verdict(facts.kernel_release, facts.kernel_version) for node, facts in windows.nodes.items()
    }
    advice = {
        finding.window.target.key: found
        for finding in findings
        if finding.severity >= Severity.INFO
        and (found := advise(finding, _facts(finding, windows, names, p99_cores or {})))
    }
    return AuditResult(kind, at, windows, findings, advice, kernels, names)


def _facts(finding: Finding, windows: Windows, names: "PodNames | None", p99_cores: Mapping[Key, float]) -> Facts:
    target = finding.window.target
    pod, container = names.facts_of(target) if names is not None else (None, None)
    return Facts(pod=pod, container=container, node=windows.nodes.get(target.node), p99_cores=p99_cores.get(target.key))


def counts_by_verdict(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Count findings: by severity where there are figures, else by why there are none."""
    counts: Counter[str] = Counter()
    for finding in findings:
        judged = finding.window.state is WindowState.MEASURED or finding.severity is not Severity.NONE
        counts[_SEVERITIES[finding.severity] if judged else str(finding.window.state)] += 1
    order = [*_SEVERITIES.values(), *(str(state) for state in WindowState)]
    return {name: counts[name] for name in order if counts[name]}


_SEVERITIES = {Severity.HIGH: "high", Severity.WARN: "warn", Severity.INFO: "info", Severity.NONE: "fine"}
