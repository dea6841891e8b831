"""From a copy of the columns to a `ClusterCapacity`, in a few milliseconds at 5,000 nodes and 20,000 placeholders.

What seldom changes (which nodes there are, and their classes) is kept between rooms. Which labels tell nodes apart
depends on who asks: the constraints of pods that are promised may name labels that no pod has named before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, overload

import numpy as np

from slack.cluster.classes import Constraints, NodeClass
from slack.cluster.constraints import label_needs
from slack.cluster.node_classes import NodeClasses
from slack.cluster.room_copy import PlaceholderColumns, RoomCopy
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray
from slack.cluster.tables.interning import Needs
from slack.cluster.tables.placeholder_table import PlaceholderFacts
from slack.planner.burst_eviction.capacity import BoundPlaceholders, ClusterCapacity
from slack.planner.burst_eviction.scale_down import scale_down_turns

_MOST_NEEDS = 4096
"""Labels that are remembered to matter; any tenant can name others in every template."""


class _Nodes(NamedTuple):
    rows: IntArray
    """[N] rows of the node table."""
    position: IntArray
    """[node row + 1] row in the room, -1 for nodes that are not known, and at the end for no node."""
    names: tuple[str, ...]
    classes: tuple[NodeClass, ...]
    class_id: IndexArray
    is_open: BoolArray
    candidate: BoolArray
    max_pods: IntArray
    allocatable: IntArray
    largest: IntArray


class ClusterCapacityBuilder:
    """Makes rooms of the copies of one `ClusterColumns`. For one thread."""

    def __init__(self) -> None:
        self._classes = NodeClasses()
        self._needs: Needs = frozenset()
        self._nodes: tuple[object, _Nodes] | None = None

    def room(
        self,
        copy: RoomCopy,
        asked: Iterable[Constraints],
        priorities: Mapping[str, int],
        now: float,
    ) -> ClusterCapacity:
        """Return the room that a copy shows; that of placeholders which are being deleted is free.

        Args:
            copy: of the columns.
            asked: constraints of the pods for which room is looked for.
            priorities: of placeholders, by policy; those of other policies are left where they are.
            now: Unix time, for the order in which controllers would take placeholders away.
        """
        self._classes.update(copy.nodes.names, copy.nodes.facts, self._needs_of(copy, asked))
        width = len(copy.resources)
        nodes = self._node_part(copy, width)
        used = [column for column in range(width) if column < 2 or copy.resources[column]]
        free = nodes.allocatable[:, used]
        for matrix in copy.requested.values():
            for column, source in enumerate(used):
                if source < matrix.shape[1]:
                    free[:, column] -= matrix[nodes.rows, source]
        slots = nodes.max_pods - copy.pod_count[nodes.rows]
        standing = _standing(copy.placeholders, nodes, used, priorities, free, slots, now)
        return ClusterCapacity(
            resources=tuple(copy.resources[column] for column in used),
            nodes=nodes.names,
            classes=nodes.classes,
            class_id=nodes.class_id,
            is_open=nodes.is_open,
            candidate=nodes.candidate,
            free=free,
            slots=slots,
            largest=nodes.largest[used],
            standing=standing,
        )

    def _needs_of(self, copy: RoomCopy, asked: Iterable[Constraints]) -> Needs:
        wanted = copy.labels.needs.union(*(label_needs(constraints) for constraints in asked))
        if not wanted <= self._needs:
            self._needs = wanted | self._needs if len(wanted | self._needs) <= _MOST_NEEDS else wanted
        return self._needs

    def _node_part(self, copy: RoomCopy, width: int) -> _Nodes:
        table = copy.nodes
        key = (table.version, self._classes.version, width)
        if self._nodes is not None and self._nodes[0] == key:
            return self._nodes[1]
        rows = np.flatnonzero(table.known)
        position = np.full(table.known.size + 1, -1, dtype=np.int64)
        position[rows] = np.arange(rows.size)
        ids = self._classes.ids()[rows]
        used = np.unique(ids)
        facts = [own for own in (table.facts[row] for row in rows.tolist()) if own is not None]
        allocatable = np.zeros((rows.size, width), dtype=np.int64)
        allocatable[:, : table.allocatable.shape[1]] = table.allocatable[rows]
        part = _Nodes(
            rows=rows,
            position=position,
            names=tuple(table.names[row] for row in rows.tolist()),
            classes=tuple(self._classes.classes[index] for index in used.tolist()),
            class_id=np.searchsorted(used, ids).astype(np.int32),
            is_open=np.array([own.ready and own.schedulable for own in facts], dtype=np.bool_),
            candidate=np.array([own.candidate for own in facts], dtype=np.bool_),
            max_pods=np.array([own.max_pods for own in facts], dtype=np.int64),
            allocatable=allocatable,
            largest=allocatable.max(axis=0, initial=0),
        )
        self._nodes = (key, part)
        return part


class _LazyField(Sequence[str]):
    """What placeholders have for a field, looked up when somebody asks: within a burst hardly anybody does."""

    def __init__(self, facts: Sequence[PlaceholderFacts], rows: IntArray, field: str) -> None:
        self._facts, self._rows, self._of = facts, rows, attrgetter(field)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return (self._of(self._facts[row]) for row in self._rows.tolist())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self)[index]
        found: str = self._of(self._facts[self._rows[index]])
        return found


def _standing(
    own: PlaceholderColumns,
    nodes: _Nodes,
    used: list[int],
    priorities: Mapping[str, int],
    free: IntArray,
    slots: IntArray,
    now: float,
) -> BoundPlaceholders:
    """Return the placeholders that may leave, and add the room of those that are leaving to `free` and `slots`."""
    place = nodes.position[own.node]
    requests = np.zeros((len(own.facts), len(used)), dtype=np.int64)
    for column, source in enumerate(used):
        if source < own.requests.shape[1]:
            requests[:, column] = own.requests[:, source]
    gone = np.flatnonzero(own.leaving & (place >= 0))
    np.add.at(free, place[gone], requests[gone])
    np.add.at(slots, place[gone], 1)
    there = ~own.leaving & (place >= 0)
    turn = scale_down_turns(own, np.where(there, place, -1), now)
    known = np.array([name in priorities for name in own.policies], dtype=np.bool_)
    priority = np.array([priorities.get(name, 0) for name in own.policies], dtype=np.int64)
    rows = np.flatnonzero(there & known[own.policy]) if len(known) else np.zeros(0, dtype=np.int64)
    return BoundPlaceholders(
        uid=_LazyField(own.facts, rows, "uid"),
        name=_LazyField(own.facts, rows, "name"),
        replica_set=_LazyField(own.facts, rows, "replica_set"),
        policy=_LazyField(own.facts, rows, "policy"),
        node=place[rows].astype(np.int32),
        requests=requests[rows],
        priority=priority[own.policy[rows]] if len(known) else np.zeros(0, dtype=np.int64),
        turn=turn[rows],
    )
