"""What is free on each node, and which placeholders stand there: what a choice is made of.

`ClusterCapacity` is one instant, immutable. Room that is promised to nobody yet and placeholders that are already on
their way out are told apart by who makes it: `without` takes placeholders off that have been deleted but are still
seen.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.classes import NodeClass
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.model.added import vector_of


@dataclass(frozen=True, slots=True, eq=False)
class BoundPlaceholders:
    """Bound placeholders that are not being deleted, as columns; P rows."""

    uid: Sequence[str]
    name: Sequence[str]
    replica_set: Sequence[str]
    policy: Sequence[str]
    node: IndexArray
    """[P] row of its node."""
    requests: IntArray
    """[P, R] in effect."""
    priority: IntArray
    """[P] what its policy's PriorityClass gives it."""
    turn: IntArray
    """[P] of one ReplicaSet the lowest is the first that its controller would take away (`scale_down_turns`)."""

    def __len__(self) -> int:
        """Return the number of placeholders."""
        return len(self.uid)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterCapacity:
    """Nodes with what is free there; N nodes, R resources."""

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    """[N] names."""
    classes: tuple[NodeClass, ...]
    class_id: IndexArray
    """[N] index into `classes`."""
    is_open: BoolArray
    """[N] ready and schedulable."""
    candidate: BoolArray
    """[N] an autoscaler would like to delete it."""
    free: IntArray
    """[N, R] allocatable less what every pod there requests, placeholders included; negative where overcommitted."""
    slots: IntArray
    """[N] pods that may still be added."""
    largest: IntArray
    """[R] the most of each resource that a node has: by this resources are weighed against each other."""
    standing: BoundPlaceholders

    def without(self, uids: Set[str]) -> "ClusterCapacity":
        """Return the room as it is once these placeholders have gone."""
        rows = np.array([row for row, uid in enumerate(self.standing.uid) if uid in uids], dtype=np.int64)
        if not len(rows):
            return self
        free, slots = self.free.copy(), self.slots.copy()
        np.add.at(free, self.standing.node[rows], self.standing.requests[rows])
        np.add.at(slots, self.standing.node[rows], 1)
        kept = np.ones(len(self.standing), dtype=bool)
        kept[rows] = False
        return replace(self, free=free, slots=slots, standing=_rows_of(self.standing, np.flatnonzero(kept)))


def _rows_of(standing: BoundPlaceholders, rows: IntArray) -> BoundPlaceholders:
    listed = rows.tolist()
    return BoundPlaceholders(
        uid=tuple(standing.uid[row] for row in listed),
        name=tuple(standing.name[row] for row in listed),
        replica_set=tuple(standing.replica_set[row] for row in listed),
        policy=tuple(standing.policy[row] for row in listed),
        node=standing.node[rows],
        requests=standing.requests[rows],
        priority=standing.priority[rows],
        turn=standing.turn[rows],
    )


def capacity_of(snapshot: Snapshot, priorities: Mapping[str, int]) -> ClusterCapacity:
    """Return the room that a snapshot shows, for those who have time: the simulator, commands.

    Args:
        snapshot: the cluster.
        priorities: of placeholders, by policy; those of other policies are left where they are.
    """
    nodes = snapshot.nodes
    pods = [pod for pod in snapshot.placeholders if pod.node >= 0 and pod.policy in priorities]
    width = len(snapshot.resources)
    return ClusterCapacity(
        resources=snapshot.resources,
        nodes=nodes.names,
        classes=snapshot.node_classes,
        class_id=nodes.class_id,
        is_open=nodes.ready & nodes.schedulable,
        candidate=nodes.deletion_candidate,
        free=nodes.free,
        slots=nodes.max_pods - nodes.pod_count,
        largest=nodes.allocatable.max(axis=0, initial=0),
        standing=BoundPlaceholders(
            uid=tuple(pod.uid for pod in pods),
            name=tuple(pod.name for pod in pods),
            replica_set=tuple(pod.replica_set for pod in pods),
            policy=tuple(pod.policy for pod in pods),
            node=np.array([pod.node for pod in pods], dtype=np.int32),
            requests=np.array(
                [vector_of(pod.requests or (), snapshot.resources) for pod in pods], dtype=np.int64
            ).reshape(len(pods), width),
            priority=np.array([priorities[pod.policy] for pod in pods], dtype=np.int64),
            turn=np.zeros(len(pods), dtype=np.int64),
        ),
    )
