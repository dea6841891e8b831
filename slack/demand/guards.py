"""The guards on top of the table. G1, G4 and G5 judge one queue; G2 and G3 say who makes way for one that starves.

Each can be switched off; with none, what the table says stands as it was written.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slack.demand.decision import decide
from slack.demand.lifecycle import EndCandidate
from slack.demand.model import (
    Clip,
    DecisionGuard,
    Ending,
    EndReason,
    Guards,
    QueueDecision,
    QueueFigures,
    QueueKey,
    QueueState,
)

NONE = Guards.parse("none")
MEDIANS = 2.0
"""G1 waits that many times as long as creations of the pool take."""
FIRST_RUN_SECONDS = 0.6
"""And so long for the first run to be told of: containers report each half second at most."""
LAST_IDLE_SECONDS = 0.2
"""G2 takes an action's last container only after it was idle for so long."""


def apply_guards(figures: QueueFigures, guards: Guards) -> QueueDecision:
    """Return what is done for a queue."""
    asked, by = figures, None
    if guards.throttled and figures.state is QueueState.ACTION_THROTTLED:
        # G4. The table has no row for it, and so adds nothing when the queue is longest.
        asked, by = replace(asked, state=QueueState.RUNNING), DecisionGuard.THROTTLED
    if guards.first_container and figures.stale and awaits_first(figures):
        asked, by = replace(asked, stale=0), DecisionGuard.FIRST_CONTAINER
    decision = decide(asked, as_written=guards == NONE)
    if by is not None and decision != decide(figures, as_written=guards == NONE):
        decision = replace(decision, guard=by)
    return _within_nodes(decision, figures, guards)


def awaits_first(figures: QueueFigures) -> bool:
    """Return whether the queue's first container is on its way: no run is known, and it is not late (G1).

    Without a run time the table takes each message that waits for a container for one that needs a container.
    """
    if figures.mean_duration_ms is not None:
        return False
    if figures.containers:
        ready = figures.oldest_ready_age_seconds
        return ready is not None and ready <= FIRST_RUN_SECONDS
    if figures.oldest_creation_age_seconds is None:
        return False
    median = figures.median_creation_seconds
    # Without a median the creation's own time-out ends the wait.
    return median is None or figures.oldest_creation_age_seconds <= MEDIANS * median


def _within_nodes(decision: QueueDecision, figures: QueueFigures, guards: Guards) -> QueueDecision:
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
        guard=DecisionGuard.UNMET if cut and guards.unmet else decision.guard,
    )


def make_way(
    needed: int, candidates: Sequence[EndCandidate], spare: Mapping[QueueKey, int], guards: Guards
) -> list[Ending]:
    """Return the containers that end for `needed` actions that have messages and no container, at most as many.

    First idle ones (G2): of actions with more than one the longest idle, then last ones that are idle for 200 ms and
    for which nothing waits. Then those that were held for their hold time (G3), of the action with most containers
    first. `spare`: by action, its ready containers less those that its owner always wants.
    """
    left = Counter(candidate.container.key for candidate in candidates)
    free = dict(spare)
    endings: list[Ending] = []

    def take(found: Iterable[EndCandidate], reason: EndReason, least: int) -> None:
        for candidate in found:
            key = candidate.container.key
            if len(endings) < needed and left[key] >= least and free[key] > 0:
                left[key] -= 1
                free[key] -= 1
                endings.append(Ending(container_id=candidate.container.id, key=key, reason=reason))

    if guards.eviction:
        idle = [item for item in candidates if item.idle_seconds is not None]
        idle.sort(key=lambda item: (-(item.idle_seconds or 0.0), item.container.id))
        take(idle, EndReason.EVICTED, 2)
        taken = {ending.container_id for ending in endings}
        rest = (item for item in idle if item.container.id not in taken and not item.waits)
        take((item for item in rest if (item.idle_seconds or 0.0) > LAST_IDLE_SECONDS), EndReason.EVICTED, 1)
    if guards.yielding:
        taken = {ending.container_id for ending in endings}
        held = [item for item in candidates if item.held_seconds > item.hold_seconds and item.container.id not in taken]
        while held and len(endings) < needed:
            first = min(held, key=lambda item: (-left[item.container.key], -item.held_seconds, item.container.id))
            held.remove(first)
            take([first], EndReason.YIELDED, 1)
    return endings
