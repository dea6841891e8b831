"""The questions to an InfluxDB in InfluxQL, and how its answers read; the defaults are what Telegraf writes.

A query of the user's is a SELECT that gives each node's share of 0 to 1 as `value`. What names the node is a tag,
Telegraf's `host`. Version 1 answers these; version 2 does for databases that are mapped to its buckets.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from slack.loadwatcher.payload import REQUIRED, WINDOWS, MetricType, RollupWindow
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.readings import ReadingKey, Statistic

TAG = "host"
SHARES = {
    MetricType.CPU: 'SELECT 1 - "usage_idle" / 100 AS "value" FROM "cpu" WHERE "cpu" = \'cpu-total\'',
    MetricType.MEMORY: 'SELECT "used_percent" / 100 AS "value" FROM "mem"',
}
_COLUMNS = {"avg": Statistic.AVERAGE, "std": Statistic.DEVIATION}
_LONGEST_SAID = 300
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InfluxStatement:
    """One statement."""

    type: MetricType
    window: RollupWindow | None
    """None: the newest sample."""
    query: str
    required: bool


def questions(own: Mapping[MetricType, str], tag: str, now: int) -> Iterator[InfluxStatement]:
    """Yield all statements of one fetch, for windows that end at a time (Unix seconds)."""
    for kind in MetricType:
        share = own.get(kind, SHARES.get(kind))
        if share is None:
            continue
        required = kind in REQUIRED
        for window in WINDOWS:
            asked = 'mean("value") AS "avg", stddev("value") AS "std"'
            yield InfluxStatement(kind, window, _statement(asked, share, tag, now - window.seconds, now), required)
        newest = _statement('last("value") AS "latest"', share, tag, now - WINDOWS[0].seconds, now)
        yield InfluxStatement(kind, None, newest, required)


def _statement(asked: str, share: str, tag: str, start: int, end: int) -> str:
    # bound inside as well: some versions read a subquery's whole history otherwise
    bounds = f"time > {start}s AND time <= {end}s"
    inner = f"{share} AND {bounds}" if _WHERE.search(share) else f"{share} WHERE {bounds}"
    return f'SELECT {asked} FROM ({inner} GROUP BY "{tag}") WHERE {bounds} GROUP BY "{tag}"'


class _Series(msgspec.Struct):
    columns: list[str]
    values: list[list[float | str | bool | None]]
    tags: dict[str, str] = {}


class _Result(msgspec.Struct):
    series: list[_Series] = []
    error: str = ""


class _Answer(msgspec.Struct):
    results: list[_Result] = []
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)


def decode(body: bytes, tag: str, question: InfluxStatement) -> dict[ReadingKey, dict[str, float]]:
    """Return the values of an answer in percent, and times in Unix seconds, by the tag's value.

    Raises:
        InvalidProviderAnswer: it is no answer of InfluxDB.
    """
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidProviderAnswer(f"the answer is not InfluxDB's: {str(error)[:_LONGEST_SAID]}") from None
    said = answer.error or next((result.error for result in answer.results if result.error), "")
    if said:
        raise InvalidProviderAnswer(f"it says: {said[:_LONGEST_SAID]}")
    found: dict[ReadingKey, dict[str, float]] = {}
    for result in answer.results:
        for series in result.series:
            name = series.tags.get(tag, "")
            for row in series.values:
                for key, value in _figures(dict(zip(series.columns, row, strict=False)), question):
                    found.setdefault(key, {})[name] = value
    return found


def _figures(row: Mapping[str, object], question: InfluxStatement) -> Iterator[tuple[ReadingKey, float]]:
    if question.window is None:
        latest, at = row.get("latest"), row.get("time")
        if latest is not None:
            yield ReadingKey(Statistic.LATEST, question.type), 100.0 * _number(latest)
            yield ReadingKey(Statistic.OBSERVED_AT, question.type), _number(at)
        return
    for column, statistic in _COLUMNS.items():
        value = row.get(column)
        if value is not None:  # the deviation of one sample is null
            yield ReadingKey(statistic, question.type, question.window), 100.0 * _number(value)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
