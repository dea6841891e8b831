"""The curve of rate against instant start and cost, by runs of one scenario with several seeds.

The same seeds are used for every rate, so that rates differ by their slack and not by their luck.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slack.simulator.result import Result
from slack.simulator.spread import Estimate


class NothingMeasured(ValueError):
    """No pod came in the measured time of any run: a ratio of nothing says nothing."""


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
    pods: int
    """First starts; where there are none, ratio and wait mean nothing."""
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
            result.total.pods,
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
    cost_low: float
    """95 % confidence interval of the mean over seeds."""
    cost_high: float
    waste: float
    p99_seconds: float
    nodes: float
    outcomes: tuple[Outcome, ...]
    """In order of seed."""

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Point":
        """Return the point of one rate's runs; a run in which no pod came counts for cost alone.

        Raises:
            NothingMeasured: when no pod came in any of them.
        """
        ordered = tuple(sorted(outcomes, key=lambda one: one.seed))
        started = [one for one in ordered if one.pods]
        if not started:
            raise NothingMeasured("no pod comes in the measured time (after the warm-up, before the end)")
        ratio = Estimate.of([one.instant_start_ratio for one in started]).within(0.0, 1.0)
        cost = Estimate.of([one.cost_per_month for one in ordered]).within(0.0, math.inf)
        return cls(
            ordered[0].rate,
            ratio.mean,
            ratio.low,
            ratio.high,
            cost.mean,
            cost.low,
            cost.high,
            statistics.fmean(one.waste for one in ordered),
            statistics.fmean(one.p99_seconds for one in started),
            statistics.fmean(one.nodes for one in ordered),
            ordered,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; of one run there is no interval."""
        several = len(self.outcomes) > 1
        runs = [asdict(one) for one in self.outcomes]
        for run in runs:
            del run["rate"]
            run["instant_start_ratio"] = run["instant_start_ratio"] if run["pods"] else None
        return {
            "rate": self.rate,
            "instant_start_ratio": self.instant_start_ratio,
            "interval": [self.low, self.high] if several else None,
            "cost_per_month": self.cost_per_month,
            "cost_interval": [self.cost_low, self.cost_high] if several else None,
            "waste": self.waste,
            "p99_seconds": self.p99_seconds,
            "nodes": self.nodes,
            "runs": runs,
        }


def curve(rates: Iterable[float], seeds: Sequence[int], evaluate: Evaluate) -> tuple[Point, ...]:
    """Return the points of these rates in their order, the lowest first.

    Raises:
        NothingMeasured: when the scenario has no pods to measure.
    """
    found: dict[float, list[Outcome]] = {rate: [] for rate in sorted(set(rates))}
    for one in evaluate([Trial(rate, seed) for rate in found for seed in seeds]):
        found[one.rate].append(one)
    return tuple(Point.of(outcomes) for outcomes in found.values())
