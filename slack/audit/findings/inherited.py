"""What a quota does to the levels below it: containers of zeros under a throttled pod, and time that is counted once.

cpu.stat of a cgroup knows its own quota only (kernel/sched/fair.c, throttle_cfs_rq). What an ancestor's quota did to a
container is told with the container, and counted with the ancestor.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from slack.audit.findings.ancestors import Ancestors
from slack.audit.findings.finding import Finding, Mark, Severity, Thresholds, between, many_threads, severity_of, share
from slack.audit.findings.sample import CgroupLevel
from slack.audit.findings.window import LEAST_PERIODS, Window, WindowState

_LEAST_SECONDS = 0.9 * LEAST_PERIODS * 0.1
"""What an unseen level's quota did is judged by time alone: as long as `LEAST_PERIODS` of the usual period, nearly."""


def with_what_is_above(finding: Finding, above: Ancestors[Finding], cpus: float, limits: Thresholds) -> Finding:
    """Add the time in which a cgroup with processes stood still for the quota of a level above."""
    window = finding.window
    if window.target.level not in (CgroupLevel.CONTAINER, CgroupLevel.OTHER) or window.seconds <= 0:
        return finding
    if window.state not in (WindowState.MEASURED, WindowState.TOO_FEW, WindowState.NO_LIMIT):
        return finding
    ancestors = list(above.values_above(window.target))
    culprit = _culprit(ancestors)
    if culprit is None and (ancestors or window.seconds < _LEAST_SECONDS):
        return finding  # a level above has throttled in too few periods yet, or the window is as short
    own_seconds = finding.counted_cores * window.seconds
    stood_seconds = _stood_seconds(window, culprit)
    sure = culprit is not None and window.inherited_ns is not None
    if stood_seconds <= 0 or (stood_seconds <= own_seconds and not sure):
        # Without a level above that stops it, cpu.stat and cpu.stat.local differ by their clocks only; and what is not
        # read but worked out does not change the figures of its own counters.
        return finding
    ratio, stops, busy_cpus = 1.0, 0.0, between(1.0, finding.use_cores or 0.0, cpus)
    all_seconds = own_seconds + stood_seconds
    if culprit is not None:
        ratio = culprit.throttled_ratio or 0.0
        stops = max(window.throttled, culprit.window.throttled * window.seconds / culprit.window.seconds)
        busy_cpus = between(1.0, _busy_below(window, all_seconds, stops, culprit), cpus)
    lost = share(all_seconds / (window.seconds * busy_cpus))
    stop_seconds = all_seconds / stops / busy_cpus if stops > 0 else None
    severity = max(finding.severity, severity_of(ratio, lost, limits))
    if severity is Severity.NONE:
        return finding
    told = replace(
        finding,
        severity=severity,
        lost_ratio=lost,
        stop_seconds=stop_seconds,
        busy_cpus=busy_cpus,
        lost_cores=all_seconds / window.seconds,
    )
    if stood_seconds <= own_seconds:
        return told  # its own quota took more, and stays the one to blame
    return replace(
        told,
        marks=_inherited_marks(told, ratio, culprit, limits),
        blamed=culprit.window.target if culprit is not None else None,
        blamed_ratio=culprit.throttled_ratio if culprit is not None else None,
        blamed_cores=culprit.limit_cores if culprit is not None else None,
    )


def _inherited_marks(told: Finding, ratio: float, culprit: Finding | None, limits: Thresholds) -> frozenset[Mark]:
    marks = {Mark.INHERITED}
    if told.stop_seconds is not None and told.stop_seconds > limits.stop_seconds:
        marks.add(Mark.STOPS)
    if ratio > limits.high_ratio and (told.lost_ratio or 0.0) < limits.warn_lost:
        marks.add(Mark.BOUNDARY)
    elif culprit is not None and many_threads(told.busy_cpus, culprit.limit_cores):
        marks.add(Mark.MANY_THREADS)
    return frozenset(marks)


