"""What nodes cost per hour: by labels, by instance type, or by their cpu and memory. No cluster knows its prices.

One way of giving prices for all: the operator's `--prices` (the chart's `prices`), and files for `plan`, `tune` and
`simulate`. Values only, checked here with the path of what is wrong.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from slack.cluster.labels import INSTANCE_TYPE
from slack.errors import InvalidInput

HOURS_PER_MONTH = 730.0
HIGHEST = 1e6
"""Of a node for an hour, in any currency."""
EXAMPLE = "{currency: EUR, instanceTypes: {m7i.2xlarge: 0.40}}"
_GIB = 1 << 30
_CURRENCY = re.compile(r"[^\s\x00-\x1f\x7f\"'\\]{1,8}")
_KEYS = ("currency", "instanceTypes", "labels", "cpu", "memory")


class InvalidPrices(InvalidInput):
    """Prices that cannot be used: the path of what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class LabelPrice:
    """The price of the nodes that have all of these labels."""

    match: tuple[tuple[str, str], ...]
    per_hour: float


@dataclass(frozen=True, slots=True)
class NodePrices:
    """Prices of nodes for an hour; of several that fit a node the first of `labels` counts, then its instance type."""

    currency: str = ""
    instance_types: tuple[tuple[str, float], ...] = ()
    labels: tuple[LabelPrice, ...] = ()
    cpu: float = 0.0
    """Of a core, and `memory` of a GiB, for nodes of which nothing else speaks."""
    memory: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.instance_types or self.labels or self.cpu or self.memory)

    @property
    def by_amount_alone(self) -> bool:
        """Whether room has a price of its own, whichever node it is on."""
        return bool(self) and not self.instance_types and not self.labels

    @property
    def label_keys(self) -> frozenset[str]:
        """Return the labels by which these prices tell nodes apart."""
        keys = {key for price in self.labels for key, _ in price.match}
        return frozenset(keys | ({INSTANCE_TYPE} if self.instance_types else set()))

    def completed_by(self, other: "NodePrices") -> "NodePrices":
        """Return these prices, and of the other ones what these lack."""
        known = dict(self.instance_types)
        more = tuple((name, price) for name, price in other.instance_types if name not in known)
        by_amount = self if self.by_amount else other
        return NodePrices(
            self.currency or other.currency,
            self.instance_types + more,
            self.labels + other.labels,
            by_amount.cpu,
            by_amount.memory,
        )

    def named(self, labels: Mapping[str, str]) -> float | None:
        """Return the price that labels or an instance type give to a node; None where nothing does."""
        for price in self.labels:
            if all(labels.get(key) == value for key, value in price.match):
                return price.per_hour
        return dict(self.instance_types).get(labels.get(INSTANCE_TYPE, ""))

    def price_of(self, labels: Mapping[str, str], cpu_millis: int, memory_bytes: int) -> float | None:
        """Return a node's price; None where it has none."""
        found = self.named(labels)
        return self.of_room(cpu_millis, memory_bytes) if found is None and self.by_amount else found

    @property
    def by_amount(self) -> bool:
        """Whether cpu or memory have a price."""
        return bool(self.cpu or self.memory)

    def of_room(self, cpu_millis: int, memory_bytes: int) -> float:
        """Return what room costs an hour by its cpu and memory alone."""
        return cpu_millis / 1000 * self.cpu + memory_bytes / _GIB * self.memory


NO_PRICES = NodePrices()


def parse_prices(document: object) -> NodePrices:
    """Check prices as a file, a chart's value or a flag has them: a mapping, or the same as JSON text.

    Raises:
        InvalidPrices: naming what is wrong.
    """
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):
            raise InvalidPrices(f"expected JSON such as {json.dumps(_example())}") from None
    if not isinstance(document, Mapping):
        raise InvalidPrices(f"expected a mapping such as {EXAMPLE}, found {type(document).__name__}")
    for key in document:
        if key not in _KEYS:
            raise InvalidPrices(f"{key}: unknown field; known are {', '.join(_KEYS)}")
    currency = document.get("currency") or ""
    if currency and not (isinstance(currency, str) and _CURRENCY.fullmatch(currency)):
        raise InvalidPrices(f"currency: {currency!r} is no currency of up to 8 characters, such as EUR")
    types = _mapping(document.get("instanceTypes"), "instanceTypes", "m7i.2xlarge: 0.40")
    rows = document.get("labels") or ()
    if not isinstance(rows, list | tuple):
        raise InvalidPrices("labels: expected a list such as [{match: {pool: gpu}, perHour: 3.1}]")
    return NodePrices(
        currency,
        tuple((str(name), _price(price, f"instanceTypes.{name}")) for name, price in types.items()),
        tuple(_label_price(row, f"labels[{number}]") for number, row in enumerate(rows)),
        _price(document.get("cpu") or 0, "cpu"),
        _price(document.get("memory") or 0, "memory"),
    )


def _example() -> dict[str, object]:
    return {"currency": "EUR", "instanceTypes": {"m7i.2xlarge": 0.40}}


def _mapping(value: object, path: str, such_as: str) -> Mapping[object, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidPrices(f"{path}: expected a mapping such as {{{such_as}}}, found {type(value).__name__}")
    return value


def _label_price(row: object, path: str) -> LabelPrice:
    found = _mapping(row, path, "match: {pool: gpu}, perHour: 3.1")
    match = _mapping(found.get("match"), f"{path}.match", "pool: gpu")
    if set(found) != {"match", "perHour"} or not match:
        raise InvalidPrices(f"{path}: needs match, with a label at least, and perHour, and nothing else")
    wrong = next((key for key, value in match.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise InvalidPrices(f"{path}.match.{wrong}: {match[wrong]!r} is no text; write it in quotes")
    pairs = tuple((str(key), str(value)) for key, value in match.items())
    return LabelPrice(pairs, _price(found["perHour"], f"{path}.perHour"))


def _price(value: object, path: str) -> float:
    if isinstance(value, str):  # Helm's --set gives fractions as text
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= HIGHEST:
        raise InvalidPrices(f"{path}: expected a price for an hour from 0 to {HIGHEST:.0f}, such as 0.40")
    return float(value)
