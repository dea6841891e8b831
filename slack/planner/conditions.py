"""What a plan says of itself: the conditions by which `kubectl get slackpolicies` answers 'is my slack there?'.

Ready says that the policy is accepted and acted upon, and is False only for what somebody must mend: a refill, a
ceiling or a lack of nodes are said by SlackSatisfied, so that tools that wait for Ready do not wait for ever. Also when
a policy may not act at all, and what its plan is then: what is there stays as it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np

from slack.cluster.quantity import format_compared
from slack.cluster.rates import LARGE
from slack.cluster.snapshot import IntArray, Snapshot, Workload
from slack.planner.domain.host_names import HOST_REFUSED, refuses_hosts, requires_host
from slack.planner.domain.membership import Domain
from slack.planner.forms.choice import BOUND
from slack.planner.forms.form import Form
from slack.planner.model.result import Binding, ConditionType, ExistingShape, ShapeChange, ShapePlan
from slack.planner.rollout.backoff import SCAN_SECONDS, HeldBack, ShapePods, refill_seconds
from slack.planner.wanted.cover_choice import Limit
from slack.schema.conditions import StatusCondition

_NAMED = 3
_NO_NODE, _EMPTY = "NoEligibleNode", "NoNodesYet"
"""Nodes come and go, and a group that stands at zero is no fault: it blocks a policy and leaves Ready true."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyFindings:
    """What planning one policy has found."""

    resources: tuple[str, ...]
    blocked: tuple[str, str] | None
    """As `why_blocked` gives it."""
    desired: IntArray
    planned: IntArray
    reserved: IntArray
    wanted: int
    """Placeholders that the plan heads for."""
    bound: int
    """Of these, the bound ones; unbound ones that fit and that autoscalers were told of."""
    covered_share: float
    unsure: Collection[Workload]
    """Workloads that are covered and about whose nodes more decides than is checked."""
    coverage: float
    uncovered: int
    infeasible: tuple[str, ...]
    pins: tuple[str, ...]
    limit: Limit | None
    yielded: tuple[str, ...]
    notes: tuple[str, ...]
    held_back: HeldBack
    untold: int = 0
    """Unbound placeholders that fit, and that no autoscaler was told of yet."""
    capped: bool = False
    """A ceiling cut placeholders off."""
    binding: tuple[Binding, ...] = ()
    """Ceilings that keep the policy below what it would have without them."""
    node_start_seconds: float = 120.0
    """How long a node takes here."""
    oldest_pending_seconds: float = 0.0
    """Age of the oldest placeholder that the scheduler has refused; 0 when there is none."""
    emptied: tuple[str, ...] = ()
    """Zones without an eligible node, in words: they count, and nothing can be planned for them now."""
    unusable: int = 0
    """How many nodes the policy has of which none can take a placeholder now."""
    dry_run: bool = False
    """Nothing is written for the policy."""
    rate: float | None = None
    """The rate that the amount follows from; None where it follows from something else."""
    new_nodes: int = 0
    """As `PolicyPlan` has it."""
    nodes: int = 0
    """Of the whole cluster."""
    new_nodes_cost: str | None = None
    """What the new ones cost, in words: `cost 4.8 EUR an hour, ...`; None without prices."""
    set_by: str | None = None
    """As `Size` has it."""
    form: Form = BOUND
    """Of the policy's placeholders."""
    unbounded: str | None = None
    """Why nothing bounds what an objective may cost, so that it does not decide."""


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more


def _standing(findings: PolicyFindings) -> str:
    """Say how many of the wanted placeholders have capacity; unbound ones are on no node."""
    said = f"{findings.bound} of {findings.wanted} placeholders {findings.form.standing_verb} on nodes"
    if findings.untold and findings.bound < findings.wanted:
        said += f"; {findings.untold} more fit, and no autoscaler was told of them yet"
    return said


