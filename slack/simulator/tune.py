"""The cheapest rate that reaches a wanted instant-start ratio, by runs of one scenario with several seeds.

The same seeds are used for every rate, so that rates differ by their slack and not by their luck. A coarse curve is
run first (people want to see it), then the interval in which the goal is crossed is halved down to `step`.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from slack.cluster.quantity import format_quantity
from slack.planner.policy import API_VERSION, KIND
from slack.simulator.result import Result
from slack.simulator.scenario import Policies, Scenario

COARSE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t, 97.5 %, for 1 to 15 degrees of freedom; from then on the normal distribution's 1.96 is near enough."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run to make."""

    rate: float
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to."""

    rate: float
    seed: int
    instant_start_ratio: float
    cost_per_month: float
    waste: float
    p99_seconds: float
    """Time to bind."""
    nodes: float
    """Mean number of nodes paid."""

    @classmethod
    def of(cls, trial: Trial, result: Result) -> "Outcome":
        """Return a run's outcome."""
        hours = result.measured_seconds / 3600
        return cls(
            trial.rate,
            trial.seed,
            result.instant_start_ratio,
            result.cost_per_month,
            result.waste,
            result.total.p99_seconds,
            result.node_hours / hours if hours else 0.0,
        )


Evaluate = Callable[[Sequence[Trial]], Iterable[Outcome]]
"""Makes runs, in any order, on any number of processes."""


@dataclass(frozen=True, slots=True)
class Point:
    """One rate of the curve: means over the seeds."""

    rate: float
    instant_start_ratio: float
    low: float
    """95 % confidence interval of the mean over seeds."""
    high: float
    cost_per_month: float
    waste: float
    p99_seconds: float
    nodes: float
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Point":
        """Return the point of one rate's runs."""
        ordered = tuple(sorted(outcomes, key=lambda one: one.seed))
        mean, low, high = interval([one.instant_start_ratio for one in ordered])
        return cls(
            ordered[0].rate,
            mean,
            max(low, 0.0),
            min(high, 1.0),
            statistics.fmean(one.cost_per_month for one in ordered),
            statistics.fmean(one.waste for one in ordered),
            statistics.fmean(one.p99_seconds for one in ordered),
            statistics.fmean(one.nodes for one in ordered),
            ordered,
        )


@dataclass(frozen=True, slots=True)
class Tuned:
    """The curve and the choice."""

    goal: float
    seeds: tuple[int, ...]
    curve: tuple[Point, ...]
    """In order of rate."""
    chosen: Point | None
    """None when no rate that was tried reaches the goal."""

    @property
    def best(self) -> Point:
        """The point that starts the most pods at once, the cheapest of these."""
        return max(self.curve, key=lambda one: (one.instant_start_ratio, -one.cost_per_month, -one.rate))

    def without(self) -> Point:
        """The point of rate 0: the least that the policy keeps."""
        return self.curve[0]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, and the 95 % confidence interval of the mean (Student's t); of one value, the value thrice."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, mean, mean
    degrees = len(values) - 1
    quantile = _T_975[degrees - 1] if degrees <= len(_T_975) else 1.96
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def tune(goal: float, seeds: Sequence[int], evaluate: Evaluate, *, step: float = 0.01, largest: float = 1.0) -> Tuned:
    """Find the cheapest rate, a multiple of `step` up to `largest`, whose mean instant-start ratio reaches the goal.

    More slack starts no fewer pods at once; where chance makes a curve dip, the lowest rate that reaches is refined.
    """
    points: dict[int, Point] = {}
    last = max(1, round(largest / step))

    def run(numbers: Iterable[int]) -> None:
        new = sorted({number for number in numbers if number not in points})
        outcomes: dict[int, list[Outcome]] = {number: [] for number in new}
        for one in evaluate([Trial(_rate(number, step), seed) for number in new for seed in seeds]):
            outcomes[round(one.rate / step)].append(one)
        points.update({number: Point.of(found) for number, found in outcomes.items()})

    def reaches(number: int) -> bool:
        return points[number].instant_start_ratio >= goal - 1e-12

    run({round(rate / step) for rate in COARSE if rate <= largest} | {last})
    reaching = [number for number in sorted(points) if reaches(number)]
    if reaching:
        high = reaching[0]
        low = max((number for number in points if number < high), default=high)
        while high - low > 1:
            middle = (low + high) // 2
            run([middle])
            low, high = (low, middle) if reaches(middle) else (middle, high)
    chosen = min(
        (points[number] for number in points if reaches(number)),
        key=lambda one: (one.cost_per_month, one.rate),
        default=None,
    )
    return Tuned(goal, tuple(seeds), tuple(points[number] for number in sorted(points)), chosen)


def _rate(number: int, step: float) -> float:
    return round(number * step, 9)


def policies(scenario: Scenario, rate: float) -> list[dict[str, Any]]:
    """Return the scenario's policies at a rate as SlackPolicy objects, ready to apply.

    Only what differs from the defaults is written, as people would.
    """
    slack = scenario.slack if isinstance(scenario.slack, Policies) else Policies()
    found = []
    for policy in slack.policies:
        spec = _written(policy.spec.model_dump(by_alias=True, exclude_defaults=True))
        extra = spec.get("extraCapacity", {})
        kept = {name: value for name, value in extra.items() if name not in ("replicas", "ladder", "schedule")}
        spec["extraCapacity"] = {**kept, "minRate": rate}
        found.append({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": policy.name}, "spec": spec})
    return found


_AMOUNTS = frozenset({"floor", "ceiling", "allocatable", "fromRequested"})


def _written(value: Any, name: str = "") -> Any:
    """Return a model's value as the object has it: amounts as quantities (they are millicores and bytes), durations."""
    if isinstance(value, Mapping):
        if name in _AMOUNTS:
            return {key: format_quantity(key, amount) for key, amount in value.items()}
        return {key: _written(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_written(one) for one in value]
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    return str(value) if isinstance(value, StrEnum) else value
