"""What one queue's counters were lately: which messages are stale, how fast they come and are run, without reading any.

A queue is first in, first out. What waited one stale window ago and was not taken since is what waits at least so long.
"""

from collections import deque
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from slack.demand.broker import QueueLag

RATE_SECONDS = 1.0
"""Rates are taken over the last second."""
GROWTH_SECONDS = 10.0
"""A queue's growth is looked at over the last seconds too, beside all the time since it was shortest."""
_LOOKED_AT = 8
"""Readings of the last seconds: a tick looks at many queues."""
_JITTER = 0.15
"""Ticks come not quite on time: a reading that is this share of the window too new counts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A queue's counters at one instant."""

    at_seconds: float
    lag: QueueLag


@dataclass(frozen=True, slots=True)
class ReadingRates:
    """Messages a second."""

    arrivals: float = 0.0
    completions: float = 0.0


class ReadingChange(NamedTuple):
    """What came between two readings; what cannot be known is 0."""

    seconds: float
    in_flight: float
    """Messages in containers' hands on average."""
    completed: int
    arrived: int


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a queue has grown, and out of how many messages; what is unknown is nothing."""

    grown: int = 0
    """Messages by which more wait."""
    passed: int = 0
    """Messages that came, and those that were finished, in the same time."""

    @property
    def certainty(self) -> float:
        """The growth in standard deviations of what chance alone would do with as many messages that keep pace."""
        return self.grown / sqrt(self.passed) if self.grown > 0 and self.passed > 0 else 0.0


NO_GROWTH = Growth()


class QueueHistory:
    """The last readings of one queue, the oldest first."""

    __slots__ = ("_readings", "_shortest")

    def __init__(self) -> None:
        """Nothing was read."""
        self._readings: deque[Reading] = deque()
        self._shortest: QueueLag | None = None
        """The counters when the queue was shortest; the last of such moments."""

    def add_reading(self, at_seconds: float, lag: QueueLag, keep_seconds: float) -> ReadingChange | None:
        """Take a reading; return what came since the one before.

        None where there is none before, or the clock went back, or the queue is another under the same name.
        """
        readings = self._readings
        last = readings[-1] if readings else None
        if last is not None and (at_seconds <= last.at_seconds or _has_restarted(last.lag, lag)):
            readings.clear()
            last = self._shortest = None
        if self._shortest is None or lag.backlog <= self._shortest.backlog:
            self._shortest = lag
        readings.append(Reading(at_seconds, lag))
        oldest = at_seconds - max(keep_seconds, GROWTH_SECONDS)
        # One reading that is older than that stays: it is what a window that ends there begins with.
        while len(readings) > 2 and readings[1].at_seconds <= oldest:
            readings.popleft()
        if last is None:
            return None
        return ReadingChange(
            seconds=at_seconds - last.at_seconds,
            in_flight=(last.lag.in_flight + lag.in_flight) / 2,
            completed=max(_completed_count(last.lag, lag) or 0, 0),
            arrived=max(_arrived_count(last.lag, lag) or 0, 0),
        )

    def stale(self, window_seconds: float) -> int:
        """Return how many messages wait for at least the window."""
        now = self._readings[-1] if self._readings else None
        if now is None:
            return 0
        then = self._before(now.at_seconds - window_seconds * (1 - _JITTER))
        if then is None:
            return 0
        taken = _difference(then.lag.delivered_total, now.lag.delivered_total)
        if taken is None:
            # Nobody counts what is taken. What waited all the time is the least that it can be.
            inside = (item.lag.backlog for item in self._readings if item.at_seconds >= then.at_seconds)
            return min(inside)
        return min(max(then.lag.backlog - taken, 0), now.lag.backlog)

    def rates(self) -> ReadingRates:
        """Return arrivals and completions over the last second; those that cannot be known are 0."""
        if len(self._readings) < 2:
            return ReadingRates()
        now = self._readings[-1]
        then = self._before(now.at_seconds - RATE_SECONDS) or self._readings[0]
        seconds = now.at_seconds - then.at_seconds
        if seconds <= 0:
            return ReadingRates()
        arrived, completed = _arrived_count(then.lag, now.lag) or 0, _completed_count(then.lag, now.lag) or 0
        return ReadingRates(max(arrived, 0) / seconds, max(completed, 0) / seconds)

    def growth(self) -> Growth:
        """Return how the queue has grown: since it was shortest, or lately, whichever is more certain."""
        if not self._readings or self._shortest is None:
            return Growth()
        now = self._readings[-1].lag
        readings = list(self._readings)
        some = readings[:: max(len(readings) // _LOOKED_AT, 1)]
        since = (_growth(then, now) for then in (self._shortest, *(item.lag for item in some)))
        return max(since, key=lambda growth: growth.certainty)

    def clear(self) -> None:
        """Forget all: the queue went to sleep, and what it was then says nothing of when it wakes."""
        self._readings.clear()
        self._shortest = None

    def _before(self, at_seconds: float) -> Reading | None:
        found = None
        for reading in self._readings:
            if reading.at_seconds > at_seconds + 1e-9:
                break
            found = reading
        return found


def _growth(then: QueueLag, now: QueueLag) -> Growth:
    arrived, completed = _arrived_count(then, now), _completed_count(then, now)
    if arrived is None or completed is None:
        return Growth()
    return Growth(now.backlog - then.backlog, max(arrived, 0) + max(completed, 0))


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _completed_count(before: QueueLag, after: QueueLag) -> int | None:
    taken = _difference(before.delivered_total, after.delivered_total)
    return None if taken is None else taken - (after.in_flight - before.in_flight)


def _arrived_count(before: QueueLag, after: QueueLag) -> int | None:
    arrived = _difference(before.published_total, after.published_total)
    if arrived is not None:
        return arrived
    taken = _difference(before.delivered_total, after.delivered_total)
    return None if taken is None else taken + after.backlog - before.backlog


def _has_restarted(before: QueueLag, after: QueueLag) -> bool:
    pairs = ((before.delivered_total, after.delivered_total), (before.published_total, after.published_total))
    return any((change := _difference(*pair)) is not None and change < 0 for pair in pairs)
