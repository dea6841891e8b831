"""The questions to a Prometheus, and how its answers read.

The default asks node_exporter's own counters, needs no recording rule, and names nodes by node_uname_info: an exporter
that restarts, or an address that goes from one node to another, leaves no second series. A node whose exporter is away
keeps what its last samples say for as long as the window reaches; when the newest was made is asked beside it, and the
analyser judges by that. Shares of 0 to 1 become percent.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from slack.errors import InvalidInput
from slack.loadwatcher.payload import REQUIRED, WINDOWS, MetricType, RollupWindow
from slack.loadwatcher.readings import ReadingKey, Statistic

_FUNCTIONS = {Statistic.AVERAGE: "avg_over_time", Statistic.DEVIATION: "stddev_over_time"}
_LONGEST_SAID = 300


class InvalidProviderAnswer(InvalidInput):
    """An answer that the provider does not give, or its own complaint."""


@dataclass(frozen=True, slots=True)
class PromQueries:
    """Expressions of each node's share in use, and how a node is named by them."""

    shares: Mapping[MetricType, str]
    label: str
    join: str = ""
    """Put behind each statistic: it brings the label."""
    seen: Mapping[MetricType, str] = field(default_factory=dict)
    """Selectors whose newest sample says how old a share is, where it is a rate: that outlives its samples."""
    ranged: bool = False
    """Whether the expressions are selectors, whose samples are taken as they are, without a subquery."""


_IDLE = 'sum by (instance) (rate(node_cpu_seconds_total{mode=~"idle|iowait|steal"}[2m]))'
_ALL = "sum by (instance) (rate(node_cpu_seconds_total[2m]))"
"""Not the number of CPUs: a series that is younger than the 2 minutes has a rate that is too low, as the sum of all
modes has; by the number of CPUs a new node would read as busy all over."""
NODE_EXPORTER = PromQueries(
    {
        # sums of rates are rounded: an idle node would be a little below 0 at times; counters that stand are no figure
        MetricType.CPU: f"clamp_min(1 - {_IDLE} / ({_ALL} > 0), 0)",
        MetricType.MEMORY: "1 - max by (instance) (node_memory_MemAvailable_bytes) "
        "/ max by (instance) (node_memory_MemTotal_bytes)",
    },
    "nodename",
    " * on (instance) group_left (nodename) "
    "topk by (instance) (1, max by (instance, nodename) (max_over_time(timestamp(node_uname_info)[15m:STEP]))) ^ 0",
    seen={
        MetricType.CPU: 'node_cpu_seconds_total{mode="idle", cpu="0"}',
        MetricType.MEMORY: "node_memory_MemAvailable_bytes",
    },
)
UPSTREAM = PromQueries(
    {
        MetricType.CPU: "instance:node_cpu:ratio",
        MetricType.MEMORY: "instance:node_memory_utilisation:ratio",
    },
    "instance",
    ranged=True,
)


@dataclass(frozen=True, slots=True)
class InstantQuery:
    """One instant query."""

    key: ReadingKey
    query: str
    required: bool
    """Whether a fetch fails with it."""


def questions(
    base: PromQueries, step_seconds: float, own: Mapping[MetricType, str], label: str | None
) -> list[InstantQuery]:
    """Return all queries of one fetch.

    Args:
        base: what is asked where no expression is given.
        step_seconds: of subqueries.
        own: expressions of the user's, which are taken without the base's join.
        label: that names the node, instead of the base's.
    """
    step = f"{max(1, round(step_seconds))}s"
    asked = []
    for kind in MetricType:
        share = own.get(kind, base.shares.get(kind))
        if share is None:
            continue
        join = "" if kind in own else base.join.replace("STEP", step)
        by = label_of(base, own, label, kind)
        seen = share if kind in own else base.seen.get(kind, share)
        expression = _Expression(share, seen, join, by, step, ranged=base.ranged and kind not in own)
        asked += [InstantQuery(key, query, kind in REQUIRED) for key, query in expression.queries(kind)]
    return asked


@dataclass(frozen=True, slots=True)
class _Expression:
    share: str
    seen: str
    join: str
    label: str
    step: str
    ranged: bool = field(kw_only=True)

    def queries(self, kind: MetricType) -> Iterator[tuple[ReadingKey, str]]:
        for window in WINDOWS:
            for statistic, function in _FUNCTIONS.items():
                yield ReadingKey(statistic, kind, window), self._named(f"{function}({self._over(window)})")
        share = self.share if self.ranged else f"({self.share})"
        yield ReadingKey(Statistic.LATEST, kind), self._named(share)
        newest = f"max_over_time(timestamp({self.seen})[{WINDOWS[0]}:{self.step}])"
        yield ReadingKey(Statistic.OBSERVED_AT, kind), f"max by ({self.label}) ({newest}{self.join})"

    def _over(self, window: RollupWindow) -> str:
        return f"{self.share}[{window}]" if self.ranged else f"({self.share})[{window}:{self.step}]"

    def _named(self, inner: str) -> str:
        return f"avg by ({self.label}) ({inner}{self.join})"


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode(body: bytes, label: str, key: ReadingKey) -> dict[str, float]:
    """Return the values of an answer by node; percent, times as they are. A series without the label has no name: ''.

    Raises:
        InvalidProviderAnswer: it is no vector of Prometheus.
    """
    try:
        answer = _ANSWER.decode(body)
        if answer.status != "success" or answer.data is None:
            raise InvalidProviderAnswer(f"it says: {answer.error[:_LONGEST_SAID] or answer.status}")
        if answer.data.result_type != "vector":
            raise InvalidProviderAnswer(f"the answer is no vector but a {answer.data.result_type[:20]}")
        series = _result_decoder(label).decode(answer.data.result)
        factor = 1.0 if key.statistic is Statistic.OBSERVED_AT else 100.0
        # the same names in each answer: one text of each is kept
        names = [sys.intern(found.metric.name) for found in series]
        values = [factor * float(found.value[1]) for found in series]
        found = dict(zip(names, values, strict=True))
        return found if len(found) == len(names) else average_pairs(zip(names, values, strict=True))
    except _BAD_JSON as error:
        raise InvalidProviderAnswer(f"the answer is not Prometheus': {str(error)[:_LONGEST_SAID]}") from None
    except InvalidProviderAnswer:
        raise
    except ValueError as error:
        raise InvalidProviderAnswer(f"a value is no number: {str(error)[:_LONGEST_SAID]}") from None


@lru_cache(8)
def _result_decoder(label: str) -> "msgspec.json.Decoder[list[Any]]":
    """Return a decoder of a vector that looks at one label only: a dictionary a series would cost twice the time."""
    metric = msgspec.defstruct("Metric", [("name", str, msgspec.field(name=label, default=""))], gc=False)
    series = msgspec.defstruct("Series", [("metric", metric), ("value", tuple[float, str])], gc=False)
    return msgspec.json.Decoder(list[series])  # type: ignore[valid-type]


def average_pairs(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of what is there more than once."""
    sums: dict[str, tuple[float, int]] = {}
    for name, value in pairs:
        total, count = sums.get(name, (0.0, 0))
        sums[name] = total + value, count + 1
    return {name: total / count for name, (total, count) in sums.items()}


def label_of(base: PromQueries, own: Mapping[MetricType, str], label: str | None, kind: MetricType) -> str:
    """Return the label that names the node in answers about something."""
    return label or ("instance" if kind in own and base.join else base.label)
