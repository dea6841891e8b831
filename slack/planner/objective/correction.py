"""Correction by what happened: online tracking of a quantile, in the manner of adaptive conformal inference.

Gibbs and Candes, "Adaptive conformal inference under distribution shift" (2021); the tracker of Angelopoulos, Candes
and Tibshirani, "Conformal PID control" (2023), whose forecast here is what was learnt. What is tracked is the debt:
late pods beyond those that the objective allows, in steps. Each late pod raises it by (1 - a) / M, each that started at
once lowers it by a / M, where a = 1 - objective, and M = max(a x pods of H hours, LEAST_WINDOWS x pods of a usual
window). The usual window is that of a usual pod: of windows of one pod and waves of ten, ten late pods are one wave.

H is 6 where pods come together and 72 where they come one by one, by chance. That is told by the index of dispersion,
the variance of the number of pods in a window over its mean: 1 for chance (Poisson), n for waves of n. Late pods of
chance are chance themselves: what is late today says nothing about tomorrow. As each core more saves fewer late pods
than the one before, room that follows them up and down costs more than the same room on average, for the same share.

The forecast may leave ((D - debt) / (D + debt)) ** 2 times as many late as the objective allows, with D = FARTHEST: as
many at a debt of 0, a quarter as many after a wave that was missed, four times as many with as much put by, none from D
on. Steps are as quick as a wave, as a day is to be near its objective; each is mild, as room for the largest wave that
ever came costs more than a day can give back.

Guarantee, for any sequence, an adversary's too: of any T pods
    late / T - a <= (D + CREDIT + MOST_WINDOWS / LEAST_WINDOWS) M / T,
if with a debt of D no pod is late and no window has more than MOST_WINDOWS times the pods of a usual one.
docs/details/objective-bound.md proves it.
The forecast does not enter: a bad one costs room, not the share. An outburst beyond MOST_WINDOWS is not made good for
by days of more room: one tenant could have it at will.
"""

from dataclasses import dataclass

FARTHEST = 3.0
"""D: no more room is kept beyond this."""
CREDIT = 1.0
"""So much is put by of quiet times, in steps: more would be spent on a day of late pods."""
MOST_WINDOWS = 2.0
LEAST_WINDOWS = 1.0
"""A step is no smaller than the pods of so many usual windows."""
HIGHEST = FARTHEST + MOST_WINDOWS / LEAST_WINDOWS
_HOURS, _HOURS_OF_CHANCE = 6.0, 72.0
"""H, where the index of dispersion is TOGETHER or more, and where it is ALONE or less."""
ALONE, TOGETHER = 1.0, 2.0
_STEEPNESS = 2


@dataclass(frozen=True, slots=True)
class Usual:
    """How pods have come of late."""

    pods: float
    """In the window of a usual pod, itself included."""
    pods_an_hour: float
    dispersion: float
    """The variance of the number of pods in a window over its mean: 1 by chance, n for waves of n."""

    def step(self, may: float) -> float:
        """Return M, in pods, where a share of them may be late."""
        chance = min(max((TOGETHER - self.dispersion) / (TOGETHER - ALONE), 0.0), 1.0)
        hours: float = _HOURS * (_HOURS_OF_CHANCE / _HOURS) ** chance
        return max(may * hours * self.pods_an_hour, LEAST_WINDOWS * max(self.pods, 1.0))


@dataclass(slots=True)
class Correction:
    """The tracked debt."""

    value: float = 0.0

    @property
    def applied(self) -> float:
        """The debt as far as it changes the amount."""
        return min(self.value, FARTHEST)

    @property
    def allowed(self) -> float:
        """How many times as many pods may be late now as the objective allows."""
        return (max(FARTHEST - self.value, 0.0) / (FARTHEST + self.value)) ** _STEEPNESS

    def happened(self, started: int, late: float, objective: float, usual: Usual) -> None:
        """Take what became of pods.

        Args:
            started: pods that have got a node since the last call.
            late: those of them that did not start at once.
            objective: the wanted share.
            usual: how they have come of late.
        """
        may = 1 - objective
        self.value = min(max(self.value + (late - may * started) / usual.step(may), -CREDIT), HIGHEST)

    def add_debt(self, debt: float) -> None:
        """Take over what was owed before."""
        self.value = min(max(self.value + debt, -CREDIT), HIGHEST)
