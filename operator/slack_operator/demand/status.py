"""The status of an ActivationPool and of an ActivationQuota, from one tick: figures, the last decision, conditions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slack.cluster.labels import LABEL_POOL
from slack.cluster.quantity import format_cpu, format_memory
from slack.demand.broker import QueueLag
from slack.demand.ledger import Failing
from slack.demand.model import (
    AdmissionVerdict,
    ContainerState,
    PoolContainer,
    PoolSettings,
    PoolTarget,
    QueueFigures,
    Refusal,
)
from slack.demand.policy import ActivationPool
from slack.documents.activation_status import (
    ActivationPoolStatus,
    ActivationQuotaStatus,
    PoolContainersStatus,
    PoolDecisionStatus,
    PoolDemandStatus,
    PoolLagStatus,
    PoolRateStatus,
    PoolThrottleStatus,
    QuotaUseStatus,
)
from slack.schema.conditions import StatusCondition
from slack_operator.demand.pool_registry import READY
from slack_operator.demand.tick_state import LastDecision, MessageRates
from slack_operator.runtime.conditions import Status, rfc3339, with_conditions, with_times

THROTTLED: Final = "Throttled"
CAPACITY_SHORT: Final = "CapacityShort"
BROKER_REACHABLE: Final = "BrokerReachable"
_REFUSALS: Final[Mapping[Refusal | None, str]] = {
    Refusal.NAMESPACE_FULL: "NamespaceFull",
    Refusal.QUEUE_FULL: "QueueFull",
    Refusal.NO_CONTAINERS: "NoContainers",
    Refusal.CAPACITY_SHORT: "WaitsForNode",
}
FIGURES: Final = ("replicas", "containers", "lag", "rate", "demand", "throttled", "throttle", "decision")
"""What changes all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObservation:
    """What a pool's status is made of."""

    pool: ActivationPool
    generation: int
    problems: Sequence[str]
    """Why the present spec cannot be used, while the last good one is."""
    containers: Sequence[PoolContainer]
    lag: QueueLag | None
    rates: MessageRates
    target: PoolTarget
    verdict: AdmissionVerdict
    figures: QueueFigures | None
    told: LastDecision | None
    failing: Failing | None
    broker_problem: str | None
    queue_problem: str | None
    """Why the broker refuses this queue, where it does."""
    queue_silent: str | None
    """What went wrong, where the broker does not answer for this queue while it does for others."""
    warning: StatusCondition | None
    unix_seconds: float
    node_start_seconds: float | None


def pool_status(observed: PoolObservation, previous: Status, now: str) -> dict[str, Any]:
    """Build the whole status; transition times are kept from the previous one."""
    states = Counter(container.state for container in observed.containers)
    unschedulable = [c for c in observed.containers if c.unschedulable_since_seconds is not None]
    idle = [c for c in observed.containers if c.state is ContainerState.READY and c.idle_since_seconds is not None]
    ready, creating = states[ContainerState.READY], states[ContainerState.CREATING]
    target, verdict, figures = observed.target, observed.verdict, observed.figures
    lag = observed.lag or QueueLag(backlog=0, in_flight=0)
    mean = figures.mean_duration_ms if figures is not None else None
    status = ActivationPoolStatus(
        observed_generation=observed.generation,
        replicas=ready + creating,
        selector=f"{LABEL_POOL}={observed.pool.name}",
        revision=observed.pool.revision,
        queue=observed.pool.subject,
        containers=PoolContainersStatus(
            ready=ready,
            creating=creating,
            unschedulable=len(unschedulable),
            idle=len(idle),
            draining=states[ContainerState.DRAINING],
        ),
        lag=PoolLagStatus(
            queued=lag.backlog,
            in_flight=lag.in_flight,
            stale=figures.stale if figures is not None and lag.backlog else 0,
            oldest_ms=round((lag.oldest_age_seconds or 0.0) * 1000),
        ),
        rate=PoolRateStatus(
            arrivals=round(observed.rates.arrivals, 1),
            completions=round(observed.rates.completions, 1),
            mean_duration_ms=None if mean is None else round(mean, 1),
        ),
        demand=PoolDemandStatus(
            wanted=target.wanted,
            unmet=target.unmet,
            growth=target.growth,
            peak_increment=target.peak_increment,
            slack_pods=target.slack_pods,
            observed_at=now,
        ),
        throttled=verdict.reject,
        throttle=_throttle(verdict, now),
        decision=None if observed.told is None else _decision(observed.told),
    )
    return status.document() | {
        "conditions": with_times(_conditions(observed, unschedulable), previous, now, observed.generation)
    }


