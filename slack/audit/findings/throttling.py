"""Windows to findings: the audit's two numbers of a cgroup's own quota, how bad they are, and whose quota did it.

`throttled_ratio` is the share of enforcement periods that were throttled, `lost_ratio` the share of its time in which a
cgroup stood still. Never one without the other: 40 % of periods can be 0.9 % of the time, and a container under a pod's
quota has counters of zero (kernel/sched/fair.c, throttle_cfs_rq), so levels above are looked at, too: `inherited`
replaces `lost_ratio` by what all of them took.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from slack.audit.findings.ancestors import Ancestors
from slack.audit.findings.finding import Finding, Mark, Severity, Thresholds, between, many_threads, severity_of, share
from slack.audit.findings.inherited import counted_once, with_what_is_above
from slack.audit.findings.pressure import with_pressure
from slack.audit.findings.sample import CgroupNodeFacts, CgroupTarget
from slack.audit.findings.window import Window, WindowState


def lost_cores_total(findings: Iterable[Finding]) -> float:
    """Return the CPU time a second that quotas took in all, for the summary line; nothing is counted twice."""
    return math.fsum(finding.counted_cores for finding in findings)


def judge(
    windows: Iterable[Window], nodes: Mapping[str, CgroupNodeFacts], thresholds: Thresholds | None = None
) -> tuple[Finding, ...]:
    """Return a finding for every window, the worst first, then by path.

    Of findings of one severity that is the one whose own quota took the most CPU time; what stood still for an
    ancestor's follows.
    """
    limits = thresholds or Thresholds()
    own = [_of_its_own_quota(window, _cpus(nodes, window.target), limits) for window in windows]
    above = Ancestors((finding.window.target, finding) for finding in own if finding.window.throttled)
    findings = [with_what_is_above(finding, above, _cpus(nodes, finding.window.target), limits) for finding in own]
    return tuple(sorted((with_pressure(told, above) for told in counted_once(findings, above)), key=_harm))


def _harm(finding: Finding) -> tuple[float, float, float, str, str]:
    target = finding.window.target
    return -finding.severity, -finding.counted_cores, -(finding.lost_cores or 0.0), target.path, target.node


def _cpus(nodes: Mapping[str, CgroupNodeFacts], target: CgroupTarget) -> float:
    facts = nodes.get(target.node)
    return float(facts.cpus) if facts is not None and facts.cpus and facts.cpus > 0 else math.inf


def _of_its_own_quota(window: Window, cpus: float, limits: Thresholds) -> Finding:
    """Judge a window as if there were no level above it."""
    limit_cores = window.quota_us / window.period_us if window.limited and window.quota_us else None
    use_cores = window.usage_ns / (window.seconds * 1e9) if window.usage_ns is not None and window.seconds > 0 else None
    plain = Finding(
        window, Severity.NONE, frozenset(), None, None, None, None, use_cores, limit_cores, lost_cores=None, blamed=None
    )
    if window.state is not WindowState.MEASURED or limit_cores is None or window.seconds <= 0 or window.periods <= 0:
        return plain
    period_seconds, throttled_seconds = window.period_us / 1e6, window.throttled_ns / 1e9
    stop_each = throttled_seconds / window.throttled if window.throttled > 0 else 0.0
    busy_cpus = between(1.0, stop_each / period_seconds + limit_cores, cpus)
    finding = replace(
        plain,
        throttled_ratio=share(window.throttled / window.periods),
        lost_ratio=share(throttled_seconds / (window.seconds * busy_cpus)),
        stop_seconds=stop_each / busy_cpus,
        busy_cpus=busy_cpus if window.throttled > 0 else None,
        lost_cores=throttled_seconds / window.seconds,
        counted_cores=throttled_seconds / window.seconds,
        blamed=window.target if window.throttled > 0 else None,
        blamed_ratio=share(window.throttled / window.periods) if window.throttled > 0 else None,
        blamed_cores=limit_cores if window.throttled > 0 else None,
    )
    severity = severity_of(finding.throttled_ratio or 0.0, finding.lost_ratio or 0.0, limits)
    return replace(finding, severity=severity, marks=_marks(finding, severity, limits))


def _marks(finding: Finding, severity: Severity, limits: Thresholds) -> frozenset[Mark]:
    """Say what kind it is; what compares with the limit is left out where the window mixes two limits."""
    marks: set[Mark] = set()
    if severity is Severity.NONE:
        return frozenset()
    if (finding.stop_seconds or 0.0) > limits.stop_seconds:
        marks.add(Mark.STOPS)
    if (finding.throttled_ratio or 0.0) > limits.high_ratio and (finding.lost_ratio or 0.0) < limits.warn_lost:
        marks.add(Mark.BOUNDARY)
        return frozenset(marks)
    used = finding.use_of_limit
    if finding.window.quota_changed or finding.limit_cores is None:
        return frozenset(marks)
    if many_threads(finding.busy_cpus, finding.limit_cores):
        marks.add(Mark.MANY_THREADS)
    if used is not None and used >= limits.at_limit and (finding.lost_ratio or 0.0) >= limits.warn_lost:
        marks.add(Mark.AT_LIMIT)
    elif used is not None and used < limits.below_limit and _quota_was_left(finding.window):
        marks.add(Mark.BELOW_LIMIT)
    elif used is not None and used < limits.bursty_below:
        marks.add(Mark.BURSTY)
    return frozenset(marks)


def _quota_was_left(window: Window) -> bool:
    """Whether bursts cannot explain it: all its CPU time would not have filled the throttled periods' quota.

    A tenth is allowed for slices that other CPUs hold (sched_cfs_bandwidth_slice_us), and one period at the border.
    """
    if window.usage_ns is None or window.quota_us is None:
        return False
    return (window.throttled - 1) * window.quota_us * 1000 * 0.9 > window.usage_ns
