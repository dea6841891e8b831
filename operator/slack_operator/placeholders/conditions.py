"""The conditions of a policy that follow from something else than its plan: their types, and those with one text.

The planner has its own (`slack.planner.conditions`). Values only; used by whoever finds, reports or shows such a state.
"""

from slack.planner.model.result import ConditionType
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.policies import PolicyEntry

VIEW_STALE = "ViewStale"
STALLED = "Stalled"
"""The word of kstatus, by which tools such as Flux stop waiting; only there while it is true."""
PREEMPTION_STUCK = "PreemptionStuck"
OWNERSHIP_CONTESTED = "OwnershipContested"
PLACEHOLDERS_CHANGED = "PlaceholdersChanged"
SOFT_TAINT_BLOCKED = "SoftTaintBlocked"
"""Nodes cannot get the taint, or keep it; only there while it is true."""
IMAGES_NOT_PULLED = "ImagesNotPulled"
"""Nodes lack an image that spec.warm asks for; only there while it is true."""


def not_ready(reason: str, message: str) -> StatusCondition:
    """Give the condition that takes the place of the plan's Ready: for what somebody must mend, and for nothing else.

    Whoever waits for Ready waits while it is false, and after `STALLED_SECONDS` gives up.
    """
    return StatusCondition(ConditionType.READY, False, reason, message)


def invalid(entry: PolicyEntry) -> StatusCondition:
    """Give the condition of a policy whose spec cannot be used."""
    return not_ready("InvalidSpec", "; ".join(entry.problems))


def bound_not_allowed() -> StatusCondition:
    """Give the condition of a policy that asks for bound placeholders where these are switched off."""
    text = "this operator may not keep bound placeholders (operator.bound.enabled); write Auto or Unbound"
    return not_ready("BoundNotAllowed", f"spec.hold: Bound: {text}")
