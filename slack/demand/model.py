"""What the rules of demand are given, and what they answer. Values only; units stand in the names.

An *action* is a queue of messages with the containers that take from it; a *pool* is the containers of one action. All
times are seconds on one clock, the caller's; which one does not matter, only that all of a call are on the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from slack.demand.bounds import (
    Amount,
    Concurrency,
    Containers,
    Instant,
    Messages,
    Milliseconds,
    Percentile,
    Ratio,
    Seconds,
    Share,
    Weight,
    WindowSeconds,
)
from slack.errors import InvalidInput

DEFAULT_STALE_MS = 100.0


class InvalidGuards(InvalidInput):
    """A list of guards names one that is not known."""


class DecisionGuard(StrEnum):
    """What stands above the table of decisions; each can be switched off."""

    FIRST_CONTAINER = "G1"
    """While the first container is being created its messages are not taken for stale."""
    EVICTION = "G2"
    """A starving action takes the place of another's idle container."""
    YIELD = "G3"
    """A container that was held for the hold time makes way when another action starves."""
    THROTTLED = "G4"
    """A throttled action is still decided about."""
    UNMET = "G5"
    """What nodes have no room for is recorded as unmet demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Which guards hold."""

    first_container: bool = True
    eviction: bool = True
    yielding: bool = True
    throttled: bool = True
    unmet: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the guards that `text` lists: `none`, `all`, or numbers as in `G1,G2`.

        Raises:
            InvalidGuards: A word is neither.
        """
        text = text.strip()
        if text == "all":
            return cls()
        words = [] if text == "none" else [word.strip().upper() for word in text.split(",")]
        known = [str(guard) for guard in DecisionGuard]
        for word in words:
            if word not in known:
                raise InvalidGuards(f"{word or repr(text)} is no guard: all, none, or a list of {', '.join(known)}")
        return cls(**{name: guard in words for name, guard in zip(cls.__slots__, DecisionGuard, strict=True)})

    def __str__(self) -> str:
        """Return what `parse` reads."""
        held = [str(guard) for name, guard in zip(self.__slots__, DecisionGuard, strict=True) if getattr(self, name)]
        return ",".join(held) or "none"


class QueueKey(NamedTuple):
    """An action: its namespace and its name, which is that of its pool. A tuple, for it is hashed at each step."""

    namespace: str
    action: str

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.namespace}/{self.action}"


Place = tuple[str, str]
"""Namespace and name."""


class QueueState(StrEnum):
    """Where a queue is in its life, as far as the table asks."""

    RUNNING = "Running"
    NAMESPACE_THROTTLED = "NamespaceThrottled"
    """Its namespace has no room for another container."""
    ACTION_THROTTLED = "ActionThrottled"
    """It holds as many messages as it may."""
    FLUSHING = "Flushing"
    """Its containers cannot be created; its messages wait for their retention."""
    REMOVING = "Removing"
    """Its pool is deleted, or its subject retired; what is queued is still run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """One queue at one tick: what the table of decisions is given, and below what the guards judge by."""

    incoming: int = 0
    """Messages that are published and not yet counted in `queued`."""
    queued: int = 0
    """Messages that no container has taken."""
    stale: int = 0
    """Of both, those that are at least one stale window old."""
    containers: int = 0
    """Containers that are ready."""
    creating: int = 0
    """Containers that were asked for and are not ready."""
    namespace_containers: int = 0
    """As `containers`, of all actions of the namespace; those that are being ended count."""
    namespace_creating: int = 0
    namespace_limit: int
    """Containers that the namespace may have."""
    action_limit: int
    """Containers that the action may have; more than the namespace's limit counts as that."""
    concurrency: int = 1
    """Messages that a container runs at once."""
    mean_duration_ms: float | None = None
    """Of the last runs; None where none is known."""
    initialized: bool = True
    """Whether the queue was given its first container once."""
    state: QueueState = QueueState.RUNNING
    over_provision_ratio: float | None = None
    """The namespace may have that many times its limit for actions without any container; None or 1: it may not."""
    stale_window_ms: float = DEFAULT_STALE_MS

    in_flight: int = 0
    """Messages that containers have taken and not finished."""
    oldest_creation_age_seconds: float | None = None
    """Since when the oldest container in creation was asked for; None: none is in creation."""
    median_creation_seconds: float | None = None
    """How long the pool's creations take; None where none is known."""
    oldest_ready_age_seconds: float | None = None
    """Since when its oldest container is ready; None: none is."""
    node_room: int | None = None
    """Containers that nodes have room for now; None: not known, or nothing that the rules decide by."""
    unschedulable: int = 0
    """Of `creating`, those that no node has room for."""

    @property
    def available(self) -> int:
        """Messages that wait for a container."""
        return self.queued + self.incoming

    @property
    def total(self) -> int:
        """Containers that are there or come."""
        return self.containers + self.creating


