"""What was learnt as the `learnt` of a SlackHistory, and back.

Written by the operator's keeper, and by `tune` beforehand; read by the operator, and by a dry run of a live cluster.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from slack.documents.slackhistory import MOST_STATE_CHARACTERS, LearntHistory
from slack.planner.objective.codec import InvalidState, decode, encode
from slack.planner.objective.learner import Learner


def learnt(learner: Learner, saved_at: str) -> dict[str, Any]:
    """Return it.

    Args:
        learner: what was learnt of one policy.
        saved_at: now, as RFC 3339 has it.
    """
    return LearntHistory(
        state=base64.b64encode(encode(learner)).decode("ascii"),
        saved_at=saved_at,
        hours=round(learner.tally.hours),
        started=round(learner.tally.started),
        late=round(learner.tally.late),
    ).document()


def learner_of(history: Mapping[str, Any]) -> Learner:
    """Return what is kept in a SlackHistory.

    Raises:
        InvalidState: it cannot be used; the text says why of `learnt.state`.
    """
    kept = history.get("learnt")
    text = kept.get("state") if isinstance(kept, dict) else None
    if not isinstance(text, str):
        raise InvalidState("is absent")
    if len(text) > MOST_STATE_CHARACTERS:
        raise InvalidState(f"has {len(text)} characters, more than {MOST_STATE_CHARACTERS}")
    try:
        return decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        if isinstance(error, InvalidState):
            raise
        raise InvalidState("is no base64") from None
