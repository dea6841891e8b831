"""Which constraints admit which node class: decided once for each constraint, however many pods there are (R1-1).

Ids of constraints and classes are recycled, so the values behind them are compared before an answer is used again.
Owned by `SnapshotBuilder`.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import Constraints, NodeClass
from slack.cluster.snapshot import BoolArray


class Reach:
    """Answers by (constraints id, class id)."""

    def __init__(self) -> None:
        self._known: npt.NDArray[np.int8] = np.full((64, 16), -1, dtype=np.int8)
        self._constraints: dict[int, Constraints] = {}
        self._classes: dict[int, NodeClass] = {}
        self._indexed: list[int] = []
        self._index = ClassIndex(())

    def matrix_of(self, constraints: Mapping[int, Constraints], classes: Mapping[int, NodeClass]) -> BoolArray:
        """Return the matrix [C, NC] for these constraints and classes, by their ids."""
        constraint_ids, class_ids = list(constraints), list(classes)
        rows = max(max(constraint_ids, default=0) + 1, self._known.shape[0])
        width = max(max(class_ids, default=0) + 1, self._known.shape[1])
        if (rows, width) != self._known.shape:
            known = np.full((max(rows, 2 * self._known.shape[0]), width), -1, dtype=np.int8)
            known[: self._known.shape[0], : self._known.shape[1]] = self._known
            self._known = known
        for index, own in constraints.items():
            if self._constraints.get(index) is not own:
                self._constraints[index] = own
                self._known[index] = -1
        if class_ids != self._indexed or any(self._classes.get(index) is not own for index, own in classes.items()):
            self._indexed, self._index = class_ids, ClassIndex(tuple(classes.values()))
        for index, node_class in classes.items():
            if self._classes.get(index) is not node_class:
                self._classes[index] = node_class
                self._known[:, index] = -1
        cells = np.ix_(np.array(constraint_ids, dtype=np.int64), np.array(class_ids, dtype=np.int64))
        part = self._known[cells]
        for row in np.flatnonzero((part < 0).any(axis=1)).tolist():
            part[row] = self._index.admitted(self._constraints[constraint_ids[row]])
        self._known[cells] = part
        return part.astype(np.bool_)
