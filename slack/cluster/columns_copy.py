"""What a snapshot is made of, copied from the columns in a millisecond: the rest can be done while events go on.

Whoever shares the columns with other threads holds the lock for `copied` only. Arrays are copied as a whole; what
seldom changes (nodes, request vectors, placeholders, reserved workloads) is taken from the copy before while it is the
same; kinds come as what has changed since then. So copies are made one after the other, for one `SnapshotBuilder`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slack.cluster.avoidance import AvoidingPods
from slack.cluster.classes import Constraints, NodeSelectors
from slack.cluster.column_tables import ColumnTables
from slack.cluster.labels import LABEL_RELEASE
from slack.cluster.snapshot import Amounts, BoolArray, IndexArray, IntArray
from slack.cluster.tables.interning import Needs
from slack.cluster.tables.kind_table import KindRow
from slack.cluster.tables.node_table import NodeFacts
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.cluster.tables.reserved_table import ReservedRecord, WorkloadKey


class NodesCopy(NamedTuple):
    """What of nodes changes with nodes only."""

    version: tuple[int, int]
    names: list[str]
    facts: list[NodeFacts | None]
    known: BoolArray
    allocatable: IntArray


class RequestsCopy(NamedTuple):
    """Request vectors by id."""

    version: tuple[int, int]
    matrix: IntArray
    unoffered: Mapping[int, Amounts]


class ReservedCopy(NamedTuple):
    """Annotated workloads."""

    version: int
    records: list[tuple[WorkloadKey, ReservedRecord]]
    constraints: Mapping[int, tuple[Constraints, str]]
    """By id, with the text by which they are sorted."""


class PlaceholdersCopy(NamedTuple):
    """Placeholders that are not finished."""

    version: int
    facts: list[PlaceholderFacts]


class NeedsCopy(NamedTuple):
    """Node labels that somebody looks at."""

    version: tuple[int, frozenset[str], NodeSelectors]
    needs: Needs
    selectors: NodeSelectors
    """What policies select."""


class ColumnsCopy(NamedTuple):
    """The columns' state at one instant."""

    resources: list[str]
    """[column] '' for one that is not in use."""
    left_out: tuple[str, ...]
    nodes: NodesCopy
    requests: RequestsCopy
    reserved: ReservedCopy
    placeholders: PlaceholdersCopy
    marked: tuple[int, ...]
    """Rows of nodes with a marker pod."""
    labels: NeedsCopy
    priorities: Mapping[str, tuple[int, bool]]
    namespaces: Mapping[str, Mapping[str, str]]
    kind_changes: Mapping[int, KindRow | None]
    """Kinds by id that are new since the copy before, None for those that have gone."""
    examples: dict[int, str]
    stale: set[int]
    """Kinds whose example has left."""
    keys: list[str]
    """[P] names of pods; none where no example is looked for."""
    kind: IndexArray
    """[P] of every pod."""
    node: IndexArray
    """[P]"""
    pod_labels: IndexArray
    """[P] id of its labels, -1 for what is no real pod."""
    label_changes: Mapping[int, Mapping[str, str] | None]
    """Labels by id that are new since the copy before, None for those that have gone."""
    label_size: int
    """One more than the largest such id."""
    avoiding_daemons: tuple[tuple[AvoidingPods, int], ...]
    """Pods of DaemonSets that avoid others, each with the row of its node."""
    created: IndexArray
    """[P] Unix seconds, 0 if it is not known; empty if no workload is reserved."""
    arrivals: IntArray
    """By kind id."""
    together: npt.NDArray[np.float64]
    """By kind id: marks, see `slack.cluster.together`."""
    requested: Mapping[int, IntArray]
    """By role: [node row, resource]."""
    pod_count: IntArray
    daemon_count: IntArray


