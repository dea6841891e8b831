"""How high a limit should be: by the use's history where that is known, else by what one window shows."""

import math
from dataclasses import dataclass

from slack.audit.findings.finding import Finding
from slack.audit.findings.sample import CgroupNodeFacts

FACTOR = 1.2
"""Room above the 99th percentile."""
_ALWAYS_RATIO = 0.9
"""Throttled in so many periods it has no quiet ones to make the mean of: its threads are busy all the time."""
_LEAST_FACTOR = 1.1
"""A raise by less is not worth a resize."""


@dataclass(frozen=True, slots=True)
class TargetLimit:
    """A new limit."""

    cpu_millis: int | None
    """None when there is no more to give."""
    why: str


@dataclass(frozen=True, slots=True)
class Need:
    """What it needs, by one window."""

    cores: float
    words: str
    """What the figure is."""
    busy_cores: float | None = None
    """CPUs that were busy when the quota ran out: with this limit nothing stops. Only where the figure is a mean."""
    always: bool = False
    """They were busy in nearly every period."""


def need_of(finding: Finding) -> Need:
    """Return use and lost time together: what it would have used, in the mean over busy and quiet periods."""
    use_cores, words = finding.use_cores, "use"
    if use_cores is None:  # no less than what the throttled periods used up
        use_cores, words = (
            (finding.limit_cores or 0.0) * (finding.throttled_ratio or 0.0),
            "the quota of throttled periods",
        )
    return Need(
        use_cores + (finding.lost_cores or 0.0),
        f"{words} and lost time of this one window together",
        finding.busy_cpus,
        (finding.throttled_ratio or 0.0) >= _ALWAYS_RATIO,
    )


def target_limit(
    limit_cores: float,
    need: Need,
    *,
    p99_cores: float | None = None,
    node: CgroupNodeFacts | None = None,
    pod_limit_millis: int | None = None,
) -> TargetLimit:
    """Return a limit above `limit_cores`.

    Args:
        limit_cores: the limit as it is.
        need: what one window shows; only for want of history.
        p99_cores: 99th percentile of its use over hours or days. Of a container that was at its limit all that time it
            is the limit, so more than one raise may be needed.
        node: its CPUs are the most that makes sense.
        pod_limit_millis: the pod's own limit, which the API server lets no container's exceed.
    """
    if p99_cores is not None and math.isfinite(p99_cores) and p99_cores * FACTOR > limit_cores:
        wanted, why = p99_cores * FACTOR, f"99th percentile of its use, {p99_cores:.2f} cores, times {FACTOR:g}"
    else:
        wanted, why = _wanted(need)
    millis = _rounded_up(max(wanted, limit_cores * _LEAST_FACTOR))
    if need.busy_cores is not None and millis < round(need.busy_cores * 1000):
        why += f"; bursts may still stop shortly below {_no_less(need.busy_cores)} cores"
    for most, whose in (
        (node.cpus * 1000 if node and node.cpus else None, "the node's CPUs"),
        (pod_limit_millis, "the pod's limit"),
    ):
        if most is not None and millis > most:
            millis, why = most, f"{why}; no more than {whose}"
    if millis <= limit_cores * 1000:
        return TargetLimit(None, f"the limit is as high as it can be ({why})")
    return TargetLimit(millis, why)


def _wanted(need: Need) -> tuple[float, str]:
    """Return the cores that one window speaks for, and why: a mean gets room, but no more than was ever busy."""
    why = f"{need.cores:.2f} cores, {need.words}"
    if need.busy_cores is None:
        return need.cores, why
    unknown = "no history of its use is known"
    if need.always and need.busy_cores >= need.cores:
        return need.busy_cores, f"{why}; {_no_less(need.busy_cores)} cores were busy in nearly every period; {unknown}"
    most = max(need.cores, need.busy_cores)
    if need.cores * FACTOR <= most:
        return need.cores * FACTOR, f"{why}, times {FACTOR:g}; {unknown}; that is for its mean need"
    return most, f"{why}, and room up to the {_no_less(most)} cores that were busy; {unknown}"


def _no_less(cores: float) -> str:
    """Return cores with two digits, as a limit that is enough: never less than the value."""
    return f"{math.ceil(round(cores * 100, 4)) / 100:.2f}"


def _rounded_up(cores: float) -> int:
    """Return millicores that people would write: steps of 10m below a core, 50m below ten, 100m above."""
    millis = cores * 1000
    step = 10 if millis < 1000 else 50 if millis < 10_000 else 100
    return math.ceil(round(millis / step, 6)) * step
