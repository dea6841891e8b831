"""The guards that judge one queue alone, on top of the table: G1, G4 and G5.

G2 and G3 weigh queues against each other, and are with the round over all of them. Each can be switched off; with none,
what the table says stands as it was written.
"""

from dataclasses import replace

from slack.demand.decision import decide
from slack.demand.model import Clip, Decision, Guard, Guards, QueueFigures, QueueState

NONE = Guards.parse("none")
MEDIANS = 2.0
"""G1 waits that many times as long as creations of the pool take."""


def guarded(figures: QueueFigures, guards: Guards) -> Decision:
    """Return what is done for a queue."""
    asked, by = figures, None
    if guards.throttled and figures.state is QueueState.ACTION_THROTTLED:
        # G4. The table has no row for it, and so adds nothing when the queue is longest.
        asked, by = replace(asked, state=QueueState.RUNNING), Guard.THROTTLED
    if guards.first_container and figures.stale and awaits_first(figures):
        asked, by = replace(asked, stale=0), Guard.FIRST_CONTAINER
    decision = decide(asked, as_written=guards == NONE)
    if by is not None and decision != decide(figures, as_written=guards == NONE):
        decision = replace(decision, guard=by)
    return _within_nodes(decision, figures, guards)


def awaits_first(figures: QueueFigures) -> bool:
    """Return whether the queue's first container is on its way: no run is known, and it is not late (G1).

    Without a run time the table takes each message that waits for a container for one that needs a container.
    """
    if figures.mean_duration_ms is not None or figures.oldest_creation_age_seconds is None:
        return False
    median = figures.median_creation_seconds
    # Without a median the creation's own time-out ends the wait.
    return median is None or figures.oldest_creation_age_seconds <= MEDIANS * median


def _within_nodes(decision: Decision, figures: QueueFigures, guards: Guards) -> Decision:
    room = figures.node_room
    cut = 0 if room is None else max(decision.add - max(room, 0), 0)
    unmet = cut + figures.unschedulable if guards.unmet else 0
    if not cut and not unmet:
        return decision
    return replace(
        decision,
        add=decision.add - cut,
        unmet=unmet,
        clipped_by=Clip.NODE_ROOM if cut else decision.clipped_by,
        guard=Guard.UNMET if cut and guards.unmet else decision.guard,
    )
