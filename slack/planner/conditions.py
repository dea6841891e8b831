"""What a plan says of itself: the conditions by which `kubectl get slackpolicies` answers 'is my slack there?'.

Ready says that the policy is accepted and acted upon, and is False only for what somebody must mend: a refill, a
ceiling or a lack of nodes are said by SlackSatisfied, so that tools that wait for Ready do not wait for ever. Also when
a policy may not act at all, and what its plan is then: what is there stays as it is.
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest

import numpy as np

from slack.cluster.quantity import format_compared
from slack.cluster.rates import LARGE
from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.host_names import HOST_REFUSED, refuses_hosts, requires_host
from slack.planner.domain.membership import Domain
from slack.planner.model.result import ConditionType, ExistingShape, ShapeChange, ShapePlan
from slack.planner.policy.spec import CoverMode, Policy
from slack.planner.rollout.backoff import SCAN_SECONDS, ShapePods, refill_seconds
from slack.planner.steps import PlannedSteps
from slack.planner.wanted.part import unzoned
from slack.schema.conditions import StatusCondition

_NAMED = 3
_NO_NODE, _EMPTY = "NoEligibleNode", "NoNodesYet"
"""Nodes come and go, and a group that stands at zero is no fault: it blocks a policy and leaves Ready true."""


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more


def _standing(steps: PlannedSteps) -> str:
    """Say how many of the wanted placeholders have capacity; unbound ones are on no node."""
    rollout, form = steps.rollout, steps.inputs.domain.policy.form
    said = f"{rollout.bound_count} of {rollout.wanted_count} placeholders {form.standing_verb} on nodes"
    if rollout.untold_count and rollout.bound_count < rollout.wanted_count:
        said += f"; {rollout.untold_count} more fit, and no autoscaler was told of them yet"
    return said


def _short(steps: PlannedSteps, have: IntArray) -> str:
    """Say what of the desired extra capacity is missing, '' when nothing is."""
    desired = steps.wants.desired_amount
    return ", ".join(
        f"{name} {' of '.join(format_compared(name, int(have[r]), int(desired[r])))}"
        for r, name in enumerate(steps.inputs.snapshot.resources)
        if have[r] < desired[r]
    )


def _satisfied(steps: PlannedSteps) -> StatusCondition:
    kind = ConditionType.SLACK_SATISFIED
    if steps.wants.blocked is not None:
        return StatusCondition(kind, False, *steps.wants.blocked)
    if steps.unusable_nodes and (steps.rollout.wanted_count or steps.wants.desired_amount.any()):
        # Placeholders that stand there hold no capacity for anybody: a pod cannot take their place.
        return StatusCondition(kind, False, _NO_NODE, f"{_unusable(steps.unusable_nodes)}; {_standing(steps)}")
    missing = _short(steps, steps.amounts.reserved)
    planned_short = _short(steps, steps.amounts.planned)
    buffers_wait = bool(missing) and bool((steps.amounts.buffered_now < steps.amounts.buffered).any())
    waiting = steps.rollout.bound_count < steps.rollout.wanted_count or buffers_wait
    limit = ", ".join(map(str, steps.amounts.binding))
    if not missing and not waiting:
        if limit:
            return StatusCondition(kind, True, "CeilingReached", f"{limit}: what it allows is reserved on nodes")
        kept = f"; CapacityBuffers keep {steps.buffered_text} of it" if steps.buffered_text else ""
        return StatusCondition(kind, True, "Reserved", f"the desired extra capacity is reserved on nodes{kept}")
    on_nodes = _standing(steps) + ("; CapacityBuffers that count wait for nodes" if buffers_wait else "")
    text = f"reserved so far: {missing}; {on_nodes}" if missing and not limit else on_nodes
    text = f"{text}; {limit}" if limit else text
    if steps.inputs.domain.policy.spec.dry_run:
        return StatusCondition(kind, False, "DryRun", f"spec.dryRun: nothing is written; {text}")
    if waiting and (why := _held_up(steps)):
        return StatusCondition(kind, False, why, text)
    if planned_short and steps.zones_without_nodes and not steps.wants.is_capped:
        why = "; ".join([f"less is planned than desired: {planned_short}", *steps.zones_without_nodes])
        return StatusCondition(kind, False, _NO_NODE, why)
    if planned_short and not steps.wants.is_capped:
        return StatusCondition(kind, False, "NotPlanned", f"less is planned than desired: {planned_short}")
    if not waiting:
        said = limit or f"spec.extraCapacity.ceiling binds: {planned_short}"
        return StatusCondition(kind, False, "CeilingReached", f"{said}: what it allows is reserved on nodes")
    start = round(SCAN_SECONDS + steps.inputs.snapshot.node_start_seconds)
    refused = f"; the autoscaler says: {_listed(steps.held_back.refusals)}" if steps.held_back.refusals else ""
    return StatusCondition(kind, False, "Refilling", f"{text}; a node takes about {start} s here{refused}")


def _unusable(nodes: int) -> str:
    return (
        f"all {nodes} nodes of the policy are cordoned, not ready or being removed: their pods count, and what is "
        "wanted is computed as if they were usable"
    )


def _held_up(steps: PlannedSteps) -> str | None:
    """Say what keeps placeholders from their nodes; None while they are on their way."""
    if steps.held_back.reason is not None:
        return steps.held_back.reason
    if steps.held_back.ignored_seconds:
        return "NoWord"
    late = steps.rollout.oldest_pending_seconds >= refill_seconds(steps.inputs.snapshot.node_start_seconds)
    return "PlaceholdersPending" if late else None


def _ready(steps: PlannedSteps) -> StatusCondition:
    kind = ConditionType.READY
    if steps.wants.blocked is not None and steps.wants.blocked[0] not in {_NO_NODE, _EMPTY}:
        return StatusCondition(kind, False, *steps.wants.blocked)
    if steps.inputs.unbounded is not None:
        return StatusCondition(kind, False, "NoPrices", steps.inputs.unbounded)
    notes = [*(f"yields {text}" for text in steps.inputs.domain.yielded), *_notes(steps)]
    notes += [_unusable(steps.unusable_nodes)] if steps.unusable_nodes else []
    if steps.wants.blocked is not None:
        said = f"nothing can be done now: {steps.wants.blocked[1]}"
    elif steps.inputs.domain.policy.spec.dry_run:
        said = "spec.dryRun: the policy is planned for and nothing is written"
    else:
        said = _standing(steps)
    return StatusCondition(kind, True, "Accepted", "; ".join([said, *notes]))


_UNSURE_SHOWN = 3


def _covered(steps: PlannedSteps) -> StatusCondition:
    kind, share = ConditionType.COVERED, f"{steps.wants.covered_share:.1%} of arrivals find room in one placeholder"
    left = f"; {len(steps.uncovered)} workloads do not" if steps.uncovered else ""
    if steps.unsure:
        some = ", ".join(map(str, nsmallest(_UNSURE_SHOWN, steps.unsure)))
        more = " ..." if len(steps.unsure) > _UNSURE_SHOWN else ""
        left += f"; not all that decides about the nodes of {len(steps.unsure)} workloads is checked ({some}{more})"
    if steps.wants.blocked is not None:
        return StatusCondition(kind, False, *steps.wants.blocked)
    if steps.wants.limit == "objective":
        return StatusCondition(
            kind, True, "ObjectiveDecides", f"{share}{left}: so much room the objective asks for now"
        )
    if steps.wants.limit is not None:
        if steps.wants.limit == "ceiling":
            return StatusCondition(
                kind, False, "CeilingReached", "; ".join([share + left, *map(str, steps.amounts.binding)])
            )
        return StatusCondition(kind, False, "MaxShapesReached", share + left)
    enough = steps.wants.covered_share >= _coverage(steps.inputs.domain.policy) - 1e-9
    return StatusCondition(kind, enough, "CoverageReached" if enough else "CoverageMissed", share + left)


def conditions(steps: PlannedSteps) -> tuple[StatusCondition, ...]:
    """Return every condition, in the order of `ConditionType`; LargeSlack only where it is true."""
    t, held_back, parts = ConditionType, steps.held_back, steps.wants.parts
    infeasible = (
        *steps.inputs.mirrors.infeasible,
        *dict.fromkeys(text for part in parts for text in part.infeasible),
    )
    large_shapes = tuple(text for part in parts for text in part.pins)
    if steps.wants.blocked is not None:
        feasible = StatusCondition(t.FEASIBLE, False, *steps.wants.blocked)
    elif infeasible:
        feasible = StatusCondition(t.FEASIBLE, False, "ShapeFitsNowhere", _listed(infeasible))
    else:
        feasible = StatusCondition(t.FEASIBLE, True, "EveryShapeFits", "every wanted shape fits an eligible node")
    pins = StatusCondition(t.PINS_NODES, False, "ChunksAreSmall", "no placeholder keeps its node above the threshold")
    if large_shapes:
        pins = StatusCondition(t.PINS_NODES, True, "LargeShape", _listed(large_shapes))
    limited = StatusCondition(t.LIMIT_REACHED, False, "NothingRefused", "nothing keeps placeholders from growing")
    if held_back.reason is not None:
        limited = StatusCondition(t.LIMIT_REACHED, True, held_back.reason, _listed(held_back.limits))
    ignored = _ignored(steps)
    usual = (_ready(steps), _satisfied(steps), _covered(steps), feasible, pins, limited, ignored)
    large = _large(steps)
    return usual if large is None else (*usual, large)


def _ignored(steps: PlannedSteps) -> StatusCondition:
    kind = ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS
    seconds = steps.held_back.ignored_seconds
    if not seconds:
        return StatusCondition(kind, False, "Answered", "no placeholder waits unanswered")
    said = (
        f"placeholders have been pending for over {int(seconds // 60)} min and no autoscaler has said a word about "
        "them: is one running, and is its --expendable-pods-priority-cutoff -10 or lower?"
    )
    return StatusCondition(kind, True, "NoWord", said + steps.inputs.domain.policy.form.silence_hint)


def _large(steps: PlannedSteps) -> StatusCondition | None:
    """Say that this much may be a slip of the pen; None where it is not much."""
    rate, nodes, size = _rate_in_force(steps), len(steps.inputs.snapshot.nodes.names), steps.wants.size
    large = rate is not None and rate > LARGE
    said = f"the rate is {rate:g}, {rate * 100:g} % of what runs" if rate is not None and large else ""
    if 0 < nodes < steps.amounts.new_nodes:
        more = f"at least {steps.amounts.new_nodes} nodes would come to the {nodes} of the cluster"
        cost = steps.amounts.cost
        if cost is not None and (said_cost := cost.of_nodes(steps.amounts.new_nodes)) is not None:
            more += f", which {said_cost}"
        return StatusCondition(
            ConditionType.LARGE_SLACK,
            True,
            "MoreThanDoubles",
            "; ".join(filter(None, (more, None if size is None else size.set_by, said))),
        )
    if large:
        return StatusCondition(ConditionType.LARGE_SLACK, True, "RateAboveHalf", f"{said}; ten percent is 0.1")
    return None


def _notes(steps: PlannedSteps) -> tuple[str, ...]:
    notes = {part.note for part in steps.wants.parts}
    if steps.wants.blocked is None:
        notes.add(unzoned(steps.inputs.snapshot, steps.inputs.domain))
    return tuple(sorted(note for note in notes if note is not None))


def _rate_in_force(steps: PlannedSteps) -> float | None:
    """Return the rate that the amount follows from; None where it follows from something else."""
    wants = steps.wants
    sized = wants.blocked is not None or steps.inputs.amount is not None or wants.size is None
    if sized or any(part.size.replicas is not None for part in wants.parts):
        return None
    return wants.parts[0].size.rate


def _coverage(policy: Policy) -> float:
    """Return the share of arrivals that the policy asks to be covered."""
    cover = policy.spec.cover
    return {CoverMode.NONE: 0.0, CoverMode.EVERYTHING: 1.0}.get(cover.mode, cover.coverage)


def total_of(rows: Sequence[tuple[int, IntArray]], width: int) -> IntArray:
    """[R] sum of count x vector."""
    total = np.zeros(width, dtype=np.int64)
    for count, vector in rows:
        total = total + count * vector
    return total


def why_blocked(domain: Domain, snapshot: Snapshot, unfit: str | None) -> tuple[str, str] | None:
    """Say why nothing may be done for a policy: (reason, message) for its conditions, None when something may.

    Args:
        domain: of the policy.
        snapshot: the cluster.
        unfit: why its PriorityClass will not do.
    """
    spec = domain.policy.spec
    if domain.conflict is not None:
        return "DomainConflict", domain.conflict
    if unfit is not None:
        return "BadPriorityClass", unfit
    if requires_host(domain.constraints) and refuses_hosts(snapshot, domain.policy):
        return "HostnameRefused", f"spec.nodeSelector, of this policy or a more specific one: {HOST_REFUSED}"
    if domain.eligible.any() or domain.templates:
        return None
    count = len(snapshot.nodes.names)
    if not count:
        return _EMPTY, "the cluster has no nodes yet; placeholders come with the first, or give a node template"
    owned = domain.owned[snapshot.nodes.class_id]
    if not owned.any():
        selector = ",".join(f"{k}={v}" for k, v in sorted(spec.node_selector.items()))
        which = f"spec.nodeSelector: {selector} selects" if selector else "spec: the policy has"
        taken = f" that no other policy holds ({'; '.join(domain.yielded)})" if domain.yielded else ""
        return _NO_NODE, f"{which} none of the {count} nodes{taken}; check the labels, or give a node template"
    classes = np.unique(snapshot.nodes.class_id[owned])
    taints = sorted({f"{t.key}={t.value}:{t.effect}" for c in classes for t in snapshot.node_classes[c].taints})
    return _NO_NODE, f"spec.tolerations: every selected node is tainted ({', '.join(taints)}); tolerate one"


def untouched(existing: Sequence[ExistingShape], pods: Mapping[str, ShapePods]) -> tuple[ShapePlan, ...]:
    """What is there stays as it is: the plan of a policy that may not act."""
    nothing = ShapePods(0, 0, 0.0)
    return tuple(
        ShapePlan(
            shape=e.shape,
            role=e.role,
            count=e.replicas,
            replicas=e.replicas,
            workloads=(),
            change=ShapeChange(0, e.replicas, 0),
            bound=pods.get(e.shape.name, nothing).held,
            pending=pods.get(e.shape.name, nothing).waiting,
            retiring=e.retiring,
        )
        for e in existing
    )
