"""Reports of a load watcher as columns, in the order of the nodes.

Reports are known by their form alone: whatever has a window with its end, and by node's name metrics with a type, a
roll-up and a value in percent, such as those of `slack.loadwatcher`, which this room does not know.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from slack.scorer.model import RESOURCES, WindowLoad


class Duration(Protocol):
    """How long a window is."""

    @property
    def seconds(self) -> int:
        """Its length."""


class ReportSpan(Protocol):
    """The window of a report."""

    @property
    def duration(self) -> Duration:
        """How long it is."""

    @property
    def end(self) -> int:
        """Unix seconds."""


class ReportMetric(Protocol):
    """One figure of a node."""

    @property
    def type(self) -> str:
        """What is used: cpu or memory; others are passed over."""

    @property
    def rollup(self) -> str:
        """AVG, STD or Latest; others are passed over."""

    @property
    def value(self) -> float:
        """In percent."""


class NodeFigures(Protocol):
    """The figures of a node."""

    @property
    def metrics(self) -> Iterable[ReportMetric]:
        """In any order; of several with one type and roll-up the last counts."""

    @property
    def observed_at(self) -> int | None:
        """When the newest sample was made; None: at the window's end."""


class Report(Protocol):
    """The use of all nodes over one window."""

    @property
    def window(self) -> ReportSpan:
        """Which."""

    @property
    def nodes(self) -> Mapping[str, NodeFigures]:
        """By name."""


_ROLLUPS = ("Latest", "AVG", "STD")
_PLACES = {(kind, rollup): (place, row) for row, kind in enumerate(RESOURCES) for place, rollup in enumerate(_ROLLUPS)}


def window_load(report: Report, row_of: Mapping[str, int], size: int) -> tuple[WindowLoad, tuple[str, ...]]:
    """Read a report.

    Args:
        report: what a watcher tells.
        row_of: the row of each name that a node may have there.
        size: how many nodes there are.

    Returns:
        the columns, and the names that are no node's.
    """
    figures = np.full((len(_ROLLUPS), len(RESOURCES), size), np.nan)
    end = np.full(size, np.nan)
    unmatched = []
    for name, node in report.nodes.items():
        row = row_of.get(name)
        if row is None:
            unmatched.append(name)
            continue
        end[row] = report.window.end if node.observed_at is None else min(node.observed_at, report.window.end)
        for metric in node.metrics:
            place = _PLACES.get((metric.type, metric.rollup))
            if place is not None:
                figures[place[0], place[1], row] = metric.value
    latest, mean, deviation = figures
    own_mean = np.where(np.isnan(mean), latest, mean)
    return WindowLoad(report.window.duration.seconds, end, own_mean, deviation), tuple(unmatched)
