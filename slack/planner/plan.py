"""The planner's one door: snapshot and policies in, plan out. Pure and deterministic (S2).

Per policy: its domain, base and desired extra capacity, mirrors (S7), cover (S6), fill, and then what of that to
write now (`roll_out`), as far as autoscalers and quotas let it (`backoff`). No step is O(pods x nodes) (R1): pods come
as kinds and nodes as classes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.snapshot import IntArray, Placeholder, Snapshot, Workload
from slack.cluster.unchecked import unchecked
from slack.cluster.wire import ResourceQuota
from slack.planner.conditions import Findings, conditions, total_of, untouched, why_blocked
from slack.planner.domain.capacity import ceiling_of, own_rate, with_rate
from slack.planner.domain.ceilings import binding_floors, bindings
from slack.planner.domain.cost_bound import bounded
from slack.planner.domain.costs import costs_of, priced
from slack.planner.domain.counting import counting_of, low_priority_requests
from slack.planner.domain.growth import new_nodes
from slack.planner.domain.membership import divided, node_view
from slack.planner.domain.strangers import Stranger, in_order, strangers_of
from slack.planner.domain.unseen_resources import NOWHERE, named, widened
from slack.planner.model.added import additions_of, seen, vector_of
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import Pool
from slack.planner.model.result import (
    AutoscalerEvent,
    Change,
    CoveredBy,
    ExistingShape,
    Plan,
    PlannerState,
    PolicyPlan,
    PolicyState,
    ShapePlan,
    Uncovered,
)
from slack.planner.model.shape import Shape, Wanted, merged
from slack.planner.model.wanted_by import WantedBy
from slack.planner.objective.amount import Amount
from slack.planner.objects.manifests import PRIORITY, replica_set_name
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.policy.spec import DEFAULT_RATE, CoverMode, Policy
from slack.planner.pools import assign_pools
from slack.planner.rollout.backoff import SCAN_SECONDS, Pods, hold_back, latest_events
from slack.planner.rollout.rollout import CurrentState, Target, first_steps, roll_out
from slack.planner.rollout.victims import overcommitted, pushed_out, victims
from slack.planner.wanted.demand import pending_shares, pods_of
from slack.planner.wanted.mirror_choice import assign_mirrors
from slack.planner.wanted.part import PartPlan, PolicyInputs, plan_parts, uncovered_gangs, unzoned

UNKNOWN_CLASSES = PriorityClasses({})
_Alike = Counter[tuple[str, tuple[tuple[str, int], ...] | None, bool]]
"""How many placeholders have a shape, requests, and capacity that is held or none."""


def _pods(placeholders: Iterable[Placeholder], now: float) -> dict[str, Pods]:
    """Count a policy's placeholders by shape."""
    bound: dict[str, int] = {}
    untold: dict[str, int] = {}
    told: dict[str, int] = {}
    ages: dict[str, list[float]] = {}
    for pod in placeholders:
        if pod.unbound and pod.unschedulable:
            told[pod.shape] = told.get(pod.shape, 0) + 1
        if pod.node >= 0:
            bound[pod.shape] = bound.get(pod.shape, 0) + 1
            if not pod.is_held:
                untold[pod.shape] = untold.get(pod.shape, 0) + 1
        else:
            ages.setdefault(pod.shape, []).append(max(now - pod.created_seconds, 0.0) if pod.unschedulable else 0.0)
    return {
        name: Pods(
            bound.get(name, 0),
            len(ages.get(name, [])),
            max(ages.get(name, [0.0])),
            untold=untold.get(name, 0),
            told=told.get(name, 0),
        )
        for name in sorted({*bound, *ages})
    }


