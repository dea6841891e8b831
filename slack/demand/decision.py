"""The table of decisions: how many containers a queue gets at a tick, and whether its namespace is throttled.

Thirteen rows, asked in order; the first that fits decides. They are what Apache OpenWhisk made of the proposal for
autonomous containers, whose heart is: add containers when those that are there are slower than what comes. The lines
beside the rows are those of its `SchedulingDecisionMaker.scala` at 1fae641a. `slack.demand.guards` stands on top.

The one correction, which `as_written` takes back: in row 10 the term for stale messages is never less than nothing, for
else a message that grows old would take away the containers that fresh ones have asked for.
"""

from math import ceil

from slack.demand.model import Clip, QueueDecision, QueueFigures, QueueState

ROWS = {
    1: "there is no limit to keep: namespace or action may have no container at all",
    2: "the namespace has no room for another container: it counts as full",
    3: "the namespace may go above its limit for an action without containers: it counts as full no longer",
    4: "the namespace has no room for another container",
    5: "the queue is new and gets its first container",
    6: "there is room again: the namespace counts as full no longer, and the next tick decides",
    7: "messages wait and there is no container",
    8: "no container could be created so far: another try",
    9: "messages are stale, and no run time is known: a container for as many as one runs at once",
    10: "messages come faster than they are run, or are stale: as many containers as run them within a window",
    11: "the queue is being removed and its messages are stale: as many containers as run them within a window",
    12: "the queue is being removed and its messages are stale: a container for as many as one runs at once",
    13: "there are as many containers as are needed",
}
"""What each row says, in the words of `explain`."""

_WAITS = "messages wait and there is no container: one is created once they are stale"
"""What row 13 says of such a queue, which is removed or throttled."""
_NOT_MANY = 1 << 31
_LEAST_RUNS = 1e-12
"""Of a container in a window: a window that is nothing beside a run must not become a division by nothing."""


def namespace_room(figures: QueueFigures) -> int:
    """Return how many containers the namespace may still have; below 0 where its limit was lowered."""
    return figures.namespace_limit - figures.namespace_containers - figures.namespace_creating


def over_provisioned_room(figures: QueueFigures) -> int:
    """Return how many containers it may still have above its limit, for actions without any."""
    ratio = figures.over_provision_ratio or 1.0
    return ceil(figures.namespace_limit * ratio) - figures.namespace_containers - figures.namespace_creating


def over_provisions(figures: QueueFigures) -> bool:
    """Return whether the namespace may go above its limit at all."""
    return figures.over_provision_ratio is not None and figures.over_provision_ratio > 1.0


def capacity(figures: QueueFigures) -> int:
    """Return how many containers the queue could get now."""
    if over_provisions(figures) and figures.total == 0:
        return 1 if over_provisioned_room(figures) > 0 else 0
    return min(namespace_room(figures), action_room(figures))


def action_room(figures: QueueFigures) -> int:
    """Return how many containers the action may still have; its limit is never more than its namespace's."""
    return min(figures.action_limit, figures.namespace_limit) - figures.total


def runs_per_window(figures: QueueFigures) -> float:
    """Return how many messages a container runs in one stale window; more than 0."""
    if figures.mean_duration_ms is None or figures.mean_duration_ms <= 0:
        return float(figures.concurrency)
    return max(figures.stale_window_ms / figures.mean_duration_ms * figures.concurrency, _LEAST_RUNS)


def decide(figures: QueueFigures, *, as_written: bool = False) -> QueueDecision:
    """Return what the table says of a queue; `as_written`: without the correction of row 10."""
    if min(figures.namespace_limit, figures.action_limit) <= 0:
        return QueueDecision(row=1, pausing=figures.state is not QueueState.FLUSHING, reason=ROWS[1])
    room = capacity(figures)
    return _without_room(figures) if room <= 0 else _with_room(figures, room, as_written)