def counted_once(findings: list[Finding], above: Ancestors[Finding]) -> list[Finding]:
    """Take from levels above what containers below count as their own quota's doing.

    A pod whose limit is that of its only container stops with it, and both count the time. cpu.stat.local says how much
    of a container's time is others' doing; without it all of the container's own is taken for the same time, so that
    sums are rather too low than too high.
    """
    below: dict[tuple[str, str], float] = {}
    beyond: dict[tuple[str, str], float] = {}
    guessed: set[tuple[str, str]] = set()
    for finding in findings:
        window = finding.window
        if window.target.level is not CgroupLevel.CONTAINER or window.seconds <= 0:
            continue
        ancestors = list(above.values_above(window.target))
        culprit = _culprit(ancestors)
        stood_cores = _stood_seconds(window, culprit) / window.seconds
        for ancestor in ancestors:
            key = ancestor.window.target.key
            if ancestor is culprit and window.inherited_ns is not None:
                beyond[key] = beyond.get(key, 0.0) + stood_cores
            else:
                guessed.add(key)
            below[key] = below.get(key, 0.0) + finding.counted_cores + (0.0 if ancestor is culprit else stood_cores)
    return [_less_what_is_below(finding, below, beyond, guessed) for finding in findings]


def _less_what_is_below(
    finding: Finding,
    below: Mapping[tuple[str, str], float],
    beyond: Mapping[tuple[str, str], float],
    guessed: Collection[tuple[str, str]],
) -> Finding:
    key, counted = finding.window.target.key, finding.counted_cores
    if counted <= 0 or key not in below:
        return finding
    alone = counted - below[key] if key in guessed else beyond[key]
    return replace(finding, counted_cores=between(0.0, alone, counted))


def _culprit(ancestors: Iterable[Finding]) -> Finding | None:
    """Return the nearest level above whose own quota is worth a word, else the nearest that throttled at all."""
    throttled = [ancestor for ancestor in ancestors if ancestor.throttled_ratio]
    return next((ancestor for ancestor in throttled if ancestor.severity), throttled[0] if throttled else None)


def _stood_seconds(window: Window, culprit: Finding | None) -> float:
    """Return the time, summed over CPUs, in which it stood still for others' quotas.

    cpu.stat.local (6.6) knows it, together with its own. Older kernels and cAdvisor do not: then the culprit's time
    goes to those below it by the CPU time that they use, less what they stood still for their own: a pod with the same
    limit as its only container stops at the same moment.
    """
    if window.inherited_ns is not None:
        own_ns = window.throttled_ns if window.limited else 0
        return max(0, window.inherited_ns - own_ns) / 1e9
    if culprit is None or window.usage_ns is None or not culprit.use_cores:
        return 0.0
    part = share(window.usage_ns / 1e9 / window.seconds / culprit.use_cores)
    own_seconds = window.throttled_ns / 1e9 if window.limited else 0.0
    return max(0.0, part * (culprit.lost_cores or 0.0) * window.seconds - own_seconds)


def _busy_below(window: Window, all_seconds: float, stops: float, culprit: Finding) -> float:
    """Return how many CPUs it kept busy: what it ran and what it stood still, its own quota's time too, a period.

    The culprit's own count is no bound: where its child stops first, it counts the rest of the period only. Where the
    CPU time is unknown, its CPUs ran as long before each stop as all the culprit's did.
    """
    period_seconds = culprit.window.period_us / 1e6
    stood_cores = all_seconds / stops / period_seconds if stops > 0 else 0.0
    active_seconds = window.seconds * share(culprit.window.periods * period_seconds / culprit.window.seconds)
    if window.usage_ns is not None and active_seconds > 0:
        ran_cores = window.usage_ns / 1e9 / active_seconds
    else:
        all_stood_cores = (culprit.window.throttled_ns / 1e9 / culprit.window.throttled) / period_seconds
        ran_cores = (culprit.limit_cores or 0.0) * share(stood_cores / all_stood_cores) if all_stood_cores > 0 else 0.0
    return ran_cores + stood_cores