def _shape_plans(
    snapshot: Snapshot,
    targets: Sequence[Target],
    current: CurrentState,
    mine: Sequence[Placeholder],
    steps: Mapping[str, int],
    strangers: Mapping[str, bool],
) -> tuple[ShapePlan, ...]:
    """Put the plans of shapes together; strangers: which placeholders are not on own nodes, and whether one counts."""
    bound: dict[str, list[Placeholder]] = {}
    for pod in mine:
        if pod.node >= 0:
            bound.setdefault(pod.shape, []).append(pod)
    plans = []
    for target in targets:
        w, name = target.wanted, target.wanted.shape.name
        there, pods = current.replicas(name), current.pods.get(name, Pods(0, 0, 0.0))
        plans.append(
            ShapePlan(
                shape=w.shape,
                role=w.role,
                count=w.count,
                replicas=target.replicas,
                workloads=w.workloads,
                change=Change(
                    max(target.replicas - there, 0), min(there, target.replicas), max(there - target.replicas, 0)
                ),
                bound=pods.held,
                pending=pods.waiting,
                retiring=target.retiring,
                # The ReplicaSet controller takes pending pods first; so many bound ones go when it is done.
                victims=victims(snapshot, bound.get(name, ()), pods.bound - target.replicas, strangers)
                if w.shape.form.marks_victims
                else (),
                at_first=steps.get(name),
            )
        )
    return tuple(plans)


def _alike(placeholders: Iterable[Placeholder]) -> _Alike:
    """Count a policy's placeholders by shape, requests, and whether their capacity is held.

    Those of one shape stand together, so each is compared with the one before and not looked up.
    """
    counts: _Alike = Counter()
    for alike, pods in groupby(placeholders, key=attrgetter("shape", "requests", "is_held")):
        counts[alike] += sum(1 for _ in pods)
    return counts


def _actual(
    counts: _Alike, resources: Sequence[str], vectors: Mapping[str, IntArray]
) -> tuple[IntArray, IntArray, IntArray]:
    """[R] what placeholders request: those whose capacity is held, all, and of these those of no known shape."""
    reserved = anywhere = beside = np.zeros(len(resources), dtype=np.int64)
    for (shape, requests, held), count in counts.items():
        vector = vectors.get(shape) if requests is None else vector_of(requests, resources)
        if vector is not None:
            reserved = reserved + held * count * vector
            anywhere = anywhere + count * vector
            beside = beside + (shape not in vectors) * count * vector
    return reserved, anywhere, beside