def _without_room(figures: QueueFigures) -> QueueDecision:
    above = over_provisions(figures)
    if figures.state is QueueState.RUNNING and (not above or over_provisioned_room(figures) <= 0):
        return QueueDecision(row=2, throttle=True, clipped_by=_limit(figures), reason=_full(figures, 2))
    if figures.state is QueueState.NAMESPACE_THROTTLED and above and over_provisioned_room(figures) > 0:
        return QueueDecision(row=3, throttle=False, reason=ROWS[3])
    return QueueDecision(row=4, clipped_by=_limit(figures), reason=_full(figures, 4))


def _limit(figures: QueueFigures) -> Clip:
    return Clip.NAMESPACE_LIMIT if namespace_room(figures) <= 0 else Clip.ACTION_LIMIT


def _full(figures: QueueFigures, row: int) -> str:
    """Return a row's words, or where it is the action's own limit, what is so then."""
    return ROWS[row] if namespace_room(figures) <= 0 else "it has as many containers as it may have"


def _with_room(figures: QueueFigures, room: int, as_written: bool) -> QueueDecision:
    state, known = figures.state, figures.mean_duration_ms is not None
    running, none = state is QueueState.RUNNING, figures.total == 0
    if running and not known and none and not figures.initialized:
        return QueueDecision(row=5, add=1, initial=True, reason=ROWS[5])
    if state is QueueState.NAMESPACE_THROTTLED:
        return QueueDecision(row=6, throttle=False, reason=ROWS[6])
    if running and none and figures.available > 0:
        return QueueDecision(row=7, add=1, reason=ROWS[7])
    if state is QueueState.FLUSHING and none:
        return QueueDecision(row=8, add=1, initial=True, reason=ROWS[8])
    stale = figures.stale > 0
    if running and not known and stale:
        return _clip(figures, 9, _for_stale_unknown(figures), room)
    if running and known:
        return _clip(figures, 10, _for_rate(figures, as_written), room)
    if state is QueueState.REMOVING and stale:
        return (
            _clip(figures, 11, _for_stale(figures), room)
            if known
            else _clip(figures, 12, _for_stale_unknown(figures), room)
        )
    return QueueDecision(row=13, reason=_WAITS if none and figures.available > 0 else ROWS[13])


def _for_stale_unknown(figures: QueueFigures) -> int:
    return min(ceil(figures.stale / figures.concurrency) - figures.creating, figures.available)


def _for_stale(figures: QueueFigures) -> int:
    """Containers that run what is stale within a window, less those that come; never more than there are messages."""
    # A run of hours makes the quotient immense; the number of messages bounds it.
    needed = min(figures.stale / runs_per_window(figures), _NOT_MANY)
    return min(ceil(needed), figures.stale) - figures.creating


def _for_rate(figures: QueueFigures, as_written: bool) -> int:
    for_stale = _for_stale(figures) if figures.stale > 0 else 0
    if not as_written:
        for_stale = max(for_stale, 0)
    fresh, each, total = figures.available - figures.stale, runs_per_window(figures), figures.total
    duration = figures.mean_duration_ms or 0.0
    if duration > 0 and fresh >= each * total and total < fresh:
        more = min(ceil(min(fresh / each, _NOT_MANY) - total), fresh - total)
        return more + for_stale
    return max(for_stale, 0)


def _clip(figures: QueueFigures, row: int, wanted: int, room: int) -> QueueDecision:
    if wanted <= 0:
        return QueueDecision(row=row, reason=ROWS[13])
    if wanted <= room:
        return QueueDecision(row=row, add=wanted, reason=ROWS[row])
    by_namespace = room >= namespace_room(figures)
    return QueueDecision(
        row=row,
        add=room,
        throttle=True if by_namespace else None,
        clipped_by=Clip.NAMESPACE_LIMIT if by_namespace else Clip.ACTION_LIMIT,
        reason=ROWS[row],
    )
