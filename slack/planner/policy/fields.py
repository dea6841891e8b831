"""The types of SlackPolicy's fields: what a user writes as text, checked and turned into numbers with units."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from slack.cluster.amounts import slip_in
from slack.cluster.quantity import QuantityError, WrittenQuantity, base_units, cpu_millis
from slack.schema.values import Duration as Duration
from slack.schema.values import Labels as Labels


def _rate(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is text; write a number{_meant(value)}")
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number; write a rate such as 0.1")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is no rate; write a number such as 0.1")
    return value


def _meant(text: str) -> str:
    """Return the number that a text is, ` such as 0.1` where it is none."""
    try:
        number = float(text[:-1]) / 100 if re.fullmatch(r"\d+(\.\d+)?%", text) else float(text)
    except ValueError:
        number = math.nan
    return f", {number:g}" if math.isfinite(number) else " such as 0.1"


def _whole(value: object) -> object:
    if isinstance(value, str | bool):
        what = "is text" if isinstance(value, str) else "is not a number"
        right = f", {value}" if isinstance(value, str) and value.isascii() and value.isdecimal() else " such as 5"
        raise ValueError(f"{value!r} {what}; write a whole number{right}")
    return value


def _switch(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false" + ("; write it without quotes" * (value in _QUOTED)))
    return value


def _quantities(value: object) -> object:
    if value is None or not isinstance(value, Mapping):
        return value
    amounts: dict[str, int] = {}
    for name, text in value.items():
        try:
            amount = cpu_millis(str(text)) if name == "cpu" else base_units(str(text))
        except QuantityError as error:
            raise ValueError(f"{name}: {error}") from None
        if amount < 0:
            raise ValueError(f"{name}: {text!r} is negative; write 0 or more")
        amounts[str(name)] = amount
    return amounts


def _as_written(value: object, check: ValidatorFunctionWrapHandler) -> dict[str, WrittenQuantity]:
    """Check amounts, and keep what was written for each beside it."""
    checked: dict[str, int] = check(value)
    texts = value if isinstance(value, Mapping) else {}
    return {
        name: WrittenQuantity(
            amount, before.text if isinstance(before := texts.get(name, amount), WrittenQuantity) else str(before)
        )
        for name, amount in checked.items()
    }


def _without_slips(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    for name, text in value.items():
        if isinstance(text, bool) or (isinstance(text, float) and not text.is_integer()):
            what = "is neither a whole number nor text"  # as the API server has quantities
            raise ValueError(
                f"{name}: {text!r} {what}; write it in quotes" + ("" if name == "cpu" else ", with a unit")
            )
        try:
            slip = slip_in(str(name), str(text))
        except QuantityError:
            continue  # told with all others
        if slip is not None:
            raise ValueError(f"{name}: {slip}")
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder, or a name that no file can have
        raise ValueError(f"{value!r} is not an IANA time zone such as Europe/Berlin") from None
    return value


def _cron(value: str) -> str:
    if len(value.split()) != 5:
        raise ValueError(f"{value!r} is not a cron expression of five fields: it has {len(value.split())}")
    try:
        CronSim(value, datetime(2024, 1, 1))  # only the expression is checked here
    except CronSimError as error:
        raise ValueError(f"{value!r} is not a cron expression of five fields: {error}") from None
    return value


_QUOTED = ("true", "false")
WHOLE = BeforeValidator(_whole)
"""A number of something, and no text."""
Switch = Annotated[bool, BeforeValidator(_switch)]
"""On or off: the API server takes no 'yes'."""
NO_TEXT = BeforeValidator(_rate)
"""A number is no text: the API server takes no '0.1', and no command does."""
Rate = Annotated[float, NO_TEXT, Field(ge=0, le=10, allow_inf_nan=False)]
"""A share of the base: 0.1 is ten percent. Above 10 it is surely a percentage by mistake."""
Amount = Annotated[dict[str, int], BeforeValidator(_quantities)]
"""Quantities by resource name: cpu in millicores, everything else in base units."""
Room = Annotated[
    dict[str, int], BeforeValidator(_quantities), BeforeValidator(_without_slips), WrapValidator(_as_written)
]
"""An amount that a policy names: a name that is no resource is refused, and a unit that nobody can mean. What comes out
knows its text (`WrittenQuantity`)."""
TimeZone = Annotated[str, AfterValidator(_zone)]
Cron = Annotated[str, AfterValidator(_cron)]
