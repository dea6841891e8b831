"""From a copy of the columns to a `Snapshot`, in an order that does not depend on the order of events.

What seldom changes (kinds, node order, reach) is kept between snapshots, keyed by the tables' versions; those arrays
are read-only, so snapshots may share them. Running, pending and presence are counted afresh from the pod columns:
that is one pass of numpy and cannot drift. Nothing here reads the columns themselves, so events may go on meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slack.cluster.avoidance import Avoided
from slack.cluster.avoided_kinds import AvoidedKinds, KindsById
from slack.cluster.claims import Claims
from slack.cluster.classes import Constraints, NodeClass
from slack.cluster.columns_copy import ColumnsCopy, NodesCopy
from slack.cluster.identity import DAEMON, PLACEHOLDER, REAL
from slack.cluster.kind_rows import KindRows
from slack.cluster.node_classes import NodeClasses
from slack.cluster.reach import Reach
from slack.cluster.snapshot import (
    Amounts,
    BoolArray,
    FloatArray,
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
from slack.cluster.tables.interning import grown
from slack.cluster.tables.kind_table import BY_CLASS
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.cluster.tables.reserved_table import ReservedRecord, WorkloadKey, speaking
from slack.cluster.together import steps_of
from slack.cluster.unbound_packing import HostsOf
from slack.cluster.unbound_room import Packed, UnboundRoom
from slack.cluster.unchecked import Unchecked

T = TypeVar("T")
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
    unoffered: tuple[Amounts, ...]
    constraints: IntArray
    """[K] ids of the constraint table."""
    constraints_of: Mapping[int, tuple[Constraints, str]]
    """By such an id, with the text by which they are sorted."""
    priority: IntArray
    preempts: BoolArray
    excluded: BoolArray
    gated: BoolArray
    """[K] its pods are behind scheduling gates."""
    reserve: tuple[str, ...]
    gang: tuple[str, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]
    unchecked: tuple[tuple[Unchecked, ...], ...]
    claims: Claims
    """Which extended resources device claims serve."""


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
    unoffered: tuple[Amounts, ...]
    constraint_id: IndexArray
    priority: IntArray
    preempts: BoolArray
    excluded: BoolArray
    reserve: tuple[str, ...]
    gang: tuple[str, ...]
    labels: tuple[tuple[tuple[str, str], ...], ...]
    unchecked: tuple[tuple[Unchecked, ...], ...]


class _Counts(NamedTuple):
    """Pods by kind, [kind row]; those on nodes that are not known are counted nowhere."""

    running: IntArray
    unbound: IntArray
    created: IntArray


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
    start_seconds: FloatArray


class SnapshotBuilder:
    """Makes snapshots of the copies of one `ClusterColumns`, one after the other, each of them once."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._rows = KindRows()
        self._classes = NodeClasses()
        self._kinds: tuple[object, _Kinds] | None = None
        self._shown: _Shown | None = None
        self._nodes: tuple[object, _Nodes] | None = None
        self._reached: tuple[_Shown, _Nodes, BoolArray] | None = None
        self._started: tuple[object, float] | None = None
        self._placeholders: tuple[object, tuple[tuple[Placeholder, ...], tuple[PlaceholderFacts, ...]]] | None = None
        self._mirrored: tuple[tuple[PlaceholderFacts, ...], _Kinds, IndexArray, tuple[str, ...]] | None = None
        """Unbound placeholders and kinds, and of which mirrored workload each kind is."""
        self._columns: NodeColumns | None = None
        """Of the last snapshot, before unbound placeholders."""
        self._reach = Reach()
        self._avoided = AvoidedKinds()
        self._unchecked: tuple[_Shown, Avoided, tuple[tuple[Unchecked, ...], ...]] | None = None
        self._unbound = UnboundRoom()

    def snapshot(self, copy: ColumnsCopy, now: float) -> tuple[Snapshot, dict[int, str]]:
        """Return the columns' state as one immutable value, and examples of kinds that were looked for."""
        self._rows.apply(copy.kind_changes)
        examples = _examples(copy)
        copy.examples.update(examples)
        self._classes.update(copy.nodes.names, copy.nodes.facts, copy.labels.needs)
        width = len(copy.resources)
        nodes = self._node_part(copy.nodes, width)
        kinds = self._kind_part(copy, width)
        counts, presence = _count(copy, kinds, nodes)
        mask = (counts.running + counts.unbound + counts.created) > 0
        reserved = speaking((key, record) for key, record in copy.reserved.records if record.reserve)
        reserved_requests = grown(copy.requests.matrix, 0, width)[[record.requests for _, record in reserved]]
        bound = {role: _rows(matrix, nodes.rows, width) for role, matrix in copy.requested.items()}
        used = _used(copy.resources, [nodes.allocatable, kinds.requests[mask], reserved_requests, *bound.values()])
        texts = {record.constraints: copy.reserved.constraints[record.constraints] for _, record in reserved}
        shown = self._shown_part(kinds, mask, used, texts)
        by_id = KindsById(kinds.position, kinds.workloads, kinds.labels, kinds.constraints, kinds.constraints_of)
        found = self._avoided.look(copy, by_id, counts.running, nodes.position)
        avoided = {int(shown.position[k]): by for k, by in found.avoided.items() if mask[k]}
        resources = tuple(copy.resources[column] for column in used)
        self._columns = _node_columns(copy, nodes, bound, used, self._columns)
        packed = self._packed(copy, kinds, nodes, self._columns, resources, now)
        snapshot = Snapshot(
            resources=resources,
            nodes=packed.nodes,
            node_classes=nodes.classes,
            constraints=shown.constraints,
            reach=self._reach_part(shown, nodes),
            kinds=_pod_kinds(copy, shown, counts, self._unchecked_part(shown, avoided), now),
            presence=_shown_presence(shown, presence),
            placeholders=packed.placeholders,
            reserved=_reserved_workloads(copy, shown, reserved, reserved_requests[:, used]),
            namespaces=copy.namespaces,
            left_out=copy.left_out,
            node_start_seconds=self._node_start_seconds(copy, nodes, now),
            avoiders=found.avoiders,
            standing=found.standing,
            avoided=avoided,
            avoiding=found.terms,
        )
        return snapshot, examples

    def _node_start_seconds(self, copy: ColumnsCopy, nodes: _Nodes, now: float) -> float:
        recent = nodes.created >= now - self._window_seconds
        # Of the same nodes, as many as before were created since then: the same ones.
        key = (copy.nodes.version, int(np.count_nonzero(recent)))
        if self._started is None or self._started[0] != key:
            seen = nodes.start_seconds[recent & ~np.isnan(nodes.start_seconds)]
            self._started = (key, float(np.median(seen)) if seen.size else NODE_START_SECONDS)
        return self._started[1]

    def _kind_part(self, copy: ColumnsCopy, width: int) -> _Kinds:
        rows, priorities = self._rows, copy.priorities
        key = (rows.version, copy.requests.version[1], copy.reserved.version, tuple(sorted(priorities.items())))
        if self._kinds is not None and self._kinds[0] == key:
            return self._kinds[1]
        ids = np.array(rows.ids, dtype=np.int64)
        position = np.full(copy.arrivals.size, -1, dtype=np.int32)
        position[ids] = np.arange(ids.size)
        priority, preempts = rows.priority.copy(), rows.preempts > 0
        for index, kind in rows.by_class.items():
            value, may_preempt = priorities.get(kind.priority_class, (0, True))
            priority[index] = value if kind.priority == BY_CLASS else kind.priority
            preempts[index] = kind.preemption_policy != "Never" and bool(kind.preemption_policy or may_preempt)
        requests = rows.requests[ids]
        excluded = rows.excluded_of(record.workload for _, record in copy.reserved.records if record.excluded)
        claims = Claims(rows.claimed, rows.ids)
        unoffered = _unoffered(copy.requests.unoffered, requests)
        unchecked = tuple(map(rows.unchecked.__getitem__, rows.ids))
        part = _Kinds(
            ids=ids,
            position=position,
            workloads=tuple(map(rows.workloads.__getitem__, rows.ids)),
            requests=grown(copy.requests.matrix, 0, width)[requests],
            unoffered=claims.left(unoffered),
            constraints=rows.constraints[ids],
            constraints_of=dict(rows.constraints_of),
            priority=priority[ids],
            preempts=preempts[ids],
            excluded=excluded[ids],
            gated=rows.gated[ids] > 0,
            reserve=tuple(map(rows.reserve.__getitem__, rows.ids)),
            gang=tuple(map(rows.gang.__getitem__, rows.ids)),
            labels=tuple(map(rows.labels.__getitem__, rows.ids)),
            unchecked=claims.unchecked(unchecked, unoffered),
            claims=claims,
        )
        self._kinds = (key, part)
        return part

    def _shown_part(
        self, kinds: _Kinds, mask: BoolArray, used: list[int], further: Mapping[int, tuple[Constraints, str]]
    ) -> _Shown:
        """Return the part of these kinds; constraints `further` to theirs are those of reserved workloads."""
        before = self._shown
        # What reserved workloads say is part of the kinds' version.
        if before is not None and before.kinds is kinds and before.used == used and np.array_equal(before.mask, mask):
            return before
        own = kinds.constraints[mask]
        used_ids = np.flatnonzero(np.bincount(own))
        values = {index: kinds.constraints_of[index] for index in used_ids.tolist()} | dict(further)
        constraint_ids = sorted(values, key=lambda index: values[index][1])
        constraint_row = {index: row for row, index in enumerate(constraint_ids)}
        row_of = np.zeros(int(used_ids.max(initial=0)) + 1, dtype=np.int32)
        row_of[used_ids] = [constraint_row[index] for index in used_ids.tolist()]
        chosen = None if mask.all() else mask.tolist()

        def of_shown(values: tuple[T, ...]) -> tuple[T, ...]:
            return values if chosen is None else tuple(compress(values, chosen))

        self._shown = _Shown(
            kinds=kinds,
            mask=mask,
            used=used,
            constraint_ids=constraint_ids,
            constraint_row=constraint_row,
            constraints=tuple(values[index][0] for index in constraint_ids),
            position=(np.cumsum(mask) - 1).astype(np.int32),
            ids=kinds.ids[mask].tolist(),
            workloads=of_shown(kinds.workloads),
            requests=_frozen(kinds.requests[mask][:, used]),
            unoffered=of_shown(kinds.unoffered),
            constraint_id=_frozen(row_of[own]),
            priority=_frozen(kinds.priority[mask]),
            preempts=_frozen(kinds.preempts[mask]),
            excluded=_frozen(kinds.excluded[mask]),
            reserve=of_shown(kinds.reserve),
            gang=of_shown(kinds.gang),
            labels=of_shown(kinds.labels),
            unchecked=of_shown(kinds.unchecked),
        )
        return self._shown

    def _unchecked_part(self, shown: _Shown, avoided: Avoided) -> tuple[tuple[Unchecked, ...], ...]:
        """[K] what is not checked of kinds, with those named that running pods avoid."""
        if not avoided:
            return shown.unchecked
        if self._unchecked is None or self._unchecked[0] is not shown or self._unchecked[1] != avoided:
            found = list(shown.unchecked)
            for row in avoided:
                found[row] = (*found[row], Unchecked.AVOIDED)
            self._unchecked = shown, avoided, tuple(found)
        return self._unchecked[2]

    def _reach_part(self, shown: _Shown, nodes: _Nodes) -> BoolArray:
        before = self._reached
        if before is not None and before[0] is shown and before[1] is nodes:
            return before[2]
        constraints = dict(zip(shown.constraint_ids, shown.constraints, strict=True))
        reach = _frozen(self._reach.matrix_of(constraints, dict(zip(nodes.class_ids, nodes.classes, strict=True))))
        self._reached = (shown, nodes, reach)
        return reach

    def _node_part(self, table: NodesCopy, width: int) -> _Nodes:
        key = (table.version, self._classes.version, width)
        if self._nodes is not None and self._nodes[0] == key:
            return self._nodes[1]
        listed = sorted((table.names[row], row) for row in np.flatnonzero(table.known).tolist())
        rows = np.array([row for _, row in listed], dtype=np.int64)
        position = np.full(table.known.size, -1, dtype=np.int32)
        position[rows] = np.arange(rows.size)
        known = self._classes.classes
        ids = sorted(known.ids(), key=lambda index: (known[index].labels, known[index].taints))
        class_row = np.full(max(known.capacity, 1), -1, dtype=np.int32)
        class_row[ids] = np.arange(len(ids))
        facts = [node for node in (table.facts[row] for _, row in listed) if node is not None]
        class_id = class_row[self._classes.ids()[rows]]
        across = np.full(table.known.size + 1, len(ids), dtype=np.int64)
        across[rows] = class_id
        across[-1] = len(ids) + 1
        part = _Nodes(
            rows=rows,
            position=position,
            across=across,
            names=tuple(name for name, _ in listed),
            classes=tuple(known[index] for index in ids),
            class_ids=tuple(ids),
            class_id=_frozen(class_id),
            ready=_frozen(np.array([node.ready for node in facts], dtype=np.bool_)),
            schedulable=_frozen(np.array([node.schedulable for node in facts], dtype=np.bool_)),
            candidate=_frozen(np.array([node.candidate for node in facts], dtype=np.bool_)),
            max_pods=_frozen(np.array([node.max_pods for node in facts], dtype=np.int64)),
            allocatable=_rows(table.allocatable, rows, width),
            created=_frozen(np.array([node.created for node in facts], dtype=np.float64)),
            start_seconds=_frozen(np.array([node.start_seconds for node in facts], dtype=np.float64)),
        )
        self._nodes = (key, part)
        return part

    def _packed(
        self,
        copy: ColumnsCopy,
        kinds: _Kinds,
        nodes: _Nodes,
        columns: NodeColumns,
        resources: tuple[str, ...],
        now: float,
    ) -> Packed:
        """Return placeholders and nodes with the unbound placeholders where they fit."""
        placeholders, unbound = self._placeholder_part(copy, nodes)
        if not unbound:
            return Packed(placeholders, columns)
        if self._mirrored is None or self._mirrored[0] is not unbound or self._mirrored[1] is not kinds:
            mirrored = {pod.reserved_for for pod in unbound if pod.reserved_for}
            self._mirrored = (unbound, kinds, *_numbers_of(mirrored, kinds))
        hosts = _hosts_of(*self._mirrored[2:], copy, nodes)
        marked = nodes.position[list(copy.marked)].astype(np.int64)
        marked = marked[marked >= 0]
        return self._unbound.pack(
            placeholders,
            unbound,
            columns,
            nodes.classes,
            resources,
            hosts,
            now,
            marked,
            nodes.created,
            copy.labels.selectors,
        )

    def _placeholder_part(
        self, copy: ColumnsCopy, nodes: _Nodes
    ) -> tuple[tuple[Placeholder, ...], tuple[PlaceholderFacts, ...]]:
        """Return the placeholders as they are known, and the unbound ones of them."""
        key = (copy.placeholders.version, copy.nodes.version)
        if self._placeholders is not None and self._placeholders[0] == key:
            return self._placeholders[1]
        shown = sorted(
            (
                facts
                for facts in copy.placeholders.facts
                if not facts.terminating and (facts.node < 0 or nodes.position[facts.node] >= 0)
            ),
            key=lambda facts: (facts.policy, facts.shape, facts.name),
        )
        part = tuple(
            Placeholder(*facts[:5], -1 if facts.node < 0 else int(nodes.position[facts.node]), *facts[6:10])
            for facts in shown
        )
        unbound = tuple(facts for facts in shown if facts.constraints is not None)
        self._placeholders = (key, (part, unbound))
        return part, unbound


