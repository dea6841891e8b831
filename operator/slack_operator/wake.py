"""When the next plan is due: every interval, and soon after something relevant has changed, but not without pause."""

import threading
from collections.abc import Callable

DEBOUNCE_SECONDS = 0.2
REST = 4.0
"""Between two plans that changes ask for, so many times the last one's duration: at most a fifth of a core."""


class Wake:
    """When the next plan is due. Any thread may `touch`."""

    def __init__(self, interval_seconds: float, clock: Callable[[], float]) -> None:
        self._interval = interval_seconds
        self._clock = clock
        self._event = threading.Event()
        self._touched: float | None = None
        self._not_before = float("-inf")
        self._next = float("-inf")

    def touch(self) -> None:
        """Something relevant changed."""
        if self._touched is None:
            self._touched = self._clock()
            self._event.set()

    def due_in(self) -> float:
        """Seconds until the next plan."""
        due = self._next
        if self._touched is not None:
            due = min(due, max(self._touched + DEBOUNCE_SECONDS, self._not_before))
        return max(0.0, due - self._clock())

    def begun(self) -> float:
        """A plan begins; what is touched from here on is for the next one.

        Returns:
            seconds since the change, or the end of the interval, that it is for.
        """
        now = self._clock()
        since = [now if self._next == float("-inf") else self._next]
        if self._touched is not None:
            since.append(self._touched)
        self._touched = None
        self._event.clear()
        self._next = now + self._interval
        return max(0.0, now - min(since))

    def ended(self, duration: float) -> None:
        """It took so long."""
        self._not_before = self._clock() + REST * duration

    def wait(self, seconds: float) -> None:
        """Sleep, or until somebody touches."""
        if self._event.wait(seconds):
            self._event.clear()
