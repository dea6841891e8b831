"""Values that several kinds have, as users write them: durations, amounts of CPU, labels."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from slack.cluster.duration import parse_duration, parse_fine_duration
from slack.cluster.quantity import QuantityError, base_units, cpu_millis

_LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


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


def _memory(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no amount of memory such as 512Mi or 2Gi")
    try:
        size_bytes = base_units(str(value))
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if size_bytes <= 0:
        raise ValueError(f"{value!r} is not above 0; write an amount of memory such as 512Mi or 2Gi")
    return size_bytes


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
FineDuration = Annotated[
    timedelta, BeforeValidator(parse_fine_duration), WithJsonSchema({"type": "string", "format": "fine-duration"})
]
"""A duration that may have milliseconds, such as 300ms."""
Labels = Annotated[dict[str, str], AfterValidator(_labels)]
CpuAmount = Annotated[int, BeforeValidator(_cpu), Field(json_schema_extra={"format": "quantity"})]
"""Cores as a quantity, such as 500m or 2; in millicores."""
MemoryAmount = Annotated[int, BeforeValidator(_memory), Field(json_schema_extra={"format": "quantity"})]
"""Memory as a quantity, such as 512Mi; in bytes."""