def _short(findings: PolicyFindings, have: IntArray) -> str:
    """Say what of the desired extra capacity is missing, '' when nothing is."""
    return ", ".join(
        f"{name} {' of '.join(format_compared(name, int(have[r]), int(findings.desired[r])))}"
        for r, name in enumerate(findings.resources)
        if have[r] < findings.desired[r]
    )


def _satisfied(findings: PolicyFindings) -> StatusCondition:
    kind = ConditionType.SLACK_SATISFIED
    if findings.blocked is not None:
        return StatusCondition(kind, False, *findings.blocked)
    if findings.unusable and (findings.wanted or findings.desired.any()):
        # Placeholders that stand there hold no capacity for anybody: a pod cannot take their place.
        return StatusCondition(kind, False, _NO_NODE, f"{_unusable(findings.unusable)}; {_standing(findings)}")
    missing = _short(findings, findings.reserved)
    planned_short = _short(findings, findings.planned)
    waiting = findings.bound < findings.wanted
    limit = ", ".join(map(str, findings.binding))
    if not missing and not waiting:
        if limit:
            return StatusCondition(kind, True, "CeilingReached", f"{limit}: what it allows is reserved on nodes")
        return StatusCondition(kind, True, "Reserved", "the desired extra capacity is reserved on nodes")
    on_nodes = _standing(findings)
    text = f"reserved so far: {missing}; {on_nodes}" if missing and not limit else on_nodes
    text = f"{text}; {limit}" if limit else text
    if findings.dry_run:
        return StatusCondition(kind, False, "DryRun", f"spec.dryRun: nothing is written; {text}")
    if waiting and (why := _held_up(findings)):
        return StatusCondition(kind, False, why, text)
    if planned_short and findings.emptied and not findings.capped:
        why = "; ".join([f"less is planned than desired: {planned_short}", *findings.emptied])
        return StatusCondition(kind, False, _NO_NODE, why)
    if planned_short and not findings.capped:
        return StatusCondition(kind, False, "NotPlanned", f"less is planned than desired: {planned_short}")
    if not waiting:
        said = limit or f"spec.extraCapacity.ceiling binds: {planned_short}"
        return StatusCondition(kind, False, "CeilingReached", f"{said}: what it allows is reserved on nodes")
    start = round(SCAN_SECONDS + findings.node_start_seconds)
    refused = f"; the autoscaler says: {_listed(findings.held_back.refusals)}" if findings.held_back.refusals else ""
    return StatusCondition(kind, False, "Refilling", f"{text}; a node takes about {start} s here{refused}")


def _unusable(nodes: int) -> str:
    return (
        f"all {nodes} nodes of the policy are cordoned, not ready or being removed: their pods count, and what is "
        "wanted is computed as if they were usable"
    )


def _held_up(findings: PolicyFindings) -> str | None:
    """Say what keeps placeholders from their nodes; None while they are on their way."""
    if findings.held_back.reason is not None:
        return findings.held_back.reason
    if findings.held_back.ignored_seconds:
        return "NoWord"
    late = findings.oldest_pending_seconds >= refill_seconds(findings.node_start_seconds)
    return "PlaceholdersPending" if late else None


def _ready(findings: PolicyFindings) -> StatusCondition:
    kind = ConditionType.READY
    if findings.blocked is not None and findings.blocked[0] not in {_NO_NODE, _EMPTY}:
        return StatusCondition(kind, False, *findings.blocked)
    if findings.unbounded is not None:
        return StatusCondition(kind, False, "NoPrices", findings.unbounded)
    notes = [*(f"yields {text}" for text in findings.yielded), *findings.notes]
    notes += [_unusable(findings.unusable)] if findings.unusable else []
    if findings.blocked is not None:
        said = f"nothing can be done now: {findings.blocked[1]}"
    elif findings.dry_run:
        said = "spec.dryRun: the policy is planned for and nothing is written"
    else:
        said = _standing(findings)
    return StatusCondition(kind, True, "Accepted", "; ".join([said, *notes]))


_UNSURE_SHOWN = 3


