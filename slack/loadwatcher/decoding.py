"""The reader of what load watchers serve: the proposal's format and upstream's, told apart by what is there.

One wrong figure costs itself, one wrong node itself, and both are counted; only what is no payload at all is refused.
Upstream's watcher writes NaN as it is, which is no JSON; its null would read as an idle node: here both are left out.
What the proposal's own example has beside its nodes (`metadata` and `tags` of its second node) is no node.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from slack.errors import InvalidInput
from slack.loadwatcher.encoding import NESTED_KEY, UPSTREAM_TYPES
from slack.loadwatcher.payload import LoadReport, Metric, MetricType, NodeLoadFigures, Rollup, RollupWindow, Span

MOST_BYTES = 64 << 20
"""5,000 nodes with all that upstream's Prometheus provider fetches are 22 MB."""
_MOST_TIME = 1 << 40


class InvalidPayload(InvalidInput):
    """This is no watcher's payload; the text says what is wrong where."""


class Ignored(StrEnum):
    """Why a figure, or a node, of a payload is left out."""

    NOT_A_NUMBER = "NotANumber"
    NEGATIVE = "Negative"
    UNKNOWN_TYPE = "UnknownType"
    UNKNOWN_ROLLUP = "UnknownRollup"
    MALFORMED = "Malformed"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A payload, and what of it was left out."""

    report: LoadReport
    ignored: Mapping[Ignored, int] = field(default_factory=dict)


class _Metric(msgspec.Struct, gc=False):
    name: str = ""
    type: str = ""
    operator: str | None = None
    rollup: str | None = None
    value: float | None = None


class _Node(msgspec.Struct):
    metrics: list[_Metric] | msgspec.UnsetType | None = msgspec.UNSET
    tags: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    observed_at: float | None = msgspec.field(default=None, name="observedAt")


class _Span(msgspec.Struct):
    duration: str
    start: float
    end: float


class _Meta(msgspec.Struct, kw_only=True):
    timestamp: float
    window: _Span
    source: str = ""


class _Head(_Meta):
    data: msgspec.Raw


_HEAD = msgspec.json.Decoder(_Head)
_FLAT = msgspec.json.Decoder(dict[str, _Node])
_NESTED = msgspec.json.Decoder(dict[str, dict[str, _Node] | None])
_NOT_AS_IT_SHOULD_BE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
_INFINITY = re.compile(rb"(?<=[:,\[])\s*[+-]?Inf(?=\s*[,}\]])")  # as Go writes it
_BEGINS_NESTED = re.compile(rb'\s*\{\s*"' + NESTED_KEY.encode() + rb'"\s*:')
_TYPES = {kind.value: kind for kind in MetricType} | {word.lower(): kind for kind, word in UPSTREAM_TYPES.items()}
_ROLLUPS = {rollup.value.lower(): rollup for rollup in Rollup} | {"": Rollup.LATEST}


def decode(data: bytes) -> Decoded:
    """Read a payload of either format.

    Raises:
        InvalidPayload: it is none.
    """
    if len(data) > MOST_BYTES:
        raise InvalidPayload(f"the payload is longer than {MOST_BYTES >> 20} MiB")
    ignored: Counter[Ignored] = Counter()
    head: _Meta
    try:
        whole = _HEAD.decode(data)
        head, found = whole, _nodes(bytes(whole.data))
    except _NOT_AS_IT_SHOULD_BE as error:
        head, found = _loosely(data, error, ignored)
    nodes = {name: load for name, node in found if (load := _load(node, ignored)) is not None}
    try:
        duration = RollupWindow(head.window.duration)
    except ValueError:
        raise InvalidPayload(f"window.duration: {head.window.duration[:20]!r} is none of 15m, 10m and 5m") from None
    span = Span(duration, _time(head.window.start, "window.start"), _time(head.window.end, "window.end"))
    return Decoded(LoadReport(_time(head.timestamp, "timestamp"), span, head.source, nodes), dict(ignored))


def _nodes(raw: bytes) -> Iterable[tuple[str, _Node]]:
    if not _BEGINS_NESTED.match(raw):
        flat = _FLAT.decode(raw)
        if NESTED_KEY not in flat:
            return flat.items()
    return (_NESTED.decode(raw).get(NESTED_KEY) or {}).items()


def _loosely(data: bytes, error: BaseException, ignored: Counter[Ignored]) -> tuple[_Meta, Iterable[tuple[str, _Node]]]:
    """Read a payload in which something is wrong, figure by figure: Python's own reader takes NaN."""
    try:
        document = json.loads(_INFINITY.sub(b"NaN", data))
        nodes = document.pop("data")
        inner = nodes.get(NESTED_KEY)
        head = msgspec.convert(document, _Meta)
        return head, _one_by_one(inner if isinstance(inner, dict) else nodes, ignored)
    except (*_NOT_AS_IT_SHOULD_BE, ValueError, KeyError, TypeError, AttributeError):
        raise InvalidPayload(f"no payload of a load watcher: {str(error)[:200]}") from None


def _one_by_one(nodes: Mapping[str, object], ignored: Counter[Ignored]) -> Iterator[tuple[str, _Node]]:
    for name, node in nodes.items():
        if not isinstance(node, dict):
            ignored[Ignored.MALFORMED] += 1
            continue
        if "metrics" not in node:
            continue
        metrics = node["metrics"] or ()
        kept: list[_Metric] = []
        for metric in metrics if isinstance(metrics, list | tuple) else (metrics,):
            try:
                kept.append(msgspec.convert(metric, _Metric))
            except (msgspec.ValidationError, OverflowError):
                ignored[Ignored.MALFORMED] += 1
        yield name, _Node(kept, _dict(node.get("tags")), _dict(node.get("metadata")), _number(node.get("observedAt")))


def _time(value: float, where: str) -> int:
    if not 0 <= value <= _MOST_TIME:
        raise InvalidPayload(f"{where}: {value!r} is no time in Unix seconds")
    return int(value)


def _dict(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_TIME:
        return None
    return float(value)


def _load(node: _Node, ignored: Counter[Ignored]) -> NodeLoadFigures | None:
    if node.metrics is msgspec.UNSET:
        return None
    metrics = tuple(kept for metric in node.metrics or () if (kept := _metric(metric, ignored)) is not None)
    at = node.observed_at
    observed_at = int(at) if at is not None and 0 <= at <= _MOST_TIME else None
    return NodeLoadFigures(metrics, _texts(node.tags), _texts(node.metadata), observed_at)


def _metric(metric: _Metric, ignored: Counter[Ignored]) -> Metric | None:
    kind = _TYPES.get(metric.type.lower())
    word = metric.rollup if metric.operator is None else metric.operator
    rollup = _ROLLUPS.get((word or "").lower())
    value = metric.value
    if kind is None:
        ignored[Ignored.UNKNOWN_TYPE] += 1
    elif rollup is None:
        ignored[Ignored.UNKNOWN_ROLLUP] += 1
    elif value is None or not math.isfinite(value):
        ignored[Ignored.NOT_A_NUMBER] += 1
    elif value < 0:
        ignored[Ignored.NEGATIVE] += 1
    else:
        return Metric(metric.name, kind, rollup, value)
    return None


def _texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: value for key, value in (values or {}).items() if isinstance(value, str)}
