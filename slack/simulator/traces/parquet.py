"""A trace as Parquet bytes and back. Nothing is guessed: what is wrong is refused with its column and row.

Needs pyarrow (the extra `traces`), which is imported when it is used.
"""

import itertools
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from slack.simulator.traces.format import (
    METADATA_KEY,
    VERSION,
    InvalidTrace,
    NodeTraceRow,
    PodTraceRow,
    RowKind,
    Source,
    Trace,
)
from slack.simulator.traces.json_columns import COLUMNS as _JSON
from slack.simulator.traces.json_columns import json_problem

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("kind", "string", False),
    ("time_seconds", "double", False),
    ("initial", "bool", False),
    ("namespace", "string", True),
    ("workload", "string", True),
    ("node", "string", True),
    ("cpu_millis", "int64", False),
    ("memory_bytes", "int64", False),
    ("requests_json", "string", True),
    ("constraints_json", "string", True),
    ("priority", "int32", True),
    ("preempts", "bool", True),
    ("bound_seconds", "double", True),
    ("life_seconds", "double", True),
    ("labels_json", "string", True),
    ("taints_json", "string", True),
    ("daemon_json", "string", True),
    ("ready_seconds", "double", True),
)
"""Name, Arrow type, whether it may be null."""
_OF_PODS = tuple(name for name, _, _ in _COLUMNS if name in PodTraceRow.__dataclass_fields__)
_OF_NODES = tuple(name for name, _, _ in _COLUMNS if name in NodeTraceRow.__dataclass_fields__)
"""Columns that are fields of the same name; a node's own name stands in `node`."""
_NOT_NEGATIVE = ("time_seconds", "cpu_millis", "memory_bytes", "bound_seconds", "life_seconds", "ready_seconds")
_AT_MOST = {"cpu_millis": 1_000_000_000, "memory_bytes": 1 << 50}
"""A million cores, a pebibyte: beyond any node, and sums over many nodes stay within int64."""
_LONGEST = timedelta(days=365)
_POD_ONLY = ("namespace", "workload")
_RECORD_AGAIN = "record it again with `resource-slack record`"


def write_trace(trace: Trace) -> bytes:
    """Return a trace as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {
        "version": VERSION,
        "started_at": trace.started_at.isoformat(),
        "ended_at": trace.ended_at.isoformat(),
        "source": trace.source,
    }
    rows = [_pod_values(pod) for pod in trace.pods] + [_node_values(node) for node in trace.nodes]
    schema = _schema().with_metadata({METADATA_KEY: json.dumps(about).encode()})
    table = pa.table({name: [row.get(name) for row in rows] for name, _, _ in _COLUMNS}, schema=schema)
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="zstd", write_page_checksum=True)
    return bytes(out.getvalue())


def read_trace(data: bytes, *, source: str) -> Trace:
    """Read a Parquet file that `write_trace` has written.

    Args:
        data: the file.
        source: what to call it in complaints.

    Raises:
        InvalidTrace: for what is cut off, of another version or schema, or holds values that cannot be.
    """
    table = _table(data, source)
    started, ended, origin = _about(table.schema.metadata or {}, source)
    problems = _schema_problems(table.schema)
    if not problems:
        problems = _value_problems(table, (ended - started).total_seconds())
    if problems:
        raise InvalidTrace(tuple(problems), source)
    pods: list[PodTraceRow] = []
    nodes: list[NodeTraceRow] = []
    numbers = itertools.count(1)
    for batch in table.to_batches(10_000):
        for row, number in zip(batch.to_pylist(), numbers, strict=False):
            if row["kind"] == RowKind.NODE:
                nodes.append(_node(row, number))
            else:
                pods.append(_pod(row, number))
    return Trace(started, ended, origin, tuple(sorted(pods, key=_time)), tuple(sorted(nodes, key=_time)))


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.type_for_alias(kind), nullable=null) for name, kind, null in _COLUMNS])


def _time(row: PodTraceRow | NodeTraceRow) -> float:
    return row.time_seconds


def _pod_values(pod: PodTraceRow) -> dict[str, Any]:
    kind = RowKind.PLACEHOLDER if pod.placeholder else RowKind.POD
    return {"kind": str(kind), **_column_text(pod, _OF_PODS)}


def _node_values(node: NodeTraceRow) -> dict[str, Any]:
    return {"kind": str(RowKind.NODE), "node": node.name, **_column_text(node, _OF_NODES)}


def _column_text(row: PodTraceRow | NodeTraceRow, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are columns; JSON of nothing, and no node, are null."""
    values = {name: getattr(row, name) for name in columns}
    return values | {name: None for name in (*_JSON, "node") if values.get(name) == ""}


def _pod(row: dict[str, Any], number: int) -> PodTraceRow:
    return PodTraceRow(placeholder=row["kind"] == RowKind.PLACEHOLDER, row=number, **_given_value(row, _OF_PODS))


def _node(row: dict[str, Any], number: int) -> NodeTraceRow:
    return NodeTraceRow(name=row["node"], row=number, **_given_value(row, _OF_NODES))


