"""What would have been: the capacity that each pattern's amounts would have brought, and which pods it had served.

A node that is asked for is there a window later, and one that is no longer needed stays for a while. So at any moment
there is room for the most that was asked for between a window ago and a hold before that: requests of real pods plus
the amount. By this each pattern is judged on the same pods, without having been used.
"""

import numpy as np

from slack.planner.objective.amount import RESOURCES
from slack.planner.objective.needs import FloatArray
from slack.planner.objective.patterns import PATTERNS

CELL_SECONDS = 5.0
"""Turns that are nearer to one another are taken together."""
_CELLS = 1024
_WIDTH = len(RESOURCES)


class Past:
    """Requests and amounts of the last hold and window, the largest of each cell."""

    def __init__(self) -> None:
        self._times = np.zeros(_CELLS)
        self._requested = np.zeros((_CELLS, _WIDTH))
        self._asked = np.zeros((_CELLS, len(PATTERNS) + 1, _WIDTH))
        """What is requested, and with each pattern the amount beside it, at last with that which was kept."""
        self._first = self._end = 0

    def __len__(self) -> int:
        """Return how many cells there are."""
        return self._end - self._first

    def clear(self) -> None:
        """Forget all of it: time has not gone on by itself."""
        self._first = self._end = 0

    def add_amounts(self, at_seconds: float, requested: FloatArray, amounts: FloatArray, keep_seconds: float) -> None:
        """Add what is requested, and what each pattern would keep from now on and what is kept."""
        times = self._times
        while self._first < self._end and times[self._first] < at_seconds - keep_seconds:
            self._first += 1
        last = self._end - 1
        if len(self) and at_seconds - times[last] < CELL_SECONDS:
            self._requested[last] = np.maximum(self._requested[last], requested)
            self._asked[last] = np.maximum(self._asked[last], requested + amounts)
            return
        if self._end == _CELLS:
            self._first += len(self) == _CELLS
            there, count = slice(self._first, self._end), len(self)
            for column in (times, self._requested, self._asked):
                column[:count] = column[there].copy()
            self._first, self._end = 0, count
        times[self._end], self._requested[self._end] = at_seconds, requested
        self._asked[self._end] = requested + amounts
        self._end += 1

    def most(self, until_seconds: float) -> tuple[FloatArray, FloatArray] | None:
        """Return the most that was requested, and would have been asked for with each pattern, up to a time.

        Returns:
            [R] and [patterns + 1, R]; None where nothing is known so far back.
        """
        first = self._first
        end = first + int(np.searchsorted(self._times[first : self._end], until_seconds, side="right"))
        if end == first:
            return None
        return self._requested[first:end].max(axis=0), self._asked[first:end].max(axis=0)