def _numbers_of(workloads: Collection[str], kinds: _Kinds) -> tuple[IndexArray, tuple[str, ...]]:
    """[kind id] which of these workloads a kind is of, -1 for others; and the workloads that have kinds."""
    names = {workload.rpartition("/")[2] for workload in workloads}
    numbers: dict[str, int] = {}
    # An id of -1, which is no real pod, finds the last entry.
    number = np.full(kinds.position.size + 1, -1, dtype=np.int32)
    for index, workload in zip(kinds.ids.tolist(), kinds.workloads, strict=True) if workloads else ():
        if workload.name in names and (key := str(workload)) in workloads:
            number[index] = numbers.setdefault(key, len(numbers))
    return number, tuple(numbers)


def _hosts_of(number: IndexArray, workloads: Sequence[str], copy: ColumnsCopy, nodes: _Nodes) -> HostsOf:
    """Return the rows of the nodes on which workloads have pods, in one pass over the pods."""
    if not workloads:
        return {}
    of_pods = number.take(copy.kind, mode="wrap")
    theirs = np.flatnonzero((of_pods >= 0) & (copy.node >= 0))
    rows, of_pods = nodes.position[copy.node[theirs]], of_pods[theirs]
    return {key: np.unique(rows[(of_pods == own) & (rows >= 0)]).astype(np.int64) for own, key in enumerate(workloads)}


