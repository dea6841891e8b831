"""Peaks: nodes by how many watts a pod adds there, by a power curve of each node: k0 + k1 e^(k2 u).

The scheduler plugins' peaks.go, without its bugs: a node without metrics or without a model, or one that the pod would
take beyond 100 %, has the minimum and not the best score, and large jumps do not overflow. The least jump of the
listed nodes has 100, the largest 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slack.scorer.algorithms.figures import per_unit, share, take_columns
from slack.scorer.model import CPU, FloatArray, IntArray, NodeUsage, PodDemand, Prepared, ScoredNodes

NAME = "Peaks"
_MOST_WATTS = 1e100


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Watts of a node by its CPU utilization u in percent: k0 + k1 e^(k2 u)."""

    k0: float
    k1: float
    k2: float


def _watts(k1: FloatArray, k2: FloatArray, utilization_percent: FloatArray) -> FloatArray:
    """Return what the load draws: k1 e^(k2 u)."""
    with np.errstate(over="ignore", invalid="ignore"):
        watts: FloatArray = k1 * np.exp(k2 * utilization_percent)
    return watts


def _jump(watts: FloatArray, k2: FloatArray, added_percent: FloatArray) -> FloatArray:
    """Return by how much the power rises: k1 (e^(k2 U) - e^(k2 u))."""
    with np.errstate(over="ignore", invalid="ignore"):
        jump = watts * np.expm1(k2 * added_percent)
    held: FloatArray = np.minimum(np.maximum(jump, -_MOST_WATTS), _MOST_WATTS)
    return held


def normalize(jumps: FloatArray) -> FloatArray:
    """Return 100 for the least, 0 for the largest, 0 for NaN; where all are equal each has 100."""
    least, largest = np.fmin.reduce(jumps, initial=np.nan), np.fmax.reduce(jumps, initial=np.nan)
    if np.isnan(least):
        return np.zeros_like(jumps)
    span = float(largest - least)
    scores = 100.0 - (jumps - least) * (100.0 / span) if span > 0 else np.full_like(jumps, 100.0)
    known: FloatArray = np.where(np.isnan(jumps), 0.0, scores)
    return known


@dataclass(frozen=True, slots=True)
class Peaks:
    """The algorithm with its arguments."""

    models: Mapping[str, PowerModel] = field(default_factory=dict)
    """NodePowerModel, by the node's name."""

    @property
    def name(self) -> str:
        """Upstream's name of the plugin."""
        return NAME

    def prepare(self, nodes: ScoredNodes, usage: NodeUsage, before: Prepared | None) -> Prepared:
        """Return what scores pods."""
        if isinstance(before, _Prepared) and before.names is nodes.names:
            k1, k2 = before.k1, before.k2
        else:
            models = [self.models.get(name) for name in nodes.names]
            k1 = np.array([np.nan if model is None else model.k1 for model in models], dtype=np.float64)
            k2 = np.array([np.nan if model is None else model.k2 for model in models], dtype=np.float64)
        capacity = nodes.capacity[CPU]
        known = usage.known[CPU] & (capacity > 0)
        mean = np.where(known, usage.mean_percent[CPU] + share(usage.missing[CPU], capacity) * 100.0, np.nan)
        table = np.stack([k2, _watts(k1, k2, mean), mean, per_unit(capacity) * 100.0])
        return _Prepared(nodes.names, k1, k2, table)


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    names: tuple[str, ...]
    k1: FloatArray
    k2: FloatArray
    table: FloatArray
    """[4, N] k2, watts that the load draws now, mean, percent a millicore."""

    def score(self, pod: PodDemand, rows: IntArray | slice) -> tuple[FloatArray, dict[str, FloatArray]]:
        k2, watts, mean, per_cent = take_columns(self.table, rows)
        added = max(pod.requests[CPU], 0.0) * per_cent
        after = mean + added
        jumps = np.where(after <= 100.0, _jump(watts, k2, added), np.nan)
        terms = {"mean_percent": mean, "utilization_percent": after, "power_jump_watts": jumps}
        return normalize(jumps), terms