def _covered(findings: PolicyFindings) -> StatusCondition:
    kind, share = ConditionType.COVERED, f"{findings.covered_share:.1%} of arrivals find room in one placeholder"
    left = f"; {findings.uncovered} workloads do not" if findings.uncovered else ""
    if findings.unsure:
        some = ", ".join(map(str, nsmallest(_UNSURE_SHOWN, findings.unsure)))
        more = " ..." if len(findings.unsure) > _UNSURE_SHOWN else ""
        left += f"; not all that decides about the nodes of {len(findings.unsure)} workloads is checked ({some}{more})"
    if findings.blocked is not None:
        return StatusCondition(kind, False, *findings.blocked)
    if findings.limit == "objective":
        return StatusCondition(
            kind, True, "ObjectiveDecides", f"{share}{left}: so much room the objective asks for now"
        )
    if findings.limit is not None:
        if findings.limit == "ceiling":
            return StatusCondition(
                kind, False, "CeilingReached", "; ".join([share + left, *map(str, findings.binding)])
            )
        return StatusCondition(kind, False, "MaxShapesReached", share + left)
    enough = findings.covered_share >= findings.coverage - 1e-9
    return StatusCondition(kind, enough, "CoverageReached" if enough else "CoverageMissed", share + left)


def conditions(findings: PolicyFindings) -> tuple[StatusCondition, ...]:
    """Return every condition, in the order of `ConditionType`; LargeSlack only where it is true."""
    t, held_back = ConditionType, findings.held_back
    if findings.blocked is not None:
        feasible = StatusCondition(t.FEASIBLE, False, *findings.blocked)
    elif findings.infeasible:
        feasible = StatusCondition(t.FEASIBLE, False, "ShapeFitsNowhere", _listed(findings.infeasible))
    else:
        feasible = StatusCondition(t.FEASIBLE, True, "EveryShapeFits", "every wanted shape fits an eligible node")
    pins = StatusCondition(t.PINS_NODES, False, "ChunksAreSmall", "no placeholder keeps its node above the threshold")
    if findings.pins:
        pins = StatusCondition(t.PINS_NODES, True, "LargeShape", _listed(findings.pins))
    limited = StatusCondition(t.LIMIT_REACHED, False, "NothingRefused", "nothing keeps placeholders from growing")
    if held_back.reason is not None:
        limited = StatusCondition(t.LIMIT_REACHED, True, held_back.reason, _listed(held_back.limits))
    ignored = _ignored(findings)
    usual = (_ready(findings), _satisfied(findings), _covered(findings), feasible, pins, limited, ignored)
    large = _large(findings)
    return usual if large is None else (*usual, large)


def _ignored(findings: PolicyFindings) -> StatusCondition:
    kind = ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS
    seconds = findings.held_back.ignored_seconds
    if not seconds:
        return StatusCondition(kind, False, "Answered", "no placeholder waits unanswered")
    said = (
        f"placeholders have been pending for over {int(seconds // 60)} min and no autoscaler has said a word about "
        "them: is one running, and is its --expendable-pods-priority-cutoff -10 or lower?"
    )
    return StatusCondition(kind, True, "NoWord", said + findings.form.silence_hint)


def _large(findings: PolicyFindings) -> StatusCondition | None:
    """Say that this much may be a slip of the pen; None where it is not much."""
    rate = findings.rate
    large = rate is not None and rate > LARGE
    said = f"the rate is {rate:g}, {rate * 100:g} % of what runs" if rate is not None and large else ""
    if 0 < findings.nodes < findings.new_nodes:
        more = f"at least {findings.new_nodes} nodes would come to the {findings.nodes} of the cluster"
        if findings.new_nodes_cost is not None:
            more += f", which {findings.new_nodes_cost}"
        return StatusCondition(
            ConditionType.LARGE_SLACK, True, "MoreThanDoubles", "; ".join(filter(None, (more, findings.set_by, said)))
        )
    if large:
        return StatusCondition(ConditionType.LARGE_SLACK, True, "RateAboveHalf", f"{said}; ten percent is 0.1")
    return None


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
