"""What a SlackHistory says of what was learnt: the operator builds it, and its CRD is made of it."""

from typing import Annotated

from slack.schema.status_struct import StatusPart, count_field, text_field, time_field

MOST_STATE_CHARACTERS = 349_528
"""256 KiB in base64."""


class LearntHistory(StatusPart):
    """What was learnt."""

    state: Annotated[
        str | None,
        text_field("All of it, for the operator: RSOBJ1 and compressed MessagePack, in base64.", MOST_STATE_CHARACTERS),
    ] = None
    saved_at: Annotated[str | None, time_field("When it was written.")] = None
    hours: Annotated[int | None, count_field("Hours that were watched.")] = None
    started: Annotated[int | None, count_field("Pods that started in these hours.")] = None
    late: Annotated[int | None, count_field("Those of them that waited for a node.")] = None
