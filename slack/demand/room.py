"""How many containers a namespace may still have: its quota by number and by resources, counted down within a round."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slack.demand.ledger import PoolCount
from slack.demand.model import PoolSettings, QueueKey, QuotaSettings
from slack.demand.subjects import InvalidSubject, Subject

_MANY = 1 << 31


@dataclass(slots=True)
class NamespaceRoom:
    """One namespace in one round."""

    limit: int
    quota: QuotaSettings | None = None
    containers: int = 0
    """Ready and draining."""
    creating: int = 0
    draining: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0

    @property
    def used(self) -> int:
        """Containers that count."""
        return self.containers + self.creating

    def by_resources(self, pool: PoolSettings) -> int:
        """Return how many containers of the pool the quota's resources still leave."""
        quota, room = self.quota, _MANY
        if quota is None:
            return room
        if quota.max_cpu_millis is not None and pool.cpu_millis > 0:
            room = min(room, (quota.max_cpu_millis - self.cpu_millis) // pool.cpu_millis)
        if quota.max_memory_bytes is not None and pool.memory_bytes > 0:
            room = min(room, (quota.max_memory_bytes - self.memory_bytes) // pool.memory_bytes)
        return max(room, 0)

    def count(self, pool: PoolSettings | None, count: PoolCount) -> None:
        """Count the containers of a pool by what they request; where that is not known, by what the pool's would."""
        self.containers += len(count.ready) + count.draining
        self.creating += count.in_creation
        self.draining += count.draining
        if self.quota is None:
            return
        self.cpu_millis += count.cpu_millis
        self.memory_bytes += count.memory_bytes
        if pool is not None:
            self.cpu_millis += pool.cpu_millis * count.unknown
            self.memory_bytes += sum(_memory_bytes(pool, subject) * n for subject, n in count.subjects.items())

    def reserve_containers(self, pool: PoolSettings, number: int) -> None:
        """Count containers that are asked for now."""
        self.creating += number
        self.cpu_millis += pool.cpu_millis * number
        self.memory_bytes += pool.memory_bytes * number


def _memory_bytes(pool: PoolSettings, subject: str) -> int:
    """Return the memory of a container by the subject that it takes from: after a change the old ones have the old."""
    if subject == pool.subject:
        return pool.memory_bytes
    try:
        return Subject.parse(subject).memory_mib << 20
    except InvalidSubject:
        return pool.memory_bytes


def limits(pools: Iterable[PoolSettings], quotas: Mapping[str, QuotaSettings]) -> dict[str, int]:
    """Return the limit of each namespace: its quota's, else what its pools may have together."""
    found: dict[str, int] = {}
    for pool in pools:
        namespace = pool.key.namespace
        found[namespace] = found.get(namespace, 0) + max(pool.max_containers, 0)
    return found | {namespace: quota.max_containers for namespace, quota in quotas.items()}


def rooms(
    counts: Mapping[QueueKey, PoolCount],
    pools: Mapping[QueueKey, PoolSettings],
    quotas: Mapping[str, QuotaSettings],
    limit_of: Mapping[str, int],
) -> dict[str, NamespaceRoom]:
    """Return the room of each namespace that has a limit or containers."""
    found = {namespace: NamespaceRoom(limit, quotas.get(namespace)) for namespace, limit in limit_of.items()}
    for key, count in counts.items():
        found.setdefault(key.namespace, NamespaceRoom(0)).count(pools.get(key), count)
    return found
