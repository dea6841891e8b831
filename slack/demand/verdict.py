"""Whether new messages are taken: refused only where the namespace is full of containers and they are too slow.

Both of the proposal's two questions must be answered with yes: are there as many containers as there may be, and are
messages run more slowly than they come? The second is asked of the queue, at each tick; requests are answered from the
last answer. A late one lets a few too many pass, or refuses a few, and no more.

Messages come by chance, so that even a queue that keeps up grows for a while. It counts as too slow only if all of
these hold: no ready container is idle, what waits takes some time to run, and the growth is more than chance explains.
"""

from dataclasses import dataclass, replace
from math import inf

from slack.demand.history import NO_GROWTH, Growth
from slack.demand.model import OPEN, AdmissionVerdict, Refusal

CLEARED_AT = 0.9
"""A refusal ends when the lag is down to this share of what it was when it began."""
STALE_TICKS = 3
"""A verdict that is older than so many ticks is not gone by: messages are taken."""
LEAST_GROWN = 20
"""Fewer messages are no evidence, however few have passed."""
LEAST_CERTAINTY = 2.2
"""Standard deviations. Ten containers that are busy for 80 % of the time get there in one of 100,000 moments."""
LEAST_WAIT_SHARE = 0.5
"""Of the stale window: what waits takes at least so long to run."""
SHORTEST_RETRY_MS, LONGEST_RETRY_MS, UNKNOWN_RETRY_MS = 100, 60_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPressure:
    """What the verdict about one action is given."""

    containers: int
    """Of the namespace, those in creation included."""
    limit: int
    lag: int
    """Messages that wait."""
    rate_per_second: float
    """Messages that came, over the last second."""
    speed_per_second: float
    """Messages that were finished, over the last second."""
    growth: Growth = NO_GROWTH
    """How the queue has grown."""
    exceeds_capacity: bool = False
    """More comes than the action's containers are known to run, by more than chance explains."""
    idle: int = 0
    """Ready containers that are idle: those of the action, or if it has none, those that may make way for it."""
    stale_seconds: float = 0.1
    max_messages: int = 10_000
    throttle_fraction: float = CLEARED_AT
    action_limit: int = 1
    node_wait_seconds: float | None = None
    """Containers of the action wait for a node, which should be there after so long."""

    @property
    def full(self) -> bool:
        """Whether the namespace has its limit of containers."""
        return self.containers >= self.limit

    @property
    def slower(self) -> bool:
        """Whether messages come faster than they are run. Where none waits, none is too slow."""
        if self.lag <= 0 or self.idle > 0 or self.rate_per_second <= self.speed_per_second:
            return False
        if self.drain_seconds < LEAST_WAIT_SHARE * self.stale_seconds:
            return False
        certain = self.growth.grown >= LEAST_GROWN and self.growth.certainty >= LEAST_CERTAINTY
        return certain or self.exceeds_capacity

    @property
    def drain_seconds(self) -> float:
        """How long what waits takes to run at the present speed."""
        return self.lag / self.speed_per_second if self.speed_per_second > 0 else inf


@dataclass(frozen=True, slots=True)
class Held:
    """A verdict with the lag at which its refusal began."""

    verdict: AdmissionVerdict = OPEN
    lag_at_set: int = 0


def judge(pressure: ActionPressure, before: Held) -> Held:
    """Return the verdict, given the one before."""
    reason, level = _reason(pressure, before)
    verdict = AdmissionVerdict(
        reject=reason is not None,
        reason=reason,
        containers=pressure.containers,
        limit=pressure.limit,
        lag=pressure.lag,
        rate_per_second=pressure.rate_per_second,
        speed_per_second=pressure.speed_per_second,
    )
    if reason is None:
        return Held(verdict)
    if reason is Refusal.NAMESPACE_FULL and pressure.node_wait_seconds is not None:
        reason = Refusal.CAPACITY_SHORT
    return Held(replace(verdict, reason=reason, retry_after_ms=_retry_after_ms(pressure, level)), level)


def _reason(pressure: ActionPressure, before: Held) -> tuple[Refusal | None, int]:
    if min(pressure.limit, pressure.action_limit) <= 0:
        return Refusal.NO_CONTAINERS, 0
    was = before.verdict.reason
    full = pressure.lag >= pressure.max_messages
    # Down to its fraction the queue is open again, and its state with it (`Queue.settle`).
    still = was is Refusal.QUEUE_FULL and pressure.lag > pressure.max_messages * pressure.throttle_fraction
    if full or still:
        return Refusal.QUEUE_FULL, pressure.max_messages
    if not pressure.full:
        return None, 0
    refused = was in (Refusal.NAMESPACE_FULL, Refusal.CAPACITY_SHORT)
    if refused and not pressure.idle and pressure.lag > CLEARED_AT * before.lag_at_set:
        return Refusal.NAMESPACE_FULL, before.lag_at_set
    return (Refusal.NAMESPACE_FULL, pressure.lag) if pressure.slower else (None, 0)


def _retry_after_ms(pressure: ActionPressure, level: int) -> int:
    """When to ask again: when nodes should be there, else when the lag should be low enough."""
    if pressure.node_wait_seconds is not None:
        # The usual start of a node may be over while none has come: nobody knows then how long it still takes.
        left = round(pressure.node_wait_seconds * 1000)
        return max(left, SHORTEST_RETRY_MS) if left > 0 else UNKNOWN_RETRY_MS
    if pressure.speed_per_second <= 0:
        return UNKNOWN_RETRY_MS
    above = max(pressure.lag - CLEARED_AT * level, 1.0)
    return round(min(max(above / pressure.speed_per_second * 1000, SHORTEST_RETRY_MS), LONGEST_RETRY_MS))
