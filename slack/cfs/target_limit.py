"""How high a limit should be: by the use's history where that is known, else by what one window shows."""

import math
from dataclasses import dataclass

from slack.cfs.finding import Finding
from slack.cfs.sample import NodeFacts

FACTOR = 1.2
"""Room above the 99th percentile."""
_LEAST_FACTOR = 1.1
"""A raise by less is not worth a resize."""


@dataclass(frozen=True, slots=True)
class RaisedLimit:
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


def need_of(finding: Finding) -> Need:
    """Return use and lost time together: what it would have used."""
    words = "use and lost time of this one window together; no history of its use is known"
    return Need((finding.use_cores or 0.0) + (finding.lost_cores or 0.0), words)


def raised_limit(
    limit_cores: float,
    need: Need,
    *,
    p99_cores: float | None = None,
    node: NodeFacts | None = None,
    pod_limit_millis: int | None = None,
) -> RaisedLimit:
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
        wanted, why = need.cores, f"{need.cores:.2f} cores, {need.words}"
    millis = _rounded_up(max(wanted, limit_cores * _LEAST_FACTOR))
    for most, whose in (
        (node.cpus * 1000 if node and node.cpus else None, "the node's CPUs"),
        (pod_limit_millis, "the pod's limit"),
    ):
        if most is not None and millis > most:
            millis, why = most, f"{why}; no more than {whose}"
    if millis <= limit_cores * 1000:
        return RaisedLimit(None, f"the limit is as high as it can be ({why})")
    return RaisedLimit(millis, why)


def _rounded_up(cores: float) -> int:
    """Return millicores that people would write: steps of 10m below a core, 50m below ten, 100m above."""
    millis = cores * 1000
    step = 10 if millis < 1000 else 50 if millis < 10_000 else 100
    return math.ceil(round(millis / step, 6)) * step
