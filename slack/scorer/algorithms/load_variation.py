"""LoadVariationRiskBalancing: nodes by the mean of their load and by how much it varies.

`Implemented` is the scheduler plugins' analysis.go: risk = (mu + margin x sigma^(1/sensitivity)) / 2, so that scores
live between 50 and 100 where loads are steady. `Proposal` is the proposal's: 1 - min(M + r + ita x V, 1). Of CPU and
memory the worse counts; where one of them has no metrics the other does.
"""

from dataclasses import dataclass

import numpy as np

from slack.scorer.algorithms.figures import per_unit, share, take_columns
from slack.scorer.algorithms.moments import sigma_of
from slack.scorer.model import (
    RESOURCES,
    FloatArray,
    IntArray,
    NodeUsage,
    PodDemand,
    Prepared,
    ScoredNodes,
)
from slack.scorer.rules import Formula

NAME = "LoadVariationRiskBalancing"


def weighed_sigma(sigma: FloatArray, margin: float, sensitivity: float) -> FloatArray:
    """Return margin x sigma^(1/sensitivity), within [0, 1]; with a sensitivity of 0 only a sigma of 1 remains."""
    if sensitivity == 0.0:
        rooted = np.where(sigma >= 1.0, 1.0, 0.0)
    else:
        rooted = sigma if sensitivity == 1.0 else sigma ** (1.0 / sensitivity)
    weighed: FloatArray = np.clip(margin * rooted, 0.0, 1.0)
    return weighed


def risk_of(mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return the implemented risk, 0 to 1; sigma as `weighed_sigma` has it."""
    return (mu + sigma) / 2.0


def proposed_risk(mean: FloatArray, request: FloatArray, deviation: FloatArray, ita: float) -> FloatArray:
    """Return the proposal's S = min(M + r + ita x V, 1), all of them shares of the capacity."""
    risk: FloatArray = np.minimum(mean + request + ita * deviation, 1.0)
    return risk


@dataclass(frozen=True, slots=True)
class LoadVariationRiskBalancing:
    """The algorithm with its arguments."""

    margin: float = 1.0
    """safeVarianceMargin; the proposal's ita."""
    sensitivity: float = 1.0
    """safeVarianceSensitivity; the proposal has none."""
    formula: Formula = Formula.IMPLEMENTED

    @property
    def name(self) -> str:
        """Upstream's name of the plugin."""
        return NAME

    def prepare(self, nodes: ScoredNodes, usage: NodeUsage, before: Prepared | None) -> Prepared:
        """Return what scores pods."""
        size = nodes.allocatable if self.formula is Formula.IMPLEMENTED else nodes.capacity
        mean, deviation = usage.mean_percent / 100.0, usage.deviation_percent / 100.0
        if self.formula is Formula.IMPLEMENTED:
            mean = np.clip(mean, 0.0, 1.0)
            deviation = weighed_sigma(sigma_of(usage.deviation_percent, size), self.margin, self.sensitivity)
        judged = np.where(usage.known & (size > 0), 0.0, -np.inf)
        table = np.concatenate([mean + share(usage.missing, size), deviation, per_unit(size), judged])
        return _Prepared(self.formula, self.margin, table)


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    formula: Formula
    margin: float
    table: FloatArray
    """[8, N] of CPU and memory each: the share that is used, recent pods included; its deviation, weighed already where
    the implementation weighs it; the share of a unit; 0 where the risk is known, else -inf."""

    def score(self, pod: PodDemand, rows: IntArray | slice) -> tuple[FloatArray, dict[str, FloatArray]]:
        mean, deviation, share_of_one, judged = take_columns(self.table, rows).reshape(4, len(RESOURCES), -1)
        request = np.maximum(np.array(pod.requests), 0.0)[:, np.newaxis] * share_of_one
        if self.formula is Formula.IMPLEMENTED:
            mu = np.minimum(mean + request, 1.0)
            risk = risk_of(mu, deviation)
        else:
            mu = mean + request
            risk = proposed_risk(mean, request, deviation, self.margin)
        worst = np.maximum(*(risk + judged))
        terms = {
            f"{name}_{term}": values[resource]
            for resource, name in enumerate(RESOURCES)
            for term, values in (("mu", mu), ("sigma", deviation), ("risk", risk))
        }
        # Without capacity, and where nothing is known, the score is the minimum.
        return np.where(np.isfinite(worst), (1.0 - worst) * 100.0, 0.0), terms
