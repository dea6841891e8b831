"""How long an action's runs take: the mean of the last ten that were reported, else by Little's law.

Little's law: the messages that are in containers' hands on average are those that come through in a second, times the
seconds each stays. It needs only the broker's counters, which pools without our proxy have too.
"""

from collections import deque
from collections.abc import Iterable

LAST = 10
"""Run times that count."""
LEAST_RUNS = 10
"""So many finished messages, or so many seconds, make a mean by Little's law."""
MOST_SECONDS = 10.0
SHORTEST_MS = 1.0
"""Runs that are never seen under way between two readings count as that long."""


class Durations:
    """The run times of one action."""

    __slots__ = ("_completed", "_held", "_last", "_law_ms", "_seconds")

    def __init__(self) -> None:
        """Nothing is known."""
        self._last: deque[float] = deque(maxlen=LAST)
        self._held = 0.0
        self._completed = 0
        self._seconds = 0.0
        self._law_ms: float | None = None

    def reported(self, milliseconds: Iterable[float]) -> None:
        """Take run times, the oldest first; those below 0 are no run times."""
        self._last.extend(value for value in milliseconds if value >= 0)

    def counted(self, seconds: float, in_flight: float, completed: int) -> None:
        """Take what the broker's counters say of the last `seconds`: messages held on average, messages finished."""
        if seconds <= 0:
            return
        self._held += in_flight * seconds
        self._completed += max(completed, 0)
        self._seconds += seconds
        enough = self._completed >= LEAST_RUNS or self._seconds >= MOST_SECONDS
        if self._completed and (enough or self._law_ms is None):
            self._law_ms = max(self._held / self._completed * 1000, SHORTEST_MS)
        if enough:
            self._held, self._completed, self._seconds = 0.0, 0, 0.0

    @property
    def mean_ms(self) -> float | None:
        """The mean, in milliseconds; None where nothing is known."""
        if self._last:
            return sum(self._last) / len(self._last)
        return self._law_ms
