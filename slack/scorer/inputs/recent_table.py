"""Pods that were bound lately, as columns: events change single rows, and who reads copies columns.

A row a pod, in no order; a freed row is used again. Work follows events and is some array operations a read, whatever
the number of pods. What the row of a node is elsewhere is its user's matter. Not thread-safe.
"""

import numpy as np

from slack.scorer.model import RESOURCES, FloatArray, IntArray, RecentPods

_FREE = -1


class RecentTable:
    """Pods by key, each with the row of its node, when it was bound and what it is predicted to use."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        self._free: list[int] = []
        self._node: IntArray = np.full(64, _FREE, dtype=np.int64)
        self._bound: FloatArray = np.zeros(64)
        self._use: FloatArray = np.zeros((len(RESOURCES), 64))

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._rows)

    def put(self, key: str, node: int, bound_seconds: float, use: tuple[float, float]) -> None:
        """Take a pod; one that is there moves."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._new_row(key)
        self._node[row], self._bound[row], self._use[:, row] = node, bound_seconds, use

    def resize(self, key: str, use: tuple[float, float]) -> None:
        """Predict another use of a pod; nothing where it is not there."""
        row = self._rows.get(key)
        if row is not None:
            self._use[:, row] = use

    def remove(self, key: str) -> None:
        """Forget a pod; nothing where it is not there."""
        row = self._rows.pop(key, None)
        if row is not None:
            self._node[row], self._keys[row] = _FREE, ""
            self._free.append(row)

    def forget_before(self, oldest_seconds: float) -> None:
        """Forget pods that were bound earlier."""
        old = (self._node != _FREE) & (self._bound < oldest_seconds)
        for row in np.flatnonzero(old).tolist():
            self.remove(self._keys[row])

    def columns(self, place_of_node: IntArray) -> RecentPods:
        """Return all pods whose node has a place.

        Args:
            place_of_node: by the row of a node, its place in the answer; -1 for none.
        """
        used = np.flatnonzero(self._node != _FREE)
        place = place_of_node[self._node[used]]
        shown = place >= 0
        used = used[shown]
        return RecentPods(place[shown], self._bound[used], self._use[:, used])

    def _new_row(self, key: str) -> int:
        if self._free:
            row = self._free.pop()
            self._keys[row] = key
            return row
        row = len(self._keys)
        self._keys.append(key)
        if row >= self._bound.size:
            self._node = np.concatenate([self._node, np.full_like(self._node, _FREE)])
            self._bound = np.concatenate([self._bound, np.zeros_like(self._bound)])
            self._use = np.concatenate([self._use, np.zeros_like(self._use)], axis=1)
        return row
