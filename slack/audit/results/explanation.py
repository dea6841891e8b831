"""What a CPU limit does to a cgroup: the quota that governs it, the levels around it, the shape of its periods."""

from dataclasses import dataclass
from math import ceil

from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.period_shape import PeriodShape, period_shape
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts
from slack.audit.findings.window import WindowState
from slack.audit.results.audit_result import AuditResult

_LEAST_THREADS_SHOWN = 1


@dataclass(frozen=True, slots=True)
class CgroupExplanation:
    """What there is to tell of one cgroup."""

    result: AuditResult
    subject: Finding
    levels: tuple[Finding, ...]
    """From the top down to the subject, then what is below it."""
    governing: Finding | None
    """Whose quota the picture shows: the one to blame, else the nearest; None where no level has one."""
    shape: PeriodShape | None
    assumed: bool
    """The busy CPUs are no measurement: nothing was throttled, or too little was seen."""
    threads: int | None
    """Of the subject, running or sleeping; None where only the node could count them."""
    alike: int
    """Pods that the name means; the worst of them is the subject."""
    nearest_of: str | None = None
    """What was asked for, when nothing is known to be wrong there and the subject is what is nearest its limit."""

    @property
    def unjudged(self) -> str | None:
        """Why nothing can be said of the governing quota, such as too few periods; None when something can."""
        if self.governing is None or self.governing.window.state is WindowState.MEASURED:
            return None
        window = self.governing.window
        if window.state is WindowState.TOO_FEW:
            return f"too few periods to judge ({window.throttled:,} of {window.periods:,} were throttled)"
        return f"no figures to judge by ({window.state})"

    @property
    def throttled(self) -> bool | None:
        """Whether the subject lost time to a quota; None when that cannot be said."""
        if self.subject.severity is Severity.NONE and self.unjudged:
            return None
        return self.subject.severity is not Severity.NONE


def explain_finding(
    result: AuditResult, subject: Finding, threads: int | None, *, pods: int = 1, nearest_of: str | None = None
) -> CgroupExplanation:
    """Return what there is to tell about a finding.

    Args:
        result: of the whole audit.
        subject: the finding, one of the result's.
        threads: of its cgroup; None where nobody could count them.
        pods: how many pods have the name by which it was chosen.
        nearest_of: what was asked for, where the subject is what is nearest its limit.
    """
    levels = _levels(result, subject)
    governing = _governing(levels, subject)
    if governing is None:
        return CgroupExplanation(result, subject, levels, None, None, False, threads, pods, nearest_of)
    facts = result.windows.nodes.get(subject.window.target.node, CgroupNodeFacts(None))
    measured = governing.busy_cpus if governing.window.throttled else None
    busy = measured or _busy_if_all_ran(governing, facts, threads)
    window = governing.window
    shape = period_shape(window.quota_us or 0, window.period_us, busy, window.burst_us or 0)
    return CgroupExplanation(result, subject, levels, governing, shape, measured is None, threads, pods, nearest_of)


def _levels(result: AuditResult, subject: Finding) -> tuple[Finding, ...]:
    """Return the chain from the top to the subject and what is directly part of it, without the bare root."""
    node, path = subject.window.target.key
    same = [finding for finding in result.findings if finding.window.target.node == node]
    above = [
        finding for finding in same if _contains(finding.window.target.path, path) and finding.window.target.path != "/"
    ]
    below = [finding for finding in same if _contains(path, finding.window.target.path)] if path != "/" else []
    below = [finding for finding in below if finding.window.target.level is CgroupLevel.CONTAINER]
    return (*sorted(above, key=_depth), subject, *sorted(below, key=lambda finding: finding.window.target.path))


def _contains(above: str, below: str) -> bool:
    return below != above and below.startswith(above.rstrip("/") + "/")


def _depth(finding: Finding) -> int:
    return finding.window.target.path.count("/")


def _governing(levels: tuple[Finding, ...], subject: Finding) -> Finding | None:
    """Return whose quota stops the subject; where none is to blame one that did at all, else the tightest."""
    if subject.blamed is not None:
        blamed = [finding for finding in levels if finding.window.target.key == subject.blamed.key]
        if blamed and blamed[0].window.limited:
            return blamed[0]
    chain = levels[: levels.index(subject) + 1]
    limited = [finding for finding in chain if finding.window.limited]
    return min(limited, key=lambda finding: (not finding.window.throttled, _limit(finding)), default=None)


def _limit(finding: Finding) -> float:
    return (finding.window.quota_us or 0) / finding.window.period_us


def _busy_if_all_ran(governing: Finding, facts: CgroupNodeFacts, threads: int | None) -> float:
    """Return how many CPUs could be busy at once: as many as there are threads and CPUs; else just too many."""
    bounds = [bound for bound in (facts.cpus, threads) if bound]
    return float(min(bounds)) if bounds else float(ceil(_limit(governing)) + _LEAST_THREADS_SHOWN)
