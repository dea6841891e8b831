"""ActivationPool and ActivationQuota as typed values: checked, with the field's path in each complaint.

The CRDs are made of these models (`slack.demand.crd`), so the API server refuses what they refuse, in the same words.
Whatever is absent has its default; a pool of a template alone is a good one. A pool is the containers of one action,
which is called like the pool: its queue is `act.{namespace}.{pool}.{memory in MiB}`, so no pool can take another's.
"""

import hashlib
import json
import re
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slack.demand.broker_kind import LAG_ONLY_KINDS, BrokerKind
from slack.demand.template import PoolPodTemplate
from slack.schema.documents import InvalidDocument
from slack.schema.policy_object import PolicyObject, SpecModel
from slack.schema.values import CpuAmount, FineDuration, MemoryAmount

POOL_KIND: Final = "ActivationPool"
QUOTA_KIND: Final = "ActivationQuota"
MOST_CONTAINERS: Final = 5000
BOUNDS: Final = {
    "tick": ("100ms", "10s"),
    "stale": ("100ms", "1m"),
    "idleTimeout": ("1s", "24h"),
    "holdTime": ("100ms", "1h"),
    "creationTimeout": ("1s", "1h"),
    "longestRun": ("1s", "12h"),
    "ackWait": ("1s", "24h"),
    "for": ("0s", "24h"),
    "maxAge": ("1s", "168h"),
    "horizon": ("1s", "1h"),
    "window": ("1m", "168h"),
}
"""Shortest and longest value of each duration."""
QUEUE_NAME: Final = r"^act[.][a-z0-9]([-a-z0-9]*[a-z0-9])?[.][a-z0-9]([-a-z0-9]*[a-z0-9])?([.][0-9]{1,7})?$"
POOL_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
PROXY_PATH: Final = "^/[!-~]*$"
NO_POOL_NAME: Final = (
    "metadata.name: is the action in the queue's name: lower case letters, digits and '-', at most 63 characters"
)
NO_QUEUE_NAME: Final = (
    "is no queue such as act.media.thumbnail or act.media.thumbnail.256: act, the namespace, the pool, the memory in "
    "MiB; leave it out, and it is made of them"
)
NO_PATH: Final = "proxy.path begins with / and has only printable ASCII without blanks, such as /run"
OTHER_ACTION: Final = "queue.name must name the pool itself: act.NAMESPACE.POOL"
OTHER_MEMORY: Final = "the memory in queue.name must be what the first container of template requests, in MiB"
NO_MEMORY: Final = "the first container of template must request memory: a part of the queue name"
ACK_TOO_SHORT: Final = "queue.ackWait must be longer than timing.longestRun, or a message that is run is given again"
RUN_TOO_LONG: Final = "queue.ackWait must be longer than timing.expectedDuration"
MIN_ABOVE_MAX: Final = "minContainers is above maxContainers"
WARM_ABOVE_MAX: Final = "keepWarm.count is above limits.maxContainers"
LAG_ONLY: Final = (
    f"of {' and '.join(LAG_ONLY_KINDS)} only the lag is read: it needs proxy.mode none, "
    "with workers that take their messages alone"
)
ONE_MESSAGE: Final = "proxy.maxConcurrency must be 1 with mode perMessage: a container takes one message, and ends"
_DEFAULT_ACK = timedelta(seconds=60)
_DEFAULT_MAX = 20


class InvalidPool(InvalidDocument):
    """An ActivationPool that cannot be used; each problem names the field and what would be right."""


class InvalidQuota(InvalidDocument):
    """An ActivationQuota that cannot be used; each problem names the field and what would be right."""


class PoolMode(StrEnum):
    """By which rules the pool's containers come and go."""

    HOLD = "hold"
    PER_MESSAGE = "perMessage"


class ProxyMode(StrEnum):
    """Who takes messages."""

    SIDECAR = "sidecar"
    NONE = "none"


def out_of_bounds(field: str) -> str:
    """Return what is said of a duration that is too short or too long."""
    shortest, longest = BOUNDS[field]
    return f"{field} must be from {shortest} to {longest}"


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9]+)(ms|s|m|h)", text).groups()  # type: ignore[union-attr]  # of BOUNDS above
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def _within(field: str) -> AfterValidator:
    shortest, longest = (_seconds(text) for text in BOUNDS[field])

    def check(value: timedelta) -> timedelta:
        if not shortest <= value.total_seconds() <= longest:
            raise ValueError(out_of_bounds(field))
        return value

    return AfterValidator(check)


