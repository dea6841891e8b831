"""The price of a late pod that reaches an objective: many are tried on what was learnt, one a minute.

Between two prices that are tried lies a part of the way: where the lower one keeps nothing of a wave and the higher one
all of it, as much is kept as the objective needs.
"""

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.objective.correction import FARTHEST
from slack.planner.objective.needs import FloatArray, LatePodRates, Needs
from slack.planner.objective.patterns import PATTERNS

_PRICES = np.arange(-6.0, 6.01, 0.5)
"""Logarithms of the prices of a late pod that are tried, in hours for which the room of one pod is kept."""
_PLACES_A_DEBT = 6.0
_NEARLY_NONE = FARTHEST - 1.0
"""So many prices farther up for each 1 by which a debt is over this: nearly none may be late, and yet some were."""
_LITTLE = 1e-9
_SOLVE_SECONDS = 60.0
"""One of them is worked out anew so often."""


class Prices:
    """How many pods would be late at each price, by pattern."""

    def __init__(self) -> None:
        self.lates = np.zeros((len(_PRICES), len(PATTERNS)))
        """[prices, patterns] pods an hour."""
        self._solved_at = 0.0
        self._solving = 0
        self._solved = False
        """All prices have been worked out."""
        self._trying: LatePodRates | None = None

    def places(self, patterns: IntArray, may: FloatArray, owed: FloatArray) -> FloatArray:
        """Return the least price at which no more are late, as a place among those that are tried.

        2.25 is a quarter of the way from the third to the fourth; there may be places beyond the last.

        Args:
            patterns: [N] of which.
            may: [N] pods an hour that may be late.
            owed: [N] the debts, by which more is paid where nearly none may be late.
        """
        lates = np.minimum.accumulate(self.lates[:, patterns], axis=0)
        may = np.maximum(may, lates[-1] * (1 + _LITTLE))
        first = (lates <= may).argmax(axis=0)
        at, before = np.arange(len(patterns)), np.maximum(first - 1, 0)
        more, less = lates[before, at], lates[first, at]
        way = np.where(first > 0, (more - may) / np.maximum(more - less, _LITTLE), 0.0)
        found: FloatArray = np.maximum(first - 1 + np.clip(way, 0.0, 1.0), 0.0)
        return found + _PLACES_A_DEBT * np.maximum(owed - _NEARLY_NONE, 0.0)

    def solve_all(self, needs: Needs, pod: FloatArray) -> None:
        """Work out all prices, where that was never done."""
        if not self._solved:
            self._trying = LatePodRates(needs, pod)
            while self._trying.read_part(needs):
                pass
            for i in range(len(_PRICES)):
                self.lates[i] = self._trying.an_hour(float(np.exp(_PRICES[i])))
            self._solved = True

    def solve(self, at_seconds: float, needs: Needs, pod: FloatArray) -> None:
        """Work one price out anew, or take a part of the table: all at once would hold a plan up.

        One state of the table serves for all prices, but for the minutes in which it is taken.
        """
        if not 0 <= at_seconds - self._solved_at < _SOLVE_SECONDS and pod.any():
            self._solved_at = at_seconds
            i = self._solving
            if self._trying is None:
                self._trying = LatePodRates(needs, pod)
            if self._trying.read_part(needs):
                return
            self.lates[i] = self._trying.an_hour(float(np.exp(_PRICES[i])))
            self._solving = (i + 1) % len(_PRICES)
            if self._solving == 0:
                self._solved, self._trying = True, None


def price(places: FloatArray) -> FloatArray:
    """Return the prices at places among those that are tried, or beyond."""
    found: FloatArray = np.exp(_PRICES[0] + (_PRICES[1] - _PRICES[0]) * places)
    return found
