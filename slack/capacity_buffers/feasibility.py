"""Whether a node may still come for chunks that do not fit: what nodes could hold, and what the autoscaler has said."""

from collections.abc import Sequence
from dataclasses import dataclass

from slack.planner.model.result import Answer, AutoscalerEvent

GIVE_UP_SECONDS = 1200.0
"""A refusal that stands for so long is final: the default of `giveUpAfter` of a policy."""
_TOO_LARGE = ("insufficient", "no instance type", "incompatible")
"""Parts of refusals that say that no node group could hold the pod at all."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a buffer whose chunks do not all fit."""

    could_fit: bool
    """Whether some node of the cluster could hold a chunk if it were empty."""
    autoscaler_absent: bool
    """Whether there is certainly no autoscaler."""
    events: Sequence[AutoscalerEvent] = ()
    """What was said of its placeholders, the latest scale-up and the latest of the others."""
    refused_since: float | None = None
    """Since when the refusal has stood, Unix seconds."""


def standing_refusal(events: Sequence[AutoscalerEvent]) -> AutoscalerEvent | None:
    """Return the autoscaler's last word where it is a refusal."""
    said = [each for each in events if each.answer in (Answer.TRIGGERED, Answer.REFUSED, Answer.LIMIT)]
    last = max(said, key=lambda each: (each.seen_seconds, each.answer is not Answer.TRIGGERED), default=None)
    return None if last is None or last.answer is Answer.TRIGGERED else last


def why_infeasible(outlook: Outlook, now: float) -> str:
    """Say why no node will come; '' where one may.

    Args:
        outlook: what is known.
        now: Unix seconds.
    """
    if not outlook.could_fit and outlook.autoscaler_absent:
        return "no node of the cluster could hold a chunk, and there is no autoscaler"
    refusal = standing_refusal(outlook.events)
    if refusal is None:
        return ""
    too_large = refusal.answer is Answer.REFUSED and any(part in refusal.message.lower() for part in _TOO_LARGE)
    if too_large and not outlook.could_fit:
        return f"the autoscaler has no node for a chunk: {refusal.message}"
    since = outlook.refused_since
    if since is not None and now - since >= GIVE_UP_SECONDS:
        return f"the autoscaler has refused for {round((now - since) / 60)} min: {refusal.message}"
    return ""
