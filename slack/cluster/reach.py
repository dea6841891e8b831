"""Which constraints admit which node class: decided once a pair, however many pods and nodes there are (R1-1).

Ids of constraints and classes are recycled, so the values behind them are compared before an answer is used again.
Owned by `View`.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints, NodeClass, admits
from slack.cluster.snapshot import BoolArray

if TYPE_CHECKING:
    from slack.cluster.columns import ClusterColumns


class Reach:
    """Answers by (constraints id, class id)."""

    def __init__(self) -> None:
        self._known: npt.NDArray[np.int8] = np.full((64, 16), -1, dtype=np.int8)
        self._constraints: dict[int, Constraints] = {}
        self._classes: dict[int, NodeClass] = {}

    def of(self, columns: "ClusterColumns", constraint_ids: list[int], class_ids: tuple[int, ...]) -> BoolArray:
        """Return the matrix [C, NC] for these ids."""
        rows = max(columns.constraints.capacity, self._known.shape[0])
        width = max(columns.nodes.classes.capacity, self._known.shape[1])
        if (rows, width) != self._known.shape:
            known = np.full((max(rows, 2 * self._known.shape[0]), width), -1, dtype=np.int8)
            known[: self._known.shape[0], : self._known.shape[1]] = self._known
            self._known = known
        for index in constraint_ids:
            if self._constraints.get(index) is not columns.constraints[index]:
                self._constraints[index] = columns.constraints[index]
                self._known[index] = -1
        for index in class_ids:
            if self._classes.get(index) is not columns.nodes.classes[index]:
                self._classes[index] = columns.nodes.classes[index]
                self._known[:, index] = -1
        cells = np.ix_(np.array(constraint_ids, dtype=np.int64), np.array(class_ids, dtype=np.int64))
        part = self._known[cells]
        for row, column in np.argwhere(part < 0).tolist():
            part[row, column] = admits(self._constraints[constraint_ids[row]], self._classes[class_ids[column]])
        self._known[cells] = part
        return part.astype(np.bool_)
