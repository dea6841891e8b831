"""Windows: when a policy's size is another.

A cron window is open from each time that its expression fires, in its own time zone, for `duration` of elapsed time;
so a night on which the clock changes neither loses nor repeats a window. Windows open early by `lead_seconds`, one node
start, so that the room is there when they begin.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from slack.planner.policy.spec import ScheduleWindow


def is_open(window: ScheduleWindow, now: float, lead_seconds: float) -> bool:
    """Tell whether a window is open at `now` (Unix seconds), or will be within `lead_seconds`."""
    if window.start is not None and window.until is not None:
        return window.start.timestamp() - lead_seconds <= now < window.until.timestamp()
    if window.cron is None or window.duration is None:
        raise ValueError("a window has either cron and duration or start and until")
    soon = datetime.fromtimestamp(now + lead_seconds, UTC).astimezone(ZoneInfo(window.time_zone))
    # CronSim walks strictly away from its start: a second later so that "fires now" counts as fired.
    latest = next(CronSim(window.cron, soon + timedelta(seconds=1), reverse=True), None)
    return latest is not None and now < latest.timestamp() + window.duration.total_seconds()


def open_windows(windows: Sequence[ScheduleWindow], now: float, lead_seconds: float) -> tuple[ScheduleWindow, ...]:
    """Return the windows that are open, in the order of the policy."""
    return tuple(window for window in windows if is_open(window, now, lead_seconds))
