"""The questions to Prometheus and InfluxDB, and what is made of their answers."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.loadwatcher import influxql, promql
from slack.loadwatcher.payload import MetricType, RollupWindow
from slack.loadwatcher.promql import NODE_EXPORTER, UPSTREAM, InvalidProviderAnswer
from slack.loadwatcher.readings import ReadingKey, Statistic
from tests.cases import run_for_each

_CPU = ReadingKey(Statistic.AVERAGE, MetricType.CPU, RollupWindow.FIVE_MINUTES)
_SEEN = ReadingKey(Statistic.OBSERVED_AT, MetricType.CPU)


def asked(*args: Any) -> dict[ReadingKey, str]:
    return {question.key: question.query for question in promql.questions(*args)}


def test_every_window_has_average_and_deviation_of_cpu_and_memory_and_each_its_newest_sample() -> None:
    found = promql.questions(NODE_EXPORTER, 30.0, {}, None)
    assert len(found) == 2 * (3 * 2 + 2)
    assert all(question.required for question in found)


def test_upstreams_rules_are_asked_as_upstream_asks_them_apart_from_the_grouping() -> None:
    found = asked(UPSTREAM, 30.0, {}, None)
    assert found[_CPU] == "avg by (instance) (avg_over_time(instance:node_cpu:ratio[5m]))"
    deviation = ReadingKey(Statistic.DEVIATION, MetricType.MEMORY, RollupWindow.FIFTEEN_MINUTES)
    assert found[deviation] == "avg by (instance) (stddev_over_time(instance:node_memory_utilisation:ratio[15m]))"


def test_the_default_names_nodes_by_their_own_name_and_survives_an_address_that_moves() -> None:
    query = asked(NODE_EXPORTER, 30.0, {}, None)[_CPU]
    assert query.startswith("avg by (nodename) (avg_over_time((clamp_min(1 - sum by (instance)")
    assert "[5m:30s]) * on (instance) group_left (nodename) topk by (instance) (1, " in query
    assert "[15m:30s]))) ^ 0)" in query


def test_queries_labels_and_steps_are_the_users() -> None:
    own = {MetricType.CPU: "my:cpu", MetricType.NETWORK: "my:net"}
    found = asked(NODE_EXPORTER, 60.0, own, "node")
    assert found[_CPU] == "avg by (node) (avg_over_time((my:cpu)[5m:60s]))"
    questions = promql.questions(NODE_EXPORTER, 60.0, own, "node")
    assert {question.key.type for question in questions if not question.required} == {MetricType.NETWORK}
    assert promql.label_of(NODE_EXPORTER, own, None, MetricType.CPU) == "instance"
    assert promql.label_of(NODE_EXPORTER, own, None, MetricType.MEMORY) == "nodename"
    assert promql.label_of(UPSTREAM, own, None, MetricType.CPU) == "instance"


def vector(*series: tuple[dict[str, str], Any]) -> bytes:
    result = [{"metric": labels, "value": [1.5, value]} for labels, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def test_shares_become_percent_duplicates_their_mean_and_times_stay() -> None:
    body = vector(({"node": "a"}, "0.2"), ({"node": "a"}, "0.4"), ({"node": "b"}, "NaN"), ({}, "1"))
    found = promql.decode(body, "node", _CPU)
    assert found["a"] == pytest.approx(30.0)
    assert math.isnan(found["b"])
    assert found[""] == 100.0
    assert promql.decode(vector(({"node": "a"}, "1800000000.5")), "node", _SEEN) == {"a": 1800000000.5}


_BAD = [
    (b"", "not Prometheus'"),
    (b"null", "not Prometheus'"),
    (b"<html>", "not Prometheus'"),
    (b"{}", "not Prometheus'"),
    (b"[" * 10_000, "not Prometheus'"),
    (b'{"status":"success"}', "it says: success"),
    (b'{"status":"error","error":"query timed out"}', "it says: query timed out"),
    (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "no vector but a matrix"),
    (b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', "not Prometheus'"),
    (vector(({"node": "a"}, "many")), "a value is no number"),
    (vector(({"node": "a"}, 5)), "not Prometheus'"),
    (b'{"status":"success","data":{"resultType":"vector","result":"' + b"x" * (1 << 20) + b'"}}', "not Prometheus'"),
]


@run_for_each(("body", "words"), _BAD, ids=range(len(_BAD)))
def test_another_answer_than_prometheus_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidProviderAnswer, match=words) as caught:
        promql.decode(body, "node", _CPU)
    assert len(str(caught.value)) < 500


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_KEYS = st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "results", "series", "tags"])
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4)
).map(lambda value: json.dumps(value).encode())
_STATEMENT = influxql.InfluxStatement(MetricType.CPU, RollupWindow.FIVE_MINUTES, "", True)
_NEWEST = influxql.InfluxStatement(MetricType.CPU, None, "", True)


@given(st.binary(max_size=80) | _JSON, st.sampled_from([b"%s", b'{"status":"success","data":%s}', b'{"results":%s}']))
def test_whatever_comes_is_read_or_refused(data: bytes, frame: bytes) -> None:
    body = frame.replace(b"%s", data)
    for read in (
        lambda: promql.decode(body, "node", _CPU),
        lambda: influxql.decode(body, "host", _STATEMENT),
        lambda: influxql.decode(body, "host", _NEWEST),
    ):
        try:
            read()
        except InvalidProviderAnswer:
            continue


def influx(columns: list[str], *rows: tuple[str, list[Any]]) -> bytes:
    series = [{"name": "cpu", "tags": {"host": host}, "columns": columns, "values": [row]} for host, row in rows]
    return json.dumps({"results": [{"statement_id": 0, "series": series}]}).encode()


def test_influxdb_is_asked_for_each_window_within_its_bounds_and_for_the_newest_sample() -> None:
    found = list(influxql.questions({}, "host", 1000))
    assert [(question.type, question.window) for question in found[:4]] == [
        (MetricType.CPU, RollupWindow.FIFTEEN_MINUTES),
        (MetricType.CPU, RollupWindow.TEN_MINUTES),
        (MetricType.CPU, RollupWindow.FIVE_MINUTES),
        (MetricType.CPU, None),
    ]
    assert found[2].query == (
        'SELECT mean("value") AS "avg", stddev("value") AS "std" FROM '
        '(SELECT 1 - "usage_idle" / 100 AS "value" FROM "cpu" WHERE "cpu" = \'cpu-total\' '
        'AND time > 700s AND time <= 1000s GROUP BY "host") '
        'WHERE time > 700s AND time <= 1000s GROUP BY "host"'
    )
    own = list(influxql.questions({MetricType.DISK: 'SELECT "io" AS "value" FROM "disk"'}, "node", 1000))
    assert 'FROM "disk" WHERE time > 100s AND time <= 1000s GROUP BY "node"' in own[-1].query
    assert not own[-1].required


def test_influxdbs_answers_become_percent() -> None:
    body = influx(["time", "avg", "std"], ("a", [0, 0.25, 0.05]), ("b", [0, 0.5, None]), ("c", [0, None, None]))
    found = influxql.decode(body, "host", _STATEMENT)
    assert found[_CPU] == {"a": 25.0, "b": 50.0}
    assert found[ReadingKey(Statistic.DEVIATION, MetricType.CPU, RollupWindow.FIVE_MINUTES)] == {"a": 5.0}
    newest = influxql.decode(influx(["time", "latest"], ("a", [900, 0.3]), ("b", [901, "x"])), "host", _NEWEST)
    assert newest[_SEEN] == {"a": 900.0, "b": 901.0}
    assert math.isnan(newest[ReadingKey(Statistic.LATEST, MetricType.CPU)]["b"])
    assert influxql.decode(influx(["time", "latest"], ("a", [900, None])), "host", _NEWEST) == {}
    assert influxql.decode(b'{"results":[{"statement_id":0}]}', "host", _STATEMENT) == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":"unauthorized"}', "it says: unauthorized"),
        (b'{"results":[{"error":"database not found: x"}]}', "database not found"),
        (b"[]", "not InfluxDB's"),
        (b"", "not InfluxDB's"),
    ],
)
def test_another_answer_than_influxdbs_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidProviderAnswer, match=words):
        influxql.decode(body, "host", _STATEMENT)
