"""S3: a placeholder that fits no empty eligible node is never created, and the user learns which part is at fault.

An empty node is its allocatable less what DaemonSets take there. A node group that stands at zero counts through the
policy's node templates.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import Constraints, NodeClass, reason_against
from slack.cluster.quantity import format_quantity
from slack.cluster.snapshot import Amounts, BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.domain.membership import Template
from slack.planner.domain.unseen_resources import MOST_NAMED, NOWHERE, why_nowhere
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.vectors import any_of, distinct, holds, maximal, sorted_distinct, within


@dataclass(frozen=True, slots=True, eq=False)
class EmptyNodeCapacity:
    """Empty nodes of a domain, templates included; M rows, duplicates folded."""

    capacity: IntArray
    """[M, R] allocatable less DaemonSets."""
    allocatable: IntArray
    """[M, R] of the same nodes."""
    slots: IntArray
    """[M] pod slots left by DaemonSets."""
    class_id: IntArray
    """[M] row in `classes`."""
    classes: tuple[NodeClass, ...]
    index: ClassIndex = field(compare=False, repr=False)
    """Of `classes`."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """Some nodes as they are without pods, and templates: all that `room_of` reads."""

    allocatable: IntArray
    """[N, R]"""
    daemon: IntArray
    """[N, R] what DaemonSets take."""
    slots: IntArray
    """[N] pod slots left by DaemonSets."""
    class_id: IndexArray
    """[N] row in `classes`."""
    classes: tuple[NodeClass, ...]
    templates: tuple[Template, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodesWithoutPods:
    """All nodes of a snapshot as they are without pods."""

    allocatable: IntArray
    """[N, R]"""
    daemon: IntArray
    """[N, R] what DaemonSets take."""
    max_pods: IntArray
    """[N] pod slots."""
    daemon_count: IntArray
    """[N] pods of DaemonSets."""
    class_id: IndexArray
    """[N] row in `classes`."""
    classes: tuple[NodeClass, ...]


def node_rows(snapshot: Snapshot, which: BoolArray, templates: tuple[Template, ...], cache: PlanCache) -> NodeRows:
    """Return the nodes of a mask [N], and templates.

    Args:
        snapshot: the cluster.
        which: of the nodes.
        templates: nodes that may come.
        cache: of this mask alone.
    """
    nodes = snapshot.nodes
    everywhere = NodesWithoutPods(
        nodes.allocatable, nodes.daemon, nodes.max_pods, nodes.daemon_count, nodes.class_id, snapshot.node_classes
    )
    return cache.compute(rows_of, everywhere, which, templates)


def rows_of(nodes: NodesWithoutPods, which: BoolArray, templates: tuple[Template, ...]) -> NodeRows:
    """Return some of the nodes, and templates."""
    return NodeRows(
        allocatable=nodes.allocatable[which],
        daemon=nodes.daemon[which],
        slots=nodes.max_pods[which] - nodes.daemon_count[which],
        class_id=nodes.class_id[which],
        classes=nodes.classes,
        templates=templates,
    )


def room_of(nodes: NodeRows) -> EmptyNodeCapacity:
    """Collect the empty nodes."""
    allocatable, capacity, slots = nodes.allocatable, nodes.allocatable - nodes.daemon, nodes.slots
    class_id = nodes.class_id.astype(np.int64)
    if nodes.templates:
        first = len(nodes.classes)
        templates = np.stack([t.allocatable for t in nodes.templates])
        allocatable = np.concatenate([allocatable, templates])
        capacity = np.concatenate([capacity, templates])
        slots = np.concatenate([slots, np.full(len(nodes.templates), 110, dtype=np.int64)])
        class_id = np.concatenate([class_id, np.arange(first, first + len(nodes.templates), dtype=np.int64)])
    # Identical empty nodes are one row: a cluster has few of them, however many nodes it has (R1).
    table, _ = distinct(np.concatenate([capacity, allocatable, slots[:, None], class_id[:, None]], axis=1))
    width = allocatable.shape[1]
    classes = nodes.classes + tuple(t.node_class for t in nodes.templates)
    return EmptyNodeCapacity(
        capacity=table[:, :width],
        allocatable=table[:, width:-2],
        slots=table[:, -2],
        class_id=table[:, -1],
        classes=classes,
        index=ClassIndex(classes),
    )


def allowed(room: EmptyNodeCapacity, constraints: Constraints) -> BoolArray:
    """[M] which empty nodes a placeholder with these constraints may go to."""
    rows: BoolArray = room.index.admitted(constraints)[room.class_id]
    return rows


def astray(room: EmptyNodeCapacity, constraints: Constraints) -> str | None:
    """Say why no placeholder can be kept to the nodes that these constraints lead to; None where one can.

    A pod's features are inferred from what it does. A placeholder does nothing, so it goes to nodes without them, too.
    """
    if not constraints.features:
        return None
    anywhere = allowed(room, replace(constraints, features=()))
    if (allowed(room, constraints) == anywhere).all():
        return None
    names = " and ".join(constraints.features)
    return f"only some of the nodes declare the feature {names}, and no placeholder can be kept to these"


def fits(room: EmptyNodeCapacity, vector: IntArray, allowed_rows: BoolArray) -> bool:
    """Tell whether one placeholder fits an allowed empty node."""
    if not allowed_rows.any():
        return False
    return bool((within(vector, room.capacity) & (room.slots > 0) & allowed_rows).any())


def fit_matrix(room: EmptyNodeCapacity, vectors: IntArray, allowed_rows: BoolArray) -> BoolArray:
    """[V] the same for many vectors that share their constraints."""
    capacity = maximal(room.capacity[allowed_rows & (room.slots > 0)])
    return any_of(holds(capacity, vectors))


def pinned_share(room: EmptyNodeCapacity, vector: IntArray, allowed_rows: BoolArray) -> float:
    """Return the largest share of a node that one placeholder may take: of the smallest node that it could go to.

    Placeholders count in full in the autoscaler's utilisation, which is the largest share of any resource.
    """
    hosts = within(vector, room.capacity) & (room.slots > 0) & allowed_rows
    takes = vector > 0
    if not hosts.any() or not takes.any():
        return 0.0
    return float((vector[takes] / room.allocatable[hosts][:, takes]).max())


def why_kept_off(room: EmptyNodeCapacity, constraints: Constraints) -> str | None:
    """Say what keeps a shape off every empty node whatever it requests; None if only its requests can."""
    if not len(room.capacity):
        return "the policy has no eligible node and no node template"
    if why := astray(room, constraints):
        return why
    if allowed(room, constraints).any():
        return None
    reasons = [reason_against(constraints, room.classes[c]) for c in sorted_distinct(room.class_id)]
    return max(sorted(set(reasons)), key=reasons.count)


def why_not(
    room: EmptyNodeCapacity,
    vector: IntArray,
    constraints: Constraints,
    resources: tuple[str, ...],
    unoffered: Amounts = (),
    *,
    runs: bool = False,
) -> str:
    """Say which constraint or resource keeps a shape off every empty node.

    Args:
        room: the empty nodes.
        vector: [R] what it requests.
        constraints: where it may go.
        resources: names of the R.
        unoffered: what it requests of resources that no node has.
        runs: pods like it run: on nodes that are overcommitted or not eligible, after a resize, or after a node has
            come to declare less.
    """
    if why := why_kept_off(room, constraints):
        return why
    rows = allowed(room, constraints)
    capacity = room.capacity[rows]
    if runs:
        return _why_no_copy(capacity, vector, resources, unoffered)
    short = [r for r in range(len(resources)) if vector[r] > capacity[:, r].max() and resources[r] != NOWHERE]
    if not short and not unoffered:
        if not (room.slots[rows] > 0).any():
            return "no eligible node has a pod slot left by its DaemonSets"
        largest = capacity[np.argmax((capacity >= vector).sum(axis=1))]
        short = [r for r in range(len(resources)) if vector[r] > largest[r]] or list(range(len(resources)))
        return (
            "no one eligible node has enough " + " and ".join(resources[r] for r in short) + " together with the rest"
        )
    texts = [
        f"{resources[r]} {format_quantity(resources[r], int(vector[r]))} is more than any empty eligible node has "
        f"({format_quantity(resources[r], int(max(capacity[:, r].max(), 0)))})"
        for r in short
    ]
    return " and ".join((*texts, *why_nowhere(unoffered)))


def _why_no_copy(capacity: IntArray, vector: IntArray, resources: tuple[str, ...], unoffered: Amounts) -> str:
    """Say why a further pod fits nowhere, of a workload whose pods run: that these fit is not in question."""
    most = np.maximum(capacity.max(axis=0), 0)
    short = [
        f"{name} {format_quantity(name, int(vector[r]))}, and at most {format_quantity(name, int(most[r]))} is there"
        for r, name in enumerate(resources)
        if vector[r] > most[r] and name != NOWHERE
    ]
    lacking = [f"{name}, which none declares" for name, _ in unoffered[:MOST_NAMED]]
    why = "; ".join((*short, *lacking)) or "its requests together, and pod slots, decide"
    return f"its pods run, but a further one fits no empty eligible node as nodes are declared now ({why})"
