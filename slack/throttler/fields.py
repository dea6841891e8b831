"""The fields of a ThrottlePolicy as users write them: numbers and percentages as texts, durations within bounds.

What is said of a bad value is what the CRD's rules say, word for word.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from slack.schema.values import Duration

NUMBER: Final = r"^[0-9]{1,6}([.][0-9]{1,6})?$"
PERCENT: Final = r"^[0-9]{1,3}([.][0-9]{1,6})?%$"
NOT_A_NUMBER: Final = 'must be a number above 0, in quotes, such as "3" or "0.5"'
FRACTION: Final = r"^[1-9][0-9]{0,5}/[1-9][0-9]{0,5}$"
NOT_PER_CORE: Final = 'must be a number above 0 or a fraction, in quotes, such as "3", "0.5" or "1/3"'
NOT_A_SHARE: Final = 'must be a percentage above 0% and at most 100%, in quotes, such as "80%"'
BOUNDS: Final = {
    "averageOver": ("1s", "5m"),
    "noProbeHold": ("0s", "10m"),
    "failOpenAfter": ("5s", "1h"),
    "after": ("1s", "24h"),
}
"""Shortest and longest value of each duration."""
_HUNDRED = 100


def out_of_bounds(field: str) -> str:
    """Return what is said of a duration that is too short or too long."""
    shortest, longest = BOUNDS[field]
    return f"{field} must be from {shortest} to {longest}"


def _number(value: object) -> object:
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str) or re.fullmatch(NUMBER, value) is None or not Decimal(value):
        raise ValueError(f"{NOT_A_NUMBER}, not {_shown(value)}")
    return Decimal(value)


def _per_core(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    known = isinstance(value, str) and any(re.fullmatch(form, value) for form in (NUMBER, FRACTION))
    if not isinstance(value, str) or not known or not Fraction(value):
        raise ValueError(f"{NOT_PER_CORE}, not {_shown(value)}")
    return Fraction(value)


def _share(value: object) -> object:
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str) or re.fullmatch(PERCENT, value) is None or not 0 < Decimal(value[:-1]) <= _HUNDRED:
        raise ValueError(f"{NOT_A_SHARE}, not {_shown(value)}")
    return Decimal(value[:-1]) / _HUNDRED


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _within(field: str) -> Callable[[timedelta], timedelta]:
    shortest, longest = (_seconds(text) for text in BOUNDS[field])

    def check(value: timedelta) -> timedelta:
        if not shortest <= value <= longest:
            raise ValueError(out_of_bounds(field))
        return value

    return check


def _seconds(text: str) -> timedelta:
    return timedelta(**{{"s": "seconds", "m": "minutes", "h": "hours"}[text[-1]]: int(text[:-1])})


def _no_text(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is no number; write one such as 0.5")
    return value


def _switch(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


_TEXT: Any = WithJsonSchema({"type": "string", "maxLength": 16})
Number = Annotated[Decimal, BeforeValidator(_number), _TEXT]
"""A number above 0 that is written as a text, as the study has all of its values; exact, for it is rounded down."""
PerCore = Annotated[Fraction, PlainValidator(_per_core), PlainSerializer(str), _TEXT]
"""A number or a fraction above 0, as a text: "1/3" is two on six cores, which no decimal number of digits is."""
Share = Annotated[Decimal, BeforeValidator(_share), _TEXT]
"""A percentage, as a share: "80%" is 0.8."""
AveragedOver = Annotated[Duration, AfterValidator(_within("averageOver"))]
Hold = Annotated[Duration, AfterValidator(_within("noProbeHold"))]
FailOpenAfter = Annotated[Duration, AfterValidator(_within("failOpenAfter"))]
Timeout = Annotated[Duration, AfterValidator(_within("after"))]
MaxShare = Annotated[float, BeforeValidator(_no_text), Field(gt=0, le=1, allow_inf_nan=False)]
Switch = Annotated[bool, BeforeValidator(_switch)]