def refused_status(refusal: StatusCondition, generation: int, previous: Status, now: str) -> dict[str, Any]:
    """Return the status of a pool that is not acted upon; what was known of it stays."""
    status = with_conditions(previous, [refusal], generation, now, each=True)
    status.pop("throttle", None)
    return status | {"throttled": False}


def _throttle(verdict: AdmissionVerdict, now: str) -> PoolThrottleStatus:
    if not verdict.reject:
        return PoolThrottleStatus(reject=False)
    return PoolThrottleStatus(
        reject=True,
        reason=str(verdict.reason or ""),
        containers=verdict.containers,
        limit=verdict.limit,
        lag=verdict.lag,
        rate_per_second=round(verdict.rate_per_second, 1),
        speed_per_second=round(verdict.speed_per_second, 1),
        retry_after_ms=None if verdict.retry_after_ms is None else round(verdict.retry_after_ms),
        observed_at=now,
    )


def _decision(told: LastDecision) -> PoolDecisionStatus:
    decision, figures = told.decision, told.figures
    mean = figures.mean_duration_ms
    return PoolDecisionStatus(
        at=rfc3339(told.at_unix_seconds),
        row=decision.row,
        add=decision.add,
        clipped_by=str(decision.clipped_by) if decision.clipped_by else None,
        guard=str(decision.guard) if decision.guard else None,
        reason=decision.reason[:1024] or None,
        state=str(figures.state),
        queued=figures.available,
        stale=figures.stale,
        in_flight=figures.in_flight,
        containers=figures.containers,
        creating=figures.creating,
        action_limit=figures.action_limit,
        namespace_limit=figures.namespace_limit,
        namespace_containers=figures.namespace_containers,
        namespace_creating=figures.namespace_creating,
        mean_duration_ms=None if mean is None else round(mean, 1),
    )


def _conditions(observed: PoolObservation, unschedulable: Sequence[PoolContainer]) -> list[StatusCondition]:
    verdict = observed.verdict
    ready = StatusCondition(READY, True, "FollowsQueue", "containers follow the queue")
    if observed.problems:
        text = "; ".join(observed.problems) + "; the last good spec holds"
        ready = StatusCondition(READY, False, "InvalidSpec", text)
    elif observed.broker_problem is not None:
        ready = StatusCondition(
            READY, False, "BrokerUnreachable", "the queue cannot be read: containers stay as they are"
        )
    elif observed.queue_silent is not None:
        text = f"the broker does not answer for this queue: containers stay as they are: {observed.queue_silent}"
        ready = StatusCondition(READY, False, "QueueSilent", text)
    elif observed.queue_problem is not None:
        ready = StatusCondition(READY, False, "QueueRefused", f"the broker refuses the queue: {observed.queue_problem}")
    elif observed.failing is not None:
        text = f"{observed.failing.failures} creations in a row have failed: {observed.failing.reason}"
        ready = StatusCondition(READY, False, "CreationsFail", text)
    elif observed.warning is not None:
        ready = observed.warning
    throttled = StatusCondition(THROTTLED, False, "TakesMessages", "new messages are taken")
    if verdict.reject:
        text = (
            f"new messages are refused: {verdict.lag} wait, the namespace has {verdict.containers} of {verdict.limit} "
            "containers, and they come faster than they are run"
        )
        throttled = StatusCondition(THROTTLED, True, _REFUSALS.get(verdict.reason, "NamespaceFull"), text)
    short = StatusCondition(CAPACITY_SHORT, False, "NodesHaveRoom", "no container waits for a node")
    if unschedulable:
        since = min(c.unschedulable_since_seconds or 0.0 for c in unschedulable)
        horizon = observed.node_start_seconds or observed.pool.spec.demand.horizon.total_seconds()
        text = f"containers wait for a node since {rfc3339(since)}; one takes about {horizon:.0f} s to start"
        short = StatusCondition(CAPACITY_SHORT, True, "WaitsForNode", text)
    reachable = StatusCondition(BROKER_REACHABLE, True, "QueueRead", "the queue is read at each tick")
    if observed.broker_problem is not None:
        reachable = StatusCondition(BROKER_REACHABLE, False, "BrokerUnreachable", observed.broker_problem)
    elif observed.queue_silent is not None:
        reachable = StatusCondition(BROKER_REACHABLE, False, "QueueSilent", observed.queue_silent)
    elif observed.queue_problem is not None and observed.lag is None:
        reachable = StatusCondition(BROKER_REACHABLE, False, "QueueRefused", "the broker tells nothing of this queue")
    return [ready, throttled, short, reachable]


