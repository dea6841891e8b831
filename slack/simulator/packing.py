"""What autoscalers simulate: room on nodes that are there or on their way, filled by kinds of pods, not pod by pod."""

from collections.abc import Iterable

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.simulator.kinds import Kind
from slack.simulator.state import LEAVING, READY, STARTING, Cluster


class Space:
    """A copy of the cluster's room that can be filled. Pods that are nominated to a node have their room there."""

    def __init__(self, cluster: Cluster, *, expendable_below: int | None = None, upcoming: bool = True) -> None:
        self._cluster = cluster
        size = cluster.size
        self.free: IntArray = cluster.free[:, :size].copy()
        self.slots: IntArray = cluster.slots[:size].copy()
        self.usable: BoolArray = cluster.state[:size] == READY
        if upcoming:
            self.usable |= cluster.state[:size] == STARTING
        self._standing: dict[int, IntArray] = {}
        for priority, matrix in cluster.lower.items() if expendable_below is not None else ():
            if expendable_below is not None and priority < expendable_below:
                self.free += matrix[:, :size]
        for node, pods in cluster.nominations.items():
            for pod in pods:
                self.put(cluster.kinds[cluster.kind_of[pod]], node, 1)

    def put(self, kind: Kind, node: int, count: int) -> None:
        """Take room for pods of a kind on a node; a negative count gives it back."""
        for column, amount in kind.needs:
            self.free[column, node] -= count * amount
        self.slots[node] -= count
        if kind.conflicts:
            self._stands(kind.index)[node] += count

    def room(self, kind: Kind) -> IntArray:
        """[size] how many pods of a kind each node has room for."""
        cluster = self._cluster
        room: IntArray = np.where(self.usable & cluster.admitted(kind)[cluster.group_of[: cluster.size]], self.slots, 0)
        for column, amount in kind.needs:
            np.minimum(room, self.free[column] // amount, out=room)
        for other in kind.conflicts:
            room[self._stands(other) > 0] = 0
        if kind.index in kind.conflicts:
            np.minimum(room, 1, out=room)
        return np.maximum(room, 0, out=room)

    def fill(self, kind: Kind, count: int) -> int:
        """Put pods wherever they fit, the first node first; return how many found no room."""
        room = self.room(kind)
        after = np.cumsum(room)
        taken = np.clip(count - (after - room), 0, room)
        used = np.flatnonzero(taken)
        if not len(used):
            return count
        here = taken[used]
        for column, amount in kind.needs:
            self.free[column, used] -= here * amount
        self.slots[used] -= here
        if kind.conflicts:
            self._stands(kind.index)[used] += here
        return count - int(here.sum())

    def fits_all(self, pods: Iterable[tuple[Kind, int]]) -> bool:
        """Put all of these pods somewhere, the largest first; where one finds no room, nothing has changed."""
        before = self.free.copy(), self.slots.copy(), {k: row.copy() for k, row in self._standing.items()}
        for kind, count in pods:
            if self.fill(kind, count):
                self.free, self.slots, self._standing = before
                return False
        return True

    def _stands(self, kind: int) -> IntArray:
        row = self._standing.get(kind)
        if row is None:
            known = self._cluster.standing.get(kind)
            size = self._cluster.size
            row = self._standing[kind] = np.zeros(size, dtype=np.int64) if known is None else known[:size].copy()
        return row


def kinds_on(cluster: Cluster, node: int, *, from_priority: int | None = None) -> list[tuple[Kind, int]]:
    """Count a node's pods by kind, the largest first; those below a priority are left out."""
    counts: dict[int, int] = {}
    for pod in cluster.pods_on[node]:
        kind = cluster.kind_of[pod]
        counts[kind] = counts.get(kind, 0) + 1
    found = [(cluster.kinds[kind], count) for kind, count in counts.items()]
    if from_priority is not None:
        found = [(kind, count) for kind, count in found if kind.priority >= from_priority]
    return sorted(found, key=lambda pair: (*(-pair[0].requests).tolist(), pair[0].index))


def headroom(cluster: Cluster, group: int, max_nodes_total: int) -> tuple[int, bool]:
    """Return how many nodes may be added to a group, and whether it is the total that is short."""
    own = cluster.groups[group].max - cluster.group_counts[group]
    if not max_nodes_total:
        return max(own, 0), False
    total = max_nodes_total - sum(cluster.group_counts) - len(cluster.rows(LEAVING))
    return max(min(own, total), 0), total < own
