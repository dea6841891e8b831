"""One round over all queues: from what is seen to what is created, ended, refused and wanted. Pure, and deterministic.

A `Scheduler` holds all that must live from one tick to the next, and its owner calls it from one thread. The same calls
give the same answers: no clock, no randomness. A recording of `Observation`s is therefore enough to play a run again.
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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slack.demand.model import (
    OPEN,
    Container,
    Creation,
    Decision,
    Ending,
    Guards,
    PoolSettings,
    QueueFigures,
    QueueKey,
    QuotaSettings,
    Target,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReading:
    """A queue as the broker tells it."""

    backlog: int = 0
    """Messages that nobody has taken."""
    in_flight: int = 0
    """Messages that are taken and not acknowledged."""
    delivered_total: int | None = None
    """Messages taken since the queue is there."""
    published_total: int | None = None
    oldest_age_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """A node that containers can be pinned to."""

    name: str
    slots: int
    """Containers of ours that it has room for, those that are there included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that a tick is told. `containers` are those of all pools, in any order."""

    now_seconds: float
    lags: Mapping[str, QueueReading] | None
    """By subject; a queue that is not named is empty. None: the broker could not be read, and nothing is decided."""
    containers: Sequence[Container]
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
    decisions: Mapping[QueueKey, Decision] = field(default_factory=dict)
    verdicts: Mapping[QueueKey, Verdict] = field(default_factory=dict)
    targets: Mapping[QueueKey, Target] = field(default_factory=dict)
    """Those that were computed at this tick; others are as they were."""
    drop: tuple[QueueKey, ...] = ()
    """Queues of which messages older than the retention are to be dropped."""


class Scheduler:
    """Decides for all pools; one leader has one."""

    def __init__(self, *, epoch: str, guards: Guards | None = None) -> None:
        """`epoch` is part of the containers' names: a short word of a-z and 0-9, another one for each leader."""
        self._epoch = epoch
        self._guards = guards or Guards()
        self._pools: dict[QueueKey, PoolSettings] = {}
        self._quotas: dict[str, QuotaSettings] = {}
        self._verdicts: dict[QueueKey, Verdict] = {}
        self._targets: dict[QueueKey, Target] = {}
        self._asked: dict[str, QueueKey] = {}
        self._sequence = 0

    def configure(self, pools: Iterable[PoolSettings], quotas: Iterable[QuotaSettings] = ()) -> None:
        """Take the pools and quotas as they are now, all of them."""
        self._pools = {pool.key: pool for pool in pools}
        self._quotas = {quota.namespace: quota for quota in quotas}

    def tick(self, observation: Observation) -> TickResult:
        """Return what is to be done now; containers that are asked for count until they are seen, fail or time out."""
        seen = {container.id for container in observation.containers}
        self._asked = {name: key for name, key in self._asked.items() if name not in seen}
        if observation.lags is None:
            return TickResult()
        total = Counter([container.key for container in observation.containers] + list(self._asked.values()))
        in_namespace: Counter[str] = Counter()
        for key, count in total.items():
            in_namespace[key.namespace] += count
        creations = []
        for key, pool in self._pools.items():
            lag = observation.lags.get(pool.subject)
            quota = self._quotas.get(key.namespace)
            full = quota is not None and in_namespace[key.namespace] >= quota.max_containers
            if lag is None or not lag.backlog or total[key] or full or pool.max_containers < 1:
                continue
            creations.append(Creation(id=self._name(key), key=key, revision=pool.revision, subject=pool.subject))
            in_namespace[key.namespace] += 1
        self._asked.update((creation.id, creation.key) for creation in creations)
        return TickResult(creations=tuple(creations))

    def failed(self, creation_id: str, now_seconds: float, reason: str) -> None:
        """Take note that a container could not be created."""
        self._asked.pop(creation_id, None)

    def _name(self, key: QueueKey) -> str:
        self._sequence += 1
        return f"{key.action[:40]}-{self._epoch}-{self._sequence:x}"

    def verdict(self, key: QueueKey) -> Verdict:
        """Return whether new messages of the action are taken; open where nothing is known."""
        return self._verdicts.get(key, OPEN)

    @property
    def targets(self) -> Mapping[QueueKey, Target]:
        """What each pool needs, as it was computed last."""
        return self._targets
