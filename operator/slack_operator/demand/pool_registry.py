"""All pools and quotas as their users want them now, and which of them cannot be acted upon and why.

Made of `Desired` when something has changed; asked by the loop, by what makes pods, by the endpoint and by the status.
Any thread may ask.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from slack.demand.broker import QueueLag
from slack.demand.broker_kind import BrokerKind
from slack.demand.model import QueueKey
from slack.demand.policy import ActivationPool, ActivationQuota
from slack.demand.settings import pool_settings, queue_settings, quota_settings
from slack.demand.subjects import InvalidSubject, Subject, kafka_topic
from slack.schema.conditions import StatusCondition
from slack_operator.demand.loop import DesiredState
from slack_operator.runtime.desired import Desired, Entry

INVALID: Final = "InvalidSpec"
OTHER_BROKER: Final = "OtherBroker"
TOPIC_TAKEN: Final = "TopicTaken"
LIMIT_ABOVE_QUOTA: Final = "LimitAboveQuota"
READY: Final = "Ready"
MOST_RETIRED: Final = 8
"""Queues of former memories that a pool is still run from at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPools:
    """What is wanted, at one moment."""

    wanted: DesiredState
    pools: Mapping[QueueKey, Entry[ActivationPool]]
    quotas: Mapping[str, tuple[Entry[ActivationQuota], ...]]
    """By namespace."""
    refused: Mapping[QueueKey, StatusCondition] = field(default_factory=dict)
    """Why a pool cannot be acted upon."""
    warned: Mapping[QueueKey, StatusCondition] = field(default_factory=dict)
    """What is wrong with a pool that is acted upon all the same."""

    subjects: frozenset[str] = frozenset()
    """Where new messages of the usable pools go."""

    def usable(self, key: QueueKey) -> ActivationPool | None:
        """Return a pool that is acted upon."""
        entry = self.pools.get(key)
        return None if entry is None or key in self.refused else entry.policy


class PoolRegistry:
    """Keeps the present one."""

    def __init__(
        self,
        pools: Desired[ActivationPool],
        quotas: Desired[ActivationQuota],
        *,
        broker: str,
        tick_seconds: float,
    ) -> None:
        """Nothing is known yet.

        Args:
            pools: all of them.
            quotas: all of them.
            broker: nats, redis or kafka: the controller's.
            tick_seconds: between two ticks, at the least.
        """
        self._desired_pools = pools
        self._desired_quotas = quotas
        self._broker = broker
        self._tick_seconds = tick_seconds
        self._lock = threading.Lock()
        self._dirty = True
        self._version = 0
        self._retired: Mapping[QueueKey, tuple[str, ...]] = {}
        self._others: Mapping[str, int] = {}
        self._book = self._made()

    def touch(self) -> None:
        """Something has changed."""
        self._dirty = True

    @property
    def synced(self) -> bool:
        """Whether all pools and quotas are known."""
        return self._desired_pools.synced and self._desired_quotas.synced

    def now(self) -> DesiredPools:
        """Return what is wanted now."""
        if self._dirty:
            with self._lock:
                self._dirty = False  # before it is made: what changes meanwhile makes it once more
                self._book = self._made()
        return self._book

    def wanted(self) -> DesiredState:
        """Return what the loop goes by."""
        return self.now().wanted

    def pool_of(self, key: QueueKey) -> ActivationPool | None:
        """Return a pool that is acted upon."""
        return self.now().usable(key)

    def uid_of(self, key: QueueKey) -> str | None:
        """Return the uid of a pool that is acted upon: the pods of any other are left alone."""
        book = self.now()
        entry = book.pools.get(key)
        return None if entry is None or book.usable(key) is None else entry.uid

    def read(self, lags: Mapping[str, QueueLag]) -> None:
        """Take which queues hold messages: those of a pool's former memory are still to be run.

        No more than `MOST_RETIRED` of a pool, those with the most messages: each is a name in the pods' arguments.
        """
        book, found = self.now(), dict[QueueKey, list[tuple[int, str]]]()
        for name, lag in lags.items():
            messages = lag.backlog + lag.in_flight
            if not messages or name in book.subjects:
                continue
            try:
                subject = Subject.parse(name)
            except InvalidSubject:  # who may publish may have thought it up
                continue
            if book.usable(subject.key) is not None:
                found.setdefault(subject.key, []).append((-messages, name))
        retired = {
            key: tuple(sorted(name for _, name in sorted(subjects)[:MOST_RETIRED])) for key, subjects in found.items()
        }
        if retired != self._retired:
            self._retired, self._dirty = retired, True

    def others(self, counts: Mapping[str, int]) -> None:
        """Take how many containers of each namespace are of pools that are not acted upon: they count in its quota."""
        if counts != self._others:
            self._others, self._dirty = counts, True

    def _made(self) -> DesiredPools:
        entries = {QueueKey(entry.namespace, entry.name): entry for entry in self._desired_pools.entries()}
        quotas: dict[str, list[Entry[ActivationQuota]]] = {}
        for quota in self._desired_quotas.entries():
            quotas.setdefault(quota.namespace, []).append(quota)
        refused = {
            key: why
            for key, entry in entries.items()
            if (why := self._refusal(entry) or _without_quota(quotas.get(key.namespace, ()))) is not None
        }
        if self._broker == BrokerKind.KAFKA:
            refused |= _without_topic([entry for key, entry in entries.items() if key not in refused])
        usable = {key: entry.policy for key, entry in entries.items() if entry.policy and key not in refused}
        of_namespace = {
            name: [quota.policy for quota in found if quota.policy is not None] for name, found in quotas.items()
        }
        warned = {}
        for key, pool in usable.items():
            if (warning := _above_quota(pool, of_namespace.get(key.namespace, ()))) is not None:
                warned[key] = warning
        self._version += 1
        settings = [
            quota_settings(name, found, self._others.get(name, 0)) for name, found in sorted(of_namespace.items())
        ]
        ticks = [pool.spec.timing.tick.total_seconds() for pool in usable.values() if pool.spec.timing.tick is not None]
        slower = len(ticks) == len(usable) and bool(ticks)
        wanted = DesiredState(
            version=self._version,
            pools=tuple(pool_settings(pool, self._retired.get(key, ())) for key, pool in sorted(usable.items())),
            queues=tuple(queue_settings(pool) for _, pool in sorted(usable.items())),
            quotas=tuple(quota for quota in settings if quota is not None),
            tick_seconds=max(self._tick_seconds, min(ticks)) if slower else self._tick_seconds,
        )
        return DesiredPools(
            wanted=wanted,
            pools=MappingProxyType(entries),
            quotas={name: tuple(found) for name, found in quotas.items()},
            refused=refused,
            warned=warned,
            subjects=frozenset(queue.name for queue in wanted.queues),
        )

    def _refusal(self, entry: Entry[ActivationPool]) -> StatusCondition | None:
        if entry.policy is None:
            return StatusCondition(
                READY, False, INVALID, "; ".join(entry.problems) + "; its containers stay as they are"
            )
        broker = entry.policy.spec.queue.broker
        if broker != self._broker:
            text = f"spec.queue.broker: {broker}, but the controller's broker is {self._broker} (--broker-url)"
            return StatusCondition(READY, False, OTHER_BROKER, text)
        return None


