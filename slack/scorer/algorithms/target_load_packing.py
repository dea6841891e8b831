"""TargetLoadPacking: nodes are packed up to a target utilization of CPU, then spread over.

The scheduler plugins' targetloadpacking.go and the proposal's section on it. Both have one curve; they differ in what
the pod counts for (`PodUse`) and in the default target. A node without capacity has 0, not the score of the target.
"""

from dataclasses import dataclass, field

import numpy as np

from slack.scorer.algorithms.figures import per_unit, share, take_columns
from slack.scorer.model import CPU, FloatArray, IntArray, NodeUsage, PodDemand, Prepared, ScoredNodes
from slack.scorer.rules import Formula, Prediction

NAME = "TargetLoadPacking"


def utilization_percent(
    mean_percent: FloatArray, capacity_millis: FloatArray, pod_millis: float, missing_millis: FloatArray
) -> FloatArray:
    """Return U, the expected utilization once the pod runs there; NaN without capacity."""
    added = share(pod_millis + missing_millis, capacity_millis) * 100.0
    expected: FloatArray = np.where(capacity_millis > 0, mean_percent + added, np.nan)
    return expected


def curve(utilization: FloatArray, target_percent: float) -> FloatArray:
    """Return the score of a utilization in percent: from the target's value up to 100 at the target, then falling.

    U <= X: (100 - X) U / X + X. X < U <= 100: X (100 - U) / (100 - X). Above 100, and what is not known: 0.
    """
    target = target_percent
    rising = (100.0 - target) * utilization / target + target
    falling = target * (100.0 - utilization) / max(100.0 - target, 1e-300)
    scores: FloatArray = np.where(utilization <= target, rising, np.where(utilization <= 100.0, falling, 0.0))
    return scores


@dataclass(frozen=True, slots=True)
class TargetLoadPacking:
    """The algorithm with its arguments."""

    target_percent: float = 40.0
    formula: Formula = Formula.IMPLEMENTED
    prediction: Prediction = field(default_factory=Prediction)
    """Of pods, before they are bound and after; `ScorerConfig.rules` takes it over."""

    @property
    def name(self) -> str:
        """Upstream's name of the plugin."""
        return NAME

    def prepare(self, nodes: ScoredNodes, usage: NodeUsage, before: Prepared | None) -> Prepared:
        """Return what scores pods."""
        mean = np.where(usage.known[CPU], usage.mean_percent[CPU], np.nan)
        capacity = nodes.capacity[CPU]
        expected = utilization_percent(mean, capacity, 0.0, usage.missing[CPU])
        return _Prepared(self.target_percent, np.stack([mean, expected, per_unit(capacity) * 100.0]))


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    target_percent: float
    table: FloatArray
    """[3, N] mean, what is expected without the pod, percent a millicore."""

    def score(self, pod: PodDemand, rows: IntArray | slice) -> tuple[FloatArray, dict[str, FloatArray]]:
        mean, expected, per_cent = take_columns(self.table, rows)
        expected = expected + pod.predicted[CPU] * per_cent
        return curve(expected, self.target_percent), {"mean_percent": mean, "utilization_percent": expected}
