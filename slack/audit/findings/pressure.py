"""The second axis: how long a container waited for a CPU because others had it, beside how long for a quota.

Pressure (PSI, cpu.pressure of its cgroup) counts time in line for a CPU whatever the reason. A thread that a quota
stops stays in line (kernel/sched/psi.c counts runnable threads), so pressure alone says nothing of neighbours: a
throttled container that is alone on its node has 60 to 100 %. Its two lines differ: `some`, a thread waits while
another of its own may run, has the crowd of its own threads in it; `full`, none of it runs, has quotas and neighbours
only. So the neighbours' share is `full` less the time lost to quotas, as shares of wall time over one window, and never
below 0. Only of containers: at levels above, time that a quota below takes would count as neighbours'.

It is rather too low than too high: `full` is a mean over the CPUs that it was on, so threads that others push together
onto one CPU count as their own crowd.
"""

from collections.abc import Iterable
from dataclasses import replace

from slack.audit.findings.ancestors import Ancestors
from slack.audit.findings.finding import Finding, share
from slack.audit.findings.window import WindowState

CROWDED = 0.1
"""A neighbours' share from which on it is worth a word."""
_WITH_FIGURES = frozenset({WindowState.MEASURED, WindowState.TOO_FEW, WindowState.NO_LIMIT})


def with_pressure(finding: Finding, above: Ancestors[Finding]) -> Finding:
    """Return the finding with its pressure and its neighbours' share, where they are known.

    `above` has what throttled at levels above.
    """
    window = finding.window
    if window.waiting_ns is None or window.state not in _WITH_FIGURES or window.seconds <= 0:
        return finding
    pressure = share(window.waiting_ns / 1e9 / window.seconds)
    unjudged = any(ancestor.throttled_ratio is None for ancestor in above.values_above(window.target))
    if window.stalled_ns is None or (unjudged and window.inherited_ns is None):
        return replace(finding, pressure_ratio=pressure)
    stalled = min(pressure, share(window.stalled_ns / 1e9 / window.seconds))
    return replace(finding, pressure_ratio=pressure, neighbours_ratio=max(0.0, stalled - _stopped_ratio(finding)))


def has_pressure(findings: Iterable[Finding]) -> bool:
    """Say whether the neighbours' share of any is known: on cgroup v1 and without PSI it is of none."""
    return any(finding.neighbours_ratio is not None for finding in findings)


def _stopped_ratio(finding: Finding) -> float:
    """Return the share of the time that quotas took, its own and others'.

    What is too little for a verdict counts here all the same, and as if it had stopped one CPU: then the neighbours'
    share is rather too low.
    """
    window = finding.window
    throttled_seconds = (window.throttled_ns if window.limited else 0) / 1e9
    if window.inherited_ns is not None:
        throttled_seconds = max(throttled_seconds, window.inherited_ns / 1e9)
    if finding.lost_ratio is not None and finding.busy_cpus is not None:
        return finding.lost_ratio
    return max(finding.lost_ratio or 0.0, share(throttled_seconds / window.seconds))
