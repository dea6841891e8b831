"""Durations, read alike wherever one is written: policies, scenarios, settings, flags."""

from datetime import timedelta

import pytest

from slack.cluster.duration import parse_duration
from tests.cases import run_for_each


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("0s", 0), ("2h0m1s", 7201)])
def test_whole_hours_minutes_and_seconds_are_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@run_for_each("text", ["", "10", "1.5h", "-1m", "1m1h", "10m\n", " 10m", "1d", None, 10, True])
def test_anything_else_is_refused_with_what_would_be_right(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s, 10m or 1h30m"):
        parse_duration(text)


def test_a_duration_beyond_all_clocks_is_refused() -> None:
    with pytest.raises(ValueError, match="is longer than any clock counts"):
        parse_duration("9" * 12 + "h")
