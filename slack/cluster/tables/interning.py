"""Values that many rows share, as small integers: request vectors, constraints, node classes.

An `Interner` counts who holds an id and forgets a value when nobody does, so a cluster that runs for months keeps
what it has, not what it had. Ids are recycled; whoever keeps figures per id asks `version` or is told by `on_release`.
A new value has no holder: `retain` it before anything else is released. Owned by `ClusterColumns`, under its
caller's lock.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import msgspec
import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.constraints import label_needs, needed_features, parse_constraints
from slack.cluster.requests import effective_requests, request_text
from slack.cluster.selectors import label_keys
from slack.cluster.snapshot import Amounts, IntArray
from slack.cluster.wire import PodSpec, PodStatus

V = TypeVar("V", bound=Hashable)
K = TypeVar("K", bound=Hashable)

Requests = Amounts
"""Effective requests as a value."""


class Interner(Generic[V]):
    """Ids for values, with a count of holders."""

    def __init__(self, on_release: Callable[[int, V], None] | None = None) -> None:
        self._ids: dict[V, int] = {}
        self._values: list[V | None] = []
        self._holders: list[int] = []
        self._free: list[int] = []
        self._on_release = on_release
        self.version = 0
        """Grows when a value comes or goes."""

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self._ids)

    def intern(self, value: V) -> int:
        """Return the value's id, a new one when it has none."""
        found = self._ids.get(value)
        if found is not None:
            return found
        self.version += 1
        if self._free:
            new = self._free.pop()
            self._values[new] = value
        else:
            new = len(self._values)
            self._values.append(value)
            self._holders.append(0)
        self._ids[value] = new
        return new

    def retain(self, index: int) -> None:
        """Count one more holder."""
        self._holders[index] += 1

    def release(self, index: int, times: int = 1) -> None:
        """Count so many holders less; forget the value when they were the last."""
        self._holders[index] -= times
        if self._holders[index] > 0:
            return
        value = self[index]
        del self._ids[value]
        self._values[index] = None
        self._free.append(index)
        self.version += 1
        if self._on_release is not None:
            self._on_release(index, value)

    def __getitem__(self, index: int) -> V:
        """Return the value of a live id."""
        value = self._values[index]
        if value is None:
            raise KeyError(index)
        return value

    def ids(self) -> Iterable[int]:
        """Return the ids of all values."""
        return self._ids.values()

    def holders(self) -> dict[V, int]:
        """Return how many hold each value, for self-checks."""
        return {value: self._holders[index] for value, index in self._ids.items()}

    @property
    def capacity(self) -> int:
        """One more than the largest id ever given."""
        return len(self._values)


_TEXTS = 20_000
_LONGEST_TEXT = 16_384
"""Longer ones are read each time: a tenant's pod may be a megabyte, and there may be many of them."""


class Texts(Generic[K]):
    """Which id a text led to, so that each is parsed once; forgotten with the id."""

    def __init__(self) -> None:
        self._ids: dict[K, int] = {}
        self._texts: dict[int, list[K]] = {}
        self.get = self._ids.get
        """The id of a text, None for one that is not known."""

    def __len__(self) -> int:
        """Return how many texts are known."""
        return len(self._ids)

    def put(self, text: K, index: int, length: int, leads_to: int | None = None) -> None:
        """Remember where a text of so many bytes led: to the id, or to what lives as long as the id."""
        if length > _LONGEST_TEXT or text in self._ids:
            return
        if len(self._ids) >= _TEXTS:
            # Texts can differ where nobody looks (preferred affinity, limits), and their ids may live for ever.
            self._ids.clear()
            self._texts.clear()
        self._ids[text] = index if leads_to is None else leads_to
        self._texts.setdefault(index, []).append(text)

    def forget(self, index: int) -> None:
        """Forget the texts of an id that is no more."""
        for text in self._texts.pop(index, ()):
            self._ids.pop(text, None)


