"""One round over all queues: from what is seen to what is created, ended, refused and wanted. Pure, and deterministic.

A `PoolScheduler` holds all that must live from one tick to the next, and its owner calls it from one thread. The same
calls give the same answers: no clock, no randomness. So a recording of `TickInput`s is enough to play a run again.
After a change of leader a new one starts from the containers that are seen.

Usage:
    scheduler = Scheduler(epoch="x7")                       # a word that no scheduler of these pools had before
    scheduler.configure(pools, quotas)                      # when one has changed
    result = scheduler.tick(Observation(now_seconds=now, lags=lags, containers=containers))
    for creation in result.creations: ...                   # Container.id is Creation.id once it is seen
    for ending in result.endings: ...
    scheduler.failed(creation.id, now, "the API server's answer")   # where it could not be created
    scheduler.verdict(QueueKey("media", "thumbnail"))       # what the throttle endpoint answers
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.demand.broker import QueueLag
from slack.demand.ledger import ContainerLedger, Failing, PoolCount
from slack.demand.model import (
    OPEN,
    AdmissionVerdict,
    Creation,
    Ending,
    EndReason,
    Guards,
    PoolContainer,
    PoolSettings,
    PoolTarget,
    QueueDecision,
    QueueFigures,
    QueueKey,
    QuotaSettings,
)
from slack.demand.queue import NO_LAG, QueueMemory
from slack.demand.room import limits, rooms
from slack.demand.round import Round

_CHECK_SECONDS = 1.0
"""Queues that are asleep and have containers are looked at so often: one of these may be idle for long enough."""
_EMPTY_CHECK_SECONDS = 10.0
"""And so often those without containers, for what they once wanted: slack holds for it until the window is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """A node that containers can be pinned to."""

    name: str
    slots: int
    """Containers of ours that it has room for, those that are there included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickInput:
    """All that a tick is told. `containers` are those of all pools, in any order."""

    now_seconds: float
    lags: Mapping[str, QueueLag] | None
    """By subject; a queue that is not named is empty. None: the broker could not be read, and nothing is decided."""
    unread: frozenset[str] = frozenset()
    """Subjects that could not be read while others could: nothing is decided about their pools, and these count on."""
    containers: Sequence[PoolContainer]
    durations_ms: Mapping[QueueKey, Sequence[float]] = field(default_factory=dict)
    """Run times that containers reported since the last tick."""
    nodes: Sequence[NodeRoom] = ()
    """Empty: where a container goes is kube-scheduler's business."""
    node_start_seconds: float | None = None
    """How long a node takes to start, where it is known; else each pool's horizon."""
    incoming: Mapping[QueueKey, int] = field(default_factory=dict)
    """Messages that were accepted and that the broker's figures do not have yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """What is to be done, and what was found. The mappings hold the queues that are active, and no others."""

    creations: tuple[Creation, ...] = ()
    endings: tuple[Ending, ...] = ()
    figures: Mapping[QueueKey, QueueFigures] = field(default_factory=dict)
    decisions: Mapping[QueueKey, QueueDecision] = field(default_factory=dict)
    verdicts: Mapping[QueueKey, AdmissionVerdict] = field(default_factory=dict)
    """A queue that is not named takes messages."""
    targets: Mapping[QueueKey, PoolTarget] = field(default_factory=dict)
    """Those that were computed at this tick; others are as they were."""
    drop: tuple[QueueKey, ...] = ()
    """Queues of which messages older than the retention are to be dropped."""


class PoolScheduler:
    """Decides for all pools; one leader has one."""

    def __init__(self, *, epoch: str, guards: Guards | None = None) -> None:
        """`epoch` is part of the containers' names: a short word of a-z and 0-9, another one for each leader."""
        self._epoch = epoch
        self._guards = guards or Guards()
        self._pools: dict[QueueKey, PoolSettings] = {}
        self._quotas: dict[str, QuotaSettings] = {}
        self._limits: dict[str, int] = {}
        self._queues: dict[QueueKey, QueueMemory] = {}
        self._verdicts: dict[QueueKey, AdmissionVerdict] = {}
        self._targets: dict[QueueKey, PoolTarget] = {}
        self._ledger = ContainerLedger()
        self._sequence = 0
        self._last_seconds = float("-inf")

    def configure(self, pools: Iterable[PoolSettings], quotas: Iterable[QuotaSettings] = ()) -> None:
        """Take the pools and quotas as they are now, all of them."""
        self._pools = {pool.key: pool for pool in pools}
        self._quotas = {quota.namespace: quota for quota in quotas}
        self._limits = limits(self._pools.values(), self._quotas)
        self._queues = {key: queue for key, queue in self._queues.items() if key in self._pools}
        self._targets = {key: target for key, target in self._targets.items() if key in self._pools}
        self._verdicts = {key: verdict for key, verdict in self._verdicts.items() if key in self._pools}
        for key, queue in self._queues.items():
            queue.configured(self._pools[key])
        self._ledger.forget(set(self._pools))

    def tick(self, observation: TickInput) -> TickResult:
        """Return what is to be done now; containers that are asked for count until they are seen, fail or time out."""
        if observation.now_seconds < self._last_seconds:
            self._turn_back(observation.now_seconds)
        self._last_seconds = observation.now_seconds
        counts = self._ledger.observe(observation.containers, observation.now_seconds)
        if observation.lags is None:
            # Nothing is known of the queues: containers stay, and whoever publishes is not refused for our trouble.
            self._verdicts = {}
            return TickResult()
        work = Round(
            now_seconds=observation.now_seconds,
            guards=self._guards,
            ledger=self._ledger,
            counts=counts,
            rooms=rooms(counts, self._pools, self._quotas, self._limits),
            queues=self._queues,
            nodes=[(node.name, node.slots) for node in observation.nodes] if observation.nodes else None,
            containers=observation.containers,
            node_start_seconds=observation.node_start_seconds,
            unread=observation.unread,
            name=self._name,
        )
        self._orphans(counts, work)
        for key in self._busy(observation, counts):
            work.read(self._queues[key], observation.incoming.get(key, 0))
        work.run()
        self._verdicts = work.verdicts
        self._targets.update(work.targets)
        for creation in work.creations:
            self._ledger.ask(creation, observation.now_seconds)
        for ending in work.endings:
            self._ledger.end(ending, observation.now_seconds)
        return TickResult(
            creations=tuple(work.creations),
            endings=tuple(work.endings),
            figures=work.figures,
            decisions=work.decisions,
            verdicts=work.verdicts,
            targets=work.targets,
            drop=tuple(work.drop),
        )

    def _turn_back(self, now_seconds: float) -> None:
        """The clock went back; what was to come at some time must not be waited for until it is that late again."""
        self._ledger.turn_back(now_seconds)
        for queue in self._queues.values():
            queue.turn_back(now_seconds)

    def failed(self, creation_id: str, now_seconds: float, reason: str) -> None:
        """Take note that a container could not be created: it is tried again later."""
        self._ledger.refused(creation_id, now_seconds, reason)

    def failing(self, key: QueueKey) -> Failing | None:
        """Return how the pool's creations fail; None where the last one succeeded."""
        return self._ledger.failing(key)

    def verdict(self, key: QueueKey) -> AdmissionVerdict:
        """Return whether new messages of the action are taken; open where nothing is known."""
        return self._verdicts.get(key, OPEN)

    @property
    def targets(self) -> Mapping[QueueKey, PoolTarget]:
        """What each pool needs, as it was computed last."""
        return self._targets

    def _busy(self, observation: TickInput, counts: Mapping[QueueKey, PoolCount]) -> list[QueueKey]:
        """Return the queues that are looked at, each having read its counters; those asleep cost next to nothing."""
        now, lags, durations = observation.now_seconds, observation.lags or {}, observation.durations_ms
        unread = observation.unread
        found = []
        queues = self._queues
        for key, pool in self._pools.items():
            if pool.subject in unread:
                continue
            lag = lags.get(pool.subject, NO_LAG)
            queue = queues.get(key)
            if (queue is None or not queue.awake) and not lag.backlog and not lag.in_flight:
                count = counts.get(key)
                if count is None and not pool.min_containers and not pool.retired_subjects and key not in durations:
                    if queue is None or now - queue.checked_seconds < _EMPTY_CHECK_SECONDS or queue.demand.quiet:
                        continue
                elif (
                    queue is not None
                    and lag.delivered_total == queue.last_delivered
                    and now - queue.checked_seconds < _CHECK_SECONDS
                    and now >= queue.checked_seconds
                ):
                    continue
            if queue is None:
                queue = queues[key] = QueueMemory(pool)
            queue.checked_seconds = now
            retired = sum(lags.get(subject, NO_LAG).backlog for subject in pool.retired_subjects)
            queue.read(now, lag, retired, durations.get(key, ()))
            found.append(key)
        return found

    def _orphans(self, counts: Mapping[QueueKey, PoolCount], work: Round) -> None:
        for key, count in counts.items():
            if key not in self._pools:
                ids = [item.id for item in (*count.ready, *count.creating)] + [i.creation.id for i in count.asked]
                work.endings += [Ending(container_id=name, key=key, reason=EndReason.POOL_DELETED) for name in ids]

    def _name(self, key: QueueKey) -> str:
        self._sequence += 1
        return f"{key.action[:40].rstrip('-')}-{self._epoch}-{self._sequence:x}"
