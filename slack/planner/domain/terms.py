"""What a policy's fields say of its size at an instant, and which of them sets what is wanted of each resource.

Of open windows the largest counts; a rate of a window stands in place of a fixed number, a number of one in place of
all rates, and whole nodes of one in place of all other numbers.
"""

from dataclasses import dataclass

from slack.planner.model.wanted_by import Source
from slack.planner.policy.schedule import open_windows
from slack.planner.policy.spec import LadderStep, Policy, ScheduleWindow


@dataclass(frozen=True, slots=True)
class Terms:
    """A policy's size in its own words; windows by what they are called."""

    rate: float
    rate_from: Source
    """RATE or LADDER."""
    rate_window: str | None
    floor: tuple[tuple[str, int], ...]
    floor_windows: tuple[tuple[str, str], ...]
    """By resource the window that sets its floor, where one does."""
    replicas: int | None
    """A fixed number instead of a rate."""
    whole_nodes: bool
    """The fixed number is of whole nodes, in each zone."""
    replicas_window: str | None
    instant_start: float | None
    """Of the objective, where it sets the amount."""


def terms_of(policy: Policy, now: float, lead_seconds: float, own_rate: float, ladder: LadderStep | None) -> Terms:
    """Return what a policy asks for now.

    Args:
        policy: with its schedule.
        now: Unix seconds.
        lead_seconds: so early a window opens.
        own_rate: without ladder and schedule.
        ladder: the ladder's step that holds, None where none does.
    """
    spec = policy.spec.extra_capacity
    rate, rate_from, rate_window = own_rate if ladder is None else ladder.min_rate, Source.RATE, None
    if ladder is not None:
        rate_from = Source.LADDER
    floor, floor_windows = dict(spec.floor), dict[str, str]()
    for name, least in ({} if ladder is None else ladder.floor).items():
        floor[name] = max(least, floor.get(name, 0))
    replicas, replicas_window, whole_nodes = spec.replicas, None, False
    if spec.nodes is not None:
        replicas, whole_nodes = spec.nodes, True
    windows = open_windows(spec.schedule, now, lead_seconds)
    rated = [(window.min_rate, window) for window in windows if window.min_rate is not None]
    counted = [(window.replicas, window) for window in windows if window.replicas is not None]
    spare = [(window.nodes, window) for window in windows if window.nodes is not None]
    if rated:
        rate, largest = max(rated, key=lambda pair: pair[0])
        rate_from, rate_window, replicas, whole_nodes = Source.RATE, called(largest), None, False
    if spare or counted:
        replicas, largest = max(spare or counted, key=lambda pair: pair[0])
        replicas_window, whole_nodes = called(largest), bool(spare)
    for window in windows:
        for name, least in (window.floor or {}).items():
            if least > floor.get(name, 0):
                floor[name], floor_windows[name] = least, called(window)
    objective = policy.spec.objective
    return Terms(
        rate=rate,
        rate_from=rate_from,
        rate_window=rate_window,
        floor=tuple(floor.items()),
        floor_windows=tuple(floor_windows.items()),
        replicas=replicas,
        whole_nodes=whole_nodes,
        replicas_window=replicas_window,
        instant_start=None if objective is None else objective.instant_start,
    )


def called(window: ScheduleWindow) -> str:
    """Return what a window is called: its name, or when it opens."""
    start = "" if window.start is None else window.start.isoformat()
    return window.name or window.cron or start
