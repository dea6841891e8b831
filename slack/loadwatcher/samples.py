"""Samples of what has no history: rings of the last 15 minutes, of which averages and deviations are made for real.

Metrics Server tells the newest figure of each node and nothing else; upstream gives that figure out for all windows,
without a deviation. Here each node has a row; a sample with a time that was seen already is no new one. A window is
told once some node's samples reach over half of it: until then a question for it falls back. All of numpy, for 5,000
nodes with 60 samples each are rolled up in milliseconds.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slack.loadwatcher.analysis import FUTURE_SECONDS
from slack.loadwatcher.payload import WINDOWS, MetricType, RollupWindow
from slack.loadwatcher.readings import ReadingKey, Readings, Statistic
from slack.loadwatcher.sample import KEPT_SECONDS, LoadSample

_FIRST_ROWS = 64
TYPES = (MetricType.CPU, MetricType.MEMORY)


class Rings:
    """The samples of all nodes. Owned by one thread."""

    def __init__(self, interval_seconds: float) -> None:
        self._depth = int(KEPT_SECONDS / interval_seconds) + 2
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._at: NDArray[np.float64] = np.full((_FIRST_ROWS, self._depth), -np.inf)
        self._values: NDArray[np.float32] = np.zeros((len(TYPES), _FIRST_ROWS, self._depth), np.float32)
        self._next: NDArray[np.int64] = np.zeros(_FIRST_ROWS, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def add_samples(self, samples: Iterable[LoadSample]) -> list[LoadSample]:
        """Take samples in; returns those that were new."""
        new = []
        for sample in samples:
            row = self._row(sample.node)
            last = self._at[row, (self._next[row] - 1) % self._depth]
            if sample.at <= last:
                continue
            place = self._next[row] % self._depth
            self._at[row, place] = sample.at
            self._values[:, row, place] = sample.cpu_percent, sample.memory_percent
            self._next[row] += 1
            new.append(sample)
        return new

    def readings(self, now: float) -> Readings:
        """Roll up what is there, for windows that end now; nodes without a sample in the last 15 minutes are forgotten.

        A sample from the future counts as the newest: the analyser sees its time and drops the node. After that its
        row is forgotten, or a clock that was put right would be too early for an hour.
        """
        self._forget(now)
        names = list(self._rows)
        rows = np.fromiter(self._rows.values(), np.int64, len(names))
        at = self._at[rows]
        newest = at.max(axis=1, initial=-np.inf)
        values: dict[ReadingKey, Mapping[str, float]] = {}
        last = (self._next[rows] - 1) % self._depth
        for index, kind in enumerate(TYPES):
            of_kind = self._values[index][rows].astype(np.float64)
            latest = of_kind[np.arange(len(names)), last]
            values[ReadingKey(Statistic.LATEST, kind)] = dict(zip(names, latest.tolist(), strict=True))
            values[ReadingKey(Statistic.OBSERVED_AT, kind)] = _by(names, newest)
            readable = np.isfinite(of_kind)
            for window in WINDOWS:
                average, deviation = _rolled_up(of_kind, readable & (at > now - window.seconds))
                values[ReadingKey(Statistic.AVERAGE, kind, window)] = _by(names, average)
                values[ReadingKey(Statistic.DEVIATION, kind, window)] = _by(names, deviation)
        for name, seen in zip(names, newest.tolist(), strict=True):
            if seen > now + FUTURE_SECONDS:
                self._free.append(self._rows.pop(name))
        return Readings(now, values, _windows_at(at, now))

    def _row(self, node: str) -> int:
        row = self._rows.get(node)
        if row is not None:
            return row
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._rows[node] = row
        self._at[row], self._next[row] = -np.inf, 0
        return row

    def _grow(self) -> None:
        used = len(self._rows)
        if used >= len(self._at):
            self._at = np.concatenate([self._at, np.full_like(self._at, -np.inf)])
            self._values = np.concatenate([self._values, np.zeros_like(self._values)], axis=1)
            self._next = np.concatenate([self._next, np.zeros_like(self._next)])
        self._free = list(range(len(self._at) - 1, used - 1, -1))

    def _forget(self, now: float) -> None:
        for name, row in list(self._rows.items()):
            if self._at[row].max() <= now - KEPT_SECONDS:
                del self._rows[name]
                self._free.append(row)


def _rolled_up(values: NDArray[np.float64], within: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return averages and (population) deviations by row; NaN where nothing is within."""
    counts = within.sum(axis=1).astype(np.float64)
    counts[counts == 0] = np.nan
    average = np.where(within, values, 0.0).sum(axis=1) / counts
    squares = np.where(within, (values - average[:, None]) ** 2, 0.0).sum(axis=1)
    return average, np.sqrt(squares / counts)


def _windows_at(at: NDArray[np.float64], now: float) -> frozenset[RollupWindow]:
    oldest = np.where(at > now - KEPT_SECONDS, at, np.inf).min(initial=np.inf)
    reach = now - oldest
    return frozenset(window for window in WINDOWS if window is WINDOWS[-1] or reach >= window.seconds / 2)


def _by(names: list[str], values: NDArray[Any]) -> dict[str, float]:
    """Return values by name, without those that a window has none of."""
    return {name: value for name, value in zip(names, values.tolist(), strict=True) if value == value}
