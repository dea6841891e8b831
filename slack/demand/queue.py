"""One queue from tick to tick: its counters, run times, state and demand, and what of them the rules are given."""

from collections import deque
from collections.abc import Iterable, Sequence

from slack.demand.broker import QueueLag
from slack.demand.capacity import LearntCapacity
from slack.demand.history import QueueHistory, ReadingChange, ReadingRates
from slack.demand.ledger import RETRIES, Failing, PoolCount
from slack.demand.lifecycle import PoolState, awake
from slack.demand.model import PoolContainer, PoolSettings, QueueDecision, QueueFigures, QueueState
from slack.demand.room import NamespaceRoom
from slack.demand.targets import DemandHistory
from slack.demand.verdict import Held

LAST = 10
"""Run times that count."""
LEAST_RUNS = 10
"""So many finished messages, or so many seconds, make a mean by Little's law."""
MOST_SECONDS = 10.0
SHORTEST_MS = 1.0
"""Runs that are never seen under way between two readings count as that long."""


class Durations:
    """How long an action's runs take: the mean of the last ten that were reported, else by Little's law.

    Little's law: the messages that are in containers' hands on average are those that come through in a second, times
    the seconds each stays. It needs only the broker's counters, which pools without our proxy have too.
    """

    __slots__ = ("_completed", "_held", "_last", "_law_ms", "_seconds")

    def __init__(self) -> None:
        """Nothing is known."""
        self._last: deque[float] = deque(maxlen=LAST)
        self._held = 0.0
        self._completed = 0
        self._seconds = 0.0
        self._law_ms: float | None = None

    def reported(self, milliseconds: Iterable[float]) -> None:
        """Take run times, the oldest first; those below 0 are no run times."""
        self._last.extend(value for value in milliseconds if value >= 0)

    def counted(self, seconds: float, in_flight: float, completed: int) -> None:
        """Take what the broker's counters say of the last `seconds`: messages held on average, messages finished."""
        if seconds <= 0:
            return
        self._held += in_flight * seconds
        self._completed += max(completed, 0)
        self._seconds += seconds
        enough = self._completed >= LEAST_RUNS or self._seconds >= MOST_SECONDS
        if self._completed and (enough or self._law_ms is None):
            self._law_ms = max(self._held / self._completed * 1000, SHORTEST_MS)
        if enough:
            self._held, self._completed, self._seconds = 0.0, 0, 0.0

    @property
    def mean_ms(self) -> float | None:
        """The mean, in milliseconds; None where nothing is known."""
        if self._last:
            return sum(self._last) / len(self._last)
        return self._law_ms


NO_LAG = QueueLag(backlog=0, in_flight=0)


