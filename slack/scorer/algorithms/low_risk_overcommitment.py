"""LowRiskOverCommitment: nodes by how much their pods' limits go beyond them, and by how often their load does.

The scheduler plugins' lowriskovercommitment.go and beta.go. riskLimit is how far limits exceed the node, as a share of
what lies between limits and requests. riskLoad is how often the load exceeds what is requested, by a beta distribution
of its mean and deviation; it does not depend on the pod, so it is computed once a refresh, for nodes that have changed.
Unlike upstream a resource without metrics does not halve the risk of its limits, and recent pods are load.
"""

from dataclasses import dataclass

import numpy as np

from slack.scorer.algorithms import beta
from slack.scorer.algorithms.figures import share, take_columns
from slack.scorer.algorithms.moments import mu_of, sigma_of
from slack.scorer.model import (
    RESOURCES,
    BoolArray,
    FloatArray,
    IntArray,
    NodeUsage,
    PodDemand,
    Prepared,
    ScoredNodes,
)

NAME = "LowRiskOverCommitment"
_MOST_VARIANCE = 0.99
"""Of what a distribution on [0, 1] with the same mean can have."""


def limit_risk(request: FloatArray, limit: FloatArray, size: FloatArray) -> FloatArray:
    """Return (limit - size) / (limit - request), 0 where limits do not exceed the node."""
    return share(np.maximum(limit - size, 0.0), limit - np.minimum(request, size))


def smoothed_sigma(mu: FloatArray, sigma: FloatArray, smoothing_window: float) -> FloatArray:
    """Return the deviation of what was smoothed over so many points, within what a mean allows."""
    most = np.sqrt(mu * (1.0 - mu) * _MOST_VARIANCE)
    smoothed: FloatArray = np.minimum(sigma * np.sqrt(smoothing_window), most)
    return smoothed


def load_within(mu: FloatArray, sigma: FloatArray, threshold: FloatArray) -> FloatArray:
    """Return P(load <= threshold), all of them shares of the node."""
    probability: FloatArray = np.where((mu <= 0.0) | (mu <= threshold), 1.0, 0.0)
    spread = (mu > 0.0) & (mu < 1.0) & (sigma > 0.0)
    if spread.any():
        alpha, own_beta = beta.shape_of(mu[spread], sigma[spread] ** 2)
        probability[spread] = beta.cumulative(alpha, own_beta, threshold[spread])
    return probability


def load_risk(
    mu: FloatArray, sigma: FloatArray, request: FloatArray, limit: FloatArray, size: FloatArray
) -> FloatArray:
    """Return how probable it is that the load exceeds what is requested, given that limits hold it.

    Args:
        mu: mean share that is used.
        sigma: its deviation, as of `smoothed_sigma`.
        request: what pods there request.
        limit: what their limits come to.
        size: what the node has.
    """
    within = load_within(mu, sigma, np.clip(share(request, size), 0.0, 1.0))
    held = (limit < size) & (request <= limit)
    if held.any():
        below_limit = load_within(mu[held], sigma[held], share(limit[held], size[held]))
        conditional = np.clip(share(within[held], below_limit), 0.0, 1.0)
        # Without limits nothing can be said against the node; a load that is never below them is all risk, as upstream.
        within[held] = np.where(limit[held] <= 0.0, 1.0, conditional)
    return 1.0 - within


@dataclass(frozen=True, slots=True)
class LowRiskOverCommitment:
    """The algorithm with its arguments."""

    smoothing_window: float = 5.0
    """smoothingWindowSize: over how many points the metrics were averaged before their deviation was taken."""
    limit_weights: tuple[float, float] = (0.5, 0.5)
    """riskLimitWeights of CPU and memory: how much limits count; the rest is the load's."""

    @property
    def name(self) -> str:
        """Upstream's name of the plugin."""
        return NAME

    def prepare(self, nodes: ScoredNodes, usage: NodeUsage, before: Prepared | None) -> Prepared:
        """Return what scores pods."""
        inputs = np.stack(
            [nodes.allocatable, nodes.requested, nodes.limited, usage.mean_percent, usage.deviation_percent,
             usage.missing]
        )  # fmt: skip
        known = usage.known & (nodes.allocatable > 0)
        risk = self._load_risk(inputs, known, before if isinstance(before, _Prepared) else None)
        size, requested, limited = inputs[:3]
        weights = np.where(known, np.array(self.limit_weights)[:, np.newaxis], 1.0)
        there = size > 0
        of_load = np.where(there, (1.0 - weights) * risk, 1.0)  # without the resource the risk is 1
        table = np.concatenate([size, requested, limited, weights * there, of_load, risk])
        return _Prepared(inputs, known, risk, table)

    def _load_risk(self, inputs: FloatArray, known: BoolArray, before: "_Prepared | None") -> FloatArray:
        risk = np.zeros(known.shape)
        changed = known
        if before is not None and before.inputs.shape == inputs.shape:
            changed = known & ~(before.known & (before.inputs == inputs).all(axis=0))
            risk = np.where(known, before.load_risk, 0.0)
        if changed.any():
            size, requested, limited, mean, deviation, missing = inputs[:, changed]
            mu = mu_of(mean, missing, size)
            sigma = smoothed_sigma(mu, sigma_of(deviation, size), self.smoothing_window)
            risk[changed] = load_risk(mu, sigma, np.minimum(requested, size), limited, size)
        return risk


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    inputs: FloatArray
    """[6, 2, N] what the risk of the load was computed from, to see what has changed."""
    known: BoolArray
    load_risk: FloatArray
    table: FloatArray
    """[12, N] of CPU and memory each: the node's size, requests and limits there, the weight of limits (1 where the
    load is not known: then limits are all there is to judge by), what the load's risk adds, and that risk."""

    def score(self, pod: PodDemand, rows: IntArray | slice) -> tuple[FloatArray, dict[str, FloatArray]]:
        size, requested, limited, weight, of_load, load = take_columns(self.table, rows).reshape(6, len(RESOURCES), -1)
        request, limit = np.array(pod.requests)[:, np.newaxis], np.array(pod.limits)[:, np.newaxis]
        of_limits = limit_risk(requested + request, limited + np.maximum(limit, request), size)
        risk = weight * of_limits + of_load
        worst = np.maximum(*risk)
        terms = {
            f"{name}_{term}": values[resource]
            for resource, name in enumerate(RESOURCES)
            for term, values in (("limit_risk", of_limits), ("load_risk", load), ("risk", risk))
        }
        asks_for_nothing = not any((*pod.requests, *pod.limits))
        return np.zeros_like(worst) if asks_for_nothing else (1.0 - worst) * 100.0, terms
