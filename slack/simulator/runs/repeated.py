"""One scenario run with several seeds, as one value: means, and intervals of what people decide by."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slack.simulator.model.result import Result, WorkloadResult
from slack.simulator.runs.estimate import Estimate

_MEANS: tuple[str, ...] = (
    *("node_hours", "cost", "cost_per_month", "waste"),
    *("requested_cpu_hours", "requested_memory_gib_hours", "capacity_cpu_hours", "capacity_memory_gib_hours"),
    *("scale_ups", "scale_up_decisions", "scale_downs"),
    *("placeholders_created", "placeholders_displaced", "placeholders_drained"),
    *("placeholders_made_way", "placeholders_grown", "placeholders_other", "pods_preempted", "pods_drained"),
)
_OF_GROUPS = ("node_hours", "cost", "scale_ups", "scale_downs", "most", "last")
_STARTED = ("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds")
_ALL = ("pods", "bound", "instant", "pending_pod_seconds", "recreated", "recreated_instant")


@dataclass(frozen=True, slots=True)
class StartFigures:
    """How fast pods started, mean over the runs; of one workload, or of all together."""

    workload: str
    runs: tuple[WorkloadResult, ...]

    @property
    def pods(self) -> float:
        """First starts a run."""
        return statistics.fmean(run.pods for run in self.runs)

    @property
    def recreated(self) -> float:
        """Pods a run that took the place of evicted or preempted ones."""
        return statistics.fmean(run.recreated for run in self.runs)

    @property
    def instant_starts(self) -> Estimate | None:
        """The instant-start ratio; None when no pod came in any run. A run without pods has no say."""
        return _ratio([(run.instant, run.pods) for run in self.runs])

    @property
    def recreated_instant_starts(self) -> Estimate | None:
        """The same of recreated pods."""
        return _ratio([(run.recreated_instant, run.recreated) for run in self.runs])

    def mean(self, of: Callable[[WorkloadResult], float]) -> float:
        """Return the mean of a figure over the runs in which pods came; 0 when there is none."""
        return statistics.fmean([of(run) for run in self.runs if run.pods] or [0.0])

    def to_dict(self) -> dict[str, Any]:
        """Return the means as JSON has them; keys as of a run, null where no pod came."""
        started = [run for run in self.runs if run.pods]
        data: dict[str, Any] = {"workload": self.workload}
        data |= {name: _mean([getattr(run, name) for run in self.runs]) for name in _ALL}
        data |= {name: _mean([getattr(run, name) for run in started]) for name in _STARTED}
        for name, found in (
            ("instant_start_ratio", self.instant_starts),
            ("recreated_instant_start_ratio", self.recreated_instant_starts),
        ):
            data[name] = found.mean if found is not None else None
        return data


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean; of one value the value itself, so that a count stays one; None of nothing."""
    if len(values) < 2:
        return next(iter(values), None)
    return statistics.fmean(values)


def _ratio(counts: Sequence[tuple[int, int]]) -> Estimate | None:
    shares = [part / whole for part, whole in counts if whole]
    return Estimate.from_values(shares).within(0.0, 1.0) if shares else None


@dataclass(frozen=True, slots=True)
class Repeated:
    """The runs of one variant, in order of seed."""

    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """The run of the first seed."""
        return self.runs[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """What the runs were seeded with."""
        return tuple(run.seed for run in self.runs)

    @property
    def total(self) -> StartFigures:
        """All workloads together."""
        return StartFigures(self.first.total.workload, tuple(run.total for run in self.runs))

    @property
    def workloads(self) -> tuple[StartFigures, ...]:
        """Each workload, in the scenario's order."""
        return tuple(
            StartFigures(workload.workload, tuple(run.workloads[row] for run in self.runs))
            for row, workload in enumerate(self.first.workloads)
        )

    @property
    def cost(self) -> Estimate:
        """Of the measured time."""
        return self.estimate(lambda run: run.cost)

    def mean(self, of: Callable[[Result], float]) -> float:
        """Return the mean of a figure over the runs."""
        return statistics.fmean(of(run) for run in self.runs)

    def estimate(self, of: Callable[[Result], float]) -> Estimate:
        """Return the mean and the interval of a figure that is never negative."""
        return Estimate.from_values([of(run) for run in self.runs]).within(0.0, math.inf)

    def to_dict(self, *, timeline: bool) -> dict[str, Any]:
        """Return means and every run as JSON has them; of one run there is no interval, of no pods no ratio."""
        several = len(self.runs) > 1
        started, cost = self.total.instant_starts, self.cost
        return {
            "scenario": self.first.scenario,
            "slack": self.first.slack,
            "seeds": list(self.seeds),
            "measured_seconds": self.first.measured_seconds,
            "instant_start_ratio": started.mean if started is not None else None,
            "instant_start_interval": [started.low, started.high] if several and started is not None else None,
            "cost_interval": [cost.low, cost.high] if several else None,
            **{name: _mean([getattr(run, name) for run in self.runs]) for name in _MEANS},
            "total": self.total.to_dict(),
            "workloads": [workload.to_dict() for workload in self.workloads],
            "groups": [
                {"group": group.group}
                | {name: _mean([getattr(run.groups[row], name) for run in self.runs]) for name in _OF_GROUPS}
                for row, group in enumerate(self.first.groups)
            ],
            "runs": [run.to_dict(timeline=timeline) for run in self.runs],
        }
