"""The payload: as the source has it, as upstream nests it, and both read back."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher.decoding import Ignored, InvalidPayload, decode
from slack.loadwatcher.encoding import ReportFormat, encode
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span
from tests.cases import run_for_each

_END = 1556985422
_NODE = NodeLoadFigures(
    (
        Metric("host.cpu.utilisation", MetricType.CPU, Rollup.AVG, 20.0),
        Metric("host.memory.utilisation", MetricType.MEMORY, Rollup.STD, 5.0),
    ),
    {},
    {"dataCenter": "data-center-1", "pool": "critical-apps"},
    observed_at=_END - 20,
)
REPORT = LoadReport(1556987522, Span(RollupWindow.FIFTEEN_MINUTES, _END - 900, _END), "InfluxDB", {"node-1": _NODE})

EXAMPLE = """
{"timestamp": 1556987522, "window": {"duration": "15m", "start": 1556984522, "end": 1556985422}, "source": "InfluxDB",
 "data": {"node-1": {"metrics": [
   {"name": "host.cpu.utilisation", "type": "cpu", "rollup": "AVG", "value": 20},
   {"name": "host.memory.utilisation", "type": "memory", "rollup": "STD", "value": 5}],
  "tags": {}, "metadata": {"dataCenter": "data-center-1", "pool": "critical-apps"}},
 "node-2": {"metrics": [
   {"name": "host.cpu.utilisation", "type": "cpu", "rollup": "AVG", "value": 20},
   {"name": "host.memory.utilisation", "type": "memory", "rollup": "STD", "value": 5}]},
 "metadata": {"dataCenter": "data-center-2", "pool": "light-apps"}, "tags": {}}}
