"""What the plan of each policy follows from: nodes, pods and placeholders, divided among the policies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slack.cluster.node_prices import NodePrices
from slack.cluster.snapshot import BoolArray, IntArray, Placeholder, Snapshot
from slack.cluster.wire import ResourceQuota
from slack.planner.domain.buffered import BufferedCapacity, buffered_of
from slack.planner.domain.cost_bound import bounded
from slack.planner.domain.costs import priced
from slack.planner.domain.counting import Counting, counting_of
from slack.planner.domain.membership import Domain, divided, node_view
from slack.planner.domain.strangers import Stranger, strangers_of
from slack.planner.model.added import AddedBefore, Additions, additions_of, seen
from slack.planner.model.placeholder_counts import Alike, alike_of, by_policy, requested
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import Pool
from slack.planner.model.result import AutoscalerEvent, ExistingShape, PlannerState, RememberedPolicy
from slack.planner.model.shape import Shape
from slack.planner.objective.amount import Amount
from slack.planner.objects.manifests import PRIORITY, replica_set_name
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.policy.spec import Policy
from slack.planner.pools import assign_pools
from slack.planner.removal.victims import overcommitted
from slack.planner.rollout.backoff import latest_events
from slack.planner.wanted.demand import pending_shares
from slack.planner.wanted.mirror_choice import PolicyMirrors, assign_mirrors
from slack.planner.wanted.part import PolicyInputs

Reservations = tuple[Sequence[PolicyMirrors], BoolArray]
"""The mirrors of each policy, and [K] the kinds for which mirrors keep capacity."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedCluster:
    """What the plans of all policies follow from; each sequence has a value per policy, in their order."""

    snapshot: Snapshot
    now: float
    domains: Sequence[Domain]
    priorities: Sequence[int]
    """Of their placeholders."""
    unfit: Sequence[str | None]
    """Why their PriorityClasses will not do."""
    counting: Sequence[Counting]
    pending: Sequence[IntArray]
    placeholders: Mapping[str, tuple[Placeholder, ...]]
    """By policy."""
    alike: Sequence[tuple[Alike, ...]]
    """The same, counted."""
    additions: Sequence[Additions]
    known: Sequence[Mapping[str, AddedBefore]]
    strangers: Mapping[str, tuple[Stranger, ...]]
    """By policy: its placeholders on nodes that are not its own."""
    buffered: Mapping[str, BufferedCapacity]
    """By policy: what CapacityBuffers keep that counts."""


def observe(
    snapshot: Snapshot,
    policies: tuple[Policy, ...],
    existing: Sequence[ExistingShape],
    state: PlannerState,
    priority_classes: PriorityClasses,
    cache: PlanCache,
    now: float,
) -> ObservedCluster:
    """Divide nodes, pods and placeholders among the policies.

    Args:
        snapshot: the cluster.
        policies: sorted by name.
        existing: the ReplicaSets that are there.
        state: what the previous plan returned.
        priority_classes: what is known of them.
        cache: of the plan.
        now: Unix seconds.
    """
    domains = cache.compute(divided, node_view(snapshot), policies)
    ranks = [priority_classes.values.get(policy.spec.priority_class_name, PRIORITY) for policy in policies]
    counting = [
        counting_of(snapshot, domain, rank, cache.part(domain.policy.name))
        for domain, rank in zip(domains, ranks, strict=True)
    ]
    placeholders = dict(cache.compute(by_policy, snapshot.placeholders))
    alike = [cache.part(policy.name).compute(alike_of, placeholders.get(policy.name, ())) for policy in policies]
    shapes: dict[str, dict[str, Shape]] = {}
    for there in existing:
        shapes.setdefault(there.policy, {})[there.shape.name] = there.shape
    additions, known = [], []
    for policy, own in zip(policies, alike, strict=True):
        before = state.get(policy.name, RememberedPolicy()).added
        found, remember = seen(shapes.get(policy.name, {}), requested(own), before, policy.generation, now)
        additions.append(additions_of(found, remember, snapshot.resources, now))
        known.append(remember)
    return ObservedCluster(
        snapshot=snapshot,
        now=now,
        domains=domains,
        priorities=ranks,
        unfit=[priority_classes.problem(policy.spec.priority_class_name) for policy in policies],
        counting=counting,
        pending=pending_shares(snapshot, domains, counting, cache),
        placeholders=placeholders,
        alike=alike,
        additions=additions,
        known=known,
        strangers=strangers_of(snapshot, domains, placeholders, shapes, cache),
        buffered=buffered_of(snapshot, domains, now, cache),
    )