def copied(columns: ColumnTables, before: ColumnsCopy | None) -> ColumnsCopy:
    """Copy the columns; `before` is the last copy."""
    kinds, pods, nodes = columns.kinds, columns.pods, columns.nodes
    changes, kinds.changes = kinds.changes, {}
    label_changes, columns.label_sets.changes = columns.label_sets.changes, {}
    stale, size = kinds.take_stale(), columns.pods.size
    return ColumnsCopy(
        resources=list(columns.resources.names),
        left_out=columns.resources.left_out,
        nodes=nodes_copy(columns, before.nodes if before else None),
        requests=_requests(columns, before.requests if before else None),
        reserved=_reserved(columns, before.reserved if before else None),
        placeholders=_placeholders(columns, before.placeholders if before else None),
        marked=_marked_rows(columns),
        labels=needs_copy(columns, before.labels if before else None),
        priorities=dict(columns.priorities),
        namespaces=columns.namespaces(),
        kind_changes=changes,
        examples=dict(kinds.examples),
        stale=stale,
        keys=list(pods.keys) if stale else [],
        kind=pods.kind[:size].copy(),
        node=pods.node[:size].copy(),
        pod_labels=pods.labels[:size].copy(),
        label_changes=label_changes,
        label_size=columns.label_sets.capacity,
        avoiding_daemons=columns.daemons.shown(before.avoiding_daemons if before else None),
        created=pods.created[: size if columns.reserved.records or columns.dates_pods else 0].copy(),
        arrivals=columns.arrivals.counts(max(kinds.capacity, 1)),
        together=np.array(kinds.together),
        requested={role: matrix.copy() for role, matrix in nodes.requested.items()},
        pod_count=nodes.pod_count.copy(),
        daemon_count=nodes.daemon_count.copy(),
    )


def nodes_copy(columns: ColumnTables, before: NodesCopy | None) -> NodesCopy:
    """Copy what changes with nodes only; the copy before while nothing has."""
    nodes = columns.nodes
    # A row of a node that is not known may come without a new version.
    version = (nodes.version, len(nodes.names))
    if before is not None and before.version == version and before.known.size == nodes.known.size:
        return before
    return NodesCopy(version, list(nodes.names), list(nodes.facts), nodes.known.copy(), nodes.allocatable.copy())


def _requests(columns: ColumnTables, before: RequestsCopy | None) -> RequestsCopy:
    requests = columns.requests
    version = (requests.version, columns.resources.version)
    if before is not None and before.version == version:
        return before
    return RequestsCopy(version, requests.matrix[: requests.capacity].copy(), dict(requests.unoffered))


def _reserved(columns: ColumnTables, before: ReservedCopy | None) -> ReservedCopy:
    reserved, constraints = columns.reserved, columns.constraints
    if before is not None and before.version == reserved.version:
        return before
    ids = {record.constraints for record in reserved.records.values()}
    texts = {index: (constraints[index], constraints.sort_key(index)) for index in ids}
    return ReservedCopy(reserved.version, list(reserved.records.items()), texts)


def _placeholders(columns: ColumnTables, before: PlaceholdersCopy | None) -> PlaceholdersCopy:
    placeholders = columns.placeholders
    if before is not None and before.version == placeholders.version:
        return before
    return PlaceholdersCopy(placeholders.version, list(placeholders.rows.values()))


def _marked_rows(columns: ColumnTables) -> tuple[int, ...]:
    rows = (columns.nodes.rows.get(marker.node, -1) for marker in columns.markers.rows.values() if marker.releases)
    return tuple(sorted({row for row in rows if row >= 0}))


def needs_copy(columns: ColumnTables, before: NeedsCopy | None) -> NeedsCopy:
    """Copy which labels matter; the copy before while the same do."""
    version = (columns.constraints.needs_version, columns.required_labels, columns.node_selectors)
    if before is not None and before.version == version:
        return before
    keys = columns.required_labels | {LABEL_RELEASE}
    needs = frozenset(columns.constraints.needs) | {(key, None) for key in keys}
    return NeedsCopy(version, needs, columns.node_selectors)
