"""The types of SlackPolicy's fields: what a user writes as text, checked and turned into numbers with units."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field

from slack.cluster.quantity import QuantityError, base_units, cpu_millis
from slack.schema.values import Duration as Duration
from slack.schema.values import Labels as Labels
from slack.schema.values import parse_duration as parse_duration


def _rate(value: object) -> object:
    if isinstance(value, str):
        right = f", {float(value[:-1]) / 100:g}" if re.fullmatch(r"\d+(\.\d+)?%", value) else " such as 0.1"
        raise ValueError(f"{value!r} is text; write a number{right}")
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number; write a rate such as 0.1")
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


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
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


Rate = Annotated[float, BeforeValidator(_rate), Field(ge=0, le=10, allow_inf_nan=False)]
"""A share of the base: 0.1 is ten percent. Above 10 it is surely a percentage by mistake."""
Amount = Annotated[dict[str, int], BeforeValidator(_quantities)]
"""Quantities by resource name: cpu in millicores, everything else in base units."""
TimeZone = Annotated[str, AfterValidator(_zone)]
Cron = Annotated[str, AfterValidator(_cron)]