"""


def _nested(metrics: str) -> bytes:
    return (
        '{"timestamp":1,"window":{"duration":"5m","start":1,"end":301},"source":"Fake",'
        '"data":{"NodeMetricsMap":{"n":{"metrics":[' + metrics + "]}}}}"
    ).encode()


def test_the_sources_example_is_read_and_what_it_has_beside_its_nodes_is_no_node() -> None:
    report = decode(EXAMPLE.encode()).report
    assert sorted(report.nodes) == ["node-1", "node-2"]
    assert report.nodes["node-1"].percent(MetricType.CPU, Rollup.AVG) == 20
    assert report.nodes["node-2"].percent(MetricType.MEMORY, Rollup.STD) == 5
    assert report.nodes["node-2"].percent(MetricType.MEMORY, Rollup.AVG) is None
    assert report.nodes["node-1"].metadata == {"dataCenter": "data-center-1", "pool": "critical-apps"}
    assert (report.window.start, report.window.end, report.timestamp) == (1556984522, 1556985422, 1556987522)


def test_nodes_are_directly_below_data_as_the_source_has_it() -> None:
    written: Any = json.loads(encode(REPORT))
    assert list(written) == ["timestamp", "window", "source", "data"]
    assert list(written["window"]) == ["duration", "start", "end"]
    node = written["data"]["node-1"]
    assert node["metrics"][0] == {"name": "host.cpu.utilisation", "type": "cpu", "rollup": "AVG", "value": 20.0}
    assert node["tags"] == {}
    assert all(isinstance(written["window"][key], int) for key in ("start", "end"))


def test_upstreams_nesting_has_operators_and_its_words_for_types() -> None:
    written: Any = json.loads(encode(REPORT, ReportFormat.UPSTREAM))
    node = written["data"]["NodeMetricsMap"]["node-1"]
    assert node["metrics"][1] == {
        "name": "host.memory.utilisation",
        "type": "Memory",
        "operator": "STD",
        "rollup": "15m",
        "value": 5.0,
    }
    assert node["metadata"]["dataCenter"] == "data-center-1"


def test_upstreams_own_payload_is_read() -> None:
    observed = _nested('{"name":"m","type":"CPU","operator":"AVG","rollup":"15m","value":12.5}')
    assert decode(observed).report.nodes["n"].percent(MetricType.CPU, Rollup.AVG) == 12.5


def test_a_figure_without_an_operator_is_the_latest_as_upstreams_metrics_server_gives_it() -> None:
    data = _nested('{"name":"","type":"Memory","operator":"Latest","value":3},{"type":"CPU","operator":"","value":4}')
    node = decode(data).report.nodes["n"]
    assert [(metric.type, metric.rollup, metric.value) for metric in node.metrics] == [
        (MetricType.MEMORY, Rollup.LATEST, 3),
        (MetricType.CPU, Rollup.LATEST, 4),
    ]


@pytest.mark.parametrize("value", ["NaN", "null", "+Inf", "-Infinity", "1e999"])
def test_a_figure_that_is_no_number_costs_itself_and_is_no_idle_node(value: str) -> None:
    bad = f'{{"type":"CPU","operator":"AVG","value":{value}}},{{"type":"Memory","operator":"AVG","value":7}}'
    decoded = decode(_nested(bad))
    assert [metric.type for metric in decoded.report.nodes["n"].metrics] == [MetricType.MEMORY]
    assert sum(decoded.ignored.values()) == 1


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ('{"type":"CPU","operator":"AVG","value":-1}', Ignored.NEGATIVE),
        ('{"type":"Energy","operator":"AVG","value":1}', Ignored.UNKNOWN_TYPE),
        ('{"type":"CPU","operator":"MEDIAN","value":1}', Ignored.UNKNOWN_ROLLUP),
        ('{"type":"CPU","operator":"AVG","value":"twelve"}', Ignored.MALFORMED),
        ('"CPU"', Ignored.MALFORMED),
        ("[]", Ignored.MALFORMED),
    ],
)
def test_a_wrong_figure_is_left_out_and_counted(metric: str, reason: Ignored) -> None:
    good = '{"type":"Memory","operator":"AVG","value":7}'
    decoded = decode(_nested(f"{metric},{good}"))
    assert decoded.ignored == {reason: 1}
    assert len(decoded.report.nodes["n"].metrics) == 1


def test_a_wrong_node_costs_itself() -> None:
    head = '{"timestamp":1.7,"window":{"duration":"10m","start":1,"end":2.9},"data":{'
    nodes = (
        '"a":7,"b":{"metrics":null},"c":{"metrics":{"x":1},"tags":[],"observedAt":"now"},'
        '"d":{"metrics":[{"type":"cpu","rollup":"AVG","value":1}],"tags":{"t":1,"u":"v"},"observedAt":12.5}'
    )
    decoded = decode((head + nodes + "}}").encode())
    assert decoded.report.nodes["d"].tags == {"u": "v"}
    assert decoded.report.nodes["d"].observed_at == 12
    assert decoded.report.nodes["b"].metrics == ()
    assert sorted(decoded.report.nodes) == ["b", "c", "d"]
    assert (decoded.report.timestamp, decoded.report.window.end) == (1, 2)
    assert decoded.ignored == {Ignored.MALFORMED: 1, Ignored.UNKNOWN_TYPE: 1}


_WHOLE = '{"timestamp":1,"window":{"duration":"5m","start":1,"end":2},"data":DATA}'


def test_upstreams_map_is_found_wherever_it_stands() -> None:
    body = _WHOLE.replace("DATA", '{"x":{},"NodeMetricsMap":{"n":{"metrics":[]}}}')
    assert list(decode(body.encode()).report.nodes) == ["n"]
    assert decode(body.replace('{"n":{"metrics":[]}}', "null").encode()).report.nodes == {}
    assert decode(_nested("").replace(b'{"n":{"metrics":[]}}', b"null")).report.nodes == {}


_BAD = [
    b"",
    b"null",
    b"[]",
    b"<html>",
    b"\xff",
    b'{"timestamp":1}',
    b'{"timestamp":1,"window":{"duration":"7m","start":1,"end":2},"data":{}}',
    b'{"timestamp":-1,"window":{"duration":"5m","start":1,"end":2},"data":{}}',
    b'{"timestamp":1,"window":{"duration":"5m","start":1,"end":1e300},"data":{}}',
    b'{"timestamp":1,"window":{"duration":"5m","start":1,"end":2},"data":[]}',
    b'{"timestamp":NaN,"window":{"duration":"5m","start":1,"end":2},"data":{}}',
    b'{"timestamp":1,"window":{"duration":"5m","start":1,"end":2},"data":' + b'{"a":' * 100_000,
    b"[" * 100_000,
]


@run_for_each("data", _BAD, ids=range(len(_BAD)))
def test_what_is_no_payload_is_refused_with_what_is_wrong(data: bytes) -> None:
    with pytest.raises(InvalidPayload, match=r"payload|timestamp|window|data"):
        decode(data)


def test_a_payload_of_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack.loadwatcher.decoding.MOST_BYTES", 100)
    with pytest.raises(InvalidPayload, match="longer than"):
        decode(b" " * 101)


def test_a_node_that_says_nothing_of_its_samples_is_as_old_as_the_window() -> None:
    bare = msgspec.structs.replace(_NODE, observed_at=None)
    report = msgspec.structs.replace(REPORT, nodes={"node-1": _NODE, "bare": bare})
    assert report.observed_at("node-1") == _END - 20
    assert report.observed_at("bare") == _END
    assert report.observed_at("gone") is None
    only = report.report_of_node("bare")
    assert only is not None
    assert list(only.nodes) == ["bare"]
    assert report.report_of_node("gone") is None


_PERCENT = st.floats(0, 1e6, allow_nan=False)
_METRICS = st.builds(Metric, st.text(max_size=5), st.sampled_from(MetricType), st.sampled_from(Rollup), _PERCENT)
_WORDS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
_LOADS = st.builds(
    NodeLoadFigures,
    st.lists(_METRICS, max_size=4).map(tuple),
    _WORDS,
    _WORDS.map(lambda words: {"dataCenter": "", **words}),
    st.none() | st.integers(0, 1 << 33),
)
_TIMES = st.integers(0, 1 << 33)
_REPORTS = st.builds(
    LoadReport,
    _TIMES,
    st.builds(Span, st.sampled_from(RollupWindow), _TIMES, _TIMES),
    st.text(max_size=8),
    st.dictionaries(st.from_regex(r"[a-z0-9][-a-z0-9.:]{0,9}", fullmatch=True), _LOADS, max_size=4),
)


def without_latest(report: LoadReport) -> LoadReport:
    """Upstream's plugins would take it for the average where both are there."""
    nodes = {}
    for name, load in report.nodes.items():
        averaged = {metric.type for metric in load.metrics if metric.rollup is Rollup.AVG}
        told = [found for found in load.metrics if found.rollup is not Rollup.LATEST or found.type not in averaged]
        nodes[name] = msgspec.structs.replace(load, metrics=tuple(told))
    return msgspec.structs.replace(report, nodes=nodes)


@given(_REPORTS, st.sampled_from(ReportFormat))
def test_both_formats_are_read_back_as_they_were_written(report: LoadReport, style: ReportFormat) -> None:
    decoded = decode(encode(report, style))
    told = report if style is ReportFormat.PROPOSAL else without_latest(report)
    assert decoded.report == told
    assert not decoded.ignored


_KEYS = st.sampled_from(["timestamp", "window", "data", "end", "NodeMetricsMap", "metrics", "type", "value"])
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
).map(lambda value: json.dumps(value).encode())


@given(st.binary(max_size=60) | _JSON)
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    whole = _WHOLE.encode().replace(b"DATA", data)
    for body in (data, whole):
        try:
            report = decode(body).report
        except InvalidPayload:
            continue
        assert all(metric.value >= 0 for load in report.nodes.values() for metric in load.metrics)
