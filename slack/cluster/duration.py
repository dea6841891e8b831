"""Durations as Go writes them, of whole hours, minutes and seconds. Light: the agent reads its settings with it."""

import re
from datetime import timedelta

_LONGEST_SHOWN = 64
_DURATION = re.compile(r"(?:([0-9]{1,18})h)?(?:([0-9]{1,18})m)?(?:([0-9]{1,18})s)?")
_FINE = re.compile(r"(?P<whole>(?:[0-9]{1,18}h)?(?:[0-9]{1,18}m(?!s))?(?:[0-9]{1,18}s)?)(?:(?P<millis>[0-9]{1,12})ms)?")


def parse_duration(text: object) -> timedelta:
    """Parse `90s`, `10m`, `1h30m` as Go's time.ParseDuration does for whole hours, minutes and seconds.

    Raises:
        ValueError: for anything else, negative or fractional durations included.
    """
    if isinstance(text, timedelta):
        return text
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if not match or not any(match.groups()):
        shown = repr(text)
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
        raise ValueError(f"{shown} is not a duration such as 30s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any clock counts") from None


def parse_fine_duration(text: object) -> timedelta:
    """Parse what `parse_duration` does, with milliseconds at the end: `300ms`, `1s500ms`.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(text, timedelta):
        return text
    match = _FINE.fullmatch(text) if isinstance(text, str) else None
    if not match or not any(match.groups()):
        shown = repr(text)
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
        raise ValueError(f"{shown} is not a duration such as 300ms, 30s, 10m or 1h30m")
    whole = match["whole"]
    millis = timedelta(milliseconds=int(match["millis"] or 0))
    return (parse_duration(whole) if whole else timedelta()) + millis


def fine_text(seconds: float) -> str:
    """Write so many seconds as `parse_fine_duration` reads them: 0.3 as `300ms`, 90 as `1m30s`."""
    left = round(seconds * 1000)
    parts = []
    for unit, millis in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, millis)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
