"""The planner's one entry point: snapshot and policies in, plan out. Pure and deterministic (S2).

Nodes, pods and placeholders are divided among the policies (`inputs`). The plan of each policy then has six steps:

1. Size: how much extra capacity, zone by zone.
2. Wanted: mirrors (S7), cover (S6) and fill that hold it.
3. Hold: what autoscalers and quotas refuse is held back (`backoff`).
4. Rollout and removal: what is to be there now, and which placeholders leave (`roll_out`, `victims`).
5. Conditions: what the status says.
6. Summary: all figures in one document, and what the next plan remembers.

No step is O(pods x nodes) (R1): pods come as kinds and nodes as classes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Placeholder, Snapshot, Workload
from slack.cluster.unchecked import Unchecked, unchecked
from slack.cluster.wire import ResourceQuota
from slack.planner.conditions import conditions, total_of, untouched, why_blocked
from slack.planner.domain.capacity import ceiling_of, with_rate
from slack.planner.domain.ceilings import bindings
from slack.planner.domain.costs import costs_of
from slack.planner.domain.growth import new_nodes
from slack.planner.domain.strangers import Stranger, in_order
from slack.planner.domain.unseen_resources import named, widened
from slack.planner.inputs import assign_reservations, inputs_of, observe
from slack.planner.model.added import vector_of
from slack.planner.model.placeholder_counts import Alike
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import Pool
from slack.planner.model.result import (
    AutoscalerEvent,
    ExistingShape,
    Plan,
    PlannerState,
    PolicyPlan,
    RememberedPolicy,
    ShapeChange,
    ShapePlan,
)
from slack.planner.model.shape import WantedShape, merged
from slack.planner.model.surplus import Surplus
from slack.planner.objective.amount import Amount
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.policy.spec import DEFAULT_RATE, Policy
from slack.planner.removal.victims import pushed_out, victims
from slack.planner.rollout.backoff import HeldBack, ShapePods, hold_back, pods_by_shape
from slack.planner.rollout.rollout import CurrentState, RolloutTarget, first_steps, roll_out
from slack.planner.steps import PlannedSteps, PolicyAmounts, PolicyRollout, PolicyWants
from slack.planner.summary import summary_of, uncovered_workloads
from slack.planner.wanted.part import PartPlan, PolicyInputs, plan_parts

UNKNOWN_CLASSES = PriorityClasses({})


def _shape_plans(
    snapshot: Snapshot,
    targets: Sequence[RolloutTarget],
    current: CurrentState,
    mine: Sequence[Placeholder],
    steps: Mapping[str, int],
    strangers: Mapping[str, bool],
) -> tuple[ShapePlan, ...]:
    """Put the plans of shapes together; strangers: which placeholders are not on own nodes, and whether one counts."""
    # The ReplicaSet controller takes pending pods first; so many bound ones go when it is done.
    leaving = {
        t.wanted.shape.name: current.bound(t.wanted.shape.name) - t.replicas
        for t in targets
        if t.wanted.shape.form.marks_victims
    }
    bound: dict[str, list[Placeholder]] = {}
    for pod in mine if max(leaving.values(), default=0) > 0 else ():
        if pod.node >= 0:
            bound.setdefault(pod.shape, []).append(pod)
    plans = []
    for target in targets:
        w, name = target.wanted, target.wanted.shape.name
        there, pods = current.replicas(name), current.pods.get(name, ShapePods(0, 0, 0.0))
        plans.append(
            ShapePlan(
                shape=w.shape,
                role=w.role,
                count=w.count,
                replicas=target.replicas,
                workloads=w.workloads,
                change=ShapeChange(
                    max(target.replicas - there, 0), min(there, target.replicas), max(there - target.replicas, 0)
                ),
                bound=pods.held,
                pending=pods.waiting,
                retiring=target.retiring,
                victims=victims(snapshot, bound.get(name, ()), leaving.get(name, 0), strangers),
                at_first=steps.get(name),
            )
        )
    return tuple(plans)


def _actual(
    alike: Iterable[Alike], resources: Sequence[str], vectors: Mapping[str, IntArray]
) -> tuple[IntArray, IntArray, IntArray]:
    """[R] what placeholders request: those whose capacity is held, all, and of these those of no known shape."""
    reserved = anywhere = beside = np.zeros(len(resources), dtype=np.int64)
    for each in alike:
        vector = vectors.get(each.shape) if each.requests is None else vector_of(each.requests, resources)
        if vector is not None:
            reserved = reserved + each.held * each.count * vector
            anywhere = anywhere + each.count * vector
            beside = beside + (each.shape not in vectors) * each.count * vector
    return reserved, anywhere, beside


def _plan_policy(inputs: PolicyInputs) -> tuple[PolicyPlan, RememberedPolicy, frozenset[str]]:
    """Plan one policy; also return the names of other policies' placeholders that it counts on."""
    policy, state, snapshot = inputs.domain.policy, inputs.state, inputs.snapshot
    pods = pods_by_shape(inputs.alike, inputs.now)
    # 1. Size: how much extra capacity there is to be, zone by zone.
    # 2. Wanted: the placeholders that hold it.
    wants = _wants_of(inputs)
    # 3. Hold: what autoscalers and quotas refuse is held back.
    held_back = hold_back(
        policy, inputs.existing, pods, inputs.events, state.backoffs, inputs.now, snapshot.node_start_seconds
    )
    # 4. Rollout and removal: what is to be there now, and which placeholders leave.
    rollout = _roll_out(inputs, wants, held_back, pods)
    pushed = () if wants.blocked is not None else _pushed_out(inputs, rollout.vectors)
    amounts = _amounts_of(inputs, wants, rollout)
    # 5. Conditions: what the status says of all that.
    uncovered = uncovered_workloads(inputs, wants)
    covers = inputs.mirrors.covers
    unsure = _unsure(snapshot, wants.parts, covers, inputs.cache, apart=policy.form.is_scheduled)
    steps = PlannedSteps(inputs, wants, held_back, rollout, amounts, uncovered, unsure)
    found = conditions(steps)
    # 6. Summary: the plan as one document, and what the next one remembers.
    item = summary_of(steps, pushed_out=pushed, found=found)
    remembered = RememberedPolicy(
        counts=rollout.counts,
        cheaper_since=wants.cheaper_since,
        backoffs=held_back.backoffs,
        added=inputs.known,
        ladder=wants.ladder,
    )
    return item, remembered, wants.hosted


