"""The bound that the platform sets on all buffers together, for tenants write them: cores, memory, money, and a share.

Buffers take from it in order, the oldest first. A namespace gets its share of it at most.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slack.cluster.node_prices import NodePrices
from slack.cluster.quantity import QuantityError, manifest_text, thousandths
from slack.cluster.snapshot import CPU, MEMORY, Snapshot
from slack.errors import InvalidInput
from slack.planner.domain.costs import priced

EXAMPLE = '{"cpu": "200", "memory": "800Gi", "perHour": 10, "namespaceShare": 0.25}'
_KEYS = ("cpu", "memory", "perHour", "namespaceShare")
_GIB = 1 << 30


class InvalidCeiling(InvalidInput):
    """A ceiling that cannot be used: the path of what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class BufferCeiling:
    """What all buffers together may hold; None where there is no bound."""

    cpu: int | None = None
    """Thousandths of a core."""
    memory: int | None = None
    """Thousandths of a byte."""
    per_hour: float | None = None
    """In the currency of the operator's prices."""
    namespace_share: float | None = None
    """How much of each bound the buffers of one namespace may hold, from 0 to 1."""

    def __bool__(self) -> bool:
        """Whether there is a bound."""
        return any(bound is not None for bound in (self.cpu, self.memory, self.per_hour))


NO_CEILING = BufferCeiling()


def parse_ceiling(document: object) -> BufferCeiling:
    """Check a ceiling as a flag or a chart's value has it: a mapping, or the same as JSON text.

    Raises:
        InvalidCeiling: naming what is wrong.
    """
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):
            raise InvalidCeiling(f"expected JSON such as {EXAMPLE}") from None
    if not isinstance(document, Mapping):
        raise InvalidCeiling(f"expected a mapping such as {EXAMPLE}, found {type(document).__name__}")
    for key in document:
        if key not in _KEYS:
            raise InvalidCeiling(f"{key}: unknown field; known are {', '.join(_KEYS)}")
    share = _number(document.get("namespaceShare"), "namespaceShare", 1.0)
    found = BufferCeiling(
        _amount(document.get("cpu"), "cpu", "200"),
        _amount(document.get("memory"), "memory", "800Gi"),
        _number(document.get("perHour"), "perHour", 1e9),
        share,
    )
    if share is not None and not found:
        raise InvalidCeiling("namespaceShare: it is a share of cpu, memory or perHour; give at least one of these")
    return found


def _amount(value: object, path: str, such_as: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError(value)
        amount = thousandths(manifest_text(value))
    except QuantityError:
        raise InvalidCeiling(f"{path}: expected a quantity such as {such_as}, found {value!r}") from None
    if amount < 0:
        raise InvalidCeiling(f"{path}: expected a quantity from 0, found {value!r}")
    return amount


def _number(value: object, path: str, highest: float) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number <= highest:
        raise InvalidCeiling(f"{path}: expected a number from 0 to {highest:g}, found {value!r}")
    return number


@dataclass(frozen=True, slots=True)
class ChunkPrices:
    """What room costs an hour, on the average node that has a price."""

    cpu: float = 0.0
    """Of a whole core where cpu alone decides."""
    memory: float = 0.0
    """Of a GiB likewise."""
    is_summed: bool = False
    """Whether cpu and memory have prices of their own, which are added up; else the larger share decides."""
    known: bool = False

    def price_of(self, requests: Mapping[str, int]) -> float | None:
        """Return the price of a chunk, whose requests are in thousandths; None where no node has a price."""
        if not self.known:
            return None
        cpu = requests.get("cpu", 0) / 1000 * self.cpu
        memory = requests.get("memory", 0) / 1000 / _GIB * self.memory
        return cpu + memory if self.is_summed else max(cpu, memory)


def chunk_prices(snapshot: Snapshot, prices: NodePrices) -> ChunkPrices:
    """Return what room costs on the nodes of a cluster."""
    if prices.by_amount_alone:
        return ChunkPrices(prices.cpu, prices.memory, is_summed=True, known=True)
    costs = priced(snapshot, prices).nodes
    known = ~np.isnan(costs)
    if not known.any():
        return ChunkPrices()
    total = float(costs[known].sum())
    cpu, memory = (float(snapshot.nodes.allocatable[known, column].sum()) for column in (CPU, MEMORY))
    return ChunkPrices(
        total / (cpu / 1000) if cpu else 0.0, total / (memory / _GIB) if memory else 0.0, is_summed=False, known=True
    )


class ChunkBound(NamedTuple):
    """One bound of the ceiling, and what a chunk takes of it."""

    name: str
    bound: float
    each: float | None
    """None where nobody knows."""


@dataclass(slots=True)
class CeilingLedger:
    """What of the ceiling is left while buffers are gone through one after the other."""

    ceiling: BufferCeiling
    prices: ChunkPrices = ChunkPrices()
    _taken: dict[str, float] = field(default_factory=dict)
    _taken_by: dict[tuple[str, str], float] = field(default_factory=dict)
    """By namespace and bound."""

    def bounds_of(self, requests: Mapping[str, int]) -> list[ChunkBound]:
        """Return the bounds that a chunk counts against.

        Args:
            requests: of a chunk, in thousandths of base units.
        """
        ceiling = self.ceiling
        found = []
        if ceiling.cpu is not None:
            found.append(ChunkBound("cpu", ceiling.cpu, requests.get("cpu", 0)))
        if ceiling.memory is not None:
            found.append(ChunkBound("memory", ceiling.memory, requests.get("memory", 0)))
        if ceiling.per_hour is not None:
            found.append(ChunkBound("perHour", ceiling.per_hour, self.prices.price_of(requests)))
        return found

    def count_allowed(self, namespace: str, bounds: Sequence[ChunkBound], count: int) -> tuple[int, tuple[str, ...]]:
        """Return how many of `count` chunks the ceiling allows, and which bounds allow fewer.

        Args:
            namespace: of the buffer.
            bounds: of a chunk.
            count: how many are asked for.
        """
        fewer, blocking = count, []
        share = self.ceiling.namespace_share
        for name, bound, each in bounds:
            if each is None:
                blocking.append(f"{name} (no node has a price)")
                fewer = 0
                continue
            if each <= 0:
                continue
            most = _whole(bound - self._taken.get(name, 0), each)
            if most < count:
                blocking.append(name)
            fewer = min(fewer, most)
            if share is not None:
                most = _whole(bound * share - self._taken_by.get((namespace, name), 0), each)
                if most < count:
                    blocking.append(f"{name} by namespaceShare")
                fewer = min(fewer, most)
        return max(fewer, 0), tuple(blocking)

    def subtract_chunks(self, namespace: str, bounds: Sequence[ChunkBound], count: int) -> None:
        """Take off what so many chunks request."""
        for name, _, each in bounds:
            used = count * (each or 0)
            self._taken[name] = self._taken.get(name, 0) + used
            self._taken_by[namespace, name] = self._taken_by.get((namespace, name), 0) + used


def _whole(left: float, each: float) -> int:
    """Return how many times `each` is in what is left; sums of floats end a little beside a whole number."""
    return max(int(left / each + 1e-9), 0)
