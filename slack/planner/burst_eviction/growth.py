"""Growing in place: a running pod whose resize is Deferred gets what it asks from placeholders on its own node.

The kubelet grants a resize when the node has room for it, and preempts nobody for it. The cluster's columns count a pod
that wants to grow with what it asks already (effective requests are the most of asked, allocated and actual), so what
lacks on its node is what free room there is below zero.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster import wire
from slack.cluster.snapshot import IntArray
from slack.planner.burst_eviction.capacity import ClusterCapacity
from slack.planner.removal.cost import removal_costs
from slack.planner.removal.few import as_few_as_suffice, without_spare
from slack.planner.removal.ordering import Criterion, order_of_leaving


@dataclass(frozen=True, slots=True)
class GrowingPod:
    """A pod whose resize is Deferred."""

    uid: str
    key: str
    """`namespace/name`"""
    node: str
    priority: int

    @property
    def namespace(self) -> str:
        """Of the pod."""
        return self.key.partition("/")[0]


def is_resize_deferred(pod: wire.Pod) -> bool:
    """Say whether the pod's node has no room for its resize now, and would have if others left.

    Raises:
        ValueError: when the conditions have another form than the API's.
    """
    if pod.status is None or pod.spec is None or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    if b"PodResizePending" not in bytes(pod.status.conditions_json):
        return False
    return any(
        condition.type == "PodResizePending" and condition.status == "True" and condition.reason == "Deferred"
        for condition in pod.status.conditions
    )


def choose_for_growth(room: ClusterCapacity, growing: GrowingPod) -> tuple[int, ...]:
    """Return rows of `ClusterCapacity.standing` that leave for a pod's growth, first to leave first; none if all do
    not suffice.

    The fewest of the lowest priority, and of these the cheapest.
    """
    standing = room.standing
    if growing.node not in room.nodes:
        return ()
    node = room.nodes.index(growing.node)
    lacks = np.maximum(-room.free[node], 0)
    rows = np.flatnonzero((standing.node == node) & (standing.priority < growing.priority))
    if not lacks.any() or not len(rows):
        return ()
    for priority in np.unique(standing.priority[rows]).tolist():
        tier = rows[standing.priority[rows] <= priority]
        if np.all(standing.requests[tier].sum(axis=0) >= lacks):
            return _fewest(room, tier, lacks)
    return ()


def _fewest(room: ClusterCapacity, rows: IntArray, lacks: IntArray) -> tuple[int, ...]:
    """Return as few of `rows` as hold `lacks`: what helps most is the largest part of all that is asked."""
    standing, cost = room.standing, removal_costs(room.standing.requests, room.largest)
    order = order_of_leaving({Criterion.COST: cost[rows], Criterion.TURN: standing.turn[rows], Criterion.NAME: rows})
    asked = np.flatnonzero(lacks > 0)

    def part_of_asked(row: int, left: IntArray) -> float:
        return float(np.minimum(standing.requests[row], left)[asked] @ (1.0 / lacks[asked]))

    chosen = as_few_as_suffice(standing.requests, lacks, rows[order].tolist(), part_of_asked)
    return tuple(without_spare(standing.requests, lacks, chosen, cost))