MOST_RESOURCES = 64
"""Columns beside cpu and memory. A cluster has a handful; device plugins that name each device would widen all rows."""
MOST_LACKED = 100_000
"""Names of resources that no node has, in all vectors together: some 60 MiB."""
FURTHER = "further resources"
"""Stands for the names that a pod requests beyond as many as there can be columns; no resource has this name."""
_ALWAYS = ("cpu", "memory")


def vector_of(amounts: Mapping[str, int]) -> Requests:
    """Return effective requests as a value, within a bound: who requests more names than columns fits nowhere.

    Which resources nodes have may change, so the names are kept, as many of them as could ever have columns.
    """
    if len(amounts) <= MOST_RESOURCES + len(_ALWAYS):
        return tuple(sorted(amounts.items()))
    names = sorted(amounts.keys() - set(_ALWAYS))
    kept = {name: amounts[name] for name in (*_ALWAYS, *names[:MOST_RESOURCES]) if name in amounts}
    return tuple(sorted((kept | {FURTHER: len(amounts) - len(kept)}).items()))


class CountedResources:
    """Columns of the requests matrices: cpu, memory, and what known nodes have; whatever else pods name gets none.

    Nodes come and go at once (`come`, `go`); columns follow when somebody looks (`settle`), and are used again.
    """

    def __init__(self) -> None:
        self.names = list(_ALWAYS)
        """[column] '' for one that is not in use."""
        self._columns = {name: column for column, name in enumerate(_ALWAYS)}
        self._nodes: dict[str, int] = {}
        """How many nodes have some of it."""
        self._unsettled = False
        self.left_out: tuple[str, ...] = ()
        """What nodes have beyond `MOST_RESOURCES`; the ones that fewest nodes have."""
        self.version = 0
        """Grows when a column gets another meaning."""
        self.column = self._columns.get
        """A resource's column, None where it has none."""

    def come(self, names: Iterable[str]) -> None:
        """Note what one more node has."""
        for name in names:
            self._nodes[name] = self._nodes.get(name, 0) + 1
            self._unsettled = True

    def go(self, names: Iterable[str]) -> None:
        """Note what one node less has."""
        for name in names:
            self._nodes[name] -= 1
            if not self._nodes[name]:
                del self._nodes[name]
            self._unsettled = True

    def settle(self) -> tuple[dict[str, int], dict[str, int]]:
        """Give every resource that nodes have its column.

        Returns:
            the columns that were given back, and the new ones, by name; one may be in both, first old and then new.
        """
        if not self._unsettled:
            return {}, {}
        self._unsettled = False
        wanted = sorted(self._nodes.keys() - set(_ALWAYS), key=lambda name: (-self._nodes[name], name))
        wanted, self.left_out = wanted[:MOST_RESOURCES], tuple(wanted[MOST_RESOURCES:])
        kept = {*_ALWAYS, *wanted}
        old = {name: column for name, column in self._columns.items() if name not in kept}
        for name, column in old.items():
            self.names[column] = ""
            del self._columns[name]
        while not self.names[-1]:
            self.names.pop()
        new = {}
        for name in sorted(kept - self._columns.keys()):
            column = self.names.index("") if "" in self.names else len(self.names)
            self.names[column : column + 1] = [name]
            self._columns[name] = new[name] = column
        self.version += bool(old or new)
        return old, new

    def row(self, amounts: Iterable[tuple[str, int]]) -> IntArray:
        """Return a row with these amounts, those of resources that have a column."""
        row = np.zeros(len(self.names), dtype=np.int64)
        for name, value in amounts:
            column = self.column(name)
            if column is not None:
                row[column] = value
        return row


def grown(matrix: IntArray, rows: int, width: int) -> IntArray:
    """Return the matrix with at least so many rows and columns, doubled when rows are short, zeros in the new ones."""
    have_rows, have_width = matrix.shape
    if rows <= have_rows and width <= have_width:
        return matrix
    new_rows = have_rows if rows <= have_rows else max(rows, 2 * have_rows)
    new = np.zeros((new_rows, max(width, have_width)), dtype=np.int64)
    new[:have_rows, :have_width] = matrix
    return new