def _node_columns(
    copy: ColumnsCopy, nodes: _Nodes, bound: dict[int, IntArray], used: list[int], before: NodeColumns | None
) -> NodeColumns:
    """Return the nodes' columns; where nothing changes what nodes are, with the same arrays as before."""
    columns = NodeColumns(
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
        pod_count=_frozen(copy.pod_count[nodes.rows]),
        daemon_count=_frozen(copy.daemon_count[nodes.rows]),
    )
    if before is None:
        return columns
    # What follows from these only is found again at once, without a comparison.
    return replace(
        columns,
        allocatable=_same(before.allocatable, columns.allocatable),
        daemon=_same(before.daemon, columns.daemon),
        daemon_count=_same(before.daemon_count, columns.daemon_count),
    )


def _same(before: IntArray, now: IntArray) -> IntArray:
    """Return the array as it was before, if it is equal."""
    return before if np.array_equal(before, now) else now


def _used(names: list[str], tables: list[IntArray]) -> list[int]:
    """Return the columns of resources that occur in some table: cpu, memory, then the others by name."""
    others = [
        column for column in range(2, len(names)) if names[column] and any(table[:, column].any() for table in tables)
    ]
    return [0, 1, *sorted(others, key=lambda column: names[column])]


def _count(copy: ColumnsCopy, kinds: _Kinds, nodes: _Nodes) -> tuple[_Counts, Presence]:
    """Count pods by kind, and by kind and node class; pods on nodes that are not known are counted nowhere."""
    count, classes = kinds.ids.size, len(nodes.classes)
    # Every pod has a cell: kinds down, node classes across, and behind them a row for what is no real pod, a column
    # for nodes that are not known and one for pending pods. An id of -1 finds the last entry of either table.
    width = classes + 2
    down = np.append(kinds.position, count).astype(np.int64) * width
    cell = down.take(copy.kind, mode="wrap") + nodes.across.take(copy.node, mode="wrap")
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
    return _Counts(per_kind(bound), per_kind(pending), copy.arrivals[kinds.ids]), presence


