"""How fast the containers of an action run its messages, learnt from the broker's counters; used by verdicts.

An overload is told from chance sooner if it is known how many messages the containers can run: then only what comes
varies by chance. Too few messages tell nothing. Of two parts of the time the one with the shorter runs counts: if
containers were taken for slower than they are, messages of containers that keep up would be refused.
"""

from dataclasses import dataclass
from math import sqrt

LEAST_MESSAGES = 1000
"""A part of the time that is learnt from has as many: the mean of 1,000 runs is right to 3 %, that of 100 to 10 %."""
LEAST_SECONDS = 10.0
"""It lasts so long: messages in flight are seen at ticks alone."""
SOON_MESSAGES = 250
"""The present part counts from so many on, if its runs are shorter."""
MARGIN = 1.03
"""Containers may be so much faster than was learnt."""
LEAST_EXCESS = 25.0
"""So many messages beyond what the containers can run are an overload, if they run few a second."""
LEAST_DEVIATIONS = 1.1
"""If they run many, chance does more: this many standard deviations of what comes within a second."""
MOST_EXCESSES = 2.0
"""More than twice as many are not counted: an overload that is over must not be held against a queue that keeps up."""


@dataclass(slots=True)
class _Part:
    """A part of the time."""

    seconds: float = 0.0
    held_seconds: float = 0.0
    """Messages in containers' hands, times seconds."""
    completed: int = 0

    @property
    def per_second(self) -> float:
        """Messages a second that one busy slot runs, by Little's law."""
        return self.completed / self.held_seconds if self.held_seconds > 0 else 0.0


class LearntCapacity:
    """What is known of one action's containers. Owned by one scheduler."""

    __slots__ = ("_before", "_excess", "_now", "_threshold")

    def __init__(self) -> None:
        """Nothing is known."""
        self._before: _Part | None = None
        self._now = _Part()
        self._threshold = LEAST_EXCESS
        self._excess = 0.0
        """Messages that came beyond what the containers could run since they were last known to keep up."""

    @property
    def is_exceeded(self) -> bool:
        """Whether more messages come than the containers can run, and chance alone does not explain it."""
        return self._excess >= self._threshold

    @property
    def per_second(self) -> float | None:
        """Messages a second that one busy slot runs; None where too little is known."""
        if self._before is None:
            return None
        before = self._before.per_second
        return max(before, self._now.per_second) if self._now.completed >= SOON_MESSAGES else before

    def learn_from_tick(
        self, seconds: float, in_flight: float, completed: int, arrived: int, *, slots: int, idle: bool
    ) -> None:
        """Take what the broker's counters say since the tick before.

        Args:
            seconds: since then.
            in_flight: messages in containers' hands on average; what is more than the slots is nobody's.
            completed: messages that were finished.
            arrived: messages that came.
            slots: messages that the ready containers run at once.
            idle: whether one of them is known to be idle.
        """
        part = self._now
        part.seconds += seconds
        part.held_seconds += min(in_flight, slots) * seconds
        part.completed += completed
        if part.completed >= LEAST_MESSAGES and part.seconds >= LEAST_SECONDS:
            self._before, self._now = part, _Part()
        rate = self.per_second
        if idle or rate is None:
            self._excess = 0.0
            return
        capacity = MARGIN * rate * slots
        self._threshold = max(LEAST_EXCESS, LEAST_DEVIATIONS * sqrt(capacity))
        excess = max(self._excess + arrived - capacity * seconds, 0.0)
        self._excess = min(excess, MOST_EXCESSES * self._threshold)
