"""What slack spares: the pods of a day that took a placeholder's place, and how long they would have waited for a node.

The day ends with the latest of them, so that a quiet cluster's figure does not change by itself. Owned by the loop.
"""

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from slack.planner.rollout.backoff import SCAN_SECONDS
from slack_operator.placeholders.view.instant_starts import Start

DAY_SECONDS = 86_400.0
_BUCKET_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class SavedWait:
    """Pods that would have been late."""

    pods: int
    each_seconds: float
    """Until a new node would have been there."""

    @property
    def total_seconds(self) -> float:
        """Of all of them together."""
        return self.pods * self.each_seconds

    def __str__(self) -> str:
        """As it is shown: `120 pods of a day would have waited about 130 s each for a node, 4.3 h in all`."""
        many = f"{self.pods} pods of a day would have waited" if self.pods > 1 else "1 pod of a day would have waited"
        each = " each" if self.pods > 1 else ""
        return (
            f"{many} about {round(self.each_seconds / 10) * 10} s{each} for a node, {_span(self.total_seconds)} in all"
        )


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds / 10) * 10} s"
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"


@dataclass(slots=True)
class _Day:
    buckets: deque[list[float]] = field(default_factory=deque)
    """[when it began, pods]"""

    def add_start(self, at: float) -> None:
        if not self.buckets or at - self.buckets[-1][0] >= _BUCKET_SECONDS:
            self.buckets.append([at, 0])
        self.buckets[-1][1] += 1
        while self.buckets[0][0] < at - DAY_SECONDS:
            self.buckets.popleft()


class SavedWaits:
    """By policy."""

    def __init__(self) -> None:
        self._days: dict[str, _Day] = {}

    def add_starts(self, starts: Iterable[tuple[str, Start]], node_start_seconds: float) -> None:
        """Count the starts of one turn, with their policies.

        A pod that waited as long as for a node was spared nothing: it came with the node that brought placeholders.
        """
        for policy, start in starts:
            if start.in_slack and start.waited_seconds < SCAN_SECONDS + node_start_seconds:
                self._days.setdefault(policy, _Day()).add_start(start.at)

    def keep_only(self, policies: Container[str]) -> None:
        """Forget policies that are no more."""
        self._days = {name: day for name, day in self._days.items() if name in policies}

    def saved_wait(self, policy: str, node_start_seconds: float) -> SavedWait | None:
        """Return what was spared on the day that ends with the latest start; None before the first."""
        day = self._days.get(policy)
        if day is None:
            return None
        return SavedWait(int(sum(pods for _, pods in day.buckets)), SCAN_SECONDS + node_start_seconds)