def _pod_kinds(
    copy: ColumnsCopy, shown: _Shown, counts: _Counts, unchecked: tuple[tuple[Unchecked, ...], ...], now: float
) -> PodKinds:
    """Give what a snapshot says of kinds.

    Nobody is to start a gated pod yet: it is in no sum of pods, and its creation is no arrival so far.
    """
    mask, gated = shown.mask, shown.kinds.gated
    return PodKinds(
        workloads=shown.workloads,
        requests=shown.requests,
        unoffered=shown.unoffered,
        constraint_id=shown.constraint_id,
        priority=shown.priority,
        preempts=shown.preempts,
        excluded=shown.excluded,
        reserve=shown.reserve,
        gang=shown.gang,
        labels=shown.labels,
        unchecked=unchecked,
        running=_frozen(counts.running[mask]),
        pending=_frozen((counts.unbound * ~gated)[mask]),
        gated=_frozen((counts.unbound * gated)[mask]),
        arrivals=_frozen((counts.created * ~gated)[mask]),
        together=_frozen(steps_of(copy.together[shown.kinds.ids[mask]], now)),
        newest_seconds=_frozen(_newest(copy, shown.kinds)[mask]),
        example=tuple(map(copy.examples.__getitem__, shown.ids)),
    )


def _shown_presence(shown: _Shown, presence: Presence) -> Presence:
    """Leave the kinds that a snapshot shows, by their rows there."""
    kept = shown.mask[presence.kind]
    return Presence(
        kind=_frozen(shown.position[presence.kind[kept]]),
        node_class=_frozen(presence.node_class[kept]),
        count=_frozen(presence.count[kept]),
    )


