import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slack.simulator.traces.format import METADATA_KEY, InvalidTrace, Trace
from slack.simulator.traces.parquet import read_trace, write_trace
from tests.cases import run_for_each
from tests.simulator.trace_rows import burst_trace, node, pod, trace


def changed(data: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    out = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(data))), out)
    return out.getvalue()


def with_column(name: str, values: Callable[[list[Any]], list[Any]], kind: pa.DataType | None = None) -> Any:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.names.index(name)
        column = pa.array(values(table.column(name).to_pylist()), kind or table.schema.field(name).type)
        return table.set_column(index, name, column).replace_schema_metadata(table.schema.metadata)

    return change


def about(text: str) -> Any:
    return lambda table: table.replace_schema_metadata({METADATA_KEY: text.encode()})


def test_what_is_written_is_read_again() -> None:
    whole = trace(
        pod(1.5, requests_json='{"nvidia.com/gpu":1}', constraints_json='{"nodeSelector":{"pool":"web"}}'),
        pod(2.0, placeholder=True, bound_seconds=None, priority=-10, preempts=False),
        node("a", taints_json='[{"key":"k","value":"","effect":"NoSchedule"}]', daemon_json='{"cpu":100,"pods":2}'),
        node("b", 30.0, ready_seconds=12.5, life_seconds=100.0),
    )
    assert read_trace(write_trace(whole), source="t") == whole


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert write_trace(burst_trace()) == write_trace(burst_trace())


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: b"", "it is empty"),
        (lambda data: b"time,pods\n1,2\n", "it is not Parquet"),
        (lambda data: data[:-20], "it is cut off"),
        (lambda data: data[:4] + b"\x00" * (len(data) - 12) + data[-8:], "it is damaged"),
    ],
)
def test_bytes_that_are_no_whole_parquet_file_are_refused(spoil: Callable[[bytes], bytes], said: str) -> None:
    with pytest.raises(InvalidTrace, match=said) as caught:
        read_trace(spoil(write_trace(burst_trace())), source="day.parquet")
    assert str(caught.value).startswith("day.parquet: ")


@pytest.mark.parametrize("at", [5, 200, 1000, -9, -300])
def test_a_file_cut_anywhere_is_refused(at: int) -> None:
    with pytest.raises(InvalidTrace, match=r"cut off|not Parquet"):
        read_trace(write_trace(burst_trace())[:at], source="t")


_TIMES = '"started_at": "2026-01-12T08:00:00+00:00", "ended_at": "2026-01-12T09:00:00+00:00"'


@run_for_each(
    ("change", "said"),
    [
        (lambda table: table.replace_schema_metadata({}), "no trace: its metadata lacks resource-slack.trace"),
        (about("{"), "metadata resource-slack.trace: cannot be read"),
        (about('{"version": 2}'), "metadata version: is 2; this resource-slack reads 1"),
        (about('{"version": 1, "started_at": "monday"}'), "metadata started_at: is not a time"),
        (
            about(f'{{"version": 1, "source": "watch", {_TIMES.replace("T09", "T08")}}}'),
            "ended_at: is not after started_at",
        ),
        (about(f'{{"version": 1, "source": "a friend", {_TIMES}}}'), "metadata source: is 'a friend'"),
        (lambda table: table.drop_columns(["priority"]), "column priority: is missing"),
        (lambda table: table.append_column("colour", pa.nulls(len(table))), "column colour: unknown column"),
        (
            with_column("cpu_millis", lambda old: [str(v) for v in old], pa.string()),
            "column cpu_millis: is string, not int64",
        ),
        (
            with_column("time_seconds", lambda old: [*old[:3], -5.0, *old[4:]]),
            "column time_seconds, row 4 of 16: -5.0 is neg",
        ),
        (with_column("memory_bytes", lambda old: [-1, *old[1:]]), "column memory_bytes, row 1 of 16: -1 is negative"),
        (
            with_column("life_seconds", lambda old: [float("nan"), *old[1:]]),
            "column life_seconds, row 1 of 16: nan is not",
        ),
        (with_column("time_seconds", lambda old: [*old[:-1], 1e9]), "is after the recording's end"),
        (
            with_column("kind", lambda old: ["pot", *old[1:]]),
            "column kind, row 1 of 16: 'pot' is none of node, placeholder",
        ),
        (with_column("workload", lambda old: [old[0], None, *old[2:]]), "column workload, row 2 of 16: is null"),
        (
            with_column("constraints_json", lambda old: ["{nodeS", *old[1:]]),
            "column constraints_json, row 1 of 16: '{nodeS'",
        ),
        (with_column("labels_json", lambda old: [*old[:-1], "[]"]), "row 16 of 16: '[]' is not a JSON object"),
        (lambda table: table.slice(0, 0), "it has no rows"),
        (lambda table: table.slice(0, 14), "there is no node in it"),
        (lambda table: table.slice(14), "there is no pod in it"),
    ],
)
def test_what_cannot_be_is_refused_with_column_and_row(change: Any, said: str) -> None:
    with pytest.raises(InvalidTrace) as caught:
        read_trace(changed(write_trace(burst_trace()), change), source="day.parquet")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        ("requests_json", '{"nvidia.com/gpu":1.5}', "nvidia.com/gpu: 1.5 is not a whole number"),
        ("labels_json", '{"pool":1}', "labels.pool: 1 is not text"),
        ("taints_json", '[{"key":"k"}]', "[0]: a taint has a key and one of the effects NoSchedule"),
        ("taints_json", "[1]", "[0] is not an object"),
        ("constraints_json", '{"nodeSelector":{"pool":1}}', "nodeSelector.pool: 1 is not text"),
        ("constraints_json", '{"tolerations":[{"key":3}]}', "tolerations: key 3 is not text"),
        ("constraints_json", '{"affinity":[]}', "affinity is not an object"),
        (
            "constraints_json",
            '{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":'
            '[{"matchExpressions":[{"key":"zone","operator":"In","values":"a"}]}]}}}}',
            "matchExpressions: the values of zone are no list of texts",
        ),
    ],
)
def test_json_of_another_form_is_refused_with_its_column_and_row(column: str, text: str, said: str) -> None:
    changed_rows = changed(write_trace(burst_trace()), with_column(column, lambda old: [*old[:-1], text]))
    with pytest.raises(InvalidTrace) as caught:
        read_trace(changed_rows, source="t")
    assert f"column {column}, row 16 of 16: {said}" in str(caught.value)


def test_rows_keep_their_number_in_the_file() -> None:
    mixed = replace(burst_trace(), pods=burst_trace().pods[::-1])
    found = read_trace(write_trace(mixed), source="t")
    assert [pod.row for pod in found.pods if pod.time_seconds > 2000] == [4, 3, 2, 1]
    assert [node.row for node in found.nodes] == [15, 16]


def test_all_bad_columns_are_told_at_once() -> None:
    def change(table: pa.Table) -> pa.Table:
        return with_column("cpu_millis", lambda old: [-1, *old[1:]])(
            with_column("bound_seconds", lambda old: [-2.0, *old[1:]])(table)
        )

    with pytest.raises(InvalidTrace) as caught:
        read_trace(changed(write_trace(burst_trace()), change), source="t")
    assert len(caught.value.problems) == 2


def test_rows_come_in_order_of_time() -> None:
    mixed: Trace = replace(burst_trace(), pods=burst_trace().pods[::-1])
    assert [pod.time_seconds for pod in read_trace(write_trace(mixed), source="t").pods] == sorted(
        pod.time_seconds for pod in mixed.pods
    )
