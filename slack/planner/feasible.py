"""S3: a placeholder that fits no empty eligible node is never created, and the user learns which part is at fault.

An empty node is its allocatable less what DaemonSets take there. A node group that stands at zero counts through the
policy's node templates.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.classes import Constraints, NodeClass, admits, reason_against
from slack.cluster.quantity import format_quantity
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.domain import Domain
from slack.planner.kept import Kept
from slack.planner.vectors import any_of, distinct, holds, within


@dataclass(frozen=True, slots=True, eq=False)
class Room:
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


def empty_nodes(snapshot: Snapshot, eligible: BoolArray, kept: Kept) -> tuple[object, ...]:
    """Return all of a snapshot that `room_of` reads; the same objects while nothing of these nodes changes."""
    nodes = snapshot.nodes
    columns: dict[str, IntArray | IndexArray] = {
        "allocatable": nodes.allocatable,
        "daemon": nodes.daemon,
        "max_pods": nodes.max_pods,
        "daemon_count": nodes.daemon_count,
        "class_id": nodes.class_id,
    }
    rows = [kept.same(f"empty nodes' {name}", column[eligible]) for name, column in columns.items()]
    return (*rows, snapshot.node_classes, snapshot.resources)


def room_of(snapshot: Snapshot, domain: Domain) -> Room:
    """Collect the empty nodes of a domain."""
    nodes = snapshot.nodes
    rows = np.flatnonzero(domain.eligible)
    allocatable = nodes.allocatable[rows]
    capacity = allocatable - nodes.daemon[rows]
    slots = nodes.max_pods[rows] - nodes.daemon_count[rows]
    class_id = nodes.class_id[rows].astype(np.int64)
    if domain.templates:
        first = len(snapshot.node_classes)
        templates = np.stack([t.allocatable for t in domain.templates])
        allocatable = np.concatenate([allocatable, templates])
        capacity = np.concatenate([capacity, templates])
        slots = np.concatenate([slots, np.full(len(domain.templates), 110, dtype=np.int64)])
        class_id = np.concatenate([class_id, np.arange(first, first + len(domain.templates), dtype=np.int64)])
    # Identical empty nodes are one row: a cluster has few of them, however many nodes it has (R1).
    table, _ = distinct(np.concatenate([capacity, allocatable, slots[:, None], class_id[:, None]], axis=1))
    width = len(snapshot.resources)
    return Room(
        capacity=table[:, :width],
        allocatable=table[:, width:-2],
        slots=table[:, -2],
        class_id=table[:, -1],
        classes=snapshot.node_classes + tuple(t.node_class for t in domain.templates),
    )


def allowed(room: Room, constraints: Constraints) -> BoolArray:
    """[M] which empty nodes a placeholder with these constraints may go to."""
    used = np.unique(room.class_id)
    admitted = np.zeros(len(room.classes), dtype=bool)
    for class_id in used:
        admitted[class_id] = admits(constraints, room.classes[class_id])
    return admitted[room.class_id]


def fits(room: Room, vector: IntArray, allowed_rows: BoolArray) -> bool:
    """Tell whether one placeholder fits an allowed empty node."""
    if not allowed_rows.any():
        return False
    return bool((within(vector, room.capacity) & (room.slots > 0) & allowed_rows).any())


def fit_matrix(room: Room, vectors: IntArray, allowed_rows: BoolArray) -> BoolArray:
    """[V] the same for many vectors that share their constraints."""
    capacity, _ = distinct(room.capacity[allowed_rows & (room.slots > 0)])
    return any_of(holds(capacity, vectors))


def pinned_share(room: Room, vector: IntArray, allowed_rows: BoolArray) -> float:
    """Return the largest share of a node that one placeholder may take: of the smallest node that it could go to.

    Placeholders count in full in the autoscaler's utilisation, which is the largest share of any resource.
    """
    hosts = within(vector, room.capacity) & (room.slots > 0) & allowed_rows
    takes = vector > 0
    if not hosts.any() or not takes.any():
        return 0.0
    return float((vector[takes] / room.allocatable[hosts][:, takes]).max())


def why_not(room: Room, vector: IntArray, constraints: Constraints, resources: tuple[str, ...]) -> str:
    """Say which constraint or resource keeps a shape off every empty node."""
    if not len(room.capacity):
        return "the policy has no eligible node and no node template"
    rows = allowed(room, constraints)
    if not rows.any():
        reasons = [reason_against(constraints, room.classes[c]) for c in np.unique(room.class_id)]
        return max(sorted(set(reasons)), key=reasons.count)
    capacity = room.capacity[rows]
    short = [r for r in range(len(resources)) if vector[r] > capacity[:, r].max()]
    if not short:
        if not (room.slots[rows] > 0).any():
            return "no eligible node has a pod slot left by its DaemonSets"
        largest = capacity[np.argmax((capacity >= vector).sum(axis=1))]
        short = [r for r in range(len(resources)) if vector[r] > largest[r]] or list(range(len(resources)))
        return (
            "no one eligible node has enough " + " and ".join(resources[r] for r in short) + " together with the rest"
        )
    return " and ".join(
        f"{resources[r]} {format_quantity(resources[r], int(vector[r]))} is more than any empty eligible node has "
        f"({format_quantity(resources[r], int(max(capacity[:, r].max(), 0)))})"
        for r in short
    )