def _reserved_workloads(
    copy: ColumnsCopy, shown: _Shown, reserved: Sequence[tuple[WorkloadKey, ReservedRecord]], requests: IntArray
) -> tuple[ReservedWorkload, ...]:
    """Give the workloads that reserve; `requests` is [reserved, resources of the snapshot]."""
    return tuple(
        ReservedWorkload(
            workload=Workload(*key),
            reserve=record.reserve,
            replicas=record.replicas,
            requests=_frozen(requests[row]),
            unoffered=shown.kinds.claims.without(copy.requests.unoffered.get(record.requests, ())),
            constraint_id=shown.constraint_row[record.constraints],
            labels=record.labels,
            uid=record.uid,
        )
        for row, (key, record) in enumerate(reserved)
    )


def _newest(copy: ColumnsCopy, kinds: _Kinds) -> IntArray:
    """[K] when the newest pod of each kind was created; only asked for where some workload is reserved."""
    found = np.zeros(kinds.ids.size + 1, dtype=np.int64)  # the last is for what is no real pod
    if copy.created.size:
        rows = np.append(kinds.position, kinds.ids.size).take(copy.kind, mode="wrap")
        np.maximum.at(found, rows, copy.created.astype(np.int64))
    return found[:-1]


def _examples(copy: ColumnsCopy) -> dict[int, str]:
    """Find the smallest pod of each kind whose example has left; kinds without pods are not among them."""
    best: dict[int, str] = {}
    if not copy.stale:
        return best
    for row in np.flatnonzero(np.isin(copy.kind, list(copy.stale))).tolist():
        kind, key = int(copy.kind[row]), copy.keys[row]
        if kind not in best or key < best[kind]:
            best[kind] = key
    return best


def _unoffered(by_id: Mapping[int, Amounts], requests: IntArray) -> tuple[Amounts, ...]:
    """[K] what kinds request of resources that no node has; nearly none does."""
    if not by_id:
        return ((),) * requests.size
    return tuple(by_id.get(index, ()) for index in requests.tolist())


def _rows(matrix: IntArray, rows: IntArray, width: int) -> IntArray:
    """Return these rows, with zeros in the columns that the matrix lacks."""
    part = np.zeros((rows.size, width), dtype=np.int64)
    part[:, : matrix.shape[1]] = matrix.take(rows, axis=0)
    return part


def _frozen(array: _A) -> _A:
    array.flags.writeable = False
    return array
