"""From columns to a `Snapshot`: copies in an order that does not depend on the order of events.

What seldom changes (kinds, node order, reach) is kept between snapshots, keyed by the tables' versions; those arrays
are read-only, so snapshots may share them. Running, pending and presence are counted afresh from the pod columns:
that is one pass of numpy and cannot drift. Owned by `ClusterColumns`.
"""

from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints, NodeClass
from slack.cluster.identity import DAEMON, PLACEHOLDER, REAL
from slack.cluster.interning import grown
from slack.cluster.kind_table import BY_CLASS, KindKey
from slack.cluster.reach import Reach
from slack.cluster.snapshot import (
    BoolArray,
    IndexArray,
    IntArray,
    NodeColumns,
    Placeholder,
    PodKinds,
    Presence,
    ReservedWorkload,
    Snapshot,
    Workload,
)

if TYPE_CHECKING:
    from slack.cluster.columns import ClusterColumns

FloatArray = npt.NDArray[np.float64]
_A = TypeVar("_A", bound=npt.NDArray[Any])
NODE_START_SECONDS = 120.0
"""Where no node's start was seen."""
_DENSE = 4_000_000
"""Cells of a kinds x node classes count that are cheaper to fill than to sort for."""


class _Kinds(NamedTuple):
    """What of the kinds does not change with pods coming and going."""

    ids: npt.NDArray[np.int64]
    position: IndexArray
    """[kind id] row, -1 for ids that are not live."""
    workloads: tuple[Workload, ...]
    requests: IntArray
    constraints: IntArray
    """[K] ids of the constraint table."""
    priority: IntArray
    preempts: BoolArray
    excluded: BoolArray
    reserve: tuple[str, ...]


class _Shown(NamedTuple):
    """What a snapshot says of its kinds as long as the same ones have pods or counted arrivals."""

    kinds: _Kinds
    mask: BoolArray
    """[kind row] it has a pod or a counted arrival."""
    used: list[int]
    """Columns of resources, in order."""
    constraint_ids: list[int]
    constraint_row: dict[int, int]
    constraints: tuple[Constraints, ...]
    position: IndexArray
    """[kind row] row in the snapshot, of those that are shown."""
    ids: list[int]
    workloads: tuple[Workload, ...]
    requests: IntArray
    constraint_id: IndexArray
    priority: IntArray
    preempts: BoolArray
    excluded: BoolArray
    reserve: tuple[str, ...]


class _Nodes(NamedTuple):
    rows: npt.NDArray[np.int64]
    position: IndexArray
    """[node row] row in the snapshot, -1 for nodes that are not known."""
    across: IntArray
    """[node row] row of the node's class; behind the last class: nodes that are not known, and at the end no node."""
    names: tuple[str, ...]
    classes: tuple[NodeClass, ...]
    class_ids: tuple[int, ...]
    class_id: IndexArray
    ready: BoolArray
    schedulable: BoolArray
    candidate: BoolArray
    max_pods: IntArray
    allocatable: IntArray
    """[N, all resources]"""
    created: FloatArray


