"""Tracks bursts that placeholders were evicted for, until their pods have nodes, and backs off where none come.

`BurstEvictor` records here what it evicted and what came of it. Two limits follow:

1. Backoff: if fewer than half of a workload's expected pods arrive, its bursts are left to the scheduler for a minute,
   and twice as long each time, up to an hour. A namespace with several such workloads is treated in the same way.
2. Budget: a token bucket bounds how many placeholders all bursts together may take.

Owned by the evictor's thread. The time is an argument.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from slack.planner.burst_eviction.capacity import BoundPlaceholders

BOUND_SECONDS = 2.0
"""After the last pod of a burst has appeared or was placed, or the last placeholder has gone for it, its room is asked
for again."""
PROMISED_SECONDS = 5.0
"""The same where pods are still to come."""
QUIET_SECONDS = 0.25
"""Without a pod that waits or is to come a burst is over. An owner's watch may be ahead of that of pods by less."""
BROKEN_SHARE = 0.5
"""Of the pods that way was made for: if fewer come, the next burst has to do without."""
FIRST_SECONDS = 60.0
LONGEST_SECONDS = 3600.0
NAMESPACE_TIMES = 3
"""So many broken promises of a namespace within its own pause count as one of each of its workloads."""
MOST = 1000
"""Workloads and namespaces in memory; the oldest go first."""
BUCKET = 1000.0
"""Placeholders that may make way at once."""
PER_SECOND = 20.0
"""And so many a second in the long run."""


class EvictionCause(StrEnum):
    """For what way was made."""

    PODS = "pods"
    """Pods that were there without a node."""
    PROMISE = "promise"
    """Pods that their owner was about to make."""
    GROWTH = "growth"
    """A pod on the node that grows."""


@dataclass(slots=True)
class TrackedBurst:
    """A burst that way was made for."""

    key: str
    namespace: str
    began: float
    deadline: float
    expected: float = 0.0
    """Pods that way was made for."""
    placed: int = 0
    """Of these, those that have come to their nodes without the scheduler's making room."""
    helped: int = 0
    """Pods for which the scheduler made room, too."""
    gone: dict[str, int] = field(default_factory=dict)
    """Placeholders that made way, by policy."""
    sets: set[str] = field(default_factory=set)
    """Their ReplicaSets."""
    cause: EvictionCause = EvictionCause.PODS
    called: str = ""
    """What people know it by, where that is not its key."""
    first_pod: float | None = None
    """When the first pod of it was seen; None before."""
    last_gone: float = 0.0
    """When the last placeholder went."""
    moved: float = 0.0
    """When the last pod was placed."""
    there: float | None = None
    """Since when all its pods have appeared; None while some are to come, and before the first."""
    quiet: float | None = None
    """Since when none of its pods lacks a node, nor is to come; None while one does."""

    @property
    def due(self) -> float:
        """When its time is over."""
        due = self.deadline
        if self.there is not None:
            due = min(due, max(self.there, self.moved, self.last_gone) + BOUND_SECONDS)
        return due if self.quiet is None else min(due, self.quiet + QUIET_SECONDS)

    @property
    def is_bound(self) -> bool:
        """Whether all that way was made for have come, and no other pod of it waits: the scheduler makes room for some,
        and placeholders that came back meanwhile would only be taken away again."""
        return self.quiet is not None and self.placed + self.helped >= self.expected

    @property
    def seconds(self) -> float:
        """From its first pod to the last placeholder; 0 where all had gone before the first pod was there."""
        return 0.0 if self.first_pod is None else max(self.last_gone - self.first_pod, 0.0)

    def add_evictions(self, standing: BoundPlaceholders, rows: Sequence[int], pods: float, now: float) -> None:
        """These placeholders went, for so many pods."""
        self.expected += pods
        self.last_gone = now
        for row in rows:
            policy = standing.policy[row]
            self.gone[policy] = self.gone.get(policy, 0) + 1
            self.sets.add(standing.replica_set[row])

    @property
    def in_vain(self) -> int:
        """How many of the placeholders went for pods that did not come."""
        missing = max(self.expected - self.placed, 0.0)
        return int(sum(self.gone.values()) * missing / self.expected) if self.expected > 0 else 0

    @property
    def is_broken(self) -> bool:
        """Whether too few came."""
        return self.placed + self.helped < self.expected * BROKEN_SHARE


