"""The lead time, measured: how long it takes from the need for a node until pods run there.

Two parts, both seen by the caller: from a pod that waits to the node that is made for it (the autoscaler's scan, the
cloud), and from the node's creation to its being ready. The window is a high percentile of their sum, because a
burst is late when its last node is.
"""

from collections import deque

UNMEASURED_SECONDS = 120.0
"""The window until something was measured."""
MOST_SAMPLES = 64
"""Of each part; the latest."""
LEAST_SECONDS, MOST_SECONDS = 15.0, 1800.0
_PERCENTILE = 0.9


class LeadTimes:
    """The latest samples of both parts."""

    def __init__(self) -> None:
        self._asked: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._started: deque[float] = deque(maxlen=MOST_SAMPLES)

    def asked(self, seconds: float) -> None:
        """A node was created so long after a pod began to wait for one."""
        if 0 <= seconds <= MOST_SECONDS:
            self._asked.append(seconds)

    def started(self, seconds: float) -> None:
        """A node was ready so long after its creation."""
        if 0 <= seconds <= MOST_SECONDS:
            self._started.append(seconds)

    @property
    def window_seconds(self) -> float:
        """The window; what was not measured counts as it is with most clusters."""
        if not self._started:
            return UNMEASURED_SECONDS
        asking = _high(self._asked) if self._asked else 12.0
        return min(max(asking + _high(self._started), LEAST_SECONDS), MOST_SECONDS)


def _high(samples: deque[float]) -> float:
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * _PERCENTILE), len(ordered) - 1)]
