"""The lead time, measured: how long it takes from the need for a node until pods run there.

Two parts, both seen by the caller: from a pod that waits to the node that is made for it (the autoscaler's scan, the
cloud), and from the node's creation to its being ready. The lead time of a node group is a high percentile of their
sum, because a burst is late when its last node is. The window of a policy is the mean over the groups in which its
nodes come, so that it is short where most of them start fast, as from a warm pool.
"""

from collections import Counter, deque
from collections.abc import Iterable

UNMEASURED_SECONDS = 120.0
"""The window until something was measured."""
MOST_SAMPLES = 64
"""Of each part; the latest."""
LEAST_SECONDS, MOST_SECONDS = 15.0, 1800.0
_PERCENTILE = 0.9
_UNMEASURED_ASKING_SECONDS = 12.0


class LeadTimes:
    """The latest samples of both parts, with the node groups that they are of."""

    def __init__(self) -> None:
        self._asked: deque[tuple[str, float]] = deque(maxlen=MOST_SAMPLES)
        self._started: deque[tuple[str, float]] = deque(maxlen=MOST_SAMPLES)

    def asked(self, seconds: float, group: str = "") -> None:
        """A node of a group was created so long after a pod began to wait for one."""
        if 0 <= seconds <= MOST_SECONDS:
            self._asked.append((group, seconds))

    def started(self, seconds: float, group: str = "") -> None:
        """A node of a group was ready so long after its creation."""
        if 0 <= seconds <= MOST_SECONDS:
            self._started.append((group, seconds))

    @property
    def window_seconds(self) -> float:
        """The window; what was not measured counts as it is with most clusters."""
        nodes = Counter(group for group, _ in self._started)
        if not nodes:
            return UNMEASURED_SECONDS
        return sum(count * self.group_seconds(group) for group, count in nodes.items()) / nodes.total()

    def group_seconds(self, group: str) -> float:
        """Return the lead time of a group in which nodes have come; the wait for a node may be that of other groups."""
        asked = [seconds for of, seconds in self._asked if of == group] or [seconds for _, seconds in self._asked]
        asking = _high(asked) if asked else _UNMEASURED_ASKING_SECONDS
        starting = _high(seconds for of, seconds in self._started if of == group)
        return min(max(asking + starting, LEAST_SECONDS), MOST_SECONDS)


def _high(samples: Iterable[float]) -> float:
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * _PERCENTILE), len(ordered) - 1)]
