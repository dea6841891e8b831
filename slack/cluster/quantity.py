"""Kubernetes quantities as exact integers: cpu in millicores, everything else in base units (bytes, counts).

No float is ever involved, and what is finer than the unit is rounded up (away from zero), as the scheduler's
`Quantity.MilliValue()` and `Quantity.Value()` do (apimachinery/pkg/api/resource/quantity.go). A cluster has only
tens of distinct texts, so results are cached, within a bound.
"""

import re
from functools import lru_cache
from typing import Self

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_LARGEST = (1 << 63) - 1
"""Like the API server, values beyond int64 are capped: a column of int64 must hold them."""
_CACHED = 4096
_LONGEST = 64
"""Characters; a quantity that people mean is shorter, and the cache's keys stay small."""


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message names the text and what would be right."""

    def __init__(self, text: object) -> None:
        self.text = text
        shown = repr(text)
        if len(shown) > _LONGEST:
            shown = shown[:_LONGEST] + "..."
        super().__init__(f"{shown} is not a quantity such as 500m, 2, 1.5Gi or 1e3")


@lru_cache(_CACHED)
def thousandths(text: str) -> int:
    """Parse a quantity into thousandths of its base unit, rounded away from zero.

    The API server rounds what it stores to thousandths (core/v1 defaults.go, SetDefaults_ResourceList), so sums of
    these are exact; round to the unit once, after summing, as the scheduler does.

    Raises:
        QuantityError: when the text is no quantity.
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(text)
    whole, part = match["whole"], match["part"] or ""
    if not whole and not part:
        raise QuantityError(text)
    suffix = match["suffix"] or ""
    digits = int(whole + part) * _BINARY.get(suffix, 1)
    power = 3 - len(part) + _DECIMAL.get(suffix, 0) + int(match["exponent"] or 0)
    value: int = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    value = min(value, _LARGEST * 1000)
    return -value if match["sign"] == "-" else value


def cpu_millis(text: str) -> int:
    """Parse a cpu quantity into millicores, rounded up: `1500m` and `1.5` are 1500, `100u` is 1.

    Raises:
        QuantityError: when the text is no quantity.
    """
    return max(-_LARGEST, min(thousandths(text), _LARGEST))


def base_units(text: str) -> int:
    """Parse a quantity into base units (bytes, counts), rounded up: `1Gi` is 1073741824, `100m` is 1.

    Raises:
        QuantityError: when the text is no quantity.
    """
    return rounded("", thousandths(text))


def amount(resource: str, text: str) -> int:
    """Parse the quantity of a resource by its Kubernetes name: millicores for `cpu`, base units for the others.

    Raises:
        QuantityError: when the text is no quantity.
    """
    return cpu_millis(text) if resource == "cpu" else base_units(text)


def manifest_text(value: str | float | None) -> str:
    """Return the text of a quantity in a manifest: null is 0, and blanks around it do not count.

    So reads the API server (`Quantity.UnmarshalJSON`). Templates of charts leave null where a value is missing.
    """
    if value is None:
        return "0"
    return value.strip() if isinstance(value, str) else str(value)


@lru_cache(_CACHED)
def manifest_thousandths(value: str | float | None) -> int:
    """Parse a quantity as a manifest has it, see `manifest_text` and `thousandths`.

    Raises:
        QuantityError: when it is no quantity.
    """
    return thousandths(manifest_text(value))


def rounded(resource: str, value_thousandths: int) -> int:
    """Turn thousandths into the unit of a resource: millicores for `cpu`, else base units, away from zero."""
    if resource == "cpu":
        return value_thousandths
    return -(-value_thousandths // 1000) if value_thousandths >= 0 else value_thousandths // 1000


def format_cpu(millis: int) -> str:
    """Write millicores as Kubernetes does: 500 as `500m`, 2000 as `2`."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def format_memory(size_bytes: int) -> str:
    """Write bytes exactly, with the largest binary suffix that divides them: `1Gi`, `512Mi`, else plain bytes."""
    if size_bytes:
        for suffix, factor in reversed(_BINARY.items()):
            if size_bytes % factor == 0:
                return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def format_quantity(resource: str, value: int) -> str:
    """Write a value of a resource by its Kubernetes name: millicores for `cpu`, bytes for memory-like ones."""
    if resource == "cpu":
        return format_cpu(value)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return format_memory(value)
    return str(value)


def format_rounded(resource: str, value: int) -> str:
    """Write an amount for people, with three digits: `3810m`, `7.6Gi`; a whole number stays one."""
    if resource == "cpu":
        step = 10 ** max(0, len(str(abs(value))) - 3)
        return format_cpu(round(value / step) * step)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        ki, mi, gi = 1 << 10, 1 << 20, 1 << 30
        if value >= 100 * gi:
            return f"{round(value / gi)}Gi"
        if value >= gi:
            return f"{value / gi:.1f}".removesuffix(".0") + "Gi"
        return f"{round(value / mi)}Mi" if value >= mi else f"{round(value / ki)}Ki" if value else "0"
    return format_quantity(resource, value)


class WrittenQuantity(int):
    """An amount in base units with the text that somebody wrote for it: `6000Mi` is said back so, and not as 5.9Gi."""

    text: str

    def __new__(cls, value: int, text: str) -> Self:
        """Take the amount and its text."""
        found = super().__new__(cls, value)
        found.text = text
        return found

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        """Return what makes it again, for copies and other processes."""
        return int(self), self.text


def as_written(resource: str, value: int) -> str:
    """Return what somebody wrote for an amount; where nobody did, how Kubernetes would write it."""
    return value.text if isinstance(value, WrittenQuantity) else format_quantity(resource, value)


def format_compared(resource: str, value: int, other: int) -> tuple[str, str]:
    """Write two amounts for people, rounded; closer where they would look the same and are not."""
    rounding = (format_rounded, _in_whole_mi, format_quantity) if resource == "memory" else (format_rounded,)
    for write in rounding:
        texts = write(resource, value), write(resource, other)
        if texts[0] != texts[1] or value == other:
            return texts
    return format_quantity(resource, value), format_quantity(resource, other)


def _in_whole_mi(_: str, size_bytes: int) -> str:
    return format_memory(-(-size_bytes // (1 << 20)) << 20)