class Clip(StrEnum):
    """What kept a decision from what the queue would need."""

    NAMESPACE_LIMIT = "NamespaceLimit"
    ACTION_LIMIT = "ActionLimit"
    NODE_ROOM = "NodeRoom"
    RESOURCES = "Resources"
    """The quota's CPU or memory."""
    RETRY = "Retry"
    """Its last creation failed, and the next try is not due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDecision:
    """What is done for a queue at one tick."""

    row: int
    """Of the table (1 to 13); 0 where it is not asked: a pool of mode perMessage."""
    add: int = 0
    """Containers to create now."""
    throttle: bool | None = None
    """Whether the namespace has no room for another container from now on; None: as before. It refuses no message."""
    initial: bool = False
    """The container is the queue's first."""
    pausing: bool = False
    """The limit is none at all: the queue's messages are kept for their retention, then dropped."""
    clipped_by: Clip | None = None
    unmet: int = 0
    """Containers that would have been created, or were asked for, and that nodes have no room for."""
    guard: DecisionGuard | None = None
    """The guard that changed what the table says."""
    reason: str = ""


class ContainerState(StrEnum):
    """Where a container is in its life."""

    CREATING = "Creating"
    READY = "Ready"
    DRAINING = "Draining"
    """It was told to end, or ends by itself: it finishes what it has, and takes nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContainer:
    """A container as it is seen: a pod, a process, or one of the simulation."""

    id: str
    """That of the creation that made it."""
    namespace: str
    pool: str
    revision: str
    subject: str
    """The queue that it takes from."""
    also: tuple[str, ...] = ()
    """Retired subjects of its pool that it takes from too."""
    cpu_millis: Amount | None = None
    """What it requests; None where that is not known, and its pool's is taken."""
    memory_bytes: Amount | None = None
    node: str | None = None
    state: ContainerState
    created_at_seconds: Instant
    ready_at_seconds: Instant | None = None
    idle_since_seconds: Instant | None = None
    """None: busy, or not known."""
    unschedulable_since_seconds: Instant | None = None
    """No node has had room for it since then."""

    @property
    def key(self) -> QueueKey:
        """The action that it belongs to."""
        return QueueKey(self.namespace, self.pool)

    @property
    def place(self) -> Place:
        """By which it is told from all others: another namespace may have one of the same name."""
        return self.namespace, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A container that is to be created."""

    id: str
    """A DNS label, not used before: the name of the pod or process."""
    key: QueueKey
    revision: str
    subject: str
    also: tuple[str, ...] = ()
    """Retired subjects of the pool that still hold messages: it takes from them too."""
    node_hint: str | None = None

    @property
    def place(self) -> Place:
        """As the container's will be."""
        return self.key.namespace, self.id


