"""Figures over time as a few lines of text: in a terminal, a log or a pull request they are read alike."""

import math
from collections.abc import Sequence

from slack.loadtest.report import Moment

_LEVELS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 5
_LEAST_COLUMNS = 20


def chart(moments: Sequence[Moment], columns: int, ended_seconds: float | None = None) -> list[str]:
    """Draw nodes over time, and the load's pods with a node below them.

    Args:
        moments: in order of time.
        columns: how wide it may be.
        ended_seconds: where the load was taken away.
    """
    if not moments:
        return []
    most = max(max(moment.nodes for moment in moments), 1)
    margin = len(str(most)) + len("nodes ") + 1
    width = max(_LEAST_COLUMNS, columns - margin)
    span = max(moments[-1].seconds, 1.0)
    nodes = _resample([(moment.seconds, moment.nodes) for moment in moments], span, width)
    pods = _resample([(moment.seconds, moment.bound) for moment in moments], span, width)
    lines = []
    for row in range(_HEIGHT, 0, -1):
        label = f"nodes {most}" if row == _HEIGHT else "0" if row == 1 else ""
        lines.append(f"{label:>{margin - 1}} " + "".join(_cell(value / most * _HEIGHT - row + 1) for value in nodes))
    highest = max(max(pods), 1)
    lines.append(f"{'pods':>{margin - 1}} " + "".join(_cell(value / highest) for value in pods))
    axis = [" "] * width
    if ended_seconds is not None:
        axis[min(width - 1, int(ended_seconds / span * width))] = "^"
    marks = "".join(axis).rstrip()
    if marks:
        lines.append(" " * margin + marks + " the load ends")
    lines.append(" " * margin + "0 s" + f"{_span(span):>{max(1, width - 3)}}")
    return [line.rstrip() for line in lines]


def _resample(values: Sequence[tuple[float, int]], span: float, width: int) -> list[int]:
    """Return what holds in each column; of several the highest, so that no spike is lost."""
    highest: dict[int, int] = {}
    last: dict[int, int] = {}
    for seconds, value in values:
        column = min(width - 1, int(seconds / span * width))
        highest[column] = max(highest.get(column, value), value)
        last[column] = value
    found, before = [], values[0][1]
    for column in range(width):
        found.append(highest.get(column, before))
        before = last.get(column, before)
    return found


def _cell(share: float) -> str:
    return _LEVELS[max(0, min(8, math.ceil(share * 8 - 1e-9)))]


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
