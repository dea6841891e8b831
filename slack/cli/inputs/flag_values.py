"""Texts of flags as values: a rate, an instant, a duration. Every complaint names the flag."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from slack.cli.terminal.problems import UserError

_FIRST_YEAR, _LAST_YEAR = 1970, 9998


def rate(text: str) -> float:
    """Return --extra-capacity-min-rate, checked as the operator checks it.

    Raises:
        InvalidSettings: for anything but a number from 0 to 1.
    """
    from slack.process import slack_values
    from slack.process.settings import InvalidSettings

    try:
        return slack_values.rate(text)
    except ValueError as error:
        raise InvalidSettings((f"--extra-capacity-min-rate: {error}",)) from None


def refuse_given(ctx: Any, names: Iterable[str], why: str) -> None:
    """Refuse flags that would have no effect beside the others: who wrote them meant something by them.

    Args:
        ctx: the command's, which knows what was written and what is a default.
        names: of parameters.
        why: what makes them mean nothing, and what to do.

    Raises:
        UserError: naming the first of them.
    """
    flags = {parameter.name: parameter.opts[0] for parameter in ctx.command.params}
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UserError(f"{flags[name]}: {why}")


def instant(text: str) -> float:
    """Return Unix seconds of an RFC 3339 time with an offset."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        value = None
    if value is None or value.tzinfo is None:
        raise UserError(f"--at: {text!r} is not a time with an offset, such as 2026-11-27T06:00:00Z")
    # Schedules look hours and days around it, and Python's calendar ends with the years 1 and 9999.
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise UserError(f"--at: {text!r} is too far away; write a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value.timestamp()


def duration(flag: str, text: str) -> timedelta:
    """Read a flag's duration.

    Raises:
        UserError: for anything that is none, and for nothing at all.
    """
    from slack.cluster.duration import parse_duration

    try:
        value = parse_duration(text)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None
    if value <= timedelta(0):
        raise UserError(f"{flag}: must be longer than 0s")
    return value