def _without_topic(entries: Iterable[Entry[ActivationPool]]) -> dict[QueueKey, StatusCondition]:
    """Refuse pools whose Kafka topic is another pool's: each would count the other's messages.

    Topics are ranked by who has one:

    1. The pool that was acted upon with it, as its status says. So no other pool takes it by a change of its memory.
    2. The oldest pool.
    """
    ranked: list[tuple[bool, float, QueueKey, str]] = []
    for entry in entries:
        if (pool := entry.policy) is not None:
            topic = kafka_topic(pool.namespace, pool.name, pool.spec.template.memory_mib)
            key = QueueKey(pool.namespace, pool.name)
            ranked.append((entry.status.get("queue") != pool.subject, pool.created_seconds, key, topic))
    owners: dict[str, QueueKey] = {}
    refused = {}
    for _, _, key, topic in sorted(ranked):
        owner = owners.setdefault(topic, key)
        if owner != key:
            text = (
                f"metadata.name: the Kafka topic {topic} is that of ActivationPool {owner} already; rename the pool, "
                "or change the memory that the first container of spec.template requests"
            )
            refused[key] = StatusCondition(READY, False, TOPIC_TAKEN, text)
    return refused


def _without_quota(quotas: Sequence[Entry[ActivationQuota]]) -> StatusCondition | None:
    """Say that a quota of the namespace never had a good spec: what it is to bound must not go unbounded."""
    for quota in quotas:
        if quota.policy is None:
            problems = "; ".join(quota.problems)
            text = f"ActivationQuota {quota.name} cannot be used: {problems}; until then containers stay as they are"
            return StatusCondition(READY, False, INVALID, text)
    return None


def _above_quota(pool: ActivationPool, quotas: Sequence[ActivationQuota]) -> StatusCondition | None:
    most = min((quota.spec.max_containers for quota in quotas), default=None)
    limit = pool.spec.limits.max_containers
    if most is None or limit <= most:
        return None
    text = f"spec.limits.maxContainers: {limit} is above what the namespace's ActivationQuota allows; {most} hold"
    return StatusCondition(READY, False, LIMIT_ABOVE_QUOTA, text)
