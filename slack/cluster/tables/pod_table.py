"""One row a pod: what it contributes, and to what. 52 bytes of columns and one name a pod.

Rows hold ids only; `role` is 0 for pods that use nothing (finished, or deleted before they were bound). Rows are
recycled. Plans read the columns as arrays; events read and write single cells through memoryviews of the same
memory, which is twice to three times as quick as numpy's own scalars. Owned by `ClusterColumns`.
"""

import numpy as np

from slack.cluster.freshness import NO_VERSION
from slack.cluster.snapshot import IndexArray, IntArray

_INDEX_COLUMNS = (
    "role",
    "kind",
    "requests",
    "node",
    "labels",
    "arrival_kind",
    "arrival_bucket",
    "generation",
    "created",
)
_WIDE_COLUMNS = ("uid", "version")
_FROM_NOUGHT = ("role", "arrival_bucket", "generation", "created")
"""What they hold in a row that is not in use; the others hold -1."""
NONE = -1

PodState = tuple[int, int, int, int]
"""What of a pod is relevant: role, and the ids of kind, requests and node; -1 stands for none."""

GONE: PodState = (0, NONE, NONE, NONE)


class Cells:
    """The columns of a `PodTable`, cell by cell."""

    __slots__ = (*_INDEX_COLUMNS, *_WIDE_COLUMNS)

    role: memoryview
    kind: memoryview
    requests: memoryview
    node: memoryview
    labels: memoryview
    arrival_kind: memoryview
    arrival_bucket: memoryview
    generation: memoryview
    created: memoryview
    uid: memoryview
    version: memoryview

    def __init__(self, table: "PodTable") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(table, name).data)


class PodTable:
    """Columns of pods, by `namespace/name`."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.keys: list[str] = []
        self._free: list[int] = []
        self.role = _index("role", 256)
        self.kind = _index("kind", 256)
        self.requests = _index("requests", 256)
        self.node = _index("node", 256)
        self.labels = _index("labels", 256)
        self.arrival_kind = _index("arrival_kind", 256)
        self.arrival_bucket = _index("arrival_bucket", 256)
        self.generation = _index("generation", 256)
        self.created = _index("created", 256)
        self.uid = _wide(256)
        self.version = _wide(256)
        self.cells = Cells(self)

    @property
    def size(self) -> int:
        """Rows in use or recycled; columns beyond it say nothing."""
        return len(self.keys)

    def add_pod(self, key: str, uid: int) -> int:
        """Return a new row for a pod, with nothing contributed."""
        if self._free:
            row = self._free.pop()
            self.keys[row] = key
        else:
            row = len(self.keys)
            self.keys.append(key)
            if row >= self.role.size:
                self._grow()
        self.rows[key] = row
        self.cells.uid[row] = uid
        return row

    def remove(self, row: int) -> PodState:
        """Give a row back; return what it contributed, which is to be taken back."""
        state = self.state(row)
        del self.rows[self.keys[row]]
        self.keys[row] = ""
        self._clear(row)
        self._free.append(row)
        return state

    def state(self, row: int) -> PodState:
        """Return what a row contributes."""
        cells = self.cells
        return cells.role[row], cells.kind[row], cells.requests[row], cells.node[row]

    def set_state(self, row: int, state: PodState) -> None:
        """Write what a row contributes."""
        cells = self.cells
        cells.role[row], cells.kind[row], cells.requests[row], cells.node[row] = state

    def unseen(self, generation: int) -> list[str]:
        """Return the keys of pods that were last seen in another generation."""
        stale = np.flatnonzero(self.generation[: self.size] != generation)
        return [self.keys[row] for row in stale.tolist() if self.keys[row]]

    def _clear(self, row: int) -> None:
        """Leave a row as a new one is: with nothing contributed."""
        self.set_state(row, GONE)
        self.cells.labels[row] = NONE
        self.cells.arrival_kind[row] = NONE
        self.cells.version[row] = NO_VERSION

    def _grow(self) -> None:
        for name in _INDEX_COLUMNS:
            setattr(self, name, np.concatenate([getattr(self, name), _index(name, getattr(self, name).size)]))
        for name in _WIDE_COLUMNS:
            setattr(self, name, np.concatenate([getattr(self, name), _wide(getattr(self, name).size)]))
        self.cells = Cells(self)


def _index(name: str, size: int) -> IndexArray:
    return np.full(size, 0 if name in _FROM_NOUGHT else NONE, dtype=np.int32)


def _wide(size: int) -> IntArray:
    return np.full(size, NO_VERSION, dtype=np.int64)
