"""Containers and creations in progress: what is there, what was asked for, what is late, what is tried again.

A container that is asked for counts from that moment until it is seen, fails or is late; one that is told to end counts
until it is gone. So the sum never exceeds a limit, however slow the cluster is. After a change of leader the ledger is
made of the containers that are seen.

Containers' times are of the cluster's clock, and ages are counted by ours. Where the two are apart, it counts when we
saw a container first: by a clock that is five minutes ahead each would be late as soon as it is made, and by one that
is behind none would ever be idle.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from slack.demand.model import (
    ContainerState,
    Creation,
    Ending,
    EndReason,
    Place,
    PoolContainer,
    PoolSettings,
    QueueKey,
)

RETRIES = 5
FIRST_RETRY_SECONDS = 0.1
GIVEN_UP_SECONDS = 30.0
"""Between two tries after as many failures in a row as there are retries."""
LAST_CREATIONS = 10
APART_SECONDS = 5.0
"""By so much a container's times may be apart from when we saw it: watches lag, and its times are whole seconds."""


def retry_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row: 100 ms times 2^n, five times, then half a minute."""
    return FIRST_RETRY_SECONDS * 2 ** (failures - 1) if failures <= RETRIES else GIVEN_UP_SECONDS


@dataclass(slots=True)
class RequestedContainer:
    """A container that was asked for and is not seen yet."""

    creation: Creation
    at_seconds: float


@dataclass(frozen=True, slots=True)
class _Since:
    """Since when a container is as it is."""

    told: float | None
    """By the cluster's clock."""
    at: float
    """By ours."""

    def not_after(self, now_seconds: float) -> "_Since":
        return self if self.at <= now_seconds else _Since(self.told, now_seconds)


@dataclass(slots=True)
class Failing:
    """A pool whose creations fail."""

    failures: int = 0
    next_at_seconds: float = 0.0
    reason: str = ""


@dataclass(slots=True)
class PoolCount:
    """The containers of one pool at a tick."""

    ready: list[PoolContainer] = field(default_factory=list)
    creating: list[PoolContainer] = field(default_factory=list)
    """Seen, not ready, not draining."""
    asked: list[RequestedContainer] = field(default_factory=list)
    draining: int = 0
    unschedulable: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    """Containers by what they take from, those whose requests are not known."""
    unknown: int = 0
    """How many of these there are."""
    cpu_millis: int = 0
    """What the others request together."""
    memory_bytes: int = 0

    @property
    def in_creation(self) -> int:
        """Containers that come."""
        return len(self.creating) + len(self.asked)

    @property
    def occupied(self) -> int:
        """All that a limit counts."""
        return len(self.ready) + self.in_creation + self.draining

    def oldest_creation_age_seconds(self, now_seconds: float) -> float | None:
        """Return for how long the oldest creation has been under way; None without any."""
        since = [item.at_seconds for item in self.asked] + [item.created_at_seconds for item in self.creating]
        return max(now_seconds - min(since), 0.0) if since else None

    def add_requests(self, container: PoolContainer) -> None:
        """Count what a container takes of a quota."""
        if container.cpu_millis is None or container.memory_bytes is None:
            self.unknown += 1
            self.subjects[container.subject] += 1
        else:
            self.cpu_millis += container.cpu_millis
            self.memory_bytes += container.memory_bytes


