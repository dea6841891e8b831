"""The picture of a CPU limit as PNG or SVG: busy CPUs over two enforcement periods, running and standing still.

Needs matplotlib (the extra `pictures`), imported when it is used, without pyplot; the same values give the same bytes.
"""

import io
from typing import TYPE_CHECKING, Any

from slack.audit.results.explanation import Explanation
from slack.cli.audit.formats import cores, milliseconds, percent, target_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slack.audit.findings.period_shape import PeriodShape

_RUNS, _STOPS, _EDGE = "#1f5fa8", "#e9b0a8", "#555555"
_DPI = 110
_PERIODS = 2
_MOST_CPUS = 32


def draw(explanation: Explanation, picture_format: str) -> bytes:
    """Draw an explanation.

    Args:
        explained: what there is to tell.
        picture_format: png or svg.
    """
    import matplotlib
    from matplotlib.figure import Figure

    shape = explanation.shape
    rows = 1 if shape is None else min(_MOST_CPUS, max(1, round(shape.busy_cpus)))
    figure = Figure(figsize=(10, 1.8 + 0.22 * rows), layout="constrained")
    axis = figure.subplots()
    axis.set_title(title(explanation), loc="left", fontsize=10)
    if shape is None:
        axis.text(0.5, 0.5, "no level has a CPU limit: no quota can stop it", ha="center", transform=axis.transAxes)
        axis.set_axis_off()
    else:
        _bars(axis, shape, rows)
    out = io.BytesIO()
    # ids in an SVG are random and its date is today's unless told otherwise
    options: dict[str, Any] = {"metadata": {"Date": None}} if picture_format == "svg" else {"dpi": _DPI}
    with matplotlib.rc_context({"svg.hashsalt": "resource-slack"}):
        figure.savefig(out, format=picture_format, **options)
    return out.getvalue()


def title(explanation: Explanation) -> str:
    """Return what stands above the bars: whose limit it is, and what was measured."""
    subject, governing = explanation.subject, explanation.governing
    name = target_name(subject.window.target)
    if governing is None or explanation.shape is None:
        return name
    whose = "" if governing is subject else f" of the {governing.window.target.level}"
    limit = f"limit{whose} {cores(explanation.shape.limit_cores)} cores"
    if explanation.assumed:
        measured = explanation.unjudged or "nothing is throttled"
        return f"{name}: {limit}; {measured}, drawn as if all CPUs were busy"
    return (
        f"{name}: {limit}; {percent(governing.throttled_ratio)} of periods throttled, "
        f"{percent(governing.lost_ratio)} of the time lost, stop {milliseconds(governing.stop_seconds)}"
    )


def _bars(axis: "Axes", shape: "PeriodShape", rows: int) -> None:
    period, runs, stops = (value / 1000 for value in (shape.period_us, shape.runs_us, shape.stops_us))
    starts = [period * count for count in range(_PERIODS)]
    for cpu in range(rows):
        first = cpu == 0
        place = (cpu - 0.4, 0.8)
        axis.broken_barh([(start, runs) for start in starts], place, facecolors=_RUNS, label="runs" if first else None)
        if shape.stops:
            axis.broken_barh(
                [(start + runs, stops) for start in starts],
                place,
                facecolors=_STOPS,
                hatch="//",
                edgecolor="white",
                label="stands still" if first else None,
            )
    for start in (*starts, period * _PERIODS):
        axis.axvline(start, color=_EDGE, linewidth=1, linestyle=":")
    axis.set_xlim(0, period * _PERIODS)
    axis.set_ylim(rows - 0.5, -0.5)
    axis.set_yticks(range(rows), [f"cpu {cpu}" for cpu in range(rows)], fontsize=8)
    axis.set_xlabel("milliseconds")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
