"""Filter and score: which node a pod goes to, over all nodes at once.

Filters: ready, selectors and taints, requests, pod slots, required anti-affinity over hosts, nominated pods of the
same or a higher priority counted as if they were there (RunFilterPluginsWithNominatedPods). Scores: NodeResourcesFit
with integers as upstream, and TaintToleration (weight 3) against nodes that are about to be deleted, or that have the
soft taint. Upstream draws
among equals; here the first row wins. A `NodeScoring` takes the place of NodeResourcesFit, or stands beside it, as an
extender or a plugin does in a real scheduler; filters and TaintToleration stay.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, BoolArray, IntArray
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import READY, ModelledCluster

_TAINT_SCORE = 300
"""MaxNodeScore 100 x weight 3 of TaintToleration (apis/config/v1/default_plugins.go)."""

_NEVER = -(10**6)
_ROUNDING = 1e-9
"""What should be whole after multiplying by 100 / capacity is whole."""


class ScoreNodes(Protocol):
    """A scoring function: all nodes at once, from what the cluster and the time are, and without changing anything."""

    def __call__(self, cluster: ModelledCluster, row: int, now: float) -> IntArray:
        """[cluster.size] scores of all nodes, 0 to 100, those that cannot take the pod too.

        Args:
            cluster: to be read only.
            row: of the pod that is to be placed.
            now: seconds since the run began.
        """


@dataclass(frozen=True, slots=True)
class NodeScoring:
    """Scores of one's own in the scheduler's profile."""

    score: ScoreNodes
    beside_stock: bool = False
    """Added to NodeResourcesFit, which is off otherwise."""
    weight: int = 1


class Placer:
    """Filters and scores nodes of one cluster."""

    def __init__(self, cluster: ModelledCluster, scoring: str, own: NodeScoring | None = None) -> None:
        self._cluster = cluster
        self._least = scoring == "leastAllocated"
        self._own = own

    def choose(self, kind: PodKind, row: int, now: float = 0.0) -> int:
        """Return the best node for a pod, -1 when none has room."""
        fits = self.feasible(kind, row)
        if not fits.any():
            return -1
        scores = self.scores(kind, fits) if self._own is None else self._with_own(self._own, kind, row, now, fits)
        return int(np.where(fits, scores, _NEVER).argmax())

    def feasible(self, kind: PodKind, row: int) -> BoolArray:
        """[size] nodes that pass all filters."""
        cluster = self._cluster
        size = cluster.size
        fits = cluster.allowed(kind) & (cluster.slots[:size] > 0)
        for column, amount in kind.needs:
            fits &= cluster.free[column, :size] >= amount
        for other in kind.conflicts:
            standing = cluster.standing.get(other)
            if standing is not None:
                fits &= standing[:size] == 0
        for node in cluster.nominations:
            if node < size and fits[node]:
                fits[node] = self.room_for(kind, node, None, but=row) > 0
        return fits

    def scores(self, kind: PodKind, fits: BoolArray | None = None) -> IntArray:
        """[size] what stock plugins say: NodeResourcesFit, and TaintToleration against nodes with soft taints.

        Args:
            kind: of the pod.
            fits: [size] the nodes that pass all filters; None for all nodes.
        """
        total = self._fit(kind)
        self._avoid_tainted(total, fits)
        return total

    def _with_own(self, own: NodeScoring, kind: PodKind, row: int, now: float, fits: BoolArray) -> IntArray:
        cluster = self._cluster
        total = own.weight * own.score(cluster, row, now)
        if total.shape != (cluster.size,):
            raise ValueError(f"the scoring function gave {total.shape} scores, there are {cluster.size} node rows")
        if own.beside_stock:
            total += self._fit(kind)
        self._avoid_tainted(total, fits)
        return total

    def _avoid_tainted(self, total: IntArray, fits: BoolArray | None) -> None:
        """TaintToleration: of the nodes that fit, the one with the most such taints scores 0 (NormalizeScore)."""
        size = self._cluster.size
        going, holding = self._cluster.candidate[:size], self._cluster.softly_tainted[:size]
        if not (going.any() or holding.any()):
            return
        taints = going.astype(np.int64) + holding
        most = int(taints.max() if fits is None else taints[fits].max())
        if most:
            total -= _TAINT_SCORE * taints // most

    def _fit(self, kind: PodKind) -> IntArray:
        """[size] (cpu + memory) / 2, each (capacity - requested) x 100 / capacity in integers, or the opposite."""
        cluster = self._cluster
        size = cluster.size
        total: IntArray = np.zeros(size, dtype=np.int64)
        for column in (CPU, MEMORY):
            left = cluster.free[column, :size] - kind.requests[column]
            if not self._least:
                left = cluster.allocatable[column, :size] - left
            # integer division is five times as slow
            total += np.floor(left * cluster.per_cent[column, :size] + _ROUNDING).astype(np.int64)
        total >>= 1
        return total

    def room_for(self, kind: PodKind, node: int, used: IntArray | None, *, but: int = -1) -> int:
        """Return how many pods of a kind a node has room for, less what is `used`, nominated pods counted."""
        cluster = self._cluster
        if cluster.state[node] != READY or not cluster.allowed(kind)[node]:
            return 0
        for other in kind.conflicts:
            standing = cluster.standing.get(other)
            if standing is not None and standing[node]:
                return 0
        free = cluster.free[:, node].copy() if used is None else cluster.free[:, node] - used
        slots = int(cluster.slots[node])
        for pod in cluster.nominations.get(node, ()):
            other_kind = cluster.kinds[cluster.kind_of[pod]]
            if pod != but and other_kind.priority >= kind.priority:
                if other_kind.index in kind.conflicts:
                    return 0
                free -= other_kind.requests
                slots -= 1
        room = slots
        for column, amount in kind.needs:
            room = min(room, int(free[column]) // amount)
        return max(min(room, 1) if kind.index in kind.conflicts else room, 0)
