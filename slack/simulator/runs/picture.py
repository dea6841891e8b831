"""Pictures of runs: requested, slack and capacity over time, and the curve of rate against instant start and cost.

Needs matplotlib (the extra `pictures`), which is imported when it is used. Figures are made without pyplot, which
keeps global state and looks for a display; the same values give the same bytes.
"""

import io
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from slack.simulator.model.result import Result, TimelineRow
from slack.simulator.runs.curve import CurvePoint
from slack.simulator.runs.tune import Tuned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
_REQUESTED, _SLACK, _CAPACITY, _PENDING = "#1f5fa8", "#f2a33a", "#555555", "#c0392b"
_WARM_UP = "#888888"
_LEAST_WARM_UP = 0.001
"""Of what is played: less is rounding, and no eye sees it."""
_DPI = 110
_LONGEST_IN_MINUTES = 3 * 3600.0


def format_of(path: PurePath) -> str | None:
    """Return the format that a file's name asks for; None for one that we do not write."""
    suffix = path.suffix.removeprefix(".").lower()
    return suffix if suffix in FORMATS else None


def timeline(runs: Sequence[tuple[str, Result]], picture_format: str) -> bytes:
    """Draw runs under each other on one scale: what pods request, the slack above it, and the capacity.

    Args:
        runs: name and result of each.
        picture_format: png or svg.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.0 + 2.4 * len(runs)), layout="constrained")
    axes = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    longest = max((run.timeline[-1].time_seconds for _, run in runs if run.timeline), default=0.0)
    highest = max((_height(row) for _, run in runs for row in run.timeline), default=0.0) or 1.0
    unit, seconds = ("minutes", 60.0) if longest <= _LONGEST_IN_MINUTES else ("hours", 3600.0)
    for axis, (name, run) in zip(axes, runs, strict=True):
        _one_timeline(axis, run.timeline, seconds)
        _warm_up(axis, run, seconds)
        total = run.total
        started = (
            f"{total.instant_start_ratio * 100:.1f} % of {total.pods} pods started without waiting, p99 "
            f"{_seconds(total.p99_seconds)}"
            if total.pods
            else "no pods"
        )
        axis.set_title(
            f"{name}: {started}, {run.node_hours:.1f} node hours",
            loc="left",
            fontsize=10,
        )
        axis.set_ylabel("cores")
        axis.set_xlim(0, max(longest, 1.0) / seconds)
        axis.set_ylim(0, highest * 1.06)
    axes[-1].set_xlabel(unit)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return _bytes(figure, picture_format)


def _seconds(value: float) -> str:
    """Return a time with the digits that the table has: a tenth of a second is not 0 s."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def _warm_up(axis: "Axes", run: Result, seconds: float) -> None:
    """Mark what is not measured: pods that come all at once at the start of a model are nobody's burst."""
    played = run.timeline[-1].time_seconds if run.timeline else 0.0
    warm_up = played - run.measured_seconds
    if warm_up < _LEAST_WARM_UP * played:
        return
    axis.axvspan(0, warm_up / seconds, color=_WARM_UP, alpha=0.18, linewidth=0, label="warm-up, not measured")
    axis.axvline(warm_up / seconds, color=_WARM_UP, linewidth=0.8)


def _height(row: TimelineRow) -> float:
    """Return the cores that a row needs on the picture."""
    return max(row.requested_cpu_millis + row.slack_bound_cpu_millis, row.capacity_cpu_millis) / 1000


def _one_timeline(axis: "Axes", rows: Sequence[TimelineRow], seconds: float) -> None:
    times = [row.time_seconds / seconds for row in rows]
    requested = [row.requested_cpu_millis / 1000 for row in rows]
    slack = [(row.requested_cpu_millis + row.slack_bound_cpu_millis) / 1000 for row in rows]
    capacity = [row.capacity_cpu_millis / 1000 for row in rows]
    axis.fill_between(times, requested, color=_REQUESTED, alpha=0.35, step="post", linewidth=0, label="requested")
    axis.fill_between(
        times, requested, slack, color=_SLACK, alpha=0.6, step="post", linewidth=0, label="slack on nodes"
    )
    axis.step(times, capacity, where="post", color=_CAPACITY, linewidth=1.4, label="capacity of nodes that are there")
    waiting = [row.pending_pods > 0 for row in rows]
    if any(waiting):
        axis.fill_between(
            times,
            0,
            1,
            where=waiting,
            transform=axis.get_xaxis_transform(),
            color=_PENDING,
            alpha=0.12,
            step="post",
            linewidth=0,
            label="pods are waiting",
        )


def rate_curve(
    points: Sequence[CurvePoint], picture_format: str, *, currency: str = "", tuned: Tuned | None = None
) -> bytes:
    """Draw a curve: instant-start ratio and monthly cost with their intervals against the rate; a tuning's choice."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    rates = [point.rate * 100 for point in points]
    axis.fill_between(
        rates,
        [point.low * 100 for point in points],
        [point.high * 100 for point in points],
        color=_REQUESTED,
        alpha=0.2,
        linewidth=0,
    )
    axis.plot(
        rates,
        [point.instant_start_ratio * 100 for point in points],
        color=_REQUESTED,
        marker="o",
        label="instant starts",
    )
    if tuned is not None:
        goal = tuned.goal * 100
        axis.axhline(goal, color=_PENDING, linestyle="--", linewidth=1, label=f"goal {goal:g} %")
        if tuned.chosen is not None:
            axis.axvline(tuned.chosen.rate * 100, color=_CAPACITY, linestyle=":", label=f"rate {tuned.chosen.rate:g}")
    axis.set_xlabel("extra capacity, % of what pods request")
    axis.set_ylabel("instant starts, % of pods")
    costs = axis.twinx()
    costs.plot(rates, [point.cost_per_month for point in points], color=_SLACK, marker="s", label="cost")
    costs.fill_between(
        rates,
        [point.cost_low for point in points],
        [point.cost_high for point in points],
        color=_SLACK,
        alpha=0.2,
        linewidth=0,
    )
    costs.set_ylabel(f"cost per month, {currency or 'in the currency of the prices'}")
    costs.set_ylim(bottom=0)
    lines, labels = axis.get_legend_handles_labels()
    more, named = costs.get_legend_handles_labels()
    axis.legend([*lines, *more], [*labels, *named], loc="lower right", frameon=False)
    return _bytes(figure, picture_format)


def _bytes(figure: "Figure", picture_format: str) -> bytes:
    import matplotlib

    out = io.BytesIO()
    # ids in an SVG are random and its date is today's unless told otherwise
    options: dict[str, Any] = {"metadata": {"Date": None}} if picture_format == "svg" else {"dpi": _DPI}
    with matplotlib.rc_context({"svg.hashsalt": "resource-slack"}):
        figure.savefig(out, format=picture_format, **options)
    return out.getvalue()