class RequestTable(Interner[Requests]):
    """Distinct request vectors as rows of one matrix."""

    def __init__(self, resources: CountedResources) -> None:
        super().__init__(self._forget)
        self._resources = resources
        self._texts: Texts[bytes] = Texts()
        self.matrix = np.zeros((64, 2), dtype=np.int64)
        """[id, resource]; rows of ids that are not live hold what was there before."""
        self.cells: list[tuple[tuple[int, int], ...]] = []
        """[id] the amounts that are not 0, as (column, amount); adding these is quicker than adding short rows."""
        self.unoffered: dict[int, Requests] = {}
        """By id, where there are any: what it requests of resources that have no column, as no node has them."""
        self._lacking: dict[str, set[int]] = {}
        """By name of such a resource, the ids that request it."""
        self._lacked = 0
        """How many such names all vectors have together."""
        self.is_crowded = False
        """Whether there are too many; pods may name whatever resources they like."""

    def intern_pod(self, spec: PodSpec, status: PodStatus) -> int:
        """Return the id of what a pod requests in effect.

        Raises:
            RequestError: when a quantity cannot be read.
        """
        text = request_text(spec, status)
        found = self._texts.get(text)
        if found is None:
            found = self.intern(vector_of(effective_requests(spec, status)))
            self._texts.put(text, found, len(text))
        return found

    def intern(self, value: Requests) -> int:
        """Return the vector's id; a new vector gets its row written."""
        before = self.version
        index = super().intern(value)
        if self.version != before:
            if index == len(self.cells):
                self.cells.append(())
            self._write(index, value)
        return index

    def resettle(self, old: Mapping[str, int], new: Mapping[str, int]) -> None:
        """Write the rows anew that request resources whose columns have come or gone."""
        changed: set[int] = set()
        for column in old.values():
            if column < self.matrix.shape[1]:
                changed.update(np.flatnonzero(self.matrix[:, column]).tolist())
        for name in new:
            changed |= self._lacking.get(name, set())
        self.matrix = self.matrix[:, : len(self._resources.names)].copy() if old else self.matrix
        for index in changed:
            value = self._values[index]
            if value is not None:  # else a row of an id that is not live
                self._forget_lacking(index)
                self._write(index, value)

    def _write(self, index: int, value: Requests) -> None:
        row = self._resources.row(value)
        self.matrix = grown(self.matrix, index + 1, row.size)
        self.matrix[index] = 0
        self.matrix[index, : row.size] = row
        self.cells[index] = tuple((column, amount) for column, amount in enumerate(row.tolist()) if amount)
        lacking = tuple(pair for pair in value if self._resources.column(pair[0]) is None)
        if lacking:
            self.unoffered[index] = lacking
            self._count_lacked(len(lacking))
            for name, _ in lacking:
                self._lacking.setdefault(name, set()).add(index)

    def _forget(self, index: int, _: Requests) -> None:
        self._texts.forget(index)
        self._forget_lacking(index)

    def _count_lacked(self, more: int) -> None:
        self._lacked += more
        self.is_crowded = self._lacked > MOST_LACKED

    def _forget_lacking(self, index: int) -> None:
        lacking = self.unoffered.pop(index, ())
        self._count_lacked(-len(lacking))
        for name, _ in lacking:
            ids = self._lacking[name]
            ids.discard(index)
            if not ids:
                del self._lacking[name]


