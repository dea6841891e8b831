"""How far a ratio of medians scatters, and how far free capacity scatters beside itself: what is noise, what is not.

The p99 of a burst is its slowest pod or two, so it differs much from burst to burst. Bursts are drawn again and again
from those that were seen, with replacement, and the ratio is taken of each draw.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median, quantiles

DRAWS = 1_000
_SEED = 1
"""The same bursts always come to the same interval."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long as into free capacity it took."""

    times: float
    low: float
    high: float
    """The interval of 95 %."""
    noise: float
    """The upper end of the interval of free capacity beside itself, with as many bursts."""

    def __str__(self) -> str:
        return f"{self.times:.2f}x ({self.low:.2f} to {self.high:.2f}; free beside itself to {self.noise:.2f})"


def compare(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Ratio | None:
    """Return the ratio of medians, the geometric mean of it over all pairs; None if pods were never bound.

    Args:
        pairs: seconds of each burst, and those of each burst into free capacity.
    """
    if not all(math.isfinite(seconds) and seconds > 0 for pair in pairs for side in pair for seconds in side):
        return None
    chance = random.Random(_SEED)
    low, high = _interval(pairs, chance)
    _, noise = _interval([(free, free) for _, free in pairs], chance)
    return Ratio(_mean(pairs), low, high, noise)


def _interval(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], chance: random.Random) -> tuple[float, float]:
    draws = [_mean([(_draw(mine, chance), _draw(free, chance)) for mine, free in pairs]) for _ in range(DRAWS)]
    ends = quantiles(draws, n=40)
    return ends[0], ends[-1]


def _draw(seconds: Sequence[float], chance: random.Random) -> Sequence[float]:
    return chance.choices(seconds, k=len(seconds))


def _mean(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    return geometric_mean(median(mine) / median(free) for mine, free in pairs)
