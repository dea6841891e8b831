"""What a plan says of itself: the conditions by which `kubectl get slackpolicies` answers 'is my slack there?'."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.quantity import format_memory, format_quantity
from slack.cluster.snapshot import IntArray
from slack.planner.outcome import Condition, ConditionType
from slack.planner.patience import Patience

_NAMED = 3
_MI = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What planning one policy has found."""

    resources: tuple[str, ...]
    blocked: str
    """Why nothing may be done ('' when all is well): a conflict, no node, a bad priority class."""
    blocked_reason: str
    desired: IntArray
    planned: IntArray
    reserved: IntArray
    wanted: int
    """Placeholders that the plan heads for."""
    bound: int
    """Of these, the bound ones."""
    covered_share: float
    coverage: float
    uncovered: int
    infeasible: tuple[str, ...]
    pins: tuple[str, ...]
    limit: str
    yielded: tuple[str, ...]
    notes: tuple[str, ...]
    patience: Patience
    capped: bool = False
    """A ceiling cut placeholders off."""


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more


def _readable(name: str, value: int) -> str:
    """Return an amount for people: memory in whole Mi, rounded up."""
    return format_memory(-(-value // _MI) * _MI) if name == "memory" else format_quantity(name, value)


def _short(findings: Findings, have: IntArray) -> str:
    """Say what of the desired extra capacity is missing, '' when nothing is."""
    return ", ".join(
        f"{name} {_readable(name, int(have[r]))} of {_readable(name, int(findings.desired[r]))}"
        for r, name in enumerate(findings.resources)
        if have[r] < findings.desired[r]
    )


def _satisfied(findings: Findings) -> Condition:
    kind = ConditionType.SLACK_SATISFIED
    if findings.blocked:
        return Condition(kind, False, findings.blocked_reason, findings.blocked)
    missing = _short(findings, findings.reserved)
    if not missing:
        return Condition(kind, True, "Reserved", "the desired extra capacity is reserved on nodes")
    planned_short = _short(findings, findings.planned)
    if planned_short:
        reason = "CeilingReached" if findings.capped else "NotPlanned"
        return Condition(kind, False, reason, f"less is planned than desired: {planned_short}")
    return Condition(kind, False, "PlaceholdersPending", f"reserved so far: {missing}")


def _covered(findings: Findings) -> Condition:
    kind, share = ConditionType.COVERED, f"{findings.covered_share:.1%} of arrivals find room in one placeholder"
    left = f"; {findings.uncovered} workloads do not" if findings.uncovered else ""
    if findings.blocked:
        return Condition(kind, False, findings.blocked_reason, findings.blocked)
    if findings.limit:
        reason = "CeilingReached" if findings.limit == "ceiling" else "MaxShapesReached"
        return Condition(kind, False, reason, share + left)
    enough = findings.covered_share >= findings.coverage - 1e-9
    return Condition(kind, enough, "CoverageReached" if enough else "CoverageMissed", share + left)


def conditions(findings: Findings) -> tuple[Condition, ...]:
    """Return every condition, in the order of `ConditionType`."""
    t, patience = ConditionType, findings.patience
    satisfied, covered = _satisfied(findings), _covered(findings)
    if findings.blocked:
        feasible = Condition(t.FEASIBLE, False, findings.blocked_reason, findings.blocked)
    elif findings.infeasible:
        feasible = Condition(t.FEASIBLE, False, "ShapeFitsNowhere", _listed(findings.infeasible))
    else:
        feasible = Condition(t.FEASIBLE, True, "EveryShapeFits", "every wanted shape fits an eligible node")
    if findings.blocked:
        ready = Condition(t.READY, False, findings.blocked_reason, findings.blocked)
    elif not satisfied.status:
        ready = Condition(t.READY, False, satisfied.reason, satisfied.message)
    elif findings.bound < findings.wanted:
        ready = Condition(
            t.READY, False, "PlaceholdersPending", f"{findings.bound} of {findings.wanted} placeholders are on nodes"
        )
    else:
        notes = [*(f"yields {text}" for text in findings.yielded), *findings.notes]
        message = f"{findings.bound} placeholders are on nodes" + "".join(f"; {note}" for note in notes)
        ready = Condition(t.READY, True, "SlackIsThere", message)
    pins = Condition(t.PINS_NODES, False, "ChunksAreSmall", "no placeholder keeps its node above the threshold")
    if findings.pins:
        pins = Condition(t.PINS_NODES, True, "LargeShape", _listed(findings.pins))
    limited = Condition(t.LIMIT_REACHED, False, "NothingRefused", "nothing keeps placeholders from growing")
    if patience.limits:
        limited = Condition(t.LIMIT_REACHED, True, patience.reason, _listed(patience.limits))
    ignored = Condition(t.AUTOSCALER_IGNORES_PLACEHOLDERS, False, "Answered", "no placeholder waits unanswered")
    if patience.ignored_seconds:
        ignored = Condition(
            t.AUTOSCALER_IGNORES_PLACEHOLDERS,
            True,
            "NoWord",
            f"placeholders have been pending for over {int(patience.ignored_seconds // 60)} min and no autoscaler has "
            "said a word about them: is one running, and is its --expendable-pods-priority-cutoff -10 or lower?",
        )
    return (ready, satisfied, covered, feasible, pins, limited, ignored)


def total_of(rows: Sequence[tuple[int, IntArray]], width: int) -> IntArray:
    """[R] sum of count x vector."""
    total = np.zeros(width, dtype=np.int64)
    for count, vector in rows:
        total = total + count * vector
    return total
