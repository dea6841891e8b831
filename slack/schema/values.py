"""Values that several kinds have, as users write them: durations, amounts of CPU, labels."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from slack.cluster.quantity import QuantityError, cpu_millis

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


def _labels(value: Mapping[str, str]) -> Mapping[str, str]:
    for key, text in value.items():
        label_key(key)
        label_value(text, key)
    return value


def label_key(key: str) -> str:
    """Return a label's key as it is.

    Raises:
        ValueError: when it is none.
    """
    if not _LABEL_KEY.match(key):
        raise ValueError(f"{key!r} is not a label key")
    return key


def label_value(text: str, key: str = "") -> str:
    """Return a label's value as it is.

    Raises:
        ValueError: when it is none.
    """
    if not _LABEL_VALUE.match(text):
        raise ValueError(f"{key + ': ' if key else ''}{text!r} is not a label value")
    return text


def _cpu(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no amount of CPU such as 500m or 2")
    try:
        millis = cpu_millis(str(value))
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if millis <= 0:
        raise ValueError(f"{value!r} is not above 0; write an amount of CPU such as 500m or 2")
    return millis


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Labels = Annotated[dict[str, str], AfterValidator(_labels)]
CpuAmount = Annotated[int, BeforeValidator(_cpu), Field(json_schema_extra={"format": "quantity"})]
"""Cores as a quantity, such as 500m or 2; in millicores."""
