"""The ReplicaSet controller: as many pods as are asked for, at once; and who goes first when there are too many."""

import math
from collections.abc import Callable, Iterable

from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import ModelledCluster


def removal_order(cluster: ModelledCluster, pods: Iterable[int], now: float) -> list[int]:
    """Return pods in the order in which the controller deletes them (ActivePodsWithRanks, controller_utils.go).

    Not assigned, then lower deletion cost, then more of them on the same node, then more recently ready (by powers of
    two: LogarithmicScaleDown), then newer. Pods here are ready as soon as they are bound. The uid is upstream's last.
    """
    pods = list(pods)
    beside: dict[int, int] = {}
    for pod in pods:
        node = cluster.node_of[pod]
        beside[node] = beside.get(node, 0) + 1

    def key(pod: int) -> tuple[float, ...]:
        node = cluster.node_of[pod]
        if node < 0:
            return (0, cluster.cost[pod], 0, 0, -cluster.number[pod])
        age = int(math.log2(1 + max(now - cluster.bound_at[pod], 0.0)))
        return (1, cluster.cost[pod], -beside[node], age, -cluster.number[pod])

    return sorted(pods, key=key)


class ReplicaSets:
    """Keeps kinds at their replicas. `create` and `delete` are the engine's."""

    def __init__(
        self, cluster: ModelledCluster, create: Callable[[PodKind], object], delete: Callable[[int], None]
    ) -> None:
        self._cluster = cluster
        self._create = create
        self._delete = delete
        self.replicas: dict[int, int] = {}
        """spec.replicas by kind."""
        self._lent: dict[int, int] = {}
        """By kind, by how many it is lowered while way is made."""

    def scale(self, kind: PodKind, replicas: int, now: float) -> None:
        """Set spec.replicas; pods follow at once."""
        self.replicas[kind.index] = replicas
        self.sync(kind, now)

    def lend(self, kind: int) -> None:
        """Lower a kind by one for a while: a pod of it makes way, and none is made in its place."""
        self._lent[kind] = self._lent.get(kind, 0) + 1

    def take_back(self) -> list[int]:
        """End all of that; return the kinds, which are to be synced."""
        lent, self._lent = self._lent, {}
        return list(lent)

    def sync(self, kind: PodKind, now: float) -> None:
        """Create what is missing, delete what is too much."""
        pods = self._cluster.pods_of.get(kind.index, {})
        missing = self.replicas.get(kind.index, 0) - self._lent.get(kind.index, 0) - len(pods)
        for _ in range(missing):
            self._create(kind)
        if missing < 0:
            for pod in removal_order(self._cluster, pods, now)[:-missing]:
                self._delete(pod)
