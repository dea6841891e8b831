"""What `load-watcher show` tells of each node, and the analysis that goes over the wire."""

import pytest

from slack.loadwatcher.analysis import Fault
from slack.loadwatcher.nodes_seen import GOOD, NodesSeen, Use
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span
from slack.loadwatcher.verdicts import DroppedSeries, InvalidVerdicts, Verdicts, decode, encode

NOW = 1_000_000
CPU = MetricType.CPU


def _report(window: RollupWindow, seen_at: dict[str, int], *rollups: tuple[Rollup, float]) -> LoadReport:
    metrics = tuple(Metric("use", CPU, rollup, value) for rollup, value in rollups)
    nodes = {name: NodeLoadFigures(metrics, {}, {}, at) for name, at in seen_at.items()}
    return LoadReport(NOW, Span(window, NOW - window.seconds, NOW), "test", nodes)


def _verdicts() -> Verdicts:
    dropped = (
        DroppedSeries("10.0.0.1:9100", "a", CPU, Fault.NEGATIVE, "-1"),
        DroppedSeries("stray:9100", None, CPU, Fault.STALE, "for 20 m"),
    )
    return Verdicts("Prometheus", NOW, None, dropped, ("stray:9100",), ("a", "gone"))


def test_each_window_tells_its_use_and_the_newest_sample_its_age() -> None:
    short = _report(RollupWindow.FIVE_MINUTES, {"a": NOW - 20}, (Rollup.AVG, 30.0), (Rollup.STD, 4.0))
    long = _report(RollupWindow.FIFTEEN_MINUTES, {"a": NOW - 50, "b": NOW - 90}, (Rollup.LATEST, 10.0))
    seen = NodesSeen({RollupWindow.FIVE_MINUTES: short, RollupWindow.FIFTEEN_MINUTES: long}, None, float(NOW))
    a, b = seen.nodes()
    assert a.uses == {
        (CPU, RollupWindow.FIVE_MINUTES): Use(30.0, 4.0),
        (CPU, RollupWindow.FIFTEEN_MINUTES): Use(10.0, None),
    }
    assert (a.age_seconds, a.verdict) == (20.0, GOOD)
    assert (b.name, b.uses, b.age_seconds) == ("b", {(CPU, RollupWindow.FIFTEEN_MINUTES): Use(10.0, None)}, 90.0)


def test_what_the_analyser_has_against_a_node_is_with_the_node_or_with_the_series_that_has_none() -> None:
    seen = NodesSeen(
        {RollupWindow.FIVE_MINUTES: _report(RollupWindow.FIVE_MINUTES, {"a": NOW})}, _verdicts(), float(NOW)
    ).nodes()
    found = {node.name: (node.verdict, node.age_seconds) for node in seen}
    assert found == {
        "a": (f"{CPU}: {Fault.NEGATIVE}, -1", 0.0),
        "gone": ("the provider has nothing of it", None),
        "stray:9100": (f"{CPU}: {Fault.STALE}, for 20 m; no node goes by this name, or several do", None),
    }
    assert not seen[0].uses


def test_the_analysis_comes_back_as_it_was_sent_and_anything_else_is_refused() -> None:
    assert decode(encode(_verdicts())) == _verdicts()
    for bad in (b"", b"{}", b"[1]", b'"\xff"', b"[" * 100_000):
        with pytest.raises(InvalidVerdicts, match="no analysis of a load watcher"):
            decode(bad)