@dataclass(slots=True)
class _Backoff:
    times: int = 0
    until: float = 0.0


class BurstTracker:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.open: dict[str, TrackedBurst] = {}
        """By key."""
        self._backoffs: OrderedDict[str, _Backoff] = OrderedDict()
        self._tokens = BUCKET
        self._filled_at = 0.0

    def is_allowed(self, key: str, namespace: str, now: float) -> bool:
        """Whether way is made for a workload's pods now."""
        own, all_of_it = self._backoffs.get(key), self._backoffs.get(namespace)
        if own is not None and now < own.until:
            return False
        return all_of_it is None or all_of_it.times < NAMESPACE_TIMES or now >= all_of_it.until

    def take_budget(self, count: int, now: float) -> int:
        """Return how many of so many placeholders may leave now; they are taken from the bucket."""
        self._tokens = min(BUCKET, self._tokens + (now - self._filled_at) * PER_SECOND)
        self._filled_at = now
        granted = min(count, int(self._tokens))
        self._tokens -= granted
        return granted

    def return_budget(self, count: int) -> None:
        """So many did not leave after all."""
        self._tokens = min(BUCKET, self._tokens + count)

    def track_burst(self, key: str, namespace: str, now: float, wait_seconds: float = BOUND_SECONDS) -> TrackedBurst:
        """Way was made for a burst; return what is known of it."""
        burst = self.open.get(key)
        if burst is None:
            burst = self.open[key] = TrackedBurst(key, namespace, now, now)
        burst.deadline = max(burst.deadline, now + wait_seconds)
        return burst

    def record_placed(self, key: str, now: float, *, nominated: bool) -> None:
        """A pod has got its node."""
        burst = self.open.get(key)
        if burst is None:
            return
        burst.placed += not nominated
        burst.helped += nominated
        burst.moved = now
        burst.deadline = max(burst.deadline, now + BOUND_SECONDS)

    def record_first_pod(self, key: str, since: float | None) -> None:
        """Pods of a workload are there; `since` is when the first of them was seen."""
        burst = self.open.get(key)
        if burst is not None and burst.first_pod is None:
            burst.first_pod = since

    def update_waiting(self, with_pods: Collection[str], promised: Collection[str], now: float) -> None:
        """Which workloads have pods without a node, and which are about to make some, by key."""
        for burst in self.open.values():
            if burst.first_pod is None and not burst.placed + burst.helped:
                continue  # nothing has come yet: what was promised has its time
            to_come, waiting = burst.key in promised, burst.key in with_pods
            burst.there = None if to_come else now if burst.there is None else burst.there
            burst.quiet = None if to_come or waiting else now if burst.quiet is None else burst.quiet

    def take_finished(self, now: float) -> list[TrackedBurst]:
        """Return the bursts that are bound or whose time is over; they are forgotten, but for what they are trusted."""
        over = [way for way in self.open.values() if way.is_bound or now >= way.due]
        for burst in over:
            del self.open[burst.key]
            for name in (burst.key, burst.namespace):
                self._update_backoff(name, now, broken=burst.is_broken)
        return over

    def next_due(self) -> float | None:
        """Return when the next burst's time is over."""
        return min((burst.due for burst in self.open.values()), default=None)

    @property
    def sets(self) -> Collection[str]:
        """ReplicaSets with placeholders that made way for a burst which is not over."""
        return {name for burst in self.open.values() for name in burst.sets}

    def _update_backoff(self, name: str, now: float, *, broken: bool) -> None:
        known = self._backoffs.get(name)
        if not broken:
            if known is not None and now >= known.until:
                del self._backoffs[name]
            return
        if known is None:
            known = self._backoffs[name] = _Backoff()
        known.times += 1
        known.until = now + min(FIRST_SECONDS * 2 ** min(known.times - 1, 16), LONGEST_SECONDS)
        self._backoffs.move_to_end(name)
        if len(self._backoffs) > MOST:
            self._backoffs.popitem(last=False)
