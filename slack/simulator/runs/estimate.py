"""How far chance goes: a mean over runs with several seeds, and the interval in which it can be believed."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, 97.5 %, for 1 to 15 degrees of freedom; from then on the normal distribution's 1.96 is near enough."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds and its 95 % confidence interval (Student's t); of one value, the value thrice."""

    mean: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Self:
        """Return the estimate of one value or more."""
        mean = statistics.fmean(values)
        if len(values) < 2:
            return cls(mean, mean, mean)
        degrees = len(values) - 1
        quantile = _T_975[degrees - 1] if degrees <= len(_T_975) else 1.96
        half = quantile * statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)

    def within(self, least: float, most: float) -> Self:
        """Return it without what cannot be: no share is above 1, no cost below 0."""
        return type(self)(self.mean, max(self.low, least), min(self.high, most))
