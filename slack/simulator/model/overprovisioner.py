"""The baselines: a Deployment of pause pods, of fixed size or scaled by cluster-proportional-autoscaler."""

import math

from slack.cluster.classes import Constraints
from slack.simulator.model.clock import Clock
from slack.simulator.model.replicaset import ReplicaSets
from slack.simulator.model.state import READY, ModelledCluster
from slack.simulator.scenario.slack_kinds import Proportional, Static


def proportional_replicas(spec: Proportional, *, cores: float, nodes: int) -> int:
    """Return the linear controller's replicas: max(ceil(cores / coresPerReplica), ceil(nodes / nodesPerReplica)).

    Within min and max (controller/linearcontroller.go); preventSinglePointFailure asks for two with more than one node.
    """
    wanted = 0
    if spec.cores_per_replica is not None:
        wanted = math.ceil(cores / spec.cores_per_replica)
    if spec.nodes_per_replica is not None:
        wanted = max(wanted, math.ceil(nodes / spec.nodes_per_replica))
    least = max(spec.min, 2) if spec.prevent_single_point_failure and nodes > 1 else spec.min
    return min(max(wanted, least), spec.max)


class Overprovisioner:
    """Keeps the overprovisioner's pods."""

    def __init__(self, spec: Static | Proportional, cluster: ModelledCluster, clock: Clock, sets: ReplicaSets) -> None:
        constraints = Constraints(
            node_selector=tuple(sorted(spec.node_selector.items())),
            tolerations=tuple(sorted(t.toleration() for t in spec.tolerations)),
        )
        self._kind = cluster.kinds.of_filler("overprovisioner", dict(spec.requests), constraints, spec.priority)
        self._spec = spec
        self._cluster = cluster
        self._clock = clock
        self._sets = sets

    def start(self) -> None:
        """Create the pods, and go on following the cluster's size where that is asked for."""
        self._poll(None)

    def _poll(self, _: object) -> None:
        now = self._clock.now
        if isinstance(self._spec, Static):
            self._sets.scale(self._kind, self._spec.count, now)
            return
        rows = self._cluster.rows(READY)
        cores = float(self._cluster.allocatable[0, rows].sum()) / 1000
        replicas = proportional_replicas(self._spec, cores=cores, nodes=len(rows))
        if replicas != self._sets.replicas.get(self._kind.index):
            self._sets.scale(self._kind, replicas, now)
        self._clock.after(self._spec.poll_period_seconds, self._poll)
