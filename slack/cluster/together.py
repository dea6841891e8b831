"""How many pods of a kind came together lately: the largest number within five minutes, which fades in days.

A number and its time are one figure, its *mark*: of two bursts the one with the higher mark counts for more at every
later time. So the highest mark is all that is kept of a kind, and the order of events does not matter. It is told in
the steps 1, 2, 4 and 8: what is made of it must not change with each pod. A burst of 64 or more is an 8 for a week, one
of 8 for a day.
"""

import math

import numpy as np
import numpy.typing as npt

BUCKET_SECONDS = 300.0
"""What comes within as long is a burst: a controller's slow start, a rollout's first wave."""
MOST = 64
"""More than these count as these: one burst of ten thousand tiny pods is remembered no longer than a week."""
HALF_LIFE_SECONDS = 2 * 86_400.0
NEVER = -1e18
"""The mark of a kind whose pods came one by one."""
_HIGHEST_STEP = 3
LOG2_OF = [0.0, *np.log2(np.arange(1, MOST + 1)).tolist()]
"""[number], up to `MOST`."""


def mark_of(number: int, when: float) -> float:
    """Return the mark of pods that came together; `when` in Unix seconds."""
    return NEVER if number < 2 else LOG2_OF[min(number, MOST)] + when / HALF_LIFE_SECONDS


def until_of(mark: float, now: float) -> float:
    """Return when less of a mark will be left, in steps; infinite where nothing more can fade."""
    step = min(round(mark - now / HALF_LIFE_SECONDS), _HIGHEST_STEP)
    return (mark - step + 0.5) * HALF_LIFE_SECONDS if step > 0 else math.inf


def steps_of(marks: npt.NDArray[np.float64], now: float) -> npt.NDArray[np.int64]:
    """Return what is left of each mark: 1, 2, 4 or 8."""
    left = np.rint(marks - now / HALF_LIFE_SECONDS)
    return np.left_shift(1, np.clip(left, 0, _HIGHEST_STEP).astype(np.int64))
