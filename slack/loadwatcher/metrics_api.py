"""What Metrics Server says (`metrics.k8s.io`): use in quantities, which nodes' capacity makes percent."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from slack.cluster.quantity import QuantityError, thousandths
from slack.loadwatcher.node_names import KnownNode
from slack.loadwatcher.promql import InvalidProviderAnswer
from slack.loadwatcher.sample import LoadSample

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
_NANOS = {"n": 1e-6, "u": 1e-3, "m": 1.0}
"""To millicores."""
_KIBI = 1024
_MOST_TIMES = 10.0
"""A node's capacity: a machine that is a container may tell a capacity that is too small, but not by that much."""


class _Metadata(msgspec.Struct):
    name: str


class _Usage(msgspec.Struct):
    cpu: str = ""
    memory: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata
    timestamp: str = ""
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _List(msgspec.Struct):
    items: list[_Item] | None


_LIST = msgspec.json.Decoder(_List)


def decode(body: bytes, nodes: Mapping[str, KnownNode]) -> Iterator[LoadSample]:
    """Yield a sample a node that the cluster has; what cannot be read is NaN, which the analyser drops.

    Raises:
        InvalidProviderAnswer: it is no list of Metrics Server.
    """
    try:
        found = _LIST.decode(body).items or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidProviderAnswer(f"the answer is not Metrics Server's: {str(error)[:300]}") from None
    return _samples(found, nodes)


def _samples(items: list[_Item], nodes: Mapping[str, KnownNode]) -> Iterator[LoadSample]:
    for item in items:
        node, at = nodes.get(item.metadata.name), _time(item.timestamp)
        if node is None or at is None:
            continue
        cpu = _share(_cpu_millis(item.usage.cpu), node.cpu_millis)
        yield LoadSample(node.name, at, cpu, _share(_bytes(item.usage.memory), node.memory_bytes))


def _share(used: float, capacity: float) -> float:
    """Return percent. Far more than there is was not used: a counter that fell reads as some 2^64 nanoseconds."""
    return 100.0 * used / capacity if capacity > 0 and used <= _MOST_TIMES * capacity else math.nan


def _cpu_millis(text: str) -> float:
    """Return millicores, finer than the scheduler rounds them: an idle node must not read as one that stands still."""
    factor, digits = _NANOS.get(text[-1:]), text[:-1]
    if factor is not None and digits.isascii() and digits.isdecimal():
        return int(digits) * factor if len(digits) <= 18 else math.nan
    return _thousandths(text)


def _bytes(text: str) -> float:
    if text.endswith("Ki") and text[:-2].isascii() and text[:-2].isdecimal() and len(text) <= 18:
        return float(int(text[:-2]) * _KIBI)
    return _thousandths(text) / 1000


def _thousandths(text: str) -> float:
    try:
        return float(thousandths(text))
    except QuantityError:
        return math.nan


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