class View:
    """Makes snapshots of one `ClusterColumns`."""

    def __init__(self, columns: "ClusterColumns") -> None:
        self._columns = columns
        self._kinds: tuple[object, _Kinds] | None = None
        self._shown: _Shown | None = None
        self._nodes: tuple[object, _Nodes] | None = None
        self._reached: tuple[_Shown, _Nodes, BoolArray] | None = None
        self._started: tuple[object, float] | None = None
        self._placeholders: tuple[object, tuple[Placeholder, ...]] | None = None
        self._reach = Reach()

    def snapshot(self, now: float) -> Snapshot:
        """Return the columns' state as one immutable value."""
        columns = self._columns
        self._refresh_examples()
        columns.nodes.classify(columns.constraints.needs, columns.required_labels)
        width = len(columns.resources.names)
        nodes = self._node_part(width)
        kinds = self._kind_part(width)
        running, pending, presence = self._count(kinds, nodes)
        arrivals = columns.arrivals.counts(kinds.position.size)[kinds.ids]
        mask = (running + pending + arrivals) > 0
        reserved = sorted(columns.reserved.records.items())
        reserved = [(key, record) for key, record in reserved if record.reserve]
        reserved_requests = grown(columns.requests.matrix, 0, width)[[record.requests for _, record in reserved]]
        bound = {role: _rows(matrix, nodes.rows, width) for role, matrix in columns.nodes.requested.items()}
        used = self._used([nodes.allocatable, kinds.requests[mask], reserved_requests, *bound.values()])
        shown = self._shown_part(kinds, mask, used, {record.constraints for _, record in reserved})
        kept = mask[presence.kind]
        return Snapshot(
            resources=tuple(columns.resources.names[column] for column in used),
            nodes=self._node_columns(nodes, bound, used),
            node_classes=nodes.classes,
            constraints=shown.constraints,
            reach=self._reach_part(shown, nodes),
            kinds=PodKinds(
                workloads=shown.workloads,
                requests=shown.requests,
                constraint_id=shown.constraint_id,
                priority=shown.priority,
                preempts=shown.preempts,
                excluded=shown.excluded,
                reserve=shown.reserve,
                running=_frozen(running[mask]),
                pending=_frozen(pending[mask]),
                arrivals=_frozen(arrivals[mask]),
                example=tuple(map(columns.kinds.examples.__getitem__, shown.ids)),
            ),
            presence=Presence(
                kind=_frozen(shown.position[presence.kind[kept]]),
                node_class=_frozen(presence.node_class[kept]),
                count=_frozen(presence.count[kept]),
            ),
            placeholders=self._placeholder_part(nodes),
            reserved=tuple(
                ReservedWorkload(
                    workload=Workload(*key),
                    reserve=record.reserve,
                    replicas=record.replicas,
                    requests=_frozen(reserved_requests[row][used]),
                    constraint_id=shown.constraint_row[record.constraints],
                    labels=record.labels,
                )
                for row, (key, record) in enumerate(reserved)
            ),
            node_start_seconds=self._node_start_seconds(nodes, now),
        )

    def _node_start_seconds(self, nodes: _Nodes, now: float) -> float:
        since = now - self._columns.window_seconds
        # Of the same nodes, as many as before were created since then: the same ones.
        key = (self._columns.nodes.version, int(np.count_nonzero(nodes.created >= since)))
        if self._started is None or self._started[0] != key:
            seen = self._columns.nodes.median_start_seconds(since)
            self._started = (key, NODE_START_SECONDS if seen is None else seen)
        return self._started[1]

    def _refresh_examples(self) -> None:
        """Find the smallest pod of each kind whose example has left; a kind without pods keeps its last one."""
        kinds, pods = self._columns.kinds, self._columns.pods
        if not kinds.stale:
            return
        best: dict[int, str] = {}
        column = pods.kind[: pods.size]
        for row in np.flatnonzero(np.isin(column, list(kinds.stale))).tolist():
            kind, key = int(column[row]), pods.keys[row]
            if kind not in best or key < best[kind]:
                best[kind] = key
        kinds.examples.update(best)
        # A kind without pods stays stale: the next pod that joins is its example, whatever its name.
        kinds.stale -= best.keys()

    def _kind_part(self, width: int) -> _Kinds:
        columns = self._columns
        table, requests = columns.kinds, columns.requests
        key = (table.version, columns.reserved.version, tuple(sorted(columns.priorities.items())), width)
        if self._kinds is not None and self._kinds[0] == key:
            return self._kinds[1]

        def order(pair: tuple[int, KindKey]) -> tuple[object, ...]:
            one = pair[1]
            return (one[:3], requests[one.requests], columns.constraints.sort_key(one.constraints), one[5:])

        listed = sorted(((index, table[index]) for index in table.ids()), key=order)
        ids = np.array([index for index, _ in listed], dtype=np.int64)
        position = np.full(max(table.capacity, 1), -1, dtype=np.int32)
        position[ids] = np.arange(ids.size)
        by_class = [columns.priorities.get(one.priority_class, (0, True)) for _, one in listed]
        part = _Kinds(
            ids=ids,
            position=position,
            workloads=tuple(Workload(*one[:3]) for _, one in listed),
            requests=grown(requests.matrix, 0, width)[[one.requests for _, one in listed]],
            constraints=np.array([one.constraints for _, one in listed], dtype=np.int64),
            priority=np.array(
                [
                    value if one.priority == BY_CLASS else one.priority
                    for (_, one), (value, _) in zip(listed, by_class, strict=True)
                ],
                dtype=np.int64,
            ),
            preempts=np.array(
                [
                    one.preemption_policy != "Never" and bool(one.preemption_policy or preempts)
                    for (_, one), (_, preempts) in zip(listed, by_class, strict=True)
                ],
                dtype=np.bool_,
            ),
            excluded=np.array(
                [one.excluded or columns.reserved.excludes(one[:3]) for _, one in listed], dtype=np.bool_
            ),
            reserve=tuple(one.reserve for _, one in listed),
        )
        self._kinds = (key, part)
        return part

    def _shown_part(self, kinds: _Kinds, mask: BoolArray, used: list[int], further: set[int]) -> _Shown:
        """Return the part of these kinds; constraints `further` to theirs are those of reserved workloads."""
        before = self._shown
        # What reserved workloads say is part of the kinds' version.
        if before is not None and before.kinds is kinds and before.used == used and np.array_equal(before.mask, mask):
            return before
        table, constraints = self._columns.constraints, kinds.constraints[mask].tolist()
        constraint_ids = sorted({*constraints, *further}, key=table.sort_key)
        constraint_row = {index: row for row, index in enumerate(constraint_ids)}
        self._shown = _Shown(
            kinds=kinds,
            mask=mask,
            used=used,
            constraint_ids=constraint_ids,
            constraint_row=constraint_row,
            constraints=tuple(table[index] for index in constraint_ids),
            position=(np.cumsum(mask) - 1).astype(np.int32),
            ids=kinds.ids[mask].tolist(),
            workloads=tuple(compress(kinds.workloads, mask.tolist())),
            requests=_frozen(kinds.requests[mask][:, used]),
            constraint_id=_frozen(np.array([constraint_row[index] for index in constraints], dtype=np.int32)),
            priority=_frozen(kinds.priority[mask]),
            preempts=_frozen(kinds.preempts[mask]),
            excluded=_frozen(kinds.excluded[mask]),
            reserve=tuple(compress(kinds.reserve, mask.tolist())),
        )
        return self._shown

    def _reach_part(self, shown: _Shown, nodes: _Nodes) -> BoolArray:
        before = self._reached
        if before is not None and before[0] is shown and before[1] is nodes:
            return before[2]
        reach = _frozen(self._reach.of(self._columns, shown.constraint_ids, nodes.class_ids))
        self._reached = (shown, nodes, reach)
        return reach

    def _node_part(self, width: int) -> _Nodes:
        table = self._columns.nodes
        key = (table.version, width)
        if self._nodes is not None and self._nodes[0] == key:
            return self._nodes[1]
        listed = sorted((table.names[row], row) for row in np.flatnonzero(table.known).tolist())
        rows = np.array([row for _, row in listed], dtype=np.int64)
        position = np.full(table.known.size, -1, dtype=np.int32)
        position[rows] = np.arange(rows.size)
        ids = sorted(table.classes.ids(), key=lambda index: (table.classes[index].labels, table.classes[index].taints))
        class_row = np.full(max(table.classes.capacity, 1), -1, dtype=np.int32)
        class_row[ids] = np.arange(len(ids))
        facts = [one for one in (table.facts[row] for _, row in listed) if one is not None]
        class_id = class_row[table.class_id[rows]]
        across = np.full(table.known.size + 1, len(ids), dtype=np.int64)
        across[rows] = class_id
        across[-1] = len(ids) + 1
        part = _Nodes(
            rows=rows,
            position=position,
            across=across,
            names=tuple(name for name, _ in listed),
            classes=tuple(table.classes[index] for index in ids),
            class_ids=tuple(ids),
            class_id=_frozen(class_id),
            ready=_frozen(np.array([one.ready for one in facts], dtype=np.bool_)),
            schedulable=_frozen(np.array([one.schedulable for one in facts], dtype=np.bool_)),
            candidate=_frozen(np.array([one.candidate for one in facts], dtype=np.bool_)),
            max_pods=_frozen(np.array([one.max_pods for one in facts], dtype=np.int64)),
            allocatable=_rows(table.allocatable, rows, width),
            created=_frozen(np.array([one.created for one in facts], dtype=np.float64)),
        )
        self._nodes = (key, part)
        return part

    def _node_columns(self, nodes: _Nodes, bound: dict[int, IntArray], used: list[int]) -> NodeColumns:
        table = self._columns.nodes
        return NodeColumns(
            names=nodes.names,
            class_id=nodes.class_id,
            ready=nodes.ready,
            schedulable=nodes.schedulable,
            deletion_candidate=nodes.candidate,
            allocatable=_frozen(nodes.allocatable[:, used]),
            real=_frozen(bound[REAL][:, used]),
            daemon=_frozen(bound[DAEMON][:, used]),
            placeholders=_frozen(bound[PLACEHOLDER][:, used]),
            max_pods=nodes.max_pods,
            pod_count=_frozen(table.pod_count[nodes.rows]),
            daemon_count=_frozen(table.daemon_count[nodes.rows]),
        )

    def _used(self, tables: list[IntArray]) -> list[int]:
        """Return the columns of resources that occur in some table: cpu, memory, then the others by name."""
        names = self._columns.resources.names
        others = [column for column in range(2, len(names)) if any(table[:, column].any() for table in tables)]
        return [0, 1, *sorted(others, key=lambda column: names[column])]

    def _count(self, kinds: _Kinds, nodes: _Nodes) -> tuple[IntArray, IntArray, Presence]:
        """Count pods by kind, and by kind and node class; pods on nodes that are not known are counted nowhere."""
        pods = self._columns.pods
        count, classes = kinds.ids.size, len(nodes.classes)
        # Every pod has a cell: kinds down, node classes across, and behind them a row for what is no real pod, a column
        # for nodes that are not known and one for pending pods. An id of -1 finds the last entry of either table.
        width = classes + 2
        down = np.append(kinds.position, count).astype(np.int64) * width
        cell = down.take(pods.kind[: pods.size], mode="wrap") + nodes.across.take(pods.node[: pods.size], mode="wrap")
        if (count + 1) * width <= _DENSE:
            table = np.bincount(cell, minlength=(count + 1) * width)
            cells = np.flatnonzero(table)
            counts = table[cells]
        else:
            cells, counts = np.unique(cell, return_counts=True)
        kind, place = np.divmod(cells, width)
        pending, bound = place == classes + 1, place < classes
        real = kind < count

        def per_kind(of: BoolArray) -> IntArray:
            return np.bincount(kind[of & real], weights=counts[of & real], minlength=count).astype(np.int64)

        kept = bound & real
        presence = Presence(kind[kept].astype(np.int32), place[kept].astype(np.int32), counts[kept].astype(np.int64))
        return per_kind(bound), per_kind(pending), presence

    def _placeholder_part(self, nodes: _Nodes) -> tuple[Placeholder, ...]:
        columns = self._columns
        key = (columns.noted.version, columns.nodes.version)
        if self._placeholders is not None and self._placeholders[0] == key:
            return self._placeholders[1]
        shown = sorted(
            (
                facts
                for facts in columns.noted.placeholders.values()
                if facts.node < 0 or nodes.position[facts.node] >= 0
            ),
            key=lambda facts: (facts.policy, facts.shape, facts.name),
        )
        part = tuple(
            Placeholder(*facts[:5], -1 if facts.node < 0 else int(nodes.position[facts.node]), *facts[6:])
            for facts in shown
        )
        self._placeholders = (key, part)
        return part


def _rows(matrix: IntArray, rows: IntArray, width: int) -> IntArray:
    """Return these rows, with zeros in the columns that the matrix lacks."""
    part = np.zeros((rows.size, width), dtype=np.int64)
    part[:, : matrix.shape[1]] = matrix.take(rows, axis=0)
    return part


def _frozen(array: _A) -> _A:
    array.flags.writeable = False
    return array