def _given_value(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns that are not null; for the others the field's default stands."""
    return {name: row[name] for name in columns if row[name] is not None}


def _table(data: bytes, source: str) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not data:
        raise InvalidTrace((f"it is empty; {_RECORD_AGAIN}",), source)
    if data[:4] != b"PAR1":
        raise InvalidTrace((f"it is not Parquet (it does not begin with PAR1); {_RECORD_AGAIN}",), source)
    if data[-4:] != b"PAR1":
        raise InvalidTrace(
            (f"it is cut off: Parquet's end is missing; copy the whole file or {_RECORD_AGAIN}",), source
        )
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise InvalidTrace((f"it is damaged: {_first_words(error)}; {_RECORD_AGAIN}",), source) from None
    return table


def _first_words(error: BaseException) -> str:
    """Return what a reader of Parquet says, on one line; of damaged bytes it quotes whatever they hold."""
    lines = str(error).splitlines() or [type(error).__name__]
    return _printable(lines[0])[:200].rstrip(". ")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _about(metadata: dict[bytes, bytes], source: str) -> tuple[datetime, datetime, Source]:
    raw = metadata.get(METADATA_KEY)
    if raw is None:
        raise InvalidTrace((f"it is Parquet, but no trace: its metadata lacks {METADATA_KEY.decode()}",), source)
    try:
        about = json.loads(raw)
        version = about["version"]
    except (ValueError, KeyError, TypeError):
        raise InvalidTrace((f"metadata {METADATA_KEY.decode()}: cannot be read; {_RECORD_AGAIN}",), source) from None
    if version != VERSION:
        raise InvalidTrace((f"metadata version: is {version!r}; this resource-slack reads {VERSION}",), source)
    times = []
    for name in ("started_at", "ended_at"):
        try:
            times.append(datetime.fromisoformat(about[name]))
        except (ValueError, KeyError, TypeError):
            raise InvalidTrace((f"metadata {name}: is not a time",), source) from None
        if times[-1].tzinfo is None:
            raise InvalidTrace((f"metadata {name}: has no offset",), source)
    if times[1] - times[0] > _LONGEST:
        raise InvalidTrace((f"metadata ended_at: is more than {_LONGEST.days} days after started_at",), source)
    if times[1] <= times[0]:
        raise InvalidTrace(("metadata ended_at: is not after started_at; nothing was recorded",), source)
    if about.get("source") not in ("watch", "prometheus"):
        raise InvalidTrace((f"metadata source: is {about.get('source')!r}, neither watch nor prometheus",), source)
    return times[0], times[1], about["source"]


def _schema_problems(schema: "pa.Schema") -> list[str]:
    import pyarrow as pa

    wanted = {name: pa.type_for_alias(kind) for name, kind, _ in _COLUMNS}
    problems = [f"column {name}: is missing" for name in wanted if name not in schema.names]
    problems += [f"column {_printable(name)}: unknown column" for name in schema.names if name not in wanted]
    problems += [
        f"column {name}: is {schema.field(name).type}, not {kind}"
        for name, kind in wanted.items()
        if name in schema.names and schema.field(name).type != kind
    ]
    return problems


def _value_problems(table: "pa.Table", seconds: float) -> list[str]:
    """Return at most one problem a column, with its first row, counted from 1."""
    if table.num_rows == 0:
        return ["it has no rows: nothing was recorded"]
    columns = {name: table.column(name).to_pylist() for name, _, _ in _COLUMNS}
    kinds = columns["kind"]
    known = {str(kind) for kind in RowKind}
    for row, kind in enumerate(kinds, 1):
        if kind not in known:
            return [f"column kind, row {row} of {len(kinds)}: {kind!r} is none of {', '.join(sorted(known))}"]
    problems = []
    for name, _, may_be_null in _COLUMNS:
        check = _check_of(name, may_be_null, seconds)
        for row, (value, kind) in enumerate(zip(columns[name], kinds, strict=True), 1):
            wrong = check(value, kind)
            if wrong is not None:
                problems.append(f"column {name}, row {row} of {len(kinds)}: {wrong}")
                break
    if str(RowKind.NODE) not in kinds:
        problems.append("column kind: there is no node in it; without nodes there is nothing to simulate")
    if str(RowKind.POD) not in kinds:
        problems.append("column kind: there is no pod in it; nothing was recorded")
    return problems


def _check_of(name: str, may_be_null: bool, seconds: float) -> Callable[[Any, str], str | None]:
    texts: dict[str, str | None] = {}  # JSON columns hold few distinct texts: each is read once

    def check(value: Any, kind: str) -> str | None:
        if value is None:
            needed = (
                not may_be_null
                or (name in _POD_ONLY and kind != RowKind.NODE)
                or (name == "node" and kind == RowKind.NODE)
            )
            return "is null" if needed else None
        if value == "" and kind == RowKind.NODE and name == "node":
            return "is empty; nodes have names"
        if name == "workload" and kind != RowKind.NODE and not all(value.partition("/")):
            return f"{value[:60]!r} is no kind and name such as deploy/api"
        if name in _NOT_NEGATIVE and not 0 <= value < float("inf"):
            return f"{value!r} is negative" if value < 0 else f"{value!r} is not a number"
        if name == "time_seconds" and value > seconds + 1:
            return f"{value!r} is after the recording's end ({seconds:g})"
        if name in _AT_MOST and value > _AT_MOST[name]:
            return f"{value!r} is more than {_AT_MOST[name]}: no node has that"
        if name in _JSON and value:
            if value not in texts:
                texts[value] = json_problem(name, value)
            return texts[value]
        return None

    return check
