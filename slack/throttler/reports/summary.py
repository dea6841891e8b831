"""What is kept of a node's report to sum policies up: counts, and how long somebody has waited. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from slack.throttler.fsm import StartState
from slack.throttler.reports.messages import NodeReport

MOVING = (StartState.DOWNLOADING, StartState.BLOCKED, StartState.PENDING, StartState.STARTING)
"""While a container is in one of these, its node has news."""


def is_moving(report: NodeReport) -> bool:
    """Whether any container of the node waits or starts, or is late, or a pod may wait for the controller."""
    return bool(report.late or report.pending_pods) or any(report.counts.get(state) for state in MOVING)


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node's report in a few numbers."""

    node: str
    counts: tuple[int, ...]
    """In the order of `StartState`."""
    forced: int
    opened: int
    pending_since: float | None
    """Monotonic seconds of the controller: since when the one waits for its slot that has waited longest."""
    moving: bool

    @classmethod
    def from_report(cls, report: NodeReport, now: float) -> Self:
        """Sum a report up that has come now; its own times are of its node's clock, and are taken as differences."""
        since = min((row.since for row in report.containers if row.state is StartState.PENDING), default=None)
        return cls(
            report.node,
            tuple(report.counts.get(state, 0) for state in StartState),
            report.forced,
            report.opened,
            None if since is None else now - max(0.0, report.at - since),
            is_moving(report),
        )


@dataclass(frozen=True, slots=True)
class PolicyTotals:
    """All nodes of a policy."""

    counts: Counter[StartState]
    forced: int
    opened: int
    longest_wait_seconds: float
    """0: nobody waits for a slot."""


def total(nodes: Iterable[NodeSummary], now: float) -> PolicyTotals:
    """Add nodes up; `now` is monotonic seconds of the controller."""
    counts: Counter[StartState] = Counter()
    forced = opened = 0
    longest = 0.0
    for node in nodes:
        counts.update(dict(zip(StartState, node.counts, strict=True)))
        forced += node.forced
        opened += node.opened
        if node.pending_since is not None:
            longest = max(longest, now - node.pending_since)
    return PolicyTotals(counts, forced, opened, longest)
