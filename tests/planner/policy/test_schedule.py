"""Windows: cron with daylight saving time, one-time windows, lead time."""

from datetime import datetime

import pytest

from slack.planner.policy.schedule import is_open, open_windows
from slack.planner.policy.spec import ScheduleWindow
from tests.cluster.build import NOW, node
from tests.planner.scenes import plan_of, replicas


def window(**fields: object) -> ScheduleWindow:
    return ScheduleWindow.model_validate({"minRate": 0.3, **fields})


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


WORKDAYS = window(cron="0 7 * * 1-5", duration="12h", timeZone="Europe/Berlin")


@pytest.mark.parametrize(
    ("when", "opened"),
    [
        ("2027-01-15T06:59:59+01:00", False),  # a Friday
        ("2027-01-15T07:00:00+01:00", True),
        ("2027-01-15T18:59:59+01:00", True),
        ("2027-01-15T19:00:00+01:00", False),
        ("2027-01-16T08:00:00+01:00", False),
        ("2027-07-16T07:00:00+02:00", True),  # summer time: an hour earlier in UTC
        ("2027-07-16T06:59:59+02:00", False),
    ],
)
def test_a_cron_window_follows_the_clock_on_the_wall(when: str, opened: bool) -> None:
    assert is_open(WORKDAYS, at(when), 0) is opened


def test_the_night_on_which_the_clock_goes_forward_loses_no_window() -> None:
    """2027-03-28, Berlin: 02:00 becomes 03:00. A window at 02:30 opens then, and lasts its hour."""
    night = window(cron="30 2 * * *", duration="1h", timeZone="Europe/Berlin")
    assert not is_open(night, at("2027-03-28T01:59:00+01:00"), 0)
    assert is_open(night, at("2027-03-28T03:10:00+02:00"), 0)
    assert not is_open(night, at("2027-03-28T05:00:00+02:00"), 0)
    morning = window(cron="0 1 * * *", duration="2h", timeZone="Europe/Berlin")
    assert is_open(morning, at("2027-03-28T03:59:00+02:00"), 0)  # two hours later by any watch
    assert not is_open(morning, at("2027-03-28T04:00:00+02:00"), 0)


def test_the_night_on_which_the_clock_goes_back_repeats_no_window() -> None:
    """2027-10-31, Berlin: 03:00 becomes 02:00 again."""
    night = window(cron="30 2 * * *", duration="20m", timeZone="Europe/Berlin")
    assert is_open(night, at("2027-10-31T02:35:00+02:00"), 0)
    assert not is_open(night, at("2027-10-31T02:35:00+01:00"), 0)
    evening = window(cron="0 22 * * *", duration="8h", timeZone="Europe/Berlin")
    assert is_open(evening, at("2027-10-31T04:59:00+01:00"), 0)
    assert not is_open(evening, at("2027-10-31T05:00:00+01:00"), 0)


def test_a_window_opens_one_node_start_early_and_closes_on_time() -> None:
    assert is_open(WORKDAYS, at("2027-01-15T06:58:00+01:00"), 120)
    assert not is_open(WORKDAYS, at("2027-01-15T06:57:59+01:00"), 120)
    assert not is_open(WORKDAYS, at("2027-01-15T19:00:00+01:00"), 120)
    once = window(start="2027-11-26T06:00:00Z", until="2027-11-27T06:00:00Z")
    assert is_open(once, at("2027-11-26T05:58:00+00:00"), 120)
    assert not is_open(once, at("2027-11-26T05:57:00+00:00"), 120)
    assert not is_open(once, at("2027-11-27T06:00:00+00:00"), 120)


def test_a_window_has_either_a_cron_or_a_start() -> None:
    with pytest.raises(ValueError, match="either cron"):
        is_open(window(cron="0 0 * * *", duration="1h").model_copy(update={"cron": None}), NOW, 0)


def test_where_several_windows_are_open_the_largest_wins() -> None:
    """NOW is Friday, 08:00 UTC."""
    always = {"cron": "0 * * * *", "duration": "1h"}
    windows = [
        {**always, "minRate": 0.2},
        {**always, "minRate": 0.5, "floor": {"cpu": "3"}},
        {"cron": "0 9 * * *", "duration": "1h", "minRate": 0.9},
    ]
    objects = [node("n0"), *replicas(2, "api", "500m", "1Gi", node="n0")]
    item = plan_of(*objects, extraCapacity={"schedule": windows, "floor": {"cpu": "2"}})
    assert item.rate == 0.5
    assert item.desired[0] == 3000
    fixed = plan_of(
        *objects, extraCapacity={"schedule": [{**always, "replicas": 4}], "minRate": 0.1}, cover={"mode": "None"}
    )
    assert [s.count for s in fixed.shapes] == [4]
    rate = plan_of(*objects, extraCapacity={"schedule": [{**always, "minRate": 0.5}], "replicas": 4})
    assert rate.rate == 0.5
    assert rate.desired[0] == 500
    assert [w.min_rate for w in open_windows([window(**always), WORKDAYS], NOW, 0)] == [0.3, 0.3]
