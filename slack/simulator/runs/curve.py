"""The curve of rate against instant start and cost, by runs of one scenario with several seeds.

The same seeds are used for every rate, so that rates differ by their slack and not by their luck.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slack.simulator.model.result import HOURS_PER_MONTH, Result
from slack.simulator.runs.estimate import Estimate


class NothingMeasured(ValueError):
    """No pod came in the measured time of any run: a ratio of nothing says nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run to make."""

    rate: float
    seed: int
    goal: float | None = None
    """The run may be given up once its share of pods that start at once cannot reach this any more."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What a trial came to that cannot reach its goal."""

    rate: float
    seed: int


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The figures of one trial."""

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
    late_per_day: float = 0.0
    """Pods that did not start at once."""
    waited_hours_per_day: float = 0.0
    """Of all pods together."""

    @classmethod
    def from_result(cls, trial: Trial, result: Result) -> "TrialResult":
        """Return the figures of a run."""
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
            (result.total.pods - result.total.instant) / hours * 24 if hours else 0.0,
            result.total.pending_pod_seconds / 3600 / hours * 24 if hours else 0.0,
        )


Evaluate = Callable[[Sequence[Trial]], Iterable[TrialResult | GivenUp]]
"""Makes runs, in any order, on any number of processes; one without a goal is never given up."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
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
    late_per_day: float
    waited_hours_per_day: float
    results: tuple[TrialResult, ...]
    """In order of seed."""

    @classmethod
    def from_results(cls, results: Sequence[TrialResult]) -> "CurvePoint":
        """Return the point of one rate's runs; a run in which no pod came counts for cost alone.

        Raises:
            NothingMeasured: when no pod came in any of them.
        """
        ordered = tuple(sorted(results, key=lambda run: run.seed))
        started = [run for run in ordered if run.pods]
        if not started:
            raise NothingMeasured("no pod comes in the measured time (after the warm-up, before the end)")
        ratio = Estimate.from_values([run.instant_start_ratio for run in started]).within(0.0, 1.0)
        cost = Estimate.from_values([run.cost_per_month for run in ordered]).within(0.0, math.inf)
        return cls(
            ordered[0].rate,
            ratio.mean,
            ratio.low,
            ratio.high,
            cost.mean,
            cost.low,
            cost.high,
            statistics.fmean(run.waste for run in ordered),
            statistics.fmean(run.p99_seconds for run in started),
            statistics.fmean(run.nodes for run in ordered),
            statistics.fmean(run.late_per_day for run in ordered),
            statistics.fmean(run.waited_hours_per_day for run in ordered),
            ordered,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; of one run there is no interval."""
        several = len(self.results) > 1
        runs = [asdict(figures) for figures in self.results]
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
            "node_hours_per_month": self.nodes * HOURS_PER_MONTH,
            "late_per_day": self.late_per_day,
            "waited_hours_per_day": self.waited_hours_per_day,
            "runs": runs,
        }


def curve(rates: Iterable[float], seeds: Sequence[int], evaluate: Evaluate) -> tuple[CurvePoint, ...]:
    """Return the points of these rates in their order, the lowest first.

    Raises:
        NothingMeasured: when the scenario has no pods to measure.
    """
    found: dict[float, list[TrialResult]] = {rate: [] for rate in sorted(set(rates))}
    for run in evaluate([Trial(rate, seed) for rate in found for seed in seeds]):
        assert isinstance(run, TrialResult)  # without a goal
        found[run.rate].append(run)
    return tuple(CurvePoint.from_results(results) for results in found.values())