class ContainerLedger:
    """What is there and what was asked for, of all pools."""

    def __init__(self) -> None:
        """Nothing is known; the first `observe` says what is there."""
        self._asked: dict[Place, RequestedContainer] = {}
        self._ending: dict[Place, float] = {}
        self._failing: dict[QueueKey, Failing] = {}
        self._since: dict[Place, _Since] = {}
        """Of containers that are not ready."""
        self._ready: dict[Place, _Since] = {}
        """Of containers that are ready."""
        self._begun = False
        self._took: dict[QueueKey, deque[float]] = {}
        self._all_took: deque[float] = deque(maxlen=3 * LAST_CREATIONS)

    def observe(self, containers: Sequence[PoolContainer], now_seconds: float) -> dict[QueueKey, PoolCount]:
        """Take what is seen now; return it by pool, with what was asked for. Those told to end count as draining."""
        counts: dict[QueueKey, PoolCount] = {}
        ending, creating, ready = dict[Place, float](), dict[Place, _Since](), dict[Place, _Since]()
        for container in containers:
            key = container.key
            count = counts.get(key)
            if count is None:
                count = counts[key] = PoolCount()
            place = container.namespace, container.id
            count.add_requests(container)
            asked = self._asked.pop(place, None)
            if place in self._ending:
                ending[place] = self._ending[place]
            if container.state is ContainerState.READY:
                told = container.ready_at_seconds
                known = self._ready.get(place)
                if known is None:
                    self._became_ready(container)
                if known is None or known.told != told:
                    known = _Since(told, self._first_seen(told, now_seconds))
                ready[place] = known
                if abs(known.at - (told or known.at)) > APART_SECONDS:
                    container = replace(container, ready_at_seconds=known.at)
            elif container.state is ContainerState.CREATING:
                told = container.created_at_seconds
                known = self._since.get(place)
                if known is None or known.told != told:  # it has got a node, or broke: its time-out begins anew
                    known = _Since(told, asked.at_seconds if asked else self._first_seen(told, now_seconds))
                creating[place] = known
                if abs(known.at - told) > APART_SECONDS:
                    container = _with_our_times(container, known.at)
            if place in ending or container.state is ContainerState.DRAINING:
                count.draining += 1
            elif container.state is ContainerState.READY:
                count.ready.append(container)
            else:
                count.creating.append(container)
                count.unschedulable += container.unschedulable_since_seconds is not None
        self._ending, self._since, self._ready, self._begun = ending, creating, ready, True
        for asked in self._asked.values():
            count = counts.setdefault(asked.creation.key, PoolCount())
            count.asked.append(asked)
            count.unknown += 1
            count.subjects[asked.creation.subject] += 1
        return counts

    def _first_seen(self, told_seconds: float | None, now_seconds: float) -> float:
        """Return since when a container is as it is; a first look finds such as were so before."""
        return now_seconds if self._begun or told_seconds is None else min(told_seconds, now_seconds)

    def turn_back(self, now_seconds: float) -> None:
        """Our clock went back: nothing began later than now, and nothing waits longer than it would anew."""
        self._since = {place: since.not_after(now_seconds) for place, since in self._since.items()}
        self._ready = {place: since.not_after(now_seconds) for place, since in self._ready.items()}
        for asked in self._asked.values():
            asked.at_seconds = min(asked.at_seconds, now_seconds)
        for failing in self._failing.values():
            latest = now_seconds + retry_seconds(failing.failures)
            failing.next_at_seconds = min(failing.next_at_seconds, latest)

    def ask(self, creation: Creation, now_seconds: float) -> None:
        """Count a container that is asked for."""
        self._asked[creation.place] = RequestedContainer(creation, now_seconds)

    def end(self, ending: Ending, now_seconds: float) -> None:
        """Count a container as one that ends, until it is seen no more."""
        self._ending[ending.place] = now_seconds

    def late(self, count: PoolCount, pool: PoolSettings, now_seconds: float) -> list[Ending]:
        """Return the creations of a pool that are past their time-out; those that no node has room for are not late.

        One that was never seen is told to end too: it may come yet.
        """
        before = now_seconds - pool.creation_timeout_seconds
        names = [item.creation.id for item in count.asked if item.at_seconds < before]
        names += [
            item.id
            for item in count.creating
            if item.created_at_seconds < before and item.unschedulable_since_seconds is None
        ]
        for name in names:
            self._asked.pop((pool.key.namespace, name), None)
        if names:
            self.failed(pool.key, now_seconds, "it was not ready within its creation's time-out")
        return [Ending(container_id=name, key=pool.key, reason=EndReason.TIMED_OUT) for name in names]

    def refused(self, creation_id: str, now_seconds: float, reason: str) -> None:
        """Take note that a container that was asked for could not be created."""
        place = next((place for place in self._asked if place[1] == creation_id), None)
        if place is not None:
            asked = self._asked.pop(place)
            self.failed(asked.creation.key, now_seconds, reason)

    def failed(self, key: QueueKey, now_seconds: float, reason: str) -> None:
        """Take note of a failure: the next try is due later."""
        failing = self._failing.setdefault(key, Failing())
        failing.failures += 1
        failing.next_at_seconds = now_seconds + retry_seconds(failing.failures)
        failing.reason = reason

    def failing(self, key: QueueKey) -> Failing | None:
        """Return how a pool's creations fail; None where the last one succeeded."""
        return self._failing.get(key)

    def median_creation_seconds(self, key: QueueKey) -> float | None:
        """Return how long creations of the pool take, of all pools where it had none; None: there was none at all."""
        took = self._took.get(key) or self._all_took
        return median(took) if took else None

    def forget(self, keep: set[QueueKey]) -> None:
        """Forget pools that are gone.

        What was asked for them goes with them: it is not seen as theirs any more if it comes, and would count for ever.
        """
        self._asked = {place: asked for place, asked in self._asked.items() if asked.creation.key in keep}
        self._failing = {key: value for key, value in self._failing.items() if key in keep}
        self._took = {key: value for key, value in self._took.items() if key in keep}

    def _became_ready(self, container: PoolContainer) -> None:
        self._failing.pop(container.key, None)
        if container.ready_at_seconds is None:
            return
        took = max(container.ready_at_seconds - container.created_at_seconds, 0.0)
        self._took.setdefault(container.key, deque(maxlen=LAST_CREATIONS)).append(took)
        self._all_took.append(took)


def _with_our_times(container: PoolContainer, since_seconds: float) -> PoolContainer:
    """Return a container that is in creation with its times as we count them."""
    unschedulable = container.unschedulable_since_seconds
    if unschedulable is not None:
        unschedulable += since_seconds - container.created_at_seconds
    return replace(container, created_at_seconds=since_seconds, unschedulable_since_seconds=unschedulable)
