"""From readings that were judged to reports, a window each; and which window answers a question.

A question for 15 minutes falls back to 10 and to 5 where the longer window is not there (yet) or too old, as the
proposal promises; a shorter one never becomes a longer one. Nothing is told whose window ended too long ago: a reader
that does not look at ages must not act on old figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slack.loadwatcher.analysis import Judgement
from slack.loadwatcher.node_names import NodeNames
from slack.loadwatcher.payload import (
    WINDOWS,
    LoadReport,
    Metric,
    MetricType,
    NodeLoadFigures,
    Rollup,
    RollupWindow,
    Span,
)
from slack.loadwatcher.readings import Readings, Statistic

_DECIMALS = 4
_NAMES = {kind: f"host.{kind}.utilisation" for kind in MetricType}
_NOTHING: dict[str, str] = {}
"""Tags and metadata of a node, which no provider gives; one for all, as there are thousands. Nobody changes it."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """What one fetch came to."""

    reports: Mapping[RollupWindow, LoadReport]
    unmatched: tuple[str, ...]
    """Names of series that no node goes by, or several do; sorted."""


def assemble(readings: Readings, judgement: Judgement, names: NodeNames, *, source: str) -> Assembled:
    """Make the reports of all windows; series that were dropped are in none."""
    series, unmatched = _match_series(readings, judgement, names)
    observed = _observed_at(readings, series)
    end = int(readings.ends_at)
    latest = _latest(readings, series)
    reports = {}
    for window in WINDOWS:
        if window not in readings.windows:
            continue
        metrics = _metrics(readings, series, latest, window)
        nodes = {
            node: NodeLoadFigures(tuple(found), _NOTHING, _NOTHING, observed[node]) for node, found in metrics.items()
        }
        if nodes:
            reports[window] = LoadReport(end, Span(window, end - window.seconds, end), source, nodes)
    return Assembled(reports, unmatched)


def choose(
    reports: Mapping[RollupWindow, LoadReport],
    asked: RollupWindow,
    *,
    now: float,
    max_age_seconds: float,
    node: str | None = None,
) -> LoadReport | None:
    """Return the report that answers a question; None where there is nothing to tell.

    Args:
        reports: the newest of each window.
        asked: the longest window that will do.
        now: Unix seconds.
        max_age_seconds: since the window's end.
        node: only about this one.
    """
    for window in WINDOWS[WINDOWS.index(asked) :]:
        report = reports.get(window)
        if report is None or not fresh(report, now, max_age_seconds):
            continue
        found = report if node is None else report.report_of_node(node)
        if found is not None and found.nodes:
            return found
    return None


def fresh(report: LoadReport, now: float, max_age_seconds: float) -> bool:
    """Whether a report can still be told; one that lies in the future, as after a jump of the clock, cannot."""
    return -max_age_seconds <= now - report.window.end <= max_age_seconds


def _match_series(
    readings: Readings, judgement: Judgement, names: NodeNames
) -> tuple[Mapping[str, Mapping[MetricType, str]], tuple[str, ...]]:
    """Return by node which series is its own; of several the one with the newest sample."""
    found: dict[str, dict[MetricType, str]] = {}
    unmatched = set()
    for kind, good in judgement.good.items():
        observed = readings.values_of(Statistic.OBSERVED_AT, kind)
        for series in sorted(good):
            node = names.node(series)
            if node is None:
                unmatched.add(series)
                continue
            of_node = found.setdefault(node, {})
            if kind not in of_node or observed[series] > observed[of_node[kind]]:
                of_node[kind] = series
    unmatched |= {dropped.name for dropped in judgement.dropped if names.node(dropped.name) is None}
    return dict(sorted(found.items())), tuple(sorted(unmatched))


def _observed_at(readings: Readings, series: Mapping[str, Mapping[MetricType, str]]) -> Mapping[str, int]:
    """Return when nodes were seen last: its oldest newest sample, for a node is known as well as its worst figure."""
    observed = {kind: readings.values_of(Statistic.OBSERVED_AT, kind) for kind in MetricType}
    return {
        node: int(min(observed[kind][name] for kind, name in of_types.items())) for node, of_types in series.items()
    }


def _latest(
    readings: Readings, series: Mapping[str, Mapping[MetricType, str]]
) -> Mapping[MetricType, Mapping[str, Metric]]:
    """Return each node's newest figures, which all windows share."""
    found: dict[MetricType, dict[str, Metric]] = {}
    for kind, name in _NAMES.items():
        values = readings.values_of(Statistic.LATEST, kind)
        found[kind] = {
            node: Metric(name, kind, Rollup.LATEST, round(values[of_types[kind]], _DECIMALS))
            for node, of_types in series.items()
            if of_types.get(kind) in values
        }
    return found


def _metrics(
    readings: Readings,
    series: Mapping[str, Mapping[MetricType, str]],
    latest: Mapping[MetricType, Mapping[str, Metric]],
    window: RollupWindow,
) -> Mapping[str, list[Metric]]:
    """Return the figures of one window by node; a deviation alone reads as an idle node, and is not told."""
    found: dict[str, list[Metric]] = {}
    for kind, name in _NAMES.items():
        averages = readings.values_of(Statistic.AVERAGE, kind, window)
        deviations = readings.values_of(Statistic.DEVIATION, kind, window)
        newest = latest[kind]
        for node, of_types in series.items():
            average = averages.get(of_types[kind]) if kind in of_types else None
            if average is None:
                continue
            metrics = found.setdefault(node, [])
            metrics.append(Metric(name, kind, Rollup.AVG, round(average, _DECIMALS)))
            deviation = deviations.get(of_types[kind])
            if deviation is not None:
                metrics.append(Metric(name, kind, Rollup.STD, round(deviation, _DECIMALS)))
            if node in newest:
                metrics.append(newest[node])
    return found