def _wants_of(inputs: PolicyInputs) -> PolicyWants:
    """Size the extra capacity of a policy and choose its placeholders; nothing is wanted where it may not plan."""
    state, width = inputs.state, len(inputs.snapshot.resources)
    blocked = why_blocked(inputs.domain, inputs.snapshot, inputs.unfit)
    if blocked is not None:
        return PolicyWants(width, blocked, state.cheaper_since, state.ladder)
    parts, due, ladder, hosted, sets = plan_parts(inputs)
    wanted = merged([*inputs.mirrors.wanted, *(w for part in parts for w in part.wanted), *_elsewhere(inputs)])
    return PolicyWants(width, None, due, ladder, parts, wanted, hosted, sets)


def _roll_out(
    inputs: PolicyInputs, wants: PolicyWants, held_back: HeldBack, pods: Mapping[str, ShapePods]
) -> PolicyRollout:
    """Say what of the wanted placeholders is to be there now, and which of those that are there leave."""
    snapshot, existing, state = inputs.snapshot, inputs.existing, inputs.state
    vectors = {e.shape.name: e.shape.vector(snapshot.resources) for e in existing}
    alike = inputs.alike
    if wants.blocked is not None:
        reserved, anywhere, _ = _actual(alike, snapshot.resources, vectors)
        return PolicyRollout(untouched(existing, pods), dict(state.counts), vectors, pods, reserved, anywhere)
    # Placeholders whose ReplicaSet was deleted are those of the shape that is wanted, and counted as such.
    vectors |= {w.shape.name: w.vector for w in wants.wanted}
    reserved, anywhere, beside = _actual(alike, snapshot.resources, vectors)
    spec = inputs.domain.policy.spec
    current = CurrentState(
        existing={e.shape.name: e for e in existing},
        pods=pods,
        ceiling=ceiling_of(snapshot, inputs.domain.policy),
        caps=held_back.caps,
        now=inputs.now,
        shrink_delay_seconds=spec.stabilization.shrink_delay.total_seconds(),
        give_up_seconds=spec.stabilization.give_up_after.total_seconds(),
        added=inputs.added,
        beside=beside,
        release_pending=inputs.amount is not None,
    )
    targets, counts = roll_out(wants.wanted, snapshot.resources, state.counts, current)
    steps = first_steps(targets, inputs.known, current) if spec.extra_capacity.ceiling else {}
    first = {s.pod.name: s.pod.name in inputs.hosted for s in inputs.strangers} | inputs.mirrors.strays
    shapes = _shape_plans(snapshot, targets, current, inputs.placeholders, steps, first)
    vectors |= {t.wanted.shape.name: t.wanted.vector for t in targets}
    return PolicyRollout(shapes, counts, vectors, pods, reserved, anywhere)


