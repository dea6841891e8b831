"""Who ends by itself: idle containers past their time, those of an old revision, those above a lowered limit.

There is no paused state. A container waits for its idle time-out and ends; `keepWarm` keeps some for longer. A queue is
looked at from its first message until ten seconds after its last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slack.demand.model import Ending, EndReason, PoolContainer, PoolSettings

AWAKE_SECONDS = 10.0
"""A queue without messages for so long is asleep."""


def awake(last_traffic_seconds: float | None, now_seconds: float) -> bool:
    """Return whether a queue is looked at: it had messages within the last ten seconds."""
    return last_traffic_seconds is not None and now_seconds - last_traffic_seconds < AWAKE_SECONDS


def retained_count(pool: PoolSettings, last_traffic_seconds: float | None, now_seconds: float) -> int:
    """Return how many containers stay however idle they are."""
    warm = (
        pool.keep_warm
        if last_traffic_seconds is not None and now_seconds - last_traffic_seconds <= pool.keep_warm_seconds
        else 0
    )
    return 0 if pool.deleted else min(max(pool.min_containers, warm), pool.max_containers)


def idle_seconds(container: PoolContainer, quiet_since_seconds: float | None, now_seconds: float) -> float | None:
    """Return for how long a container has been idle; None where it is busy, or nobody can tell.

    Containers that report nothing are idle while their queue has no message, neither waiting nor taken; one is never
    idle for longer than it has been ready.
    """
    since = container.idle_since_seconds
    if since is None:
        since = quiet_since_seconds
    if since is None:
        return None
    return max(now_seconds - max(since, container.ready_at_seconds or 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class EndCandidate:
    """A ready container that could end."""

    container: PoolContainer
    idle_seconds: float | None
    """None: busy, or not known."""
    held_seconds: float
    """Since it became ready."""
    hold_seconds: float
    """Its pool's hold time."""
    waits: bool
    """Messages of its own action wait."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool's ready containers with what their ends depend on."""

    pool: PoolSettings
    ready: Sequence[PoolContainer]
    last_traffic_seconds: float | None
    quiet_since_seconds: float | None
    """Since when its queue has had no message at all; None: it has some."""
    waits: bool = False
    """Messages wait in its queue."""
    replaced_one: bool = False
    """A new container became ready in a change of template, and no old one has gone for it yet."""

    def candidates(self, now_seconds: float) -> list[EndCandidate]:
        """Return the ready containers with what speaks for their end."""
        return [
            EndCandidate(
                container=item,
                idle_seconds=idle_seconds(item, self.quiet_since_seconds, now_seconds),
                held_seconds=now_seconds - (item.ready_at_seconds or 0.0),
                hold_seconds=self.pool.hold_seconds,
                waits=self.waits,
            )
            for item in self.ready
        ]


def idle_ends(standing: PoolState, now_seconds: float) -> list[Ending]:
    """Return the containers that end for being idle, the longest idle first."""
    pool = standing.pool
    timeout = 0.0 if pool.per_message else pool.idle_timeout_seconds
    most = len(standing.ready) - retained_count(pool, standing.last_traffic_seconds, now_seconds)
    if most <= 0:
        return []
    idle = [(item.idle_seconds, item.container.id) for item in standing.candidates(now_seconds)]
    past = sorted(((age, name) for age, name in idle if age is not None and age >= timeout - 1e-9), reverse=True)
    return [Ending(container_id=name, key=pool.key, reason=EndReason.IDLE) for _, name in past[:most]]


def first_to_go(candidates: Sequence[EndCandidate]) -> list[EndCandidate]:
    """Return containers in the order in which they can be spared: the longest idle, then the longest held."""
    return sorted(candidates, key=lambda item: (-(item.idle_seconds or 0.0), -item.held_seconds, item.container.id))


def above_limit(standing: PoolState, excess: int, now_seconds: float) -> list[Ending]:
    """Return `excess` containers that end since the limit was lowered."""
    order = first_to_go(standing.candidates(now_seconds))
    return _ends(standing.pool, [item.container for item in order[: max(excess, 0)]], EndReason.QUOTA)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a change of the template asks for at a tick: containers of the new revision, and the ends of old ones."""

    create: int = 0
    end: tuple[Ending, ...] = ()


def next_replacement(
    standing: PoolState,
    *,
    creating: int,
    draining: int,
    room: int,
    retired_backlog: int,
    now_seconds: float,
) -> Replacement:
    """Return the next step of a change of template.

    Another image or code: one new container, and when it is ready one old one ends, and so on. Where there is no room
    for a new one beside the old an old one goes first. Another memory is another subject: the old containers run what
    is left of the old one, and end when it is empty; new ones follow from the new queue.
    """
    pool = standing.pool
    old = [item for item in standing.candidates(now_seconds) if item.container.revision != pool.revision]
    elsewhere = [item.container for item in old if item.container.subject != pool.subject]
    if elsewhere and not retired_backlog:
        return Replacement(end=tuple(_ends(pool, elsewhere, EndReason.REVISION)))
    here = [item.container for item in first_to_go(old) if item.container.subject == pool.subject]
    if not here or creating or draining:
        return Replacement()
    if standing.replaced_one or room <= 0:
        return Replacement(end=tuple(_ends(pool, here[:1], EndReason.REVISION)))
    return Replacement(create=1)


def _ends(pool: PoolSettings, containers: Sequence[PoolContainer], reason: EndReason) -> list[Ending]:
    return [Ending(container_id=item.id, key=pool.key, reason=reason) for item in containers]