LONGEST_RESERVE = 64
"""As much of the annotation for reservations is kept: no count or share is longer."""
LONGEST_RULES = 32_768
"""Bytes of one pod's scheduling rules that are read. Values of them take many times the text's memory."""
MOST_LABEL_KEYS = 64
"""Keys of its own labels that a pod's terms may look at; each kind of pod keeps the values of these."""
LONG_RULES = 4096
"""Longer ones are read only while there is room for them."""
MOST_RULES = 16 * 1024 * 1024
"""Characters of all rules together, as values: some 100 MiB. Whoever may make pods can make each with others."""
UNREAD = b'{"resource-slack.io/scheduling-rules-too-long":""}'
"""A node selector in place of rules that are not read: no node has this label, so such a pod fits nowhere."""
Needs = frozenset[tuple[str, str | None]]
"""Node labels that somebody looks at: (key, value), None for every value."""
_RawKey = tuple[bytes, bytes, bytes, bytes, str | None, str | None, tuple[str, ...]]


class ConstraintTable(Interner[Constraints]):
    """Distinct constraints; the raw JSON that led to them is parsed once per distinct text."""

    def __init__(self) -> None:
        super().__init__(self._forget)
        self._raws: Texts[_RawKey] = Texts()
        self._text: dict[int, str] = {}
        self.label_keys: dict[int, frozenset[str]] = {}
        """By id: the keys of pod labels that these constraints look at."""
        self._needs: dict[int, frozenset[tuple[str, str | None]]] = {}
        self._need_count: dict[tuple[str, str | None], int] = {}
        self.needs_version = 0
        """Grows when the set of node labels that anything looks at changes."""
        self._length = 0
        """Characters of all values."""
        self.is_crowded = False
        """Whether there is no room for long rules."""

    def intern_spec(self, spec: PodSpec) -> int:
        """Return the id of a pod spec's constraints; rules that are too long are replaced by `UNREAD`."""
        rules = (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints)
        length = sum(memoryview(part).nbytes for part in rules)
        if length > LONGEST_RULES or (length > LONG_RULES and self.is_crowded):
            return self._intern_unread(spec)
        key = (
            bytes(spec.node_selector),
            bytes(spec.affinity),
            bytes(spec.tolerations),
            bytes(spec.topology_spread_constraints),
            spec.scheduler_name,
            spec.runtime_class_name,
            needed_features(spec),
        )
        found = self._raws.get(key)
        if found is not None:
            return found
        try:
            value = parse_constraints(*key)
        except msgspec.DecodeError as error:
            raise ValueError(f"scheduling constraints: {error}") from None
        if len(label_keys(value)) > MOST_LABEL_KEYS:
            return self._intern_unread(spec)
        index = self.intern(value)
        self._raws.put(key, index, sum(len(part or ()) for part in key))
        return index

    def _intern_unread(self, spec: PodSpec) -> int:
        return self.intern(parse_constraints(UNREAD, b"", b"", b"", spec.scheduler_name))

    def intern(self, value: Constraints) -> int:
        """Return the id of parsed constraints; a new one's label keys become needed."""
        before = self.version
        index = super().intern(value)
        if self.version != before:
            self._text[index] = text = repr(value)
            self._length += len(text)
            self.is_crowded = self._length > MOST_RULES
            self.label_keys[index] = label_keys(value)
            needs = self._needs[index] = label_needs(value)
            for need in needs:
                count = self._need_count.get(need, 0)
                self._need_count[need] = count + 1
                self.needs_version += count == 0
        return index

    def sort_key(self, index: int) -> str:
        """Return a text that orders constraints the same way in every run."""
        return self._text[index]

    @property
    def needs(self) -> Iterable[tuple[str, str | None]]:
        """Node labels that some constraints look at: (key, value), None for every value."""
        return self._need_count

    def _forget(self, index: int, value: Constraints) -> None:
        self._raws.forget(index)
        self._length -= len(self._text[index])
        self.is_crowded = self._length > MOST_RULES
        del self._text[index], self.label_keys[index]
        for need in self._needs.pop(index):
            self._need_count[need] -= 1
            if not self._need_count[need]:
                del self._need_count[need]
                self.needs_version += 1