def _amounts_of(inputs: PolicyInputs, wants: PolicyWants, rollout: PolicyRollout) -> PolicyAmounts:
    """Add up what the plan heads for and what is held now, in amounts, nodes and money."""
    snapshot, domain, vectors = inputs.snapshot, inputs.domain, rollout.vectors
    added, heading, reserved = inputs.added, rollout.heading, rollout.reserved
    rooms = [(1, added.additions_to(s.shape.name).room(s.count, vectors[s.shape.name])) for s in heading]
    planned = total_of(rooms, wants.width)
    if inputs.strangers or wants.hosted:
        guests = _room(inputs.guests, wants.hosted, wants.width)
        planned = planned - _room(inputs.strangers, inputs.hosted, wants.width) + guests
        reserved = reserved - _room(inputs.strangers, None, wants.width) + guests
    cost, reserved_cost = costs_of(snapshot, domain, (planned, reserved), inputs.priced)
    new = new_nodes(snapshot, domain, planned, reserved, inputs.cache) if wants.blocked is None else 0
    surplus = _surplus_of(inputs, wants, rollout, reserved - planned)
    buffered = buffered_now = wants.buffer_amount
    if buffered.any() and inputs.buffered is not None:
        buffered_now = np.minimum(inputs.buffered.amount_now(domain, snapshot.nodes.class_id), buffered)
    ceiling, each = domain.policy.spec.extra_capacity.ceiling, [vectors[s.shape.name] for s in heading if s.count]
    return PolicyAmounts(
        planned=planned + buffered,
        reserved=reserved + buffered_now,
        new_nodes=new,
        cost=cost,
        reserved_cost=reserved_cost,
        surplus=surplus,
        buffered=buffered,
        buffered_now=buffered_now,
        binding=bindings(
            snapshot.resources,
            wants.asked_amount,
            wants.above_ceiling,
            ceiling,
            planned + buffered,
            each,
            capped=wants.is_capped,
        ),
    )


def _surplus_of(inputs: PolicyInputs, wants: PolicyWants, rollout: PolicyRollout, more: IntArray) -> Surplus | None:
    """Return what is held beyond the plan: more than a shape's count has capacity, and it is to be removed.

    Args:
        inputs: of the policy.
        wants: of steps 1 and 2.
        rollout: of step 4.
        more: [R] what is held minus what is planned.
    """
    policy = inputs.domain.policy
    amount = np.maximum(more, 0)
    shrinking = [shape for shape in rollout.shapes if shape.bound > shape.count]
    if wants.blocked is not None or policy.spec.dry_run or not shrinking or not amount.any():
        return None
    delay = policy.spec.stabilization.shrink_delay.total_seconds()
    waiting = [rollout.counts[shape.shape.name] for shape in shrinking if shape.replicas > shape.count]
    due = [counts[0][0] + delay for counts in waiting if len(counts) > 1]
    leaves_now = any(shape.bound > shape.replicas for shape in shrinking)
    return Surplus(amount, None if leaves_now else min(due, default=None))


def _elsewhere(inputs: PolicyInputs) -> list[WantedShape]:
    """Return the placeholders of this policy that others count on: they stay in the ReplicaSets that made them."""
    counts = Counter(stranger.pod.shape for stranger in inputs.strangers if stranger.pod.name in inputs.hosted)
    return [
        WantedShape(there.shape, there.role, counts[name], there.shape.vector(inputs.snapshot.resources), used_up=True)
        for there in inputs.existing
        if counts[name := there.shape.name]
    ]


def _room(strangers: Iterable[Stranger], names: frozenset[str] | None, width: int) -> IntArray:
    """[R] what those of these names request, all of them where there are none."""
    vectors = [s.vector for s in strangers if names is None or s.pod.name in names]
    return sum(vectors, np.zeros(width, dtype=np.int64))


def _pushed_out(inputs: PolicyInputs, vectors: Mapping[str, IntArray]) -> tuple[str, ...]:
    found = pushed_out(inputs.snapshot, vectors, inputs.overcommitted)
    return tuple(pod.name for pod in found if pod.policy == inputs.domain.policy.name)


