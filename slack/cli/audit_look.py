"""One look: windows with names, what they mean, what to do, and the kernels; and which of it somebody asked for.

Nothing is read or printed here; the samples and the names come in as values.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from slack.cfs.advise import Advice, Facts, advise
from slack.cfs.finding import Finding, Severity, judge
from slack.cfs.kernel import KernelVerdict, kernel_verdict
from slack.cfs.sample import Level, Sampled
from slack.cfs.window import State, Windows, compare
from slack.cli.audit_options import Kind

if TYPE_CHECKING:
    from slack.cfs.pods import PodNames

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that one audit found."""

    kind: Kind
    at: datetime
    windows: Windows
    findings: tuple[Finding, ...]
    """The worst first."""
    advice: Mapping[Key, tuple[Advice, ...]]
    """By `Target.key`."""
    kernels: Mapping[str, KernelVerdict]
    """By node."""
    names: "PodNames | None" = None

    @property
    def several_nodes(self) -> bool:
        """Whether a name without its node says too little."""
        return len(self.windows.nodes) > 1

    def of(self, finding: Finding) -> tuple[Advice, ...]:
        """Return the advice for a finding, the first thing to do first."""
        return self.advice.get(finding.window.target.key, ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which findings somebody asked for."""

    namespace: str = ""
    pod: str = ""
    level: Level | None = None
    nodes: tuple[str, ...] = ()
    everything: bool = False
    """Fine ones and those without figures too."""
    rows: int | None = None

    def asked(self, look: Look) -> tuple[Finding, ...]:
        """Return the findings about what was asked for, of any severity."""
        return tuple(one for one in look.findings if self._fits(one, look))

    def shown(self, asked: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return those that are worth a line."""
        found = asked if self.everything else tuple(one for one in asked if one.severity >= Severity.INFO)
        return found[: self.rows]

    def _fits(self, finding: Finding, look: Look) -> bool:
        target = finding.window.target
        if self.nodes and look.kind is not Kind.CGROUPS and target.node not in self.nodes:
            return False
        if self.level is not None and target.level is not self.level:
            return False
        if self.namespace and target.namespace != self.namespace:
            return False
        uid = bool(target.pod_uid) and target.pod_uid.startswith(self.pod)
        return not self.pod or target.pod == self.pod or uid


def looked(
    kind: Kind,
    before: Sampled,
    after: Sampled,
    names: "PodNames | None",
    at: datetime,
    p99_cores: Mapping[Key, float] | None = None,
) -> Look:
    """Compare two samples, name and judge what they say, and find what to do.

    Args:
        kind: the source.
        before: its first result.
        after: its second.
        names: who the pods are, None where nobody knows.
        at: when the window ended.
        p99_cores: what a history knows of the use's 99th percentile, by `Target.key`.
    """
    windows = compare(before, after)
    if names is not None:
        named = tuple(replace(one, target=names.named(one.target)) for one in windows.windows)
        windows = replace(windows, windows=named)
    findings = judge(windows.windows, windows.nodes)
    kernels = {
        node: kernel_verdict(facts.kernel_release, facts.kernel_version) for node, facts in windows.nodes.items()
    }
    advice = {
        one.window.target.key: found
        for one in findings
        if one.severity >= Severity.INFO and (found := advise(one, _facts(one, windows, names, p99_cores or {})))
    }
    return Look(kind, at, windows, findings, advice, kernels, names)


def _facts(finding: Finding, windows: Windows, names: "PodNames | None", p99_cores: Mapping[Key, float]) -> Facts:
    target = finding.window.target
    pod, container = names.facts_of(target) if names is not None else (None, None)
    return Facts(pod=pod, container=container, node=windows.nodes.get(target.node), p99_cores=p99_cores.get(target.key))


def states(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Count findings: by severity where there are figures, else by why there are none."""
    counts: Counter[str] = Counter()
    for one in findings:
        judged = one.window.state is State.MEASURED or one.severity is not Severity.NONE
        counts[_SEVERITIES[one.severity] if judged else str(one.window.state)] += 1
    order = [*_SEVERITIES.values(), *(str(state) for state in State)]
    return {name: counts[name] for name in order if counts[name]}


_SEVERITIES = {Severity.HIGH: "high", Severity.WARN: "warn", Severity.INFO: "info", Severity.NONE: "fine"}
