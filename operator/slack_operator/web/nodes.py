"""The nodes as columns of one compact document: what each offers, and what pods and placeholders request of it.

Made from the snapshot's columns by numpy; nothing is done pod by pod. An observation of nodes that are as they
were makes no new document, so that a page which shows 10,000 of them has nothing to do either.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from slack.cluster.labels import ZONE
from slack.cluster.snapshot import IntArray, NodeColumns, Snapshot

READY, SCHEDULABLE, CANDIDATE, EMPTY = 1, 2, 4, 8
"""Bits of `NodesView.flags`."""


class ResourceColumns(msgspec.Struct, frozen=True, rename="camel"):
    """One resource on every node: cpu in millicores, everything else in base units."""

    resource: str
    allocatable: list[int]
    pods: list[int]
    """Requested by real pods."""
    system: list[int]
    """Requested by DaemonSet and static pods."""
    slack: list[int]
    """Requested by placeholders."""


class NodesView(msgspec.Struct, frozen=True, rename="camel"):
    """N nodes as columns, by name."""

    version: int
    names: list[str]
    divided: bool
    """Whether policies are known: only the leader divides the nodes between them."""
    policies: list[str]
    policy: list[int]
    """Index into `policies`, -1 for a node that no policy has."""
    zones: list[str]
    zone: list[int]
    flags: list[int]
    pods: list[int]
    """How many, of every sort; unbound placeholders too, where they fit."""
    placeholders: list[int]
    unbound: list[int]
    """Of the placeholders: those that no scheduler binds. They fit there, and their capacity is free."""
    slots: list[int]
    resources: list[ResourceColumns]


def nodes_of(snapshot: Snapshot, policy_of_node: Mapping[str, str], version: int, *, divided: bool) -> NodesView:
    """Build the document; resources that nobody offers or requests are left out."""
    nodes = snapshot.nodes
    policies = sorted(set(policy_of_node.values()))
    index = {name: row for row, name in enumerate(policies)}
    zone_of_class = [dict(node_class.labels).get(ZONE, "") for node_class in snapshot.node_classes]
    zones = sorted(set(zone_of_class))
    zone_row = np.array([zones.index(name) for name in zone_of_class] or [0], dtype=np.int64)
    held, unbound = _placeholders(snapshot, unbound=False), _placeholders(snapshot, unbound=True)
    empty = nodes.pod_count <= nodes.daemon_count + held
    flags = READY * nodes.ready + SCHEDULABLE * nodes.schedulable + CANDIDATE * nodes.deletion_candidate + EMPTY * empty
    return NodesView(
        version=version,
        names=list(nodes.names),
        divided=divided,
        policies=policies,
        policy=[index.get(policy_of_node.get(name, ""), -1) for name in nodes.names],
        zones=zones,
        zone=zone_row[nodes.class_id].tolist(),
        flags=flags.tolist(),
        pods=nodes.pod_count.tolist(),
        placeholders=held.tolist(),
        unbound=unbound.tolist(),
        slots=nodes.max_pods.tolist(),
        resources=[
            ResourceColumns(
                name,
                *(
                    matrix[:, column].tolist()
                    for matrix in (nodes.allocatable, nodes.real, nodes.daemon, nodes.placeholders)
                ),
            )
            for column, name in enumerate(snapshot.resources)
            if column < 2 or _occurs(column, nodes.allocatable, nodes.real, nodes.daemon, nodes.placeholders)
        ],
    )


def _placeholders(snapshot: Snapshot, *, unbound: bool) -> IntArray:
    """[N] how many placeholders each node has, or only the unbound ones."""
    rows = [pod.node for pod in snapshot.placeholders if pod.node >= 0 and (pod.unbound or not unbound)]
    count = len(snapshot.nodes.names)
    return np.bincount(np.array(rows, dtype=np.int64), minlength=count)[:count]


def _occurs(column: int, *matrices: IntArray) -> bool:
    return any(bool(matrix[:, column].any()) for matrix in matrices)


def same_nodes(first: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots show the same nodes; which policies they belong to is another question."""
    return (
        first.resources == other.resources
        and _columns_equal(first.nodes, other.nodes)
        and np.array_equal(_placeholders(first, unbound=True), _placeholders(other, unbound=True))
    )


def _columns_equal(first: NodeColumns, other: NodeColumns) -> bool:
    if first.names is not other.names and first.names != other.names:
        return False
    return all(
        np.array_equal(getattr(first, name), getattr(other, name))
        for name in (
            "allocatable", "real", "daemon", "placeholders", "ready", "schedulable", "deletion_candidate", "max_pods",
            "pod_count", "daemon_count", "class_id",
        )
    )  # fmt: skip
