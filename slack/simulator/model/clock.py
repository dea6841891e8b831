"""The event queue: time only moves forward, and what is due at one moment happens in the order it was asked for.

Repeated work that has nothing to do may rest (`PeriodicTimer`): a run with rests is the same as one without.
"""

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[[Any], None]
BEFORE, AFTER = -1, 1
"""The place of what has rested, among what was asked for at the same moment."""


class Clock:
    """A heap of (time, when it was asked for, place, order, action, argument)."""

    def __init__(self, end_seconds: float) -> None:
        self.now = 0.0
        self.end = end_seconds
        self.events = 0
        self.asked_at = 0.0
        """When what happens now was asked for."""
        self._order = 0
        self._heap: list[tuple[float, float, int, int, Action, Any]] = []

    def at(self, seconds: float, action: Action, argument: Any = None) -> None:
        """Do something at a time; what lies after the end is dropped.

        Raises:
            ValueError: for a time that has passed.
        """
        if seconds < self.now:
            raise ValueError(f"{seconds} s has passed at {self.now} s")
        self.as_asked(seconds, self.now, 0, action, argument)

    def as_asked(self, seconds: float, asked_at: float, place: int, action: Action, argument: Any = None) -> None:
        """Do something at a time in the order in which it would come, had it been asked for at another time."""
        if seconds <= self.end:
            self._order += 1
            heapq.heappush(self._heap, (seconds, asked_at, place, self._order, action, argument))

    def after(self, seconds: float, action: Action, argument: Any = None) -> None:
        """Do something after a while."""
        self.at(self.now + seconds, action, argument)

    def step(self) -> bool:
        """Do the next thing; False at the end."""
        if not self._heap:
            self.now = self.end
            return False
        self.now, self.asked_at, _, _, action, argument = heapq.heappop(self._heap)
        self.events += 1
        action(argument)
        return True
