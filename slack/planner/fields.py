"""The types of SlackPolicy's fields: what a user writes as text, checked and turned into numbers with units."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field

from slack.cluster.quantity import QuantityError, base_units, cpu_millis

_DURATION = re.compile(r"^(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?$")
_LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


def parse_duration(text: object) -> timedelta:
    """Parse `90s`, `10m`, `1h30m` as Go's time.ParseDuration does for whole hours, minutes and seconds.

    Raises:
        ValueError: for anything else, negative or fractional durations included.
    """
    if isinstance(text, timedelta):
        return text
    match = _DURATION.match(text) if isinstance(text, str) else None
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration such as 30s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any clock counts") from None


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


def _labels(value: Mapping[str, str]) -> Mapping[str, str]:
    for key, text in value.items():
        if not _LABEL_KEY.match(key):
            raise ValueError(f"{key!r} is not a label key")
        if not _LABEL_VALUE.match(text):
            raise ValueError(f"{key}: {text!r} is not a label value")
    return value


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
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]
TimeZone = Annotated[str, AfterValidator(_zone)]
Cron = Annotated[str, AfterValidator(_cron)]
