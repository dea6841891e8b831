"""The kinds in their order, with what of them does not change as pods come and go.

There may be tens of thousands of kinds, of which few come and go between two snapshots: these are put into their places
and taken out, and columns by id are put into order by numpy. Owned by `SnapshotBuilder`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints
from slack.cluster.snapshot import Workload
from slack.cluster.tables.kind_table import BY_CLASS, KindKey, KindRow
from slack.cluster.unchecked import Unchecked

_SortKey = tuple[object, ...]
_FEW = 16
"""Beyond a part of all kinds, sorting all of them anew is quicker."""
_NOBODY = Workload("", "", "")
_COLUMNS = ("requests", "constraints", "priority", "preempts", "excluded", "gated")


class KindRows:
    """Columns of kinds by id, and the ids in order."""

    def __init__(self) -> None:
        self.version = 0
        """Grows when a kind comes or goes."""
        self.ids: list[int] = []
        """In order."""
        self.workloads: list[Workload] = []
        """[id] one object for each kind as long as it lives: comparing plans' inputs is quick then."""
        self.reserve: list[str] = []
        """[id]"""
        self.gang: list[str] = []
        """[id]"""
        self.labels: list[tuple[tuple[str, str], ...]] = []
        """[id]"""
        self.unchecked: list[tuple[Unchecked, ...]] = []
        """[id]"""
        self.claimed: dict[int, tuple[str, ...]] = {}
        """By id, for the few kinds that have any: extended resources that a device claim serves."""
        self.requests = _integers()
        """[id] id of the request vector."""
        self.constraints = _integers()
        """[id]"""
        self.priority = _integers()
        """[id] 0 where the class has to say."""
        self.preempts = _integers()
        """[id] 1 or 0."""
        self.excluded = _integers()
        """[id] 1 where its pods are annotated."""
        self.gated = _integers()
        """[id] 1 if its pods are behind scheduling gates."""
        self.by_class: dict[int, KindKey] = {}
        """Kinds by id for which priority classes have to be looked up."""
        self.constraints_of: dict[int, tuple[Constraints, str]] = {}
        """By id, of those that some kind has, with the text by which they are sorted."""
        self._keys: list[_SortKey] = []
        """In order."""
        self._key_of: dict[int, _SortKey] = {}

    def apply(self, changes: Mapping[int, KindRow | None]) -> None:
        """Take in what has changed."""
        if not changes:
            return
        self.version += 1
        gone = {index: self._key_of.pop(index) for index in changes if index in self._key_of}
        come = {index: row for index, row in changes.items() if row is not None}
        for index in gone:
            self.claimed.pop(index, None)
        for index, row in come.items():
            self._put(index, row)
        if len(changes) * _FEW > len(self._key_of):
            self.ids = sorted(self._key_of, key=self._key_of.__getitem__)
            self._keys = [self._key_of[index] for index in self.ids]
        else:
            for key in gone.values():
                at = bisect_left(self._keys, key)
                del self._keys[at], self.ids[at]
            for index in come:
                at = bisect_left(self._keys, self._key_of[index])
                self._keys.insert(at, self._key_of[index])
                self.ids.insert(at, index)
        # Ids of kinds that have gone keep their old values, which nobody asks for.
        if len(changes) * _FEW > len(self._key_of):
            used = set(self.constraints[self.ids].tolist())
            self.constraints_of = {index: own for index, own in self.constraints_of.items() if index in used}

    def excluded_of(self, workloads: Iterable[tuple[str, str, str]]) -> npt.NDArray[np.bool_]:
        """[id] kinds whose pods are annotated, or whose workload is one of these."""
        found: npt.NDArray[np.bool_] = self.excluded > 0
        left_out = set(workloads)
        if left_out:
            for index in self.ids:
                own = self.workloads[index]
                found[index] |= (own.namespace, own.kind, own.name) in left_out
        return found

    def _put(self, index: int, row: KindRow) -> None:
        key = row.key
        self._grow(index)
        self.workloads[index] = Workload(key.namespace, key.workload_kind, key.workload_name)
        self.reserve[index] = key.reserve
        self.gang[index] = key.gang
        self.labels[index] = key.labels
        self.unchecked[index] = key.unchecked
        if key.claimed:
            self.claimed[index] = key.claimed
        self.requests[index] = key.requests
        self.constraints[index] = key.constraints
        self.constraints_of[key.constraints] = (row.constraints, row.text)
        asks = key.priority == BY_CLASS or not key.preemption_policy
        self.priority[index] = 0 if key.priority == BY_CLASS else key.priority
        self.preempts[index] = key.preemption_policy != "Never"
        self.excluded[index] = key.excluded
        self.gated[index] = key.gated
        if asks:
            self.by_class[index] = key
        else:
            self.by_class.pop(index, None)
        self._key_of[index] = (*key[:3], row.requests, row.text, *key[5:])

    def _grow(self, index: int) -> None:
        while index >= len(self.workloads):
            self.workloads.append(_NOBODY)
            self.reserve.append("")
            self.gang.append("")
            self.labels.append(())
            self.unchecked.append(())
        if index >= self.requests.size:
            for name in _COLUMNS:
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(max(index + 1, column.size), dtype=np.int64)]))


def _integers() -> npt.NDArray[np.int64]:
    return np.zeros(64, dtype=np.int64)
