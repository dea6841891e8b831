"""What is told of objects of ours that others write: who it was, and whom they are left to. Values only."""

from collections.abc import Iterable

from slack.planner.objects.drift import OwnedField
from slack.process.contests import Contest
from slack.schema.conditions import StatusCondition
from slack_operator.placeholders.act.actuator import TakenBack
from slack_operator.placeholders.conditions import OWNERSHIP_CONTESTED

_NAMED = 3
_WHAT = {
    OwnedField.REPLICAS: "spec.replicas",
    OwnedField.TEMPLATE: "spec.template",
    OwnedField.METADATA: "labels, annotations or the owner reference",
    OwnedField.OWNER: "the controlling ownerReference",
    OwnedField.OBJECT: "the object itself",
    OwnedField.PODS: "its placeholders",
    OwnedField.COST: "the deletion costs of the placeholders",
    OwnedField.PRIORITY: "the priority of its placeholders",
    OwnedField.LOST: "the labels and owners of its placeholders",
    OwnedField.GLOBAL_DEFAULT: "globalDefault",
}


def told(taken: TakenBack) -> str:
    """Say whose write was taken back."""
    if taken.part is OwnedField.OBJECT:
        return f"{taken.kind} {taken.name} was deleted; the operator has made it again"
    if taken.part is OwnedField.PODS:
        return f"placeholders of {taken.kind} {taken.name} were not what its template says; they are replaced"
    if taken.part is OwnedField.LOST:
        return f"placeholders of {taken.kind} {taken.name} had lost their labels or their owner; they are deleted"
    if taken.part is OwnedField.PRIORITY:
        return f"placeholders of {taken.kind} {taken.name} had a priority that no real pod displaces; they are deleted"
    if taken.part is OwnedField.COST:
        return f"placeholders of {taken.kind} {taken.name} were given a deletion cost; the operator has taken it away"
    what = f"{_WHAT[taken.part]} of {taken.kind} {taken.name}"
    return f"{what} was written by {taken.writer}; the operator has taken it back"


def contested(
    contests: Iterable[Contest[OwnedField]], held_up: Iterable[tuple[str, tuple[str, ...]]]
) -> StatusCondition | None:
    """Give the condition of a policy whose objects are left to others; None when none is.

    No figure of it runs with the clock: what stands as it is makes no write of the status.

    Args:
        contests: those of its objects that stand.
        held_up: ReplicaSets that are deleted and stay, with the finalizers that hold them.
    """
    texts = [_standing(contest, round(contest.pause_seconds / 60)) for contest in contests]
    reason = "WrittenBack" if texts else "DeletionHeldUp"
    texts += [f"ReplicaSet {name} is deleted and stays, for {', '.join(names)}" for name, names in held_up]
    if not texts:
        return None
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return StatusCondition(OWNERSHIP_CONTESTED, True, reason, "; ".join(texts[:_NAMED]) + more)


def _standing(contest: Contest[OwnedField], minutes: int) -> str:
    if contest.part is OwnedField.PRIORITY:
        return (
            f"placeholders of {contest.subject} get a priority that no real pod displaces, whatever their template "
            f"says (an admission webhook? another PriorityClass?), so none are made for {minutes} min at a time"
        )
    if contest.part is OwnedField.LOST:
        return (
            f"placeholders of {contest.subject} lose their labels or their owner as soon as they are made (an "
            f"admission webhook? another controller?), so none are made for {minutes} min at a time"
        )
    what = f"{_WHAT[contest.part]} of {contest.subject}"
    return f"{what}: {contest.writer} writes it back each time, so it is left alone for {minutes} min at a time"