def _replicas(parts: Sequence[PartPlan], anywhere: IntArray) -> int | None:
    """Return how many standard placeholders all the room amounts to: a plan that is carried out has those asked for.

    Cover and mirrors take their part of a fixed number, and chunks that are there live on in other sizes, so pods of
    one role would be another number than `replicas` asks for; who scales by it would chase its own tail.
    """
    chunks = [part.chunk for part in parts if part.chunk is not None]
    whole = sum(chunks, np.zeros_like(anywhere))
    if not whole.any():
        return None
    return int((anywhere[whole > 0] * len(chunks) // whole[whole > 0]).min())


def _plan_policy(inputs: PolicyInputs) -> tuple[PolicyPlan, PolicyState, frozenset[str]]:
    """Plan one policy; also returns the names of other policies' placeholders that it counts on."""
    snapshot, domain, mirrors = inputs.snapshot, inputs.domain, inputs.mirrors
    existing, state, policy = inputs.existing, inputs.state, domain.policy
    width, spec = len(snapshot.resources), policy.spec
    pods = _pods(inputs.placeholders, inputs.now)
    vectors = {e.shape.name: e.shape.vector(snapshot.resources) for e in existing}
    alike = _alike(inputs.placeholders)
    reserved, anywhere, _ = _actual(alike, snapshot.resources, vectors)
    node_start = snapshot.node_start_seconds
    held_back = hold_back(policy, existing, pods, inputs.events, state.backoffs, inputs.now, node_start)
    blocked = why_blocked(domain, snapshot, inputs.unfit)
    parts: list[PartPlan] = []
    wanted: Sequence[Wanted] = ()
    due: Mapping[str, float] = state.cheaper_since
    ladder = state.ladder
    counts = dict(state.counts)
    sets: tuple[WantedBy, ...] = ()
    hosted: frozenset[str] = frozenset()
    if blocked is not None:
        shapes = untouched(existing, pods)
    else:
        parts, due, ladder, hosted, sets = plan_parts(inputs)
        elsewhere = _elsewhere(inputs)
        wanted = merged([*mirrors.wanted, *(w for part in parts for w in part.wanted), *elsewhere])
        # Placeholders whose ReplicaSet was deleted are those of the shape that is wanted, and counted as such.
        vectors |= {w.shape.name: w.vector for w in wanted}
        reserved, anywhere, beside = _actual(alike, snapshot.resources, vectors)
        current = CurrentState(
            existing={e.shape.name: e for e in existing},
            pods=pods,
            ceiling=ceiling_of(snapshot, policy),
            caps=held_back.caps,
            now=inputs.now,
            shrink_delay_seconds=spec.stabilization.shrink_delay.total_seconds(),
            give_up_seconds=spec.stabilization.give_up_after.total_seconds(),
            added=inputs.added,
            beside=beside,
            release_pending=inputs.amount is not None,
        )
        targets, counts = roll_out(wanted, snapshot.resources, state.counts, current)
        steps = first_steps(targets, inputs.known, current) if spec.extra_capacity.ceiling else {}
        first = {s.pod.name: s.pod.name in inputs.hosted for s in inputs.strangers} | mirrors.strays
        shapes = _shape_plans(snapshot, targets, current, inputs.placeholders, steps, first)
        vectors |= {t.wanted.shape.name: t.wanted.vector for t in targets}
    heading = [s for s in shapes if not s.retiring]
    desired = sum((part.size.desired for part in parts), np.zeros(width, dtype=np.int64))
    asked = sum((part.size.asked for part in parts), np.zeros(width, dtype=np.int64))
    planned = total_of(
        [(1, inputs.added.of(s.shape.name).room(s.count, vectors[s.shape.name])) for s in heading], width
    )
    if inputs.strangers or hosted:
        guests = _room(inputs.guests, hosted, width)
        planned = planned - _room(inputs.strangers, inputs.hosted, width) + guests
        reserved = reserved - _room(inputs.strangers, None, width) + guests
    gangs = uncovered_gangs(inputs, wanted) if blocked is None else []
    uncovered = _unique([*gangs, *mirrors.uncovered, *(u for part in parts for u in part.uncovered)])
    covered_share = 0.0 if blocked is not None else min((part.covered_share for part in parts), default=1.0)
    more = new_nodes(snapshot, domain, planned, reserved) if blocked is None else 0
    cost, reserved_cost = costs_of(snapshot, domain, (planned, reserved), inputs.priced)
    by_rate = blocked is None and inputs.amount is None and not any(part.size.replicas is not None for part in parts)
    notes = {part.note for part in parts} | ({unzoned(snapshot, domain)} if blocked is None else set())
    capped = any(part.capped or part.limit == "ceiling" for part in parts)
    over = np.any([part.size.asked > part.size.ceiling for part in parts] or [asked > asked], axis=0)
    each = [vectors[s.shape.name] for s in heading if s.count]
    binding = bindings(snapshot.resources, asked, over, spec.extra_capacity.ceiling, planned, each, capped=capped)
    found = conditions(
        Findings(
            resources=snapshot.resources,
            blocked=blocked,
            desired=desired,
            planned=planned,
            reserved=reserved,
            wanted=sum(s.count for s in heading),
            bound=sum(min(s.bound, s.count) for s in heading),
            untold=sum(counted.untold for counted in pods.values()),
            covered_share=covered_share,
            unsure=_unsure(snapshot, parts, mirrors.covers, apart=policy.form.is_scheduled),
            coverage=_coverage(policy),
            uncovered=len(uncovered),
            infeasible=(*mirrors.infeasible, *dict.fromkeys(text for part in parts for text in part.infeasible)),
            pins=tuple(text for part in parts for text in part.pins),
            limit=next((part.limit for part in parts if part.limit is not None), None),
            yielded=domain.yielded,
            notes=tuple(sorted(note for note in notes if note is not None)),
            held_back=held_back,
            emptied=tuple(part.note for part in parts if part.without_nodes and part.note),
            capped=capped,
            binding=binding,
            node_start_seconds=node_start,
            oldest_pending_seconds=max((counted.oldest_pending_seconds for counted in pods.values()), default=0.0),
            dry_run=spec.dry_run,
            rate=parts[0].size.rate if parts and by_rate else None,
            new_nodes=more,
            nodes=len(snapshot.nodes.names),
            new_nodes_cost=None if cost is None else cost.of_nodes(more),
            set_by=parts[0].size.set_by if parts else None,
            form=policy.form,
            unbounded=inputs.unbounded,
        )
    )
    chunks = sum(s.bound for s in heading)
    told = tuple(name for name in snapshot.resources if name != NOWHERE)
    plan = PolicyPlan(
        policy=policy.name,
        resources=told,
        nodes=int(domain.eligible.sum()),
        rate=parts[0].size.rate if parts else own_rate(policy),
        base=sum((part.size.base for part in parts), np.zeros(width, dtype=np.int64))[: len(told)],
        desired=desired[: len(told)],
        asked=asked[: len(told)],
        wanted_by=sets,
        binding=binding,
        floors=binding_floors(told, sets, [part.size for part in parts]),
        planned=planned[: len(told)],
        reserved=reserved[: len(told)],
        shapes=shapes,
        pushed_out=() if blocked is not None else _pushed_out(inputs, vectors),
        uncovered=uncovered,
        cut=tuple(mirrors.cuts),
        conditions=found,
        covered_share=covered_share,
        covered_by=_covered_by(parts, mirrors.covers),
        dry_run=spec.dry_run,
        act=blocked is None and not spec.dry_run,
        burst_chunks=chunks,
        sustained_chunks_per_minute=60 * chunks / (SCAN_SECONDS + node_start),
        pods=pods_of(snapshot, domain, inputs.pending, inputs.counting),
        why=inputs.why,
        cost=cost,
        reserved_cost=reserved_cost,
        new_nodes=more,
        replicas=_replicas(parts, anywhere),
        low_priority=None
        if policy.form.occupies_nodes
        else low_priority_requests(snapshot, domain.classes, inputs.counting)[: len(told)],
        set_by=parts[0].size.set_by if parts else None,
    )
    remembered = PolicyState(
        counts=counts, cheaper_since=due, backoffs=held_back.backoffs, added=inputs.known, ladder=ladder
    )
    return plan, remembered, hosted


def _elsewhere(inputs: PolicyInputs) -> list[Wanted]:
    """Return the placeholders of this policy that others count on: they stay in the ReplicaSets that made them."""
    counts = Counter(stranger.pod.shape for stranger in inputs.strangers if stranger.pod.name in inputs.hosted)
    return [
        Wanted(there.shape, there.role, counts[name], there.shape.vector(inputs.snapshot.resources), used_up=True)
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


def _unsure(
    snapshot: Snapshot, parts: Sequence[PartPlan], mirrors: Mapping[int, str], *, apart: bool
) -> frozenset[Workload]:
    """Return the workloads that are covered, and about whose nodes more decides than is checked.

    Args:
        snapshot: the cluster.
        parts: of the policy.
        mirrors: rows of `Snapshot.kinds` that have mirrors.
        apart: the scheduler keeps mirrors off the nodes that their workload's pods avoid.
    """
    kinds = snapshot.kinds
    among = np.array([bool(unchecked((), own)) for own in snapshot.constraints], dtype=bool)
    some = np.fromiter(map(bool, kinds.unchecked), dtype=bool, count=len(kinds)) | among[kinds.constraint_id]
    if not some.any():
        return frozenset()
    rows = {row for part in parts for w in part.wanted for row in w.kinds[some[w.kinds]].tolist()} - mirrors.keys()
    rows |= {
        row
        for row in mirrors
        if unchecked(kinds.unchecked[row], snapshot.constraints[kinds.constraint_id[row]], kept_apart=apart)
    }
    return frozenset(kinds.workloads[row] for row in rows)


def _covered_by(parts: Iterable[PartPlan], mirrors: Mapping[int, str]) -> CoveredBy:
    return CoveredBy([(w.kinds, w.shape.name) for part in parts for w in part.wanted], mirrors)


def _coverage(policy: Policy) -> float:
    """Return the share of arrivals that the policy asks to be covered."""
    cover = policy.spec.cover
    return {CoverMode.NONE: 0.0, CoverMode.EVERYTHING: 1.0}.get(cover.mode, cover.coverage)


def _unique(uncovered: Iterable[Uncovered]) -> tuple[Uncovered, ...]:
    """Return one entry a workload, the first that was said of it."""
    return tuple(sorted({u.pod: u for u in reversed(list(uncovered))}.values(), key=lambda u: u.pod))


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
        policies: any number, each with a name of its own.
        now: Unix seconds.
        existing: the ReplicaSets that are there.
        events: what autoscalers have said about placeholders.
        state: what the previous plan returned; an empty one after a restart only makes shrinking wait anew.
        default_rate: --extra-capacity-min-rate (S5), for policies that name no rate.
        priority_classes: what is known of them; -10 for the value of one that is not known.
        cache: what previous plans have worked out, for speed only: the plan is the same without it.
        prices: of nodes, for what the plan costs; of the plan nothing follows from them but spec.objective's
            maxCostPerHour, where the policy has no prices of its own.
        objectives: by policy what `slack.planner.objective` asks for, of those that have an objective.
        pools: what ActivationPools announce.
        quotas: ResourceQuotas that bound these, as far as they are known.

    Raises:
        ValueError: when two policies have the same name.
    """
    if len({policy.name for policy in policies}) < len(policies):
        raise ValueError("two policies have the same name")
    asked = [policy.name for policy in policies]
    cache = PlanCache() if cache is None else cache
    # Their order must not matter.
    ordered = tuple(sorted(policies, key=lambda policy: policy.name))
    policies = rated = with_rate(ordered, default_rate)
    priorities = priority_classes.values
    snapshot = widened(snapshot, named(policies, (there.shape for there in existing)))
    domains = cache.of(divided, node_view(snapshot), rated)
    ranks = [priorities.get(policy.spec.priority_class_name, PRIORITY) for policy in policies]
    counting = [
        counting_of(snapshot, domain, rank, cache.part(domain.policy.name))
        for domain, rank in zip(domains, ranks, strict=True)
    ]
    pending = pending_shares(snapshot, domains, counting, cache)
    placeholders: dict[str, list[Placeholder]] = {}
    for pod in snapshot.placeholders:
        placeholders.setdefault(pod.policy, []).append(pod)
    shapes: dict[str, dict[str, Shape]] = {}
    for there in existing:
        shapes.setdefault(there.policy, {})[there.shape.name] = there.shape
    additions, known = [], []
    for policy in policies:
        before = state.get(policy.name, PolicyState()).added
        found, remember = seen(
            shapes.get(policy.name, {}), placeholders.get(policy.name, ()), before, policy.generation, now
        )
        additions.append(additions_of(found, remember, snapshot.resources, now))
        known.append(remember)
    mirrors, mirrored = assign_mirrors(snapshot, domains, counting, cache, additions, existing)
    mirrored = assign_pools(
        snapshot,
        domains,
        pools,
        mirrors,
        mirrored,
        now=now,
        cache=cache,
        priorities=priorities,
        added=additions,
        existing=existing,
        quotas=quotas,
    )
    lacking = overcommitted(snapshot)
    with_prices = priced(snapshot, prices)
    once = {replica_set_name(there.policy, there.shape) for there in existing if there.shape.form.is_answered_once}
    latest = latest_events(events, once, now, snapshot.node_start_seconds)
    strangers = strangers_of(snapshot, domains, placeholders, shapes)
    hosted: frozenset[str] = frozenset()
    items: dict[str, PolicyPlan] = {}
    remembered = {}
    rows = {policy.name: i for i, policy in enumerate(policies)}
    for name in in_order(tuple(rows), strangers) if strangers else rows:
        i = rows[name]
        policy = policies[i]
        amount, unbounded = objectives.get(policy.name) if policy.spec.objective is not None else None, None
        if amount is not None:
            amount, unbounded = bounded(amount, snapshot, domains[i], with_prices)
        inputs = PolicyInputs(
            snapshot=snapshot,
            domain=domains[i],
            counting=counting[i],
            pending=pending[i],
            mirrors=mirrors[i],
            mirrored=mirrored,
            existing=tuple(sorted((e for e in existing if e.policy == policy.name), key=lambda e: e.shape.name)),
            placeholders=placeholders.get(policy.name, ()),
            overcommitted=lacking,
            events=latest,
            state=state.get(policy.name, PolicyState()),
            priority=ranks[i],
            unfit=priority_classes.problem(policy.spec.priority_class_name),
            added=additions[i],
            known=known[i],
            now=now,
            cache=cache.part(policy.name),
            priced=with_prices,
            amount=amount if amount is not None and amount.why.known else None,
            why=None if amount is None else amount.why,
            unbounded=unbounded,
            strangers=strangers.get(name, ()),
            guests=tuple(s for others in strangers.values() for s in others if s.host == name),
            hosted=hosted,
        )
        items[name], remembered[name], counted_on = _plan_policy(inputs)
        hosted |= counted_on
    cache.end()
    return Plan(tuple(items[name] for name in asked), remembered)