class QueueMemory:
    """What is remembered of a queue. Owned by one scheduler."""

    __slots__ = (
        "awake",
        "backlog",
        "capacity",
        "change",
        "checked_seconds",
        "demand",
        "durations",
        "held",
        "history",
        "initialized",
        "lag",
        "last_delivered",
        "last_traffic_seconds",
        "pool",
        "quiet_since_seconds",
        "rates",
        "replacing",
        "retired_backlog",
        "state",
    )

    def __init__(self, pool: PoolSettings) -> None:
        """It is new: no message came yet."""
        self.pool = pool
        self.history = QueueHistory()
        self.durations = Durations()
        self.capacity = LearntCapacity()
        self.change: ReadingChange | None = None
        """What the last reading differed by from the one before."""
        self.demand = DemandHistory()
        self.state = QueueState.RUNNING
        self.held = Held()
        self.rates = ReadingRates()
        self.lag = NO_LAG
        self.backlog = 0
        """Messages that wait for a container with the pool's memory."""
        self.retired_backlog = 0
        """Messages that are left of retired subjects."""
        self.initialized = False
        self.awake = False
        self.last_traffic_seconds: float | None = None
        self.last_delivered: int | None = None
        self.quiet_since_seconds: float | None = None
        self.checked_seconds = float("-inf")
        self.replacing = False
        """A container of the new revision was asked for beside the old ones, and none of these has ended for it."""

    def read(self, now_seconds: float, lag: QueueLag, retired_backlog: int, durations_ms: Sequence[float]) -> None:
        """Take the broker's counters and what containers told since the last tick."""
        pool = self.pool
        self.lag, self.retired_backlog = lag, retired_backlog
        self.durations.reported(durations_ms)
        change = self.change = self.history.add_reading(now_seconds, lag, pool.stale_seconds * 2)
        moved = lag.backlog > 0 or lag.in_flight > 0 or retired_backlog > 0
        if change is not None:
            self.durations.counted(change.seconds, change.in_flight, change.completed)
            moved = moved or change.completed > 0 or change.arrived > 0
        elif lag.delivered_total is not None and self.last_delivered is not None:
            moved = moved or lag.delivered_total != self.last_delivered
        self.last_delivered = lag.delivered_total
        if moved:
            self.last_traffic_seconds, self.quiet_since_seconds = now_seconds, None
        elif self.quiet_since_seconds is None:
            self.quiet_since_seconds = now_seconds
        self.awake = awake(self.last_traffic_seconds, now_seconds)
        if not self.awake:
            self.history.clear()
        self.rates = self.history.rates()

    def turn_back(self, now_seconds: float) -> None:
        """The clock went back: nothing was later than now."""
        if self.last_traffic_seconds is not None:
            self.last_traffic_seconds = min(self.last_traffic_seconds, now_seconds)
        if self.quiet_since_seconds is not None:
            self.quiet_since_seconds = min(self.quiet_since_seconds, now_seconds)
        self.checked_seconds = min(self.checked_seconds, now_seconds)

    def waiting(self, count: PoolCount) -> int:
        """Return the messages that wait for this pool's containers; also takes note of it.

        What is left of a retired subject is its own containers' while one of them is there, and waits for nobody whom
        it would not be given. What was taken and not finished waits too as far as it is more than the containers that
        are left can have taken: a broker hands it out again to who pulls.
        """
        served = any(item.subject != self.pool.subject for item in count.ready)
        takes = not count.ready or any(item.also for item in count.ready)
        abandoned = abandoned_messages(self.lag.in_flight, len(count.ready) + count.draining, self.pool.concurrency)
        self.backlog = self.lag.backlog + abandoned + (self.retired_backlog if takes and not served else 0)
        return self.backlog

    def lacks_taker(self, count: PoolCount) -> bool:
        """Return whether messages of retired subjects wait that no container takes, nor one that comes."""
        if not self.retired_backlog or self.pool.deleted:
            return False
        seen = (*count.ready, *count.creating)
        return not any(item.also or item.subject != self.pool.subject for item in seen) and not any(
            item.creation.also for item in count.asked
        )

    def serving(self, count: PoolCount) -> list[PoolContainer]:
        """Return the ready containers that take from the pool's own subject."""
        return [item for item in count.ready if item.subject == self.pool.subject]

    def standing(self, count: PoolCount) -> PoolState:
        """Return what the ends of the pool's containers depend on."""
        return PoolState(
            pool=self.pool,
            ready=count.ready,
            last_traffic_seconds=self.last_traffic_seconds,
            quiet_since_seconds=self.quiet_since_seconds,
            waits=self.backlog > 0,
            replaced_one=self.replacing,
        )

    @property
    def may_be_too_old(self) -> bool:
        """Whether a message may wait for longer than the retention; a broker that tells no ages may hold one."""
        most, age = self.pool.max_age_seconds, self.lag.oldest_age_seconds
        return most is not None and self.lag.backlog > 0 and (age is None or age > most)

    def settle(self, failing: Failing | None, count: PoolCount) -> None:
        """Bring the state up to what is there: deleted, full, or without a way to get containers."""
        pool, state = self.pool, self.state
        if count.ready or count.draining:
            self.initialized = True
        if pool.deleted:
            self.state = QueueState.REMOVING
        elif failing is not None and failing.failures > RETRIES and not count.ready:
            self.state = QueueState.FLUSHING
        elif self.backlog >= pool.max_messages:
            self.state = QueueState.ACTION_THROTTLED
        elif state is QueueState.ACTION_THROTTLED:
            if self.backlog <= pool.max_messages * pool.throttle_fraction:
                self.state = QueueState.RUNNING
        elif state in (QueueState.REMOVING, QueueState.FLUSHING):
            self.state = QueueState.RUNNING

    def follow(self, decision: QueueDecision) -> None:
        """Take over what a decision says of the state."""
        if decision.initial and decision.add:
            self.initialized = True
        if decision.throttle and self.state is QueueState.RUNNING:
            self.state = QueueState.NAMESPACE_THROTTLED
        elif decision.throttle is False and self.state is QueueState.NAMESPACE_THROTTLED:
            self.state = QueueState.RUNNING

    def figures(
        self,
        now_seconds: float,
        count: PoolCount,
        room: NamespaceRoom,
        *,
        incoming: int,
        median_creation_seconds: float | None,
        node_room: int | None,
    ) -> QueueFigures:
        """Return what the rules are given."""
        pool = self.pool
        serving = self.serving(count)
        mean = self.durations.mean_ms
        ratio = None if room.quota is None else room.quota.over_provision_ratio
        since = [item.ready_at_seconds for item in serving if item.ready_at_seconds is not None]
        return QueueFigures(
            incoming=incoming,
            queued=self.backlog,
            stale=min(self.history.stale(pool.stale_seconds), self.backlog + incoming),
            containers=len(serving),
            creating=count.in_creation,
            namespace_containers=room.containers,
            namespace_creating=room.creating,
            namespace_limit=room.limit,
            action_limit=pool.max_containers,
            concurrency=pool.concurrency,
            mean_duration_ms=pool.expected_duration_ms if mean is None else mean,
            initialized=self.initialized,
            state=self.state,
            over_provision_ratio=ratio if ratio is not None and ratio > 1 else None,
            stale_window_ms=pool.stale_seconds * 1000,
            in_flight=self.lag.in_flight,
            oldest_creation_age_seconds=count.oldest_creation_age_seconds(now_seconds),
            median_creation_seconds=median_creation_seconds,
            oldest_ready_age_seconds=max(now_seconds - min(since), 0.0) if since else None,
            node_room=node_room,
            unschedulable=count.unschedulable,
        )

    def configured(self, pool: PoolSettings) -> None:
        """Take new settings; what was measured stays, but for another memory's run times."""
        if pool.subject != self.pool.subject:
            self.history.clear()
            self.lag = NO_LAG
        if pool.revision != self.pool.revision or pool.concurrency != self.pool.concurrency:
            self.capacity = LearntCapacity()
        self.pool = pool


def abandoned_messages(in_flight: int, containers: int, concurrency: int) -> int:
    """Return the messages that were taken, and that no container can have now: whoever had them is gone."""
    return max(in_flight - containers * concurrency, 0)


def per_message(figures: QueueFigures, idle: int) -> QueueDecision:
    """Return the decision of mode perMessage: a container for each message that no idle or coming one will take."""
    room = min(
        figures.namespace_limit - figures.namespace_containers - figures.namespace_creating,
        figures.action_limit - figures.total,
    )
    needed = figures.available - figures.creating - idle
    add = max(min(needed, room), 0)
    return QueueDecision(row=0, add=add, reason="a container for each message")
