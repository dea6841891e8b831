"""The status of a SlackScale: the operator builds it, and its CRD is made of it."""

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


class ScaleCondition(StatusPart):
    """One entry of `conditions`."""

    type: Annotated[str, text_field("Ready: the policy has the replicas of this object.", 316)]
    status: Annotated[str, choice_field("Whether it is so.", "True", "False", "Unknown")]
    reason: Annotated[str, text_field("One CamelCase word that stays the same.")]
    message: Annotated[str, text_field("A sentence for people.", 32768)]
    last_transition_time: Annotated[str, time_field("Since when the status is as it is.")]
    observed_generation: Annotated[int | None, generation_field("The metadata.generation that it is about.")] = None


class SlackScaleStatus(StatusPart):
    """What the policy says. Written by the operator only."""

    observed_generation: Annotated[int | None, generation_field("The metadata.generation that this is about.")] = None
    replicas: Annotated[int | None, count_field("status.replicas of the policy.")] = None
    selector: Annotated[str | None, text_field("status.selector of the policy.", 256)] = None
    conditions: Annotated[list[ScaleCondition] | None, list_field("Ready, or why not.", 8, key="type")] = None
