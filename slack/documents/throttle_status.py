"""The status of a ThrottlePolicy: the controller builds it, `throttler status` reads it, the CRD is made of it."""

from typing import Annotated

from slack.schema.status_struct import (
    StatusPart,
    choice_field,
    count_field,
    generation_field,
    list_field,
    text_field,
    time_field,
)


class ThrottleNodes(StatusPart):
    """The policy's nodes."""

    selected: Annotated[int | None, count_field("Nodes that have this policy.")] = None
    reporting: Annotated[int | None, count_field("Of these, nodes whose agent reports.")] = None
    silent: Annotated[int | None, count_field("Of these, nodes whose agent does not.")] = None


class ThrottleCondition(StatusPart):
    """One entry of `conditions`."""

    type: Annotated[str, text_field("Ready.", 64)]
    status: Annotated[str, choice_field("True, False or Unknown.", "True", "False", "Unknown")]
    reason: Annotated[str | None, text_field("One word.", 64)] = None
    message: Annotated[str | None, text_field("For people.")] = None
    observed_generation: Annotated[int | None, generation_field("The spec that was seen.")] = None
    last_transition_time: Annotated[str | None, time_field("When the status last changed.")] = None


class ThrottlePolicyStatus(StatusPart):
    """What the agents of the policy's nodes report. Written by the controller only."""

    observed_generation: Annotated[
        int | None, generation_field("The metadata.generation that this status is about.")
    ] = None
    nodes: ThrottleNodes | None = None
    downloading: Annotated[int | None, count_field("Containers whose images are pulled.")] = None
    blocked: Annotated[int | None, count_field("Containers that wait for another container.")] = None
    pending: Annotated[int | None, count_field("Containers that wait for the policy.")] = None
    starting: Annotated[int | None, count_field("Containers that start.")] = None
    ready: Annotated[int | None, count_field("Containers that are ready.")] = None
    failed: Annotated[int | None, count_field("Containers that were starting for too long.")] = None
    forced: Annotated[int | None, count_field("Starts forced by minRate, since the agents began.")] = None
    opened: Annotated[
        int | None, count_field("Starts without a grant, for a gate heard of no agent, since the agents began.")
    ] = None
    longest_wait_seconds: Annotated[int | None, count_field("How long the one has waited that waits longest.")] = None
    conditions: Annotated[
        list[ThrottleCondition] | None, list_field("Whether it works, and if not, why.", 16, key="type")
    ] = None
