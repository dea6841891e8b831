"""What autoscalers simulate: room on nodes that are there or on their way, filled by kinds of pods, not pod by pod."""

from collections.abc import Iterable, Sequence

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import LEAVING, READY, STARTING, ModelledCluster


class Space:
    """A copy of the cluster's room that can be filled. Pods that are nominated to a node have their room there."""

    def __init__(
        self,
        cluster: ModelledCluster,
        *,
        expendable_below: int | None = None,
        upcoming: bool = True,
        strict_taints: bool = False,
    ) -> None:
        """The cluster as it is.

        Args:
            cluster: is left as it is.
            expendable_below: the capacity of pods with a lower priority is free.
            upcoming: whether pods fit on nodes that are starting.
            strict_taints: whether PreferNoSchedule keeps pods without a toleration away (Karpenter's
                scheduling/taints.go, Tolerates). Cluster Autoscaler has the scheduler's filters, which leave it out.
        """
        self._cluster = cluster
        size = self._size = cluster.size  # nodes that are added from here on are not in it
        self.free: IntArray = cluster.free[:, :size].copy()
        self.slots: IntArray = cluster.slots[:size].copy()
        self.usable: BoolArray = cluster.state[:size] == READY
        if upcoming:
            self.usable |= cluster.state[:size] == STARTING
        self._avoided = cluster.softly_tainted[:size].copy() if strict_taints else None
        self.added: dict[int, list[tuple[PodKind, int]]] = {}
        """By node: what was put there."""
        self._log: list[int] = []
        """Nodes in the order in which something was put there."""
        self._standing: dict[int, IntArray] = {}
        for priority, matrix in cluster.lower.items() if expendable_below is not None else ():
            if expendable_below is not None and priority < expendable_below:
                self.free += matrix[:, :size]
        for node, pods in cluster.nominations.items():
            for pod in pods:
                self.put(cluster.kinds[cluster.kind_of[pod]], node, 1)

    def put(self, kind: PodKind, node: int, count: int) -> None:
        """Take room for pods of a kind on a node."""
        self._note(kind, node, count)
        for column, amount in kind.needs:
            self.free[column, node] -= count * amount
        self.slots[node] -= count
        if kind.conflicts:
            self._stands(kind.index)[node] += count

    def room(self, kind: PodKind) -> IntArray:
        """[size] how many pods of a kind each node has room for."""
        cluster = self._cluster
        room: IntArray = np.where(self.usable & cluster.admitted(kind)[cluster.group_of[: self._size]], self.slots, 0)
        for column, amount in kind.needs:
            np.minimum(room, self.free[column] // amount, out=room)
        if self._avoided is not None and not kind.tolerates_soft_taint:
            room[self._avoided] = 0
        for other in kind.conflicts:
            room[self._stands(other) > 0] = 0
        if kind.index in kind.conflicts:
            np.minimum(room, 1, out=room)
        return np.maximum(room, 0, out=room)

    def fill(self, kind: PodKind, count: int) -> int:
        """Put pods wherever they fit, the first node first; return how many found no room."""
        room = self.room(kind)
        after = room.cumsum()
        last = int(after.searchsorted(count))  # where the last of them goes
        used = np.flatnonzero(room[: last + 1])
        if not len(used):
            return count
        here = room[used]
        missing = 0
        if last < len(room):
            here[-1] -= after[last] - count
        else:
            missing = count - int(after[-1])
        for node, put in zip(used.tolist(), here.tolist(), strict=True):
            self._note(kind, node, put)
        for column, amount in kind.needs:
            self.free[column, used] -= here * amount
        self.slots[used] -= here
        if kind.conflicts:
            self._stands(kind.index)[used] += here
        return missing

    def fill_by_hints(self, kind: PodKind, pods: Sequence[int], hints: "Hints") -> int:
        """Put each pod where it was put the last time, if it fits there, the others by turns; return how many are left.

        Cluster Autoscaler does so (simulator/scheduling/hinting_simulator.go): from the node after the last match on,
        the first that fits.
        """
        room = self.room(kind)
        lone = kind.index in kind.conflicts
        after: list[int] = []
        for pod in pods:
            node = hints.row_of(pod)
            if 0 <= node < self._size and room[node] > 0:
                room[node] -= 1
                self.put(kind, node, 1)
                hints.keep(pod, node)
            else:
                after.append(pod)
        for left, pod in enumerate(after):
            fitting = np.flatnonzero(room)
            if not len(fitting):
                return len(after) - left
            node = int(fitting[np.searchsorted(fitting, hints.start) % len(fitting)])
            hints.start = node + 1
            room[node] = 0 if lone else room[node] - 1
            self.put(kind, node, 1)
            hints.keep(pod, node)
        return 0

    def fits_all(self, pods: Iterable[tuple[PodKind, int]]) -> bool:
        """Put all of these pods somewhere, the largest first; where one finds no room, nothing has changed."""
        mark = len(self._log)
        for kind, count in pods:
            if self.fill(kind, count):
                self._undo(mark)
                return False
        return True

    def _undo(self, mark: int) -> None:
        for node in reversed(self._log[mark:]):
            kind, count = self.added[node].pop()
            for column, amount in kind.needs:
                self.free[column, node] += count * amount
            self.slots[node] += count
            if kind.conflicts:
                self._stands(kind.index)[node] -= count
        del self._log[mark:]

    def only_ready(self) -> None:
        """From now on nothing is put on nodes that are not there yet."""
        self.usable &= self._cluster.state[: self._size] == READY

    def kinds_on(self, node: int, *, from_priority: int) -> list[tuple[PodKind, int]]:
        """Count the pods on a node by kind, those that were put there too, the largest first."""
        found = kinds_on(self._cluster, node, from_priority=from_priority)
        added = [(kind, count) for kind, count in self.added.get(node, ()) if kind.priority >= from_priority]
        return by_size([*found, *added]) if added else found

    def _note(self, kind: PodKind, node: int, count: int) -> None:
        self.added.setdefault(node, []).append((kind, count))
        self._log.append(node)

    def _stands(self, kind: int) -> IntArray:
        row = self._standing.get(kind)
        if row is None:
            known = self._cluster.standing.get(kind)
            size = self._size
            row = self._standing[kind] = np.zeros(size, dtype=np.int64) if known is None else known[:size].copy()
        return row


class Hints:
    """Where pending pods were put the last time."""

    def __init__(self, cluster: ModelledCluster) -> None:
        self._cluster = cluster
        self._nodes: dict[int, tuple[int, float]] = {}
        """By a pod's number: row, and when the node was made, as rows are used again."""
        self.start = 0
        """From which row on the next pod without a hint is tried."""

    def row_of(self, pod: int) -> int:
        """Return the row for a pod; -1 where there is none."""
        row, made = self._nodes.get(self._cluster.number[pod], (-1, 0.0))
        return row if row >= 0 and self._cluster.created_at[row] == made else -1

    def keep(self, pod: int, node: int) -> None:
        """Remember where a pod was put."""
        self._nodes[self._cluster.number[pod]] = node, self._cluster.created_at[node]

    def keep_only(self, pods: Iterable[int]) -> None:
        """Forget pods that are no more."""
        numbers = {self._cluster.number[pod] for pod in pods}
        if len(self._nodes) > len(numbers):
            self._nodes = {number: node for number, node in self._nodes.items() if number in numbers}


def kinds_on(cluster: ModelledCluster, node: int, *, from_priority: int | None = None) -> list[tuple[PodKind, int]]:
    """Count a node's pods by kind, the largest first; those below a priority are left out."""
    counts: dict[int, int] = {}
    for pod in cluster.pods_on[node]:
        kind = cluster.kind_of[pod]
        counts[kind] = counts.get(kind, 0) + 1
    found = [(cluster.kinds[kind], count) for kind, count in counts.items()]
    if from_priority is not None:
        found = [(kind, count) for kind, count in found if kind.priority >= from_priority]
    return by_size(found)


def by_size(found: Iterable[tuple[PodKind, int]]) -> list[tuple[PodKind, int]]:
    """Add up the counts of each kind, the largest first."""
    counts: dict[int, tuple[PodKind, int]] = {}
    for kind, count in found:
        counts[kind.index] = (kind, count + counts.get(kind.index, (kind, 0))[1])
    return sorted(counts.values(), key=lambda pair: (*(-pair[0].requests).tolist(), pair[0].index))


def moving(cluster: ModelledCluster) -> list[tuple[PodKind, int]]:
    """Count by kind the pods that still run on nodes that are on their way out: they are about to need a place."""
    return by_size([pair for node in cluster.rows(LEAVING).tolist() for pair in kinds_on(cluster, node)])


def headroom(cluster: ModelledCluster, group: int, max_nodes_total: int, *, counted: int) -> tuple[int, bool]:
    """Return how many nodes may be added to a group, and whether it is the total that is short.

    Args:
        cluster: for the group.
        group: its row.
        max_nodes_total: in all groups; 0 for no limit.
        counted: so many nodes count against it.
    """
    own = cluster.groups[group].max - cluster.group_counts[group]
    if not max_nodes_total:
        return max(own, 0), False
    total = max_nodes_total - counted
    return max(min(own, total), 0), total < own