def _whole(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is no whole number; write one such as 5")
    return value


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is no number; write one such as 0.9")
    return value


def _queue_name(value: str) -> str:
    if re.fullmatch(QUEUE_NAME, value) is None:
        raise ValueError(NO_QUEUE_NAME)
    return value


def _proxy_path(value: str) -> str:
    # it goes into a request's first line, and into a URL that the proxy's own flag refuses: the pod would never start
    if re.fullmatch(PROXY_PATH, value) is None:
        raise ValueError(NO_PATH)
    return value


_WHOLE = BeforeValidator(_whole)
_NUMBER = BeforeValidator(_number)
Count = Annotated[int, _WHOLE, Field(ge=0, le=MOST_CONTAINERS)]
AtLeastOne = Annotated[int, _WHOLE, Field(ge=1, le=MOST_CONTAINERS)]


class QueueSpec(SpecModel):
    """Where the pool's messages are."""

    broker: BrokerKind = BrokerKind.NATS
    """nats, redis or kafka: that of the controller. Of kafka only the lag is read."""
    name: Annotated[str, AfterValidator(_queue_name), Field(max_length=160)] | None = None
    """act.NAMESPACE.POOL, also with the memory in MiB behind it. It follows from the pool, so it may be left out."""
    ack_wait: Annotated[FineDuration, _within("ackWait")] = _DEFAULT_ACK
    """After so long without an answer a message is given to another container; from 1s to 24h."""
    max_deliver: Annotated[int, _WHOLE, Field(ge=1, le=100)] = 5
    """So often a message is tried; then it goes to the dead letters."""


class ProxySpec(SpecModel):
    """Who takes messages, and how they get to the action's container."""

    mode: ProxyMode = ProxyMode.SIDECAR
    """sidecar: a proxy beside the container posts each message to it. none: the container takes its messages itself."""
    port: Annotated[int, _WHOLE, Field(ge=1, le=65535)] = 8080
    """Of the container, on the pod's loopback."""
    path: Annotated[str, AfterValidator(_proxy_path), Field(max_length=253)] = "/"
    """What is posted to: / and printable ASCII, such as /run."""
    max_concurrency: Annotated[int, _WHOLE, Field(ge=1, le=1000)] = 1
    """So many messages a container runs at once; 1 with mode perMessage."""
    credentials_secret: Annotated[str, Field(max_length=253)] | None = None
    """Secret of the pool's namespace with the key `credentials`, by which the proxy, and nothing else in the pod, gets
    at the broker."""


class PoolLimits(SpecModel):
    """How many containers the pool may have, and has at the least."""

    max_containers: AtLeastOne = _DEFAULT_MAX
    """At most so many, those that are being created included."""
    min_containers: Count = 0
    """At least so many, whatever the queue has; what `kubectl scale` and autoscalers set."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_containers > self.max_containers:
            raise ValueError(MIN_ABOVE_MAX)
        return self


class Timing(SpecModel):
    """How fast it is decided, and how long things may take."""

    tick: Annotated[FineDuration, _within("tick")] | None = None
    """How often the queue is to be looked at, at the least; the controller ticks as often as the pool that wants it
    most often, and never more often than its own --tick. From 100ms to 10s."""
    stale: Annotated[FineDuration, _within("stale")] = timedelta(milliseconds=300)
    """A message that waits for so long is one too many for the containers that are there; from 100ms to 1m."""
    idle_timeout: Annotated[FineDuration, _within("idleTimeout")] = timedelta(seconds=60)
    """A container without a message for so long ends; from 1s to 24h."""
    hold_time: Annotated[FineDuration, _within("holdTime")] = timedelta(seconds=1)
    """A container is the pool's for so long before it may have to make way for a starving one; from 100ms to 1h."""
    creation_timeout: Annotated[FineDuration, _within("creationTimeout")] = timedelta(seconds=300)
    """A container that is not ready after so long is given up; from 1s to 1h."""
    expected_duration: FineDuration | None = None
    """How long a run takes, until runs have been seen."""
    longest_run: Annotated[FineDuration, _within("longestRun")] | None = None
    """How long one may take at the most; queue.ackWait must be longer. From 1s to 12h."""


class KeepWarm(SpecModel):
    """Containers that stay although nothing comes."""

    count: Count = 0
    """So many stay."""
    for_: Annotated[FineDuration, _within("for"), Field(alias="for")] = timedelta(minutes=30)
    """For so long after the last message; from 0s to 24h."""


class RetentionSpec(SpecModel):
    """How much may wait."""

    max_messages: Annotated[int, _WHOLE, Field(ge=1, le=100_000_000)] = 10_000
    """With so many that wait the pool is throttled."""
    max_age: Annotated[FineDuration, _within("maxAge")] | None = None
    """Messages that have waited for so long are dropped while no container can come for them; never, if left out."""
    throttle_fraction: Annotated[float, _NUMBER, Field(ge=0, le=1, allow_inf_nan=False)] = 0.9
    """A pool that is throttled for its queue takes messages again at this share of maxMessages."""


class DemandPart(SpecModel):
    """What slack is told of the pool, so that nodes are there before the burst."""

    publish: bool = True
    """Whether slack is held for it."""
    horizon: Annotated[FineDuration, _within("horizon")] = timedelta(seconds=180)
    """How long a node takes to start, until it has been seen; from 1s to 1h."""
    window: Annotated[FineDuration, _within("window")] = timedelta(hours=2)
    """How far back bursts count; from 1m to 168h."""
    percentile: Annotated[float, _NUMBER, Field(ge=50, le=100, allow_inf_nan=False)] = 99
    """Of what the pool grew by within a node's start, how much slack is to hold."""


class ActivationPoolSpec(SpecModel):
    """Containers of one action that follow its queue. Only the template is needed."""

    mode: PoolMode = PoolMode.HOLD
    """hold: a container lives longer than one message. perMessage: as the old scheduler did, for comparison."""
    queue: QueueSpec = QueueSpec()
    """Where the pool's messages are."""
    template: PoolPodTemplate
    """The pod of a container; the first container is the action's."""
    proxy: ProxySpec = ProxySpec()
    """Who takes messages, and how they get to the action's container."""
    limits: PoolLimits = PoolLimits()
    """How many containers the pool may have, and has at the least."""
    timing: Timing = Timing()
    """How fast it is decided, and how long things may take."""
    keep_warm: KeepWarm = KeepWarm()
    """Containers that stay although nothing comes."""
    retention: RetentionSpec = RetentionSpec()
    """How much may wait."""
    demand: DemandPart = DemandPart()
    """What slack is told of the pool, so that nodes are there before the burst."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        ack, timing = self.queue.ack_wait, self.timing
        if timing.longest_run is not None and ack <= timing.longest_run:
            raise ValueError(ACK_TOO_SHORT)
        if timing.expected_duration is not None and ack <= timing.expected_duration:
            raise ValueError(RUN_TOO_LONG)
        if self.keep_warm.count > self.limits.max_containers:
            raise ValueError(WARM_ABOVE_MAX)
        if self.queue.broker.is_lag_only and self.proxy.mode is not ProxyMode.NONE:
            raise ValueError(LAG_ONLY)
        if self.mode is PoolMode.PER_MESSAGE and self.proxy.max_concurrency > 1:
            raise ValueError(ONE_MESSAGE)
        if not self.template.memory_mib:
            raise ValueError(NO_MEMORY)
        memory = self.queue.name.split(".")[3:] if self.queue.name else []
        if memory and int(memory[0]) != self.template.memory_mib:
            raise ValueError(OTHER_MEMORY)
        return self


class ActivationPool(PolicyObject):
    """An ActivationPool with its identity."""

    spec: ActivationPoolSpec
    """The spec."""

    @property
    def subject(self) -> str:
        """The queue to which new messages go."""
        return f"act.{self.namespace}.{self.name}.{self.spec.template.memory_mib}"

    @cached_property
    def revision(self) -> str:
        """Changes with all that a container is made of: template and proxy."""
        made_of: dict[str, Any] = {
            "template": self.spec.template.document,
            "proxy": self.spec.proxy.model_dump(by_alias=True, mode="json"),
        }
        text = json.dumps(made_of, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


class ActivationQuotaSpec(SpecModel):
    """What all pools of the namespace may have together."""

    max_containers: Annotated[int, _WHOLE, Field(ge=0, le=100_000)]
    """Containers, those that are being created and that are being ended included."""
    max_cpu: CpuAmount | None = Field(default=None, alias="maxCPU")
    """What they may request together."""
    max_memory: MemoryAmount | None = None
    """What they may request together."""
    over_provision_ratio: Annotated[float, _NUMBER, Field(ge=1, le=10, allow_inf_nan=False)] = 1.0
    """A pool without any container may have its first one up to so many times maxContainers; 1: never above."""
    weights: dict[str, Annotated[float, _NUMBER, Field(ge=0.001, le=1000)]] = Field(default_factory=dict)
    """By pool: who comes first where not all can; 1 where none is given."""


class ActivationQuota(PolicyObject):
    """An ActivationQuota with its identity."""

    spec: ActivationQuotaSpec
    """The spec."""


def parse_pool(document: object, *, source: str) -> ActivationPool:
    """Check one ActivationPool document, as decoded from YAML or JSON.

    Raises:
        InvalidPool: with every problem found, each naming the field's path.
    """
    pool = ActivationPool.parse(document, kind=POOL_KIND, source=source, such_as="template", bad=InvalidPool)
    problems = []
    if re.fullmatch(POOL_NAME, pool.name) is None:
        problems.append(NO_POOL_NAME)
    _, namespace, action, *_ = (pool.spec.queue.name or f"act.{pool.namespace}.{pool.name}").split(".")
    if action != pool.name:
        problems.append(f"spec: {OTHER_ACTION}")
    elif pool.namespace and namespace != pool.namespace:
        problems.append(
            f"spec.queue.name: {pool.spec.queue.name} is another namespace's; this pool's is act.{pool.namespace}."
            f"{pool.name}"
        )
    if problems:
        raise InvalidPool(tuple(problems), source)
    return pool


def parse_quota(document: object, *, source: str) -> ActivationQuota:
    """Check one ActivationQuota document, as decoded from YAML or JSON.

    Raises:
        InvalidQuota: with every problem found, each naming the field's path.
    """
    return ActivationQuota.parse(document, kind=QUOTA_KIND, source=source, such_as="maxContainers", bad=InvalidQuota)
