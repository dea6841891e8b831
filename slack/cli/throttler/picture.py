"""Start-ups as a picture: a row a container, a bar a start, from its grant until it is ready or has failed.

Needs matplotlib (the extra `pictures`). Figures are made without pyplot; the same values give the same bytes.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slack.throttler.simulate import Played, StartEventType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_READY, _FAILED, _OPEN, _FORCED = "#1f5fa8", "#c0392b", "#aaaaaa", "#f2a33a"
_MOST_NAMED = 60
"""Rows that are labelled with their container's name."""
_DPI = 110


def draw_runs(runs: Sequence[tuple[str, Played]], picture_format: str) -> bytes:
    """Draw runs under each other on one scale of time; picture_format is png or svg."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = max(len(played.order) for _, played in runs)
    height = min(60.0, 1.0 + len(runs) * (0.6 + 0.16 * max(rows, 4)))
    figure = Figure(figsize=(10, height), layout="constrained")
    axes = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, played) in zip(axes, runs, strict=True):
        _draw(axis, played)
        after = "not all ready" if played.makespan is None else f"all ready after {played.makespan:.1f} s"
        axis.set_title(
            f"limit {name}: {played.ready} of {played.containers} ready, {played.failures} failures, {after}",
            loc="left",
            fontsize=10,
        )
    axes[-1].set_xlabel("seconds")
    data = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if picture_format == "svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "resource-slack"}):
        figure.savefig(data, format=picture_format, dpi=_DPI, metadata=metadata)
    return data.getvalue()


def _draw(axis: "Axes", played: Played) -> None:
    rows = {name: row for row, name in enumerate(played.order)}
    end = max((event.at for event in played.events), default=0.0)
    begun: dict[str, tuple[float, bool]] = {}
    for event in played.events:
        name = f"{event.pod}/{event.container}"
        if event.event is StartEventType.START:
            begun[name] = (event.at, event.forced)
        elif name in begun:
            _bar(
                axis, rows[name], begun.pop(name), event.at, _READY if event.event is StartEventType.READY else _FAILED
            )
    for name, start in begun.items():
        _bar(axis, rows[name], start, max(end, start[0]), _OPEN)
    axis.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    named = len(rows) <= _MOST_NAMED
    axis.set_yticks(list(rows.values()) if named else [], list(rows) if named else [], fontsize=7)
    axis.set_xlim(left=0)


def _bar(axis: "Axes", row: int, start: tuple[float, bool], end: float, colour: str) -> None:
    at, forced = start
    axis.barh(row, end - at, left=at, height=0.7, color=colour)
    if forced:
        axis.plot([at], [row], marker="|", markersize=8, color=_FORCED)
