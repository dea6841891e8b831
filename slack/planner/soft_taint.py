"""Which nodes get the soft taint: the fewest that hold all unbound placeholders.

The taint has the effect PreferNoSchedule. kube-scheduler then puts real pods on other nodes while these have capacity,
so what unbound placeholders keep free stays in one piece. It keeps no pod waiting. Karpenter takes the taint for one
that keeps pods away: it moves no real pod to such a node, and placeholders need a toleration.
Nodes with the taint come first. So a node has it as long as it still holds some placeholder. One that holds none any
more keeps it for a while: placeholders may come back, and each change is a write to a node.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slack.cluster.classes import Constraints, admits
from slack.cluster.snapshot import IntArray, Placeholder, Snapshot

KEEP_SECONDS = 60.0
"""So long a node keeps the taint although it holds no placeholder any more."""


@dataclass(frozen=True, slots=True)
class TaintDecision:
    """Which nodes get the taint, which lose it, and what the next decision has to know."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    unneeded_since: Mapping[str, float] = field(default_factory=dict)
    """By node: when it was first seen to hold none."""


def decide(
    wanted: Collection[str], tainted: Collection[str], unneeded_since: Mapping[str, float], now: float
) -> TaintDecision:
    """Compare what is wanted with what is there.

    Args:
        wanted: the nodes that should have the taint. If there are none, all lose it at once.
        tainted: those that have it.
        unneeded_since: of the last decision.
        now: in the same seconds.
    """
    since = {name: unneeded_since.get(name, now) for name in sorted(set(tainted) - set(wanted))}
    remove = tuple(name for name, at in since.items() if not wanted or now - at >= KEEP_SECONDS)
    return TaintDecision(tuple(sorted(set(wanted) - set(tainted))), remove, since)


def holding_nodes(snapshot: Snapshot, tainted: Collection[str], left_out: Collection[str] = ()) -> frozenset[str]:
    """Return the names of few nodes that hold all unbound placeholders which fit somewhere.

    First fit: the largest placeholders first, nodes with the taint before others, roomy nodes before full ones. Those
    that avoid other pods stay where the snapshot has them, and so does what this order leaves over.

    Args:
        snapshot: with the nodes on which unbound placeholders fit.
        tainted: names of nodes that have the taint.
        left_out: names of nodes that get none, as they are to go.
    """
    pods = [pod for pod in snapshot.placeholders if pod.unbound and pod.node >= 0]
    if not pods:
        return frozenset()
    room = _Room(snapshot, pods, tainted, left_out)
    for group in room.groups(pods):
        room.fill(group)
    names = snapshot.nodes.names
    return frozenset(names[row] for row in np.flatnonzero(room.holds & room.usable).tolist())


class _Room:
    """What nodes have left beside real pods and bound placeholders, while unbound ones are put there."""

    def __init__(
        self, snapshot: Snapshot, pods: Sequence[Placeholder], tainted: Collection[str], left_out: Collection[str]
    ) -> None:
        nodes = snapshot.nodes
        self._snapshot = snapshot
        self._free: IntArray = nodes.free.copy()
        self._slots: IntArray = nodes.max_pods - nodes.pod_count
        rows = np.array([pod.node for pod in pods], dtype=np.int64)
        vectors = {pod.requests: _vector(pod, snapshot.resources) for pod in pods}
        np.add.at(self._free, rows, np.array([vectors[pod.requests] for pod in pods]))
        np.add.at(self._slots, rows, 1)
        self._vectors = vectors
        out, marked = set(left_out), set(tainted)
        self.usable = nodes.ready & nodes.schedulable
        if out:
            self.usable = self.usable & np.array([name not in out for name in nodes.names], dtype=np.bool_)
        asked = np.array(list(vectors.values())).max(axis=0) > 0
        self._scale = np.maximum(nodes.allocatable.max(axis=0, initial=1), 1)
        share = (self._free / self._scale)[:, asked].min(axis=1, initial=1.0)
        has = np.array([name in marked for name in nodes.names], dtype=np.bool_)
        self._order = np.lexsort((-share, ~has))
        self.holds = np.zeros(len(nodes.names), dtype=np.bool_)

    def groups(self, pods: Sequence[Placeholder]) -> list[list[Placeholder]]:
        """Return the placeholders that are alike, the largest first."""
        alike: dict[tuple[object, ...], list[Placeholder]] = {}
        for pod in pods:
            alike.setdefault((pod.requests, id(pod.constraints)), []).append(pod)
        shares = {key: float((self._vectors[group[0].requests] / self._scale).max()) for key, group in alike.items()}
        return [alike[key] for key in sorted(alike, key=lambda key: -shares[key])]

    def fill(self, group: Sequence[Placeholder]) -> None:
        """Put placeholders that are alike."""
        first, vector = group[0], self._vectors[group[0].requests]
        constraints = first.constraints or Constraints()
        left = len(group)
        if not constraints.anti_affinity:
            reach = np.array([admits(constraints, each) for each in self._snapshot.node_classes], dtype=np.bool_)
            fits = self.usable & reach[self._snapshot.nodes.class_id]
            rooms = np.where(fits, self._slots, 0)
            for column in np.flatnonzero(vector).tolist():
                np.minimum(rooms, self._free[:, column] // vector[column], out=rooms)
            rooms = np.maximum(rooms[self._order], 0)
            taken = np.clip(left - (np.cumsum(rooms) - rooms), 0, rooms)
            self._take(self._order, taken, vector)
            left -= int(taken.sum())
        rows, counts = np.unique([pod.node for pod in group[len(group) - left :]], return_counts=True)
        if left:
            self._take(rows, counts, vector)

    def _take(self, rows: IntArray, counts: IntArray, vector: IntArray) -> None:
        self._free[rows] -= counts[:, None] * vector
        self._slots[rows] -= counts
        self.holds[rows] |= counts > 0


def _vector(pod: Placeholder, resources: Sequence[str]) -> IntArray:
    amounts = dict(pod.requests or ())
    return np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)
