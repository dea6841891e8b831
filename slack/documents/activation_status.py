"""The statuses of ActivationPool and ActivationQuota: the demand controller builds them, `demand` reads them.

The CRDs and their references are made of them.
"""

from typing import Annotated

from slack.schema.status_struct import (
    Number,
    StatusPart,
    choice_field,
    count_field,
    description_field,
    generation_field,
    list_field,
    text_field,
    time_field,
)


class PoolContainersStatus(StatusPart):
    """The pool's containers."""

    ready: Annotated[int | None, count_field("Ready.")] = None
    creating: Annotated[int | None, count_field("Being created.")] = None
    unschedulable: Annotated[int | None, count_field("Of these, those that no node has room for.")] = None
    idle: Annotated[int | None, count_field("Ready, and without a message.")] = None
    draining: Annotated[int | None, count_field("Being ended.")] = None


class PoolLagStatus(StatusPart):
    """The pool's queue."""

    queued: Annotated[int | None, count_field("Messages that wait.")] = None
    in_flight: Annotated[int | None, count_field("Messages that are run.")] = None
    stale: Annotated[int | None, count_field("Messages that have waited longer than timing.stale.")] = None
    oldest_ms: Annotated[int | None, count_field("How long the oldest has waited.")] = None


class PoolRateStatus(StatusPart):
    """Messages a second."""

    arrivals: Annotated[Number | None, description_field("That come.")] = None
    completions: Annotated[Number | None, description_field("That are finished.")] = None
    mean_duration_ms: Annotated[Number | None, description_field("Mean of the last runs.")] = None


class PoolDemandStatus(StatusPart):
    """What slack goes by."""

    wanted: Annotated[int | None, count_field("Containers that the pool needs, what it cannot have included.")] = None
    unmet: Annotated[int | None, count_field("Of these, those that no node has room for.")] = None
    growth: Annotated[int | None, count_field("What it will need more when a node has started, as it grows now.")] = (
        None
    )
    peak_increment: Annotated[
        int | None, count_field("What it needed more within a node's start in the window, at the percentile.")
    ] = None
    slack_pods: Annotated[int | None, count_field("What slack is to hold for it.")] = None
    observed_at: Annotated[str | None, time_field("When it was so.")] = None


class PoolThrottleStatus(StatusPart):
    """What the throttle endpoint answers."""

    reject: Annotated[bool | None, description_field("Whether new messages are refused.")] = None
    reason: Annotated[str | None, text_field("Why.", 64)] = None
    containers: Annotated[int | None, count_field("Containers of the namespace, creations included.")] = None
    limit: Annotated[int | None, count_field("What the namespace may have.")] = None
    lag: Annotated[int | None, count_field("Messages that wait.")] = None
    rate_per_second: Annotated[Number | None, description_field("Messages that come.")] = None
    speed_per_second: Annotated[Number | None, description_field("Messages that are finished.")] = None
    retry_after_ms: Annotated[int | None, count_field("When it is worth another try.")] = None
    observed_at: Annotated[str | None, time_field("When it was so; an answer that is too old lets everything in.")] = (
        None
    )


class PoolDecisionStatus(StatusPart):
    """The last decision that changed something, or was kept from it."""

    at: Annotated[str | None, time_field("When it was taken.")] = None
    row: Annotated[int | None, count_field("Of the table of decisions; 0: a guard decided before.")] = None
    add: Annotated[int | None, count_field("Containers that were created.")] = None
    clipped_by: Annotated[str | None, text_field("What kept it from more.", 64)] = None
    guard: Annotated[str | None, text_field("The guard that changed what the table says.", 64)] = None
    reason: Annotated[str | None, text_field("In words.")] = None
    state: Annotated[str | None, text_field("Where the queue was in its life.", 64)] = None
    queued: Annotated[int | None, count_field("Messages that waited.")] = None
    stale: Annotated[int | None, count_field("Of these, those that had waited too long.")] = None
    in_flight: Annotated[int | None, count_field("Messages that were run.")] = None
    containers: Annotated[int | None, count_field("Containers that were ready.")] = None
    creating: Annotated[int | None, count_field("Containers that were being created.")] = None
    action_limit: Annotated[int | None, count_field("Containers that the pool may have.")] = None
    namespace_limit: Annotated[int | None, count_field("Containers that the namespace may have.")] = None
    namespace_containers: Annotated[
        int | None, count_field("Containers of the namespace that were ready or being ended.")
    ] = None
    namespace_creating: Annotated[int | None, count_field("Containers of the namespace that were being created.")] = (
        None
    )
    mean_duration_ms: Annotated[Number | None, description_field("Mean of the last runs.")] = None


class ActivationCondition(StatusPart):
    """One entry of `conditions`."""

    type: Annotated[str, text_field("Ready, Throttled, CapacityShort or BrokerReachable.", 64)]
    status: Annotated[str, choice_field("True, False or Unknown.", "True", "False", "Unknown")]
    reason: Annotated[str | None, text_field("One word.", 64)] = None
    message: Annotated[str | None, text_field("For people.", 2048)] = None
    observed_generation: Annotated[int | None, generation_field("The metadata.generation that this is about.")] = None
    last_transition_time: Annotated[str | None, time_field("When the status last changed.")] = None


class ActivationPoolStatus(StatusPart):
    """What the controller knows of the pool. Written by the controller only."""

    observed_generation: Annotated[int | None, generation_field("The metadata.generation that this is about.")] = None
    replicas: Annotated[
        int | None, count_field("Containers that are there, those that are being created included.")
    ] = None
    selector: Annotated[str | None, text_field("Selects the pool's pods.")] = None
    revision: Annotated[str | None, text_field("Of the template; pods have it as a label.", 64)] = None
    queue: Annotated[str | None, text_field("The queue to which new messages go.", 160)] = None
    containers: PoolContainersStatus | None = None
    lag: PoolLagStatus | None = None
    rate: PoolRateStatus | None = None
    demand: PoolDemandStatus | None = None
    throttled: Annotated[bool | None, description_field("Whether new messages are refused.")] = None
    throttle: PoolThrottleStatus | None = None
    decision: PoolDecisionStatus | None = None
    conditions: Annotated[
        list[ActivationCondition] | None, list_field("Whether it works, and if not, why.", 16, key="type")
    ] = None


class QuotaUseStatus(StatusPart):
    """What all pools of the namespace have."""

    containers: Annotated[int | None, count_field("Containers, creations and those that are being ended included.")] = (
        None
    )
    cpu: Annotated[str | None, text_field("What they request.", 64)] = None
    memory: Annotated[str | None, text_field("What they request.", 64)] = None


class ActivationQuotaStatus(StatusPart):
    """What is used of it. Written by the controller only."""

    observed_generation: Annotated[int | None, generation_field("The metadata.generation that this is about.")] = None
    used: QuotaUseStatus | None = None
    pools: Annotated[int | None, count_field("Pools of the namespace.")] = None
    throttled: Annotated[int | None, count_field("Of these, those that refuse messages.")] = None
    conditions: Annotated[
        list[ActivationCondition] | None, list_field("Whether it works, and if not, why.", 16, key="type")
    ] = None
