"""The fields of a configuration, read one by one: every complaint names the field, and what would be right."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from slack.cluster.quantity import QuantityError, amount
from slack.errors import InvalidInput

_LARGEST = 1e9
_LONGEST_SHOWN = 40
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)
Reader = Callable[[object, str], T]
"""Makes a value of what stands at a path."""
Amounts = tuple[int | None, int | None]
"""Millicores and bytes, None for what is not said."""
NO_AMOUNTS: Amounts = (None, None)


class InvalidScorerConfig(InvalidInput):
    """A configuration that cannot be used: the field, and what would be right."""


class Fields:
    """The fields of one mapping; what nobody has asked for in the end is a mistake."""

    def __init__(self, value: object, path: str, spellings: Mapping[str, str] | None = None) -> None:
        if not isinstance(value, Mapping):
            raise InvalidScorerConfig(f"expected fields with values, got {format_value(value)}", path)
        self._path = path
        self._values: dict[str, Any] = {}
        self._asked: list[str] = []
        for key, own in value.items():
            text = str(key)
            name = text[:1].lower() + text[1:]  # the proposal begins names with a capital
            name = (spellings or {}).get(name, name)
            if name in self._values:
                raise InvalidScorerConfig(f"is {name} by another name; keep one of them", self.at(text))
            self._values[name] = own

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self._path}.{name}" if self._path else name

    def read_field(self, name: str, read: Reader[T], default: T) -> T:
        """Read a field; the default where it is not there, or null."""
        self._asked.append(name)
        value = self._values.pop(name, None)
        return default if value is None else read(value, self.at(name))

    def end(self) -> None:
        """Refuse what nobody has asked for.

        Raises:
            InvalidScorerConfig: naming the first of it.
        """
        if self._values:
            name = next(iter(self._values))
            raise InvalidScorerConfig(f"is not known here; there are {', '.join(sorted(self._asked))}", self.at(name))


def read_quantities(value: object, path: str) -> Amounts:
    """Read amounts of CPU and memory; None for what is not said."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):  # a bare quantity is one of CPU
        return read_quantity("cpu", value, path), None
    fields = Fields(value, path)
    cpu = fields.read_field("cpu", lambda own, here: read_quantity("cpu", own, here), None)
    memory = fields.read_field("memory", lambda own, here: read_quantity("memory", own, here), None)
    fields.end()
    return cpu, memory


def read_quantity(resource: str, value: object, path: str) -> int:
    """Read an amount of a resource, in its unit."""
    try:
        found = amount(resource, str(value))
    except QuantityError as error:
        raise InvalidScorerConfig(str(error), path) from None
    if found < 0:
        raise InvalidScorerConfig(f"{format_value(value)} is less than nothing; write 0 or more", path)
    return found


def between(low: float, high: float) -> Callable[[object, str], float]:
    """Return what reads a number from `low` to `high`."""

    def read(value: object, path: str) -> float:
        number = read_number(value, path)
        if not low <= number <= high:
            raise InvalidScorerConfig(f"{format_value(value)} is not from {low:g} to {high:g}", path)
        return number

    return read


def read_weight(value: object, path: str) -> float:
    """Read how much something counts."""
    number = read_number(value, path)
    if not 0 < number <= _LARGEST:
        raise InvalidScorerConfig(f"{format_value(value)} is no weight; write a number above 0", path)
    return number


def read_number(value: object, path: str) -> float:
    """Read a number; as text too, for upstream's multiplier is one."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidScorerConfig(f"{format_value(value)} is not a number", path)
    return number


def read_text(value: object, path: str) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidScorerConfig(f"expected text, got {format_value(value)}", path)
    return value


def one_of(choices: type[Choice]) -> Callable[[object, str], Choice]:
    """Return what reads one of several words."""

    def read(value: object, path: str) -> Choice:
        try:
            return choices(str(value))
        except ValueError:
            raise InvalidScorerConfig(f"{format_value(value)} is none of {', '.join(choices)}", path) from None

    return read


def format_value(value: object) -> str:
    """Return a value as complaints show it."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
