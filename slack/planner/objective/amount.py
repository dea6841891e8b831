"""How much room an objective asks for now, and why. Values only: the learner makes them, the planner takes them.

The planner knows nothing of learning: an `Amount` stands where base times rate would stand.
"""

from dataclasses import dataclass

RESOURCES = ("cpu", "memory")
"""What is learnt. Further resources are kept where a floor names them, as with a rate."""
Requests = tuple[int, int]
"""(cpu in millicores, memory in bytes)."""


@dataclass(frozen=True, slots=True)
class SizingReason:
    """What the amount follows from, in numbers; texts are made where they are shown."""

    objective: float
    known: bool
    """It sizes the slack; else the rate holds."""
    lacking: str | None = None
    """What is still to be seen, or why the rate holds."""
    quantile: float = 0.0
    """Share of the pods that come in such a window for which the amount is enough, as far as was learnt."""
    window_seconds: float = 0.0
    """From the need for a node until pods run there, measured."""
    pattern: str = "none"
    """What explains when pods come."""
    late_today: int = 0
    """Pods of the last 24 hours that did not start at once."""
    started_today: int = 0
    late_despite: float = 0.0
    """Share of the late pods for which the amount was enough: they waited for a ceiling, a shape, a scheduler."""
    correction: float = 0.0
    """What is owed: late pods beyond those that the objective allows, in allowances of three days; below 0 what is put
    by of quiet times."""
    hours_seen: float = 0.0
    price_per_hour: float | None = None
    """What the amount costs, where the policy names prices, or its bound is by the operator's."""
    bounded_by: str | None = None
    """What cut the amount: 'maxCostPerHour', 'most seen'."""

    @property
    def share_today(self) -> float | None:
        """The share of pods that started at once in the last 24 hours, None where none came."""
        return 1 - self.late_today / self.started_today if self.started_today else None


@dataclass(frozen=True, slots=True)
class Amount:
    """Extra capacity that is wanted now."""

    cpu_millis: int
    memory_bytes: int
    why: SizingReason
    mix: tuple[tuple[Requests, float], ...] = ()
    """Requests of one pod, and how much of what comes at this hour is like it, to a power of two: weights, which need
    not sum up to 1; empty where nothing came."""
    soon: Requests = (0, 0)
    """The most that will be wanted until the shrink delay has passed: of what is there so much is kept."""
    at_least_rate: bool = False
    """The rate holds as well: the larger of both is kept."""
