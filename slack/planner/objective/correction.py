"""Correction by what happened: online tracking of a quantile, in the manner of adaptive conformal inference.

Gibbs and Candes, "Adaptive conformal inference under distribution shift" (2021); the tracker of Angelopoulos, Candes
and Tibshirani, "Conformal PID control" (2023), whose forecast here is what was learnt. What is tracked is the debt:
late pods beyond those that the objective allows, in allowances of three days. Each late pod raises it by (1 - a) steps,
each that started at once lowers it by a steps, where a = 1 - objective, a step is 1 / M, and M = max(a x pods of three
days, LEAST_WINDOWS x pods of a usual window). It is paid back within three days: with a debt of 0.5 the forecast may
leave half as many late as the objective allows, with a credit of 0.5 half as many again; from 1 on it may leave none.

Guarantee, for any sequence, an adversary's too. Let the objective be reachable: with a debt of D = FARTHEST no pod is
late. Let no window, with what is under way when it is seen, have more than MOST_WINDOWS times the pods of a usual one.
Then of any T pods
    late / T - a <= (D + CREDIT + MOST_WINDOWS / LEAST_WINDOWS) M / T.
Proof: steps move the debt within [-CREDIT, D + MOST_WINDOWS / LEAST_WINDOWS]. Its upper end cuts nothing off, for above
D no pod is late; its lower end only raises it. So the sum of (late - a) / M over pods is at most that width. The other
way round there is none: a load of which fewer are late without any room has more than its share.
The forecast does not enter: a bad one costs room, not the share. An outburst beyond MOST_WINDOWS is not made good for
by days of more room: one tenant could have it at will.
"""

from dataclasses import dataclass

FARTHEST = 2.0
"""D: no more room is kept beyond this."""
CREDIT = 0.5
"""So much is put by of quiet times, in allowances of three days."""
MOST_WINDOWS = 2.0
LEAST_WINDOWS = 4.0
"""A step is no larger: a usual window in which every pod is late raises the debt by a quarter."""
HIGHEST = FARTHEST + MOST_WINDOWS / LEAST_WINDOWS
_HOURS = 72.0


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
        return max(1.0 - self.value, 0.0)

    def happened(self, started: int, late: float, objective: float, usual_pods: float, pods_an_hour: float) -> None:
        """Take what became of pods.

        Args:
            started: pods that have got a node since the last call.
            late: those of them that did not start at once.
            objective: the wanted share.
            usual_pods: how many pods a window has that has any.
            pods_an_hour: how many come on average.
        """
        may = 1 - objective
        step = 1 / max(may * _HOURS * pods_an_hour, LEAST_WINDOWS * max(usual_pods, 1.0))
        self.value = min(max(self.value + (late - may * started) * step, -CREDIT), HIGHEST)

    def add(self, debt: float) -> None:
        """Take over what was owed before."""
        self.value = min(max(self.value + debt, -CREDIT), HIGHEST)