def quota_status(
    pools: Mapping[str, PoolSettings],
    containers: Sequence[PoolContainer],
    throttled: int,
    generation: int,
    problems: Sequence[str],
    previous: Status,
    now: str,
) -> dict[str, Any]:
    """Build the status of an ActivationQuota.

    Args:
        pools: of its namespace, by name.
        containers: of its namespace.
        throttled: pools that refuse messages.
        generation: what it is about.
        problems: why its spec cannot be used.
        previous: the status that is there.
        now: RFC 3339.
    """
    requests = [_requests(container, pools.get(container.pool)) for container in containers]
    ready = StatusCondition(READY, True, "WithinQuota", "the namespace's pools stay within it")
    if problems:
        ready = StatusCondition(
            READY, False, "InvalidSpec", "; ".join(problems) + "; the last good one holds, if there was one"
        )
    status = ActivationQuotaStatus(
        observed_generation=generation,
        used=QuotaUseStatus(
            containers=len(containers),
            cpu=format_cpu(sum(cpu for cpu, _ in requests)),
            memory=format_memory(sum(memory for _, memory in requests)),
        ),
        pools=len(pools),
        throttled=throttled,
    )
    return status.document() | {"conditions": with_times([ready], previous, now, generation)}


def _requests(container: PoolContainer, pool: PoolSettings | None) -> tuple[int, int]:
    """Return a container's millicores and bytes: its own, or where these are not known, its pool's."""
    cpu, memory = (0, 0) if pool is None else (pool.cpu_millis, pool.memory_bytes)
    own_cpu, own_memory = container.cpu_millis, container.memory_bytes
    return cpu if own_cpu is None else own_cpu, memory if own_memory is None else own_memory


def headline(status: Status) -> object:
    """Return what is written soon when it changes."""
    conditions = sorted((c["type"], c["status"], c["reason"]) for c in status.get("conditions", ()))
    return status.get("observedGeneration"), status.get("revision"), status.get("throttled"), conditions


def figures_of(status: Status) -> object:
    """Return what is written now and then when it changes: all but the times at which it was seen."""
    found = {name: status.get(name) for name in (*FIGURES, "used", "pools")}
    demand = found.get("demand")
    if isinstance(demand, Mapping):
        found["demand"] = {name: value for name, value in demand.items() if name != "observedAt"}
    return found


def announces(status: Status) -> bool:
    """Say whether slack is asked for anything by figures of now: without a broker they are older, and fade."""
    blind = any(c["type"] == BROKER_REACHABLE and c["status"] == "False" for c in status.get("conditions", ()))
    return not blind and bool((status.get("demand") or {}).get("slackPods"))