class EndReason(StrEnum):
    """Why a container is ended."""

    IDLE = "Idle"
    EVICTED = "Evicted"
    """It was idle, and another action starves."""
    YIELDED = "Yielded"
    """It was held for the hold time, and another action starves."""
    REVISION = "Revision"
    """Its pool's template or memory is another now."""
    QUOTA = "Quota"
    """The limit was lowered."""
    TIMED_OUT = "TimedOut"
    """It was not ready within its creation's time-out."""
    POOL_DELETED = "PoolDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A container that is to be ended: it finishes what it runs, and takes nothing new."""

    container_id: str
    key: QueueKey
    reason: EndReason

    @property
    def place(self) -> Place:
        """The container's."""
        return self.key.namespace, self.container_id


class Refusal(StrEnum):
    """Why new messages of an action are refused."""

    NAMESPACE_FULL = "NamespaceFull"
    """The namespace has its limit of containers, and messages come faster than they are run."""
    QUEUE_FULL = "QueueFull"
    """The queue holds as many messages as it may."""
    NO_CONTAINERS = "NoContainers"
    """The limit of containers is none at all."""
    CAPACITY_SHORT = "CapacityShort"
    """Nodes for its containers are on their way; the answer says for how long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionVerdict:
    """Whether new messages of an action are taken."""

    reject: bool = False
    reason: Refusal | None = None
    containers: int = 0
    """Of the namespace, creations included."""
    limit: int = 0
    lag: int = 0
    rate_per_second: float = 0.0
    """Messages that come."""
    speed_per_second: float = 0.0
    """Messages that are finished."""
    retry_after_ms: int | None = None


OPEN = AdmissionVerdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSettings:
    """What slack is told of a pool: `spec.demand`."""

    publish: bool = True
    horizon_seconds: WindowSeconds = 180.0
    """How long a node takes to start, until its pods have shown it."""
    window_seconds: WindowSeconds = 7200.0
    percentile: Percentile = 99.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """A pool as its owner wants it; made of an ActivationPool's spec."""

    key: QueueKey
    subject: str
    """Where new messages are published."""
    revision: str
    """Of template and memory together: containers of another are replaced."""
    retired_subjects: tuple[str, ...] = ()
    """Those of another memory, that may still hold messages."""
    cpu_millis: Amount = 0
    memory_bytes: Amount = 0
    """Of one container, for quotas of resources."""
    concurrency: Concurrency = 1
    max_containers: Containers
    min_containers: Containers = 0
    per_message: bool = False
    """A container a message, as the old scheduler had it: it ends once it is idle, and none is held."""
    stale_seconds: WindowSeconds = DEFAULT_STALE_MS / 1000
    idle_timeout_seconds: Seconds = 60.0
    hold_seconds: Seconds = 1.0
    creation_timeout_seconds: Seconds = 300.0
    expected_duration_ms: Milliseconds | None = None
    """What its owner says of its runs; counts until runs are known."""
    keep_warm: Containers = 0
    keep_warm_seconds: Seconds = 0.0
    """After the last message that many containers stay, that long."""
    max_messages: Messages = 10_000
    max_age_seconds: Seconds | None = None
    """Messages that are older are dropped when no container can come; None: never."""
    throttle_fraction: Share = 0.9
    """A queue that was full takes messages again once it is down to this share of `max_messages`."""
    demand: DemandSettings = field(default_factory=DemandSettings)
    deleted: bool = False
    """Its containers end once its queue is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """What a namespace may have; made of an ActivationQuota's spec."""

    namespace: str
    max_containers: Containers
    max_cpu_millis: Amount | None = None
    max_memory_bytes: Amount | None = None
    over_provision_ratio: Ratio = 1.0
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """By pool; who is served first where not all can be. 1 where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTarget:
    """What a pool needs, and what slack should hold for it, in containers."""

    wanted: int = 0
    """Ready, creating and decided, what could not be had included."""
    unmet: int = 0
    """Of them those that nodes have no room for: their pods drive the autoscaler already."""
    growth: int = 0
    """What they would grow by within the horizon, as they grow now."""
    peak_increment: int = 0
    """The percentile of what they grew by within one horizon, over the window."""
    slack_pods: int = 0
    """What slack should hold."""