def _depend_on_more(
    own: tuple[tuple[Unchecked, ...], ...], constraints: tuple[Constraints, ...], constraint_id: IndexArray
) -> BoolArray:
    """[K] about which kinds' nodes more decides than is checked.

    Args:
        own: [K] what is not checked of the pods themselves.
        constraints: of all kinds.
        constraint_id: [K]
    """
    among = np.array([bool(unchecked((), each)) for each in constraints], dtype=bool)
    found: BoolArray = np.fromiter(map(bool, own), dtype=bool, count=len(own))
    return found | among[constraint_id] if len(constraints) else found


def _unsure(
    snapshot: Snapshot, parts: Sequence[PartPlan], mirrors: Mapping[int, str], cache: PlanCache, *, apart: bool
) -> Collection[Workload]:
    """Return the workloads that are covered, and about whose nodes more decides than is checked.

    Args:
        snapshot: the cluster.
        parts: of the policy.
        mirrors: rows of `Snapshot.kinds` that have mirrors.
        cache: of the policy.
        apart: the scheduler keeps mirrors off the nodes that their workload's pods avoid.
    """
    kinds = snapshot.kinds
    some = cache.compute(_depend_on_more, kinds.unchecked, snapshot.constraints, kinds.constraint_id)
    if not some.any():
        return ()
    covered = np.zeros(len(kinds), dtype=bool)
    for part in parts:
        for w in part.wanted:
            covered[w.kinds] = True
    covered[list(mirrors)] = False
    rows = set(np.flatnonzero(covered & some).tolist())
    rows |= {
        row
        for row in mirrors
        if unchecked(kinds.unchecked[row], snapshot.constraints[kinds.constraint_id[row]], kept_apart=apart)
    }
    return {kinds.workloads[row] for row in rows}


def plan(
    snapshot: Snapshot,
    policies: Sequence[Policy],
    *,
    now: float,
    existing: Sequence[ExistingShape] = (),
    events: Sequence[AutoscalerEvent] = (),
    state: PlannerState = MappingProxyType({}),
    default_rate: float = DEFAULT_RATE,
    priority_classes: PriorityClasses = UNKNOWN_CLASSES,
    cache: PlanCache | None = None,
    objectives: Mapping[str, Amount] = MappingProxyType({}),
    prices: NodePrices = NO_PRICES,
    pools: Sequence[Pool] = (),
    quotas: Iterable[ResourceQuota] = (),
) -> Plan:
    """Work out what placeholders should be there.

    Args:
        snapshot: the cluster; its `placeholders` tell what is bound and pending.
        policies: any number, each with a name of its own; their order does not matter.
        now: Unix seconds.
        existing: the ReplicaSets that are there.
        events: what autoscalers have said about placeholders.
        state: what the previous plan returned; an empty one after a restart only makes shrinking wait anew.
        default_rate: --extra-capacity-min-rate (S5), for policies that name no rate.
        priority_classes: what is known of them; -10 for the value of one that is not known.
        cache: what previous plans have worked out, for speed only: the plan is the same without it.
        prices: of nodes, for what the plan costs, and for maxCostPerHour of an objective without prices of its own.
        objectives: by policy what `slack.planner.objective` asks for, of those that have an objective.
        pools: what ActivationPools announce.
        quotas: ResourceQuotas that bound these, as far as they are known.

    Raises:
        ValueError: when two policies have the same name.
    """
    if len({policy.name for policy in policies}) < len(policies):
        raise ValueError("two policies have the same name")
    cache = PlanCache() if cache is None else cache
    ordered = cache.compute(with_rate, tuple(sorted(policies, key=lambda policy: policy.name)), default_rate)
    snapshot = widened(snapshot, named(ordered, (there.shape for there in existing)))
    observed = observe(snapshot, ordered, existing, state, priority_classes, cache, now)
    reserved = assign_reservations(observed, existing, pools, quotas, priority_classes, cache)
    inputs = inputs_of(observed, reserved, existing, events, state, objectives, prices, cache)
    items, remembered = _plan_in_turn(inputs, observed.strangers)
    cache.end()
    return Plan(tuple(items[policy.name] for policy in policies), remembered)


def _plan_in_turn(
    inputs: Mapping[str, PolicyInputs], strangers: Mapping[str, tuple[Stranger, ...]]
) -> tuple[dict[str, PolicyPlan], dict[str, RememberedPolicy]]:
    """Plan each policy after those that count on its placeholders, which therefore stay."""
    hosted: frozenset[str] = frozenset()
    items, remembered = {}, {}
    for name in in_order(tuple(inputs), strangers) if strangers else inputs:
        items[name], remembered[name], counted_on = _plan_policy(replace(inputs[name], hosted=hosted))
        hosted |= counted_on
    return items, remembered
