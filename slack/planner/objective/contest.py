"""Which pattern explains when pods come: the one that would have cost least, if it is better by more than chance.

Judged on what came after it was known (prequentially): room kept, and late pods at the price in force, hour by hour.
Two are compared only in hours that both have seen before, an hour of the day from the second day on: how a pattern
fared while it knew nothing says nothing about what it knows, and the first day's misses would outweigh a week.
"""

import numpy as np

from slack.planner.objective.needs import FloatArray
from slack.planner.objective.patterns import PATTERNS

BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_FADE_AN_HOUR = 0.5 ** (1 / 48)
_FEWEST_HOURS = 6.0
"""Nothing but the plainest is used before so many hours have been compared."""
_ERRORS, _STILL = 3.0, 2.0
"""By so many standard errors another must be better than the plainest to be used, and to stay in use: five others are
compared each hour, so that two are reached by chance."""
_FURTHER = 2.0
"""By so many better than the one in use."""


class PatternSelector:
    """Losses of each pattern less those of each other."""

    def __init__(self) -> None:
        width = len(PATTERNS)
        self.weight = np.zeros((width, width))
        """Hours in which two were compared, faded."""
        self.first = np.zeros((width, width))
        """Sums of hourly differences, faded."""
        self.second = np.zeros((width, width))
        """Of their squares."""
        self.best = 0
        """The pattern to use."""
        self._hour = np.zeros(width)
        self._knew = np.ones(width, dtype=bool)
        self._seconds = 0.0

    def judged(self, losses: FloatArray, seconds: float, knew: BoolArray) -> None:
        """Take each pattern's loss of a stretch of time, and whether it had seen such a time before."""
        self._hour += losses
        self._knew &= knew
        self._seconds += seconds
        if self._seconds >= 3600:
            more = self._hour[:, None] - self._hour[None, :]
            both = self._knew[:, None] & self._knew[None, :]
            fade = np.where(both, _FADE_AN_HOUR, 1.0)
            self.weight = self.weight * fade + both
            self.first = self.first * fade + np.where(both, more, 0.0)
            self.second = self.second * fade + np.where(both, more**2, 0.0)
            self._hour, self._knew, self._seconds = np.zeros_like(self._hour), np.ones_like(self._knew), 0.0
            self._choose()

    def _choose(self) -> None:
        mean, spread = self._against(0)
        errors = np.where(np.arange(len(mean)) == self.best, _STILL, _ERRORS)
        good = (mean + errors * spread < 0) & (self.weight[:, 0] >= _FEWEST_HOURS)
        good[0] = True  # the plainest
        best = self.best if good[self.best] else 0
        mean, spread = self._against(best)
        further = np.where(good & (self.weight[:, best] >= _FEWEST_HOURS), mean + _FURTHER * spread, np.inf)
        further[best] = 0.0
        self.best = int(np.argmin(further))

    def _against(self, other: int) -> tuple[FloatArray, FloatArray]:
        """Return by how much each loses more an hour than another, and the standard errors of that."""
        weight = np.maximum(self.weight[:, other], 1e-9)
        mean = self.first[:, other] / weight
        return mean, np.sqrt(np.maximum(self.second[:, other] / weight - mean**2, 0.0) / weight)