def assign_reservations(
    observed: ObservedCluster,
    existing: Sequence[ExistingShape],
    pools: Sequence[Pool],
    quotas: Iterable[ResourceQuota],
    priority_classes: PriorityClasses,
    cache: PlanCache,
) -> Reservations:
    """Assign to policies what workloads reserve by annotation, and what pools announce.

    Args:
        observed: the cluster, divided among the policies.
        existing: the ReplicaSets that are there.
        pools: what ActivationPools announce.
        quotas: ResourceQuotas that bound these, as far as they are known.
        priority_classes: what is known of them.
        cache: of the plan.
    """
    snapshot, domains = observed.snapshot, observed.domains
    mirrors, mirrored = assign_mirrors(snapshot, domains, observed.counting, cache, observed.additions, existing)
    mirrored = assign_pools(
        snapshot,
        domains,
        pools,
        mirrors,
        mirrored,
        now=observed.now,
        cache=cache,
        priorities=priority_classes.values,
        added=observed.additions,
        existing=existing,
        quotas=quotas,
    )
    return mirrors, mirrored


def inputs_of(
    observed: ObservedCluster,
    reserved: Reservations,
    existing: Sequence[ExistingShape],
    events: Sequence[AutoscalerEvent],
    state: PlannerState,
    objectives: Mapping[str, Amount],
    prices: NodePrices,
    cache: PlanCache,
) -> dict[str, PolicyInputs]:
    """Return by policy what its plan follows from, but for what the plans of other policies count on.

    Args:
        observed: the cluster, divided among the policies.
        reserved: as `assign_reservations` gives them.
        existing: the ReplicaSets that are there.
        events: what autoscalers have said about placeholders.
        state: what the previous plan returned.
        objectives: by policy what its objective asks for.
        prices: of nodes.
        cache: of the plan.
    """
    snapshot, now, (mirrors, mirrored) = observed.snapshot, observed.now, reserved
    once = {replica_set_name(there.policy, there.shape) for there in existing if there.shape.form.is_answered_once}
    latest = latest_events(events, once, now, snapshot.node_start_seconds)
    lacking, strangers, priced_nodes = overcommitted(snapshot), observed.strangers, priced(snapshot, prices)
    inputs = {}
    for i, domain in enumerate(observed.domains):
        policy, name = domain.policy, domain.policy.name
        amount, unbounded = objectives.get(name) if policy.spec.objective is not None else None, None
        if amount is not None:
            amount, unbounded = bounded(amount, snapshot, domain, priced_nodes)
        inputs[name] = PolicyInputs(
            snapshot=snapshot,
            domain=domain,
            counting=observed.counting[i],
            pending=observed.pending[i],
            mirrors=mirrors[i],
            mirrored=mirrored,
            existing=tuple(sorted((e for e in existing if e.policy == name), key=lambda e: e.shape.name)),
            placeholders=observed.placeholders.get(name, ()),
            alike=observed.alike[i],
            overcommitted=lacking,
            events=latest,
            state=state.get(name, RememberedPolicy()),
            priority=observed.priorities[i],
            unfit=observed.unfit[i],
            added=observed.additions[i],
            known=observed.known[i],
            now=now,
            cache=cache.part(name),
            priced=priced_nodes,
            amount=amount if amount is not None and amount.why.known else None,
            why=None if amount is None else amount.why,
            buffered=observed.buffered.get(name),
            unbounded=unbounded,
            strangers=strangers.get(name, ()),
            guests=tuple(s for others in strangers.values() for s in others if s.host == name),
        )
    return inputs
