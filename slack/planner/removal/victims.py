"""Which placeholders go first when some must: R3, nodes should leave whole.

The ReplicaSet controller takes pending pods before any other; this is the order among the bound ones.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from slack.cluster.snapshot import IntArray, Placeholder, Snapshot
from slack.planner.domain.capacity import dominant_share
from slack.planner.model.added import vector_of
from slack.planner.removal.few import as_few_as_suffice
from slack.planner.removal.ordering import Criterion, order_of_leaving

_STRANGER_RANK = {False: 0, None: 1, True: 2}
"""By what `strangers` tells; None for those on nodes of their policy."""


def victims(
    snapshot: Snapshot, pods: Sequence[Placeholder], count: int, strangers: Mapping[str, bool] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the names of `count` bound placeholders of one shape, first to leave first.

    The criteria (`ordering.Criterion`) are STRANGER, DELETION_CANDIDATE, EMPTIES_NODE, CROWD, and the names of node and
    pod.

    Args:
        snapshot: the cluster.
        pods: of the shape; pending ones are passed over.
        count: how many leave.
        strangers: by name, of placeholders not on nodes of their policy, whether another policy counts on them.
    """
    if count <= 0:
        return ()
    nodes = snapshot.nodes
    ours = np.bincount([p.node for p in snapshot.placeholders if p.node >= 0], minlength=len(nodes.names))
    others = nodes.pod_count - nodes.daemon_count - ours

    bound = sorted((p for p in pods if p.node >= 0), key=lambda p: p.name)
    at = np.array([p.node for p in bound], dtype=np.int64)
    alone = others[at] <= 0
    stays = np.array([_STRANGER_RANK[strangers.get(p.name)] for p in bound], dtype=np.int64)
    # Nodes are sorted by name, and so are the pods.
    order = order_of_leaving(
        {
            Criterion.STRANGER: stays,
            Criterion.DELETION_CANDIDATE: ~nodes.deletion_candidate[at],
            Criterion.EMPTIES_NODE: ~alone,
            Criterion.CROWD: np.where(alone, ours[at], -ours[at]),
            Criterion.NAME: at,
        }
    )
    return tuple(bound[i].name for i in order[:count])


def _names_pushed_out(pods: Sequence[Placeholder], vectors: IntArray, over: IntArray, node: IntArray) -> frozenset[str]:
    """Choose placeholders that make up for what a node has too much: as few as suffice, the cheapest first.

    The criteria (`ordering.Criterion`) are COST, AGE and the name of the pod: `pods` are sorted by name. The largest
    helps most.
    """
    cost = dominant_share(vectors, np.maximum(node, 1))
    newest = np.array([-pod.created_seconds for pod in pods])
    order = order_of_leaving({Criterion.COST: cost, Criterion.AGE: newest}).tolist()

    def size(row: int, left: IntArray) -> float:
        return float(cost[row]) if (vectors[row][left > 0] > 0).any() else 0.0

    return frozenset(pods[row].name for row in as_few_as_suffice(vectors, over, order, size))


def _requested(pod: Placeholder, planned: IntArray, resources: tuple[str, ...]) -> IntArray:
    return planned if pod.requests is None else vector_of(pod.requests, resources)


def overcommitted(snapshot: Snapshot) -> IntArray:
    """Return the rows of nodes with placeholders whose requests exceed what they have."""
    nodes = snapshot.nodes
    return np.flatnonzero((nodes.free < 0).any(axis=1) & nodes.placeholders.any(axis=1))


def pushed_out(snapshot: Snapshot, vectors: Mapping[str, IntArray], over: IntArray) -> tuple[Placeholder, ...]:
    """S2 step 1: placeholders on nodes whose requests exceed what they have, as few as suffice, the cheapest first.

    The scheduler never overcommits a node; static pods, in-place resizes and a shrunk allocatable do.

    Args:
        snapshot: the cluster.
        vectors: [R] of every placeholder shape by name.
        over: as `overcommitted` gives it.
    """
    nodes = snapshot.nodes
    standing: dict[int, list[Placeholder]] = {int(row): [] for row in over}
    for pod in snapshot.placeholders if len(over) else ():
        if pod.node in standing and pod.shape in vectors:
            standing[pod.node].append(pod)
    found: list[Placeholder] = []
    for row, standing_there in standing.items():
        if not standing_there:
            continue
        pods = sorted(standing_there, key=lambda p: p.name)
        table = np.stack([_requested(p, vectors[p.shape], snapshot.resources) for p in pods])
        excess = nodes.real[row] + nodes.daemon[row] + nodes.placeholders[row] - nodes.allocatable[row]
        names = _names_pushed_out(pods, table, excess, nodes.allocatable[row])
        found.extend(p for p in pods if p.name in names)
    return tuple(found)
