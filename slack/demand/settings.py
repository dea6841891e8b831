"""From what users write to what the rules go by: ActivationPools and ActivationQuotas as settings."""

from collections.abc import Iterable, Sequence

from slack.demand.broker import Duration, QueueSettings
from slack.demand.model import DemandSettings, PoolSettings, QueueKey, QuotaSettings
from slack.demand.policy import ActivationPool, ActivationQuota, PoolMode, ProxyMode


def pool_settings(pool: ActivationPool, retired_subjects: Sequence[str] = ()) -> PoolSettings:
    """Return what the rules go by.

    Args:
        pool: as its owner wants it.
        retired_subjects: queues of the pool's former memory that may still hold messages.
    """
    spec, timing = pool.spec, pool.spec.timing
    requests = spec.template.requests(proxied=spec.proxy.mode is ProxyMode.SIDECAR)
    expected = timing.expected_duration
    return PoolSettings(
        key=QueueKey(pool.namespace, pool.name),
        subject=pool.subject,
        revision=pool.revision,
        retired_subjects=tuple(retired_subjects),
        cpu_millis=requests.get("cpu", 0),
        memory_bytes=requests.get("memory", 0),
        concurrency=spec.proxy.max_concurrency,
        max_containers=spec.limits.max_containers,
        min_containers=spec.limits.min_containers,
        per_message=spec.mode is PoolMode.PER_MESSAGE,
        stale_seconds=timing.stale.total_seconds(),
        idle_timeout_seconds=timing.idle_timeout.total_seconds(),
        hold_seconds=timing.hold_time.total_seconds(),
        creation_timeout_seconds=timing.creation_timeout.total_seconds(),
        expected_duration_ms=None if expected is None else expected.total_seconds() * 1000,
        keep_warm=spec.keep_warm.count,
        keep_warm_seconds=spec.keep_warm.for_.total_seconds(),
        max_messages=spec.retention.max_messages,
        max_age_seconds=None if spec.retention.max_age is None else spec.retention.max_age.total_seconds(),
        throttle_fraction=spec.retention.throttle_fraction,
        demand=DemandSettings(
            publish=spec.demand.publish,
            horizon_seconds=spec.demand.horizon.total_seconds(),
            window_seconds=spec.demand.window.total_seconds(),
            percentile=spec.demand.percentile,
        ),
    )


def queue_settings(pool: ActivationPool) -> QueueSettings:
    """Return the pool's queue as the broker is to have it."""
    queue = pool.spec.queue
    return QueueSettings(
        name=pool.subject, ack_wait_seconds=Duration(queue.ack_wait.total_seconds()), max_deliver=queue.max_deliver
    )


def quota_settings(namespace: str, quotas: Iterable[ActivationQuota], others: int = 0) -> QuotaSettings | None:
    """Return what a namespace may have; None where nobody says so.

    Args:
        namespace: its name.
        quotas: all of the namespace's; each holds, so the smallest figure does.
        others: containers there that the rules do not see, for their pool cannot be used now.
    """
    specs = [quota.spec for quota in quotas]
    if not specs:
        return None
    cpus = [spec.max_cpu for spec in specs if spec.max_cpu is not None]
    memories = [spec.max_memory for spec in specs if spec.max_memory is not None]
    return QuotaSettings(
        namespace=namespace,
        max_containers=max(0, min(spec.max_containers for spec in specs) - others),
        max_cpu_millis=min(cpus, default=None),
        max_memory_bytes=min(memories, default=None),
        over_provision_ratio=min(spec.over_provision_ratio for spec in specs),
        weights={pool: weight for spec in specs for pool, weight in spec.weights.items()},
    )
