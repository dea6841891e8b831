"""Preemption as DefaultPreemption does it: which node, which victims.

On a node: take all pods of lower priority away, then put back the more important ones (higher priority, then older)
as long as the preemptor still fits (SelectVictimsOnNode). Among nodes (pickOneNodeForPreemption): lowest highest
victim priority, smallest sum of (priority + 2^31), fewest victims, latest start of the most important victims; then the
first. There are no PodDisruptionBudgets here.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import ModelledCluster

_MIN_CANDIDATES = 100
_CANDIDATES_SHARE = 0.1
"""DefaultPreemptionArgs: minCandidateNodesAbsolute 100, minCandidateNodesPercentage 10."""
_OFFSET = 2**31


@dataclass(frozen=True, slots=True)
class Chosen:
    """Where to preempt whom."""

    node: int
    victims: tuple[int, ...]
    rank: tuple[float, ...]
    """Smaller is better."""


class Preemption:
    """Chooses; the scheduler carries out. What was found for a node is kept until something changes there."""

    def __init__(self, cluster: ModelledCluster, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._rng = rng
        self._found: dict[tuple[int, int], tuple[int, Chosen | None]] = {}

    def could(self, kind: PodKind, node: int) -> bool:
        """Whether a pod could fit if every pod of lower priority left the node; anti-affinity not looked at."""
        if not kind.preempts or not self._cluster.allowed(kind)[node]:
            return False
        free = self._cluster.free[:, node].copy()
        lower = False
        for priority, matrix in self._cluster.lower.items():
            if priority < kind.priority:
                free += matrix[:, node]
                lower = lower or bool(matrix[:, node].any())
        return lower and all(free[column] >= amount for column, amount in kind.needs)

    def choose(self, kind: PodKind, row: int) -> Chosen | None:
        """Return the node and the victims for a pod that fits nowhere, None where preemption does not help."""
        rows = np.flatnonzero(self._candidates(kind))
        if not len(rows):
            return None
        enough = max(_MIN_CANDIDATES, int(_CANDIDATES_SHARE * len(self._cluster.rows(2))))
        if len(rows) > enough:
            # GetOffsetAndNumCandidates: a random start, so that it is not always the same nodes
            rows = np.roll(rows, -int(self._rng.integers(len(rows))))
        best: Chosen | None = None
        looked = 0
        for node in rows.tolist():
            found = self._on_node(kind, node)
            if found is None:
                continue
            looked += 1
            if best is None or found.rank < best.rank:
                best = found
            if looked >= enough:
                break
        return best

    def _candidates(self, kind: PodKind) -> BoolArray:
        cluster = self._cluster
        size = cluster.size
        mask = cluster.allowed(kind).copy()
        levels = [matrix for priority, matrix in cluster.lower.items() if priority < kind.priority]
        if not levels:
            return np.zeros(size, dtype=np.bool_)
        any_lower = np.zeros(size, dtype=np.bool_)
        for column in range(cluster.free.shape[0]):
            for matrix in levels:
                any_lower |= matrix[column, :size] > 0
        mask &= any_lower
        for column, amount in kind.needs:
            free: IntArray = cluster.free[column, :size].copy()
            for matrix in levels:
                free += matrix[column, :size]
            mask &= free >= amount
        for other in kind.conflicts:
            standing = cluster.standing.get(other)
            if standing is not None and cluster.kinds[other].priority >= kind.priority:
                mask &= standing[:size] == 0
        return mask

    def _on_node(self, kind: PodKind, node: int) -> Chosen | None:
        version = self._cluster.version[node]
        known = self._found.get((kind.index, node))
        if known is None or known[0] != version:
            known = self._found[kind.index, node] = (version, self._select(kind, node))
        return known[1]

    def _select(self, kind: PodKind, node: int) -> Chosen | None:
        """SelectVictimsOnNode and the node's rank."""
        cluster = self._cluster
        kinds, kind_of = cluster.kinds, cluster.kind_of
        lower = [pod for pod in cluster.pods_on[node] if kinds[kind_of[pod]].priority < kind.priority]
        if not lower:
            return None
        # MoreImportantPod: higher priority, then earlier start
        lower.sort(key=lambda pod: (-kinds[kind_of[pod]].priority, cluster.bound_at[pod], cluster.number[pod]))
        free = cluster.free[:, node].tolist()
        slots = int(cluster.slots[node]) + len(lower) - 1
        for pod in lower:
            for column, amount in kinds[kind_of[pod]].needs:
                free[column] += amount
        for pod in cluster.nominations.get(node, ()):
            other = kinds[kind_of[pod]]
            if other.priority >= kind.priority:
                if other.index in kind.conflicts:
                    return None
                slots -= 1
                for column, amount in other.needs:
                    free[column] -= amount
        for column, amount in kind.needs:
            free[column] -= amount
        if min(free) < 0 or slots < 0:
            return None
        victims = []
        for pod in lower:
            other = kinds[kind_of[pod]]
            stays = slots > 0 and other.index not in kind.conflicts
            if stays and all(free[column] >= amount for column, amount in other.needs):
                slots -= 1
                for column, amount in other.needs:
                    free[column] -= amount
            else:
                victims.append(pod)
        if not victims:
            return None  # a nominated pod of lower priority is in the way only for those below it
        priorities = [kinds[kind_of[pod]].priority for pod in victims]
        highest = max(priorities)
        start = min(cluster.bound_at[v] for v, p in zip(victims, priorities, strict=True) if p == highest)
        rank = (highest, sum(p + _OFFSET for p in priorities), len(victims), -start)
        return Chosen(node, tuple(victims), rank)
