"""Times of a scenario: durations that a clock can count, and the longest run."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from slack.cluster.duration import parse_duration

LONGEST = timedelta(days=366)
"""A run beyond a year is a mistake of units: nobody knows the load of so long a time, and it would not end."""

_MOST_SECONDS = 1e10
"""Three hundred years: whatever is longer is a mistake of units, and sums of such times are no longer exact."""
_SHORTEST_PERIOD_SECONDS = 0.1
"""What comes more often than this would be most of the run, and no component is set so."""

Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False)]
"""A time in seconds."""
PositiveSeconds = Annotated[float, Field(gt=0, le=_MOST_SECONDS, allow_inf_nan=False)]
"""A time in seconds that cannot be zero."""
PeriodSeconds = Annotated[float, Field(ge=_SHORTEST_PERIOD_SECONDS, le=_MOST_SECONDS, allow_inf_nan=False)]
"""A time in seconds after which something comes again."""


def duration_text(value: timedelta) -> str:
    """Return a duration as people write it: `1h30m`."""
    minutes, seconds = divmod(round(value.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if number]
    return "".join(parts) or "0s"


def _duration(text: object) -> timedelta:
    if text is None:
        raise ValueError("is null; write a duration such as 30s, 10m or 1h30m")
    return parse_duration(text)


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than 0s")
    return value


def _check_bounds(value: timedelta) -> timedelta:
    if value > LONGEST:
        raise ValueError(
            f"{duration_text(value)} is longer than {LONGEST.days} days ({duration_text(LONGEST)}); play a shorter time"
        )
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
"""`90s`, `10m`, `1h30m`."""
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
RunTime = Annotated[PositiveDuration, AfterValidator(_check_bounds)]
"""How long a run may be."""
