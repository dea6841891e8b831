"""What is free where, and which placeholders stand there, copied from the columns in less than a millisecond.

For decisions that cannot wait for a snapshot, and for one pod at a time (`fits_on`). No pod is looked at but
placeholders, and those of the few workloads that `nodes_of` is asked for. As with `columns_copy`, those who share the
columns hold the lock for these functions only.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import NODE_NAME, Constraints, NodeClass, admits
from slack.cluster.column_tables import ColumnTables
from slack.cluster.columns_copy import NeedsCopy, NodesCopy, needs_copy, nodes_copy
from slack.cluster.snapshot import Amounts, BoolArray, IndexArray, IntArray
from slack.cluster.tables.placeholder_table import PlaceholderFacts


class PlaceholderColumns(NamedTuple):
    """Placeholders that are not finished; P of them."""

    facts: list[PlaceholderFacts]
    node: IndexArray
    """[P] row of the node table, -1 for none."""
    requests: IntArray
    """[P, R] in effect."""
    policies: tuple[str, ...]
    policy: IndexArray
    """[P] index into `policies`."""
    leaving: BoolArray
    """[P] it is being deleted."""
    cost: IntArray
    """[P] pod-deletion-cost"""
    ready_seconds: npt.NDArray[np.float64]
    """[P] Unix time since when it is ready, nan while it is not."""
    uid_order: IntArray
    """[P] numbers that sort as the uids do."""


class RoomCopy(NamedTuple):
    """Nodes, what is requested there, and placeholders."""

    resources: list[str]
    """[column] '' for one that is not in use."""
    nodes: NodesCopy
    labels: NeedsCopy
    requested: Mapping[int, IntArray]
    """By role: [node row, resource]."""
    pod_count: IntArray
    placeholders: PlaceholderColumns


def copied_room(columns: ColumnTables, before: RoomCopy | None) -> RoomCopy:
    """Copy the columns; `before` is the last such copy."""
    nodes = columns.nodes
    return RoomCopy(
        resources=list(columns.resources.names),
        nodes=nodes_copy(columns, before.nodes if before else None),
        labels=needs_copy(columns, before.labels if before else None),
        requested={role: matrix.copy() for role, matrix in nodes.requested.items()},
        pod_count=nodes.pod_count.copy(),
        placeholders=_placeholders(columns),
    )


def nodes_of(columns: ColumnTables, workloads: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of the nodes on which workloads have pods, by key as `shop/deploy/api`."""
    found: dict[str, frozenset[str]] = {}
    kinds: dict[str, list[int]] = {}
    for index in columns.kinds.ids() if workloads else ():
        kind = columns.kinds[index]
        key = f"{kind.namespace}/{kind.workload_kind}/{kind.workload_name}"
        if key in workloads:
            kinds.setdefault(key, []).append(index)
    pods = columns.pods
    for key, own in kinds.items():
        nodes = np.unique(pods.node[: pods.size][np.isin(pods.kind[: pods.size], own)])
        found[key] = frozenset(columns.nodes.names[row] for row in nodes[nodes >= 0].tolist())
    return found


def fits_on(columns: ColumnTables, node: str, requests: Amounts, constraints: Constraints) -> bool:
    """Say whether one pod more would fit onto a node as it is: its requests, its selectors and the node's taints.

    What other pods decide (affinity among pods, spread, ports, volumes) is not looked at.
    """
    table, column_of = columns.nodes, columns.resources.column
    row = table.rows.get(node)
    facts = None if row is None else table.facts[row]
    if row is None or facts is None or not (facts.ready and facts.schedulable):
        return False
    if table.pod_count[row] >= facts.max_pods:
        return False
    if not admits(constraints, NodeClass((*facts.labels.items(), (NODE_NAME, node)), facts.taints)):
        return False
    for resource, amount in requests:
        column = column_of(resource)
        if column is None:
            return False
        used = sum(int(role[row, column]) for role in table.requested.values() if column < role.shape[1])
        if facts.allocatable.get(resource, 0) - used < amount:
            return False
    return True


def _placeholders(columns: ColumnTables) -> PlaceholderColumns:
    pods, own = columns.pods, columns.placeholders
    rows = np.fromiter(own.rows, dtype=np.int64, count=len(own.rows))
    return PlaceholderColumns(
        facts=list(own.rows.values()),
        node=pods.node[rows],
        requests=columns.requests.matrix[pods.requests[rows]],
        policies=tuple(own.policies),
        policy=own.policy[rows],
        leaving=own.leaving[rows],
        cost=own.cost[rows],
        ready_seconds=own.ready_seconds[rows],
        uid_order=own.uid_order[rows],
    )
