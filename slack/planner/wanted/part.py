"""The shapes and counts that one policy should have: per domain, or per zone of it, mirrors, then cover, then fill.

A zone that has no eligible node now (all of them not ready, say) is left as it is, but for what is no longer asked for:
what stood there is wanted again in a minute, and the other zones have their own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.labels import ZONE
from slack.cluster.snapshot import Amounts, BoolArray, IntArray, Placeholder, Snapshot
from slack.planner.domain.buffered import BufferedCapacity
from slack.planner.domain.capacity import Size, base_of, own_rate, pending_requests, size_of
from slack.planner.domain.costs import Priced
from slack.planner.domain.counting import Counting
from slack.planner.domain.empty_nodes import EmptyNodes, empty_nodes_of
from slack.planner.domain.feasibility import node_rows, pinned_share, why_kept_off, why_not
from slack.planner.domain.ladder import Held, cluster_size, ladder_step
from slack.planner.domain.membership import Domain, by_zone, node_view
from slack.planner.domain.sources import wanted_by
from slack.planner.domain.strangers import Stranger, counted_on
from slack.planner.domain.terms import terms_of
from slack.planner.domain.unseen_resources import NOWHERE
from slack.planner.model.added import AddedBefore, Additions
from slack.planner.model.placeholder_counts import Alike
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import AutoscalerEvent, ExistingShape, RememberedPolicy, UncoveredPods
from slack.planner.model.shape import Role, WantedShape
from slack.planner.model.vectors import distinct
from slack.planner.model.wanted_by import WantedByField
from slack.planner.objective.amount import Amount, SizingReason
from slack.planner.policy.spec import Base, CoverMode, LadderStep
from slack.planner.wanted.chances import chances_of, feasible_items, reach_constraints
from slack.planner.wanted.cover_choice import Limit, make_items, weighed
from slack.planner.wanted.cover_stable import StableCover, stable_cover
from slack.planner.wanted.demand import demand_of, reach_of
from slack.planner.wanted.fill_choice import PIN_PERCENT, make_bounds, standard_chunk
from slack.planner.wanted.fill_nodes import fill_nodes
from slack.planner.wanted.fill_stable import stable_fill
from slack.planner.wanted.gangs import gangs_without_room
from slack.planner.wanted.joining import are_many, joined
from slack.planner.wanted.mirror_choice import PolicyMirrors, zone_of
from slack.planner.wanted.part_inputs import PartInputs

_NAMED_INFEASIBLE = 50
"""Reasons are worked out for so many infeasible items at most: nobody reads more, and each takes a while."""
_NO_KINDS = np.zeros(0, dtype=np.int64)
_Exactly = tuple[bytes, int, Amounts, bool]
"""Requests, reach class, what is requested of resources on no node, and whether such pods run."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyInputs:
    """What one policy's plan follows from."""

    snapshot: Snapshot
    domain: Domain
    counting: Counting
    """How each kind of pod counts for the policy."""
    pending: IntArray
    """Rows of kinds whose pending pods belong to the policy's base."""
    mirrors: PolicyMirrors
    mirrored: BoolArray
    """[K] kinds for which mirrors keep room, those of other policies included."""
    existing: tuple[ExistingShape, ...]
    """Sorted by name."""
    placeholders: Sequence[Placeholder]
    """The pods of these."""
    alike: tuple[Alike, ...]
    """The same, counted."""
    overcommitted: IntArray
    """Rows of nodes whose pods, placeholders among them, request more than they have."""
    events: Mapping[str, AutoscalerEvent]
    """The latest by ReplicaSet."""
    state: RememberedPolicy
    priority: int
    unfit: str | None
    """Why its PriorityClass will not do."""
    added: Additions
    """What admission adds to its placeholders."""
    known: Mapping[str, AddedBefore]
    """The same by shape, to remember."""
    now: float
    cache: PlanCache
    """Of this policy."""
    priced: Priced
    """The nodes with their prices."""
    strangers: tuple[Stranger, ...] = ()
    """Placeholders of this policy on nodes that are not its own."""
    guests: tuple[Stranger, ...] = ()
    """Placeholders of other policies on nodes that are this one's."""
    hosted: frozenset[str] = frozenset()
    """Names of the strangers that other policies count on."""
    amount: Amount | None = None
    """What its objective asks for; None while a rate holds."""
    why: SizingReason | None = None
    """What that follows from."""
    buffered: BufferedCapacity | None = None
    """What CapacityBuffers keep that counts for this policy; None if it counts none, or there is none."""
    unbounded: str | None = None
    """Why nothing bounds what its objective may cost, so that it does not decide."""

    def cache_of(self, zone: str) -> PlanCache:
        """Return the cache of a zone; of a domain that is not split, it is the policy's."""
        return self.cache.part(zone) if zone else self.cache


@dataclass(frozen=True, slots=True, eq=False)
class PartPlan:
    """What one domain should have."""

    size: Size
    wanted: tuple[WantedShape, ...]
    uncovered: tuple[UncoveredPods, ...]
    infeasible: tuple[str, ...]
    """Why wanted shapes were not made (S3)."""
    pins: tuple[str, ...]
    """Shapes that take more of the smallest node than the autoscaler's utilisation threshold allows."""
    covered_share: float
    """Share of the demand's weight for which there is room; 1.0 when there is none."""
    limit: Limit | None
    """What stopped the cover."""
    due: bool
    """A change of the cover is due but waits for the stabilisation window."""
    note: str | None
    capped: bool = False
    """The ceiling cut standard placeholders off."""
    without_nodes: bool = False
    """Its zone has no eligible node: what it counts for cannot be planned now."""
    chunk: IntArray | None = None
    """[R] the standard placeholder that a fixed number is counted in; None for a rate."""
    buffered: IntArray | None = None
    """[R] what CapacityBuffers keep that counts; None where nothing was planned."""


Planned = tuple[list[PartPlan], dict[str, float], Held, frozenset[str], tuple[WantedByField, ...]]


def plan_parts(policy: PolicyInputs) -> Planned:
    """Plan every part.

    Returns:
        the parts, by part and zone since when a change has been due, the steps of the ladder that hold, the names of
        other policies' placeholders that are counted on, and what sets the amounts that are wanted.
    """
    snapshot, domain, state = policy.snapshot, policy.domain, policy.state
    zones = dict(policy.cache.compute(by_zone, node_view(snapshot), domain))
    delay = domain.policy.spec.stabilization.shrink_delay.total_seconds()
    wanted = policy.mirrors.wanted
    homes = [next(iter(zones)) if len(zones) == 1 else zone_of(m, zones, snapshot) for m in wanted]
    adrift = [m for m, home in zip(wanted, homes, strict=True) if home is None]
    waiting = _waiting(policy, zones)
    step, held = _step(policy)
    terms = terms_of(domain.policy, policy.now, snapshot.node_start_seconds, own_rate(domain.policy), step)
    there = None if policy.amount is None else _room_there(policy)
    parts, due, hosted = [], {}, frozenset[str]()
    for number, (zone, part) in enumerate(zones.items()):
        size = size_of(
            snapshot,
            part,
            base_of(snapshot, part, _NO_KINDS, policy.counting) + waiting[number],
            terms=terms,
            part=len(zones),
            set_aside=policy.added.room_in(adrift, len(snapshot.resources)),
            amount=policy.amount,
            there=there,
        )
        if not (part.eligible.any() or part.templates):
            parts.append(_as_it_is(snapshot, part, zone, size, policy.existing))
            continue
        since = state.cheaper_since.get(f"cover/{zone}", policy.now)
        elapsed = policy.now - since >= delay
        mirrors = tuple(m for m, home in zip(wanted, homes, strict=True) if home == zone)
        cache = policy.cache_of(zone)
        buffered = _buffer_amount(policy, part, tuple(zones.values()))
        inputs, counted = _part_inputs(policy, part, size, mirrors, elapsed, buffered, cache)
        found = cache.compute(plan_part, inputs)
        parts.append(found)
        hosted |= counted
        if found.due:
            due[f"cover/{zone}"] = since
    told = [name for name in snapshot.resources if name != NOWHERE]
    sets = wanted_by(terms, told, [part.size for part in parts])
    return parts, due, held, hosted, sets


def _room_there(policy: PolicyInputs) -> IntArray:
    """[R] what the policy's placeholders on nodes request."""
    bound = Counter(pod.shape for pod in policy.placeholders if pod.node >= 0)
    resources, added = policy.snapshot.resources, policy.added
    rooms = [
        added.additions_to(e.shape.name).room(bound[e.shape.name], e.shape.vector(resources)) for e in policy.existing
    ]
    return sum(rooms, np.zeros(len(resources), dtype=np.int64))


def _step(policy: PolicyInputs) -> tuple[LadderStep | None, Held]:
    """Return the step of the policy's ladder, one for all zones, and the steps that hold."""
    snapshot, domain = policy.snapshot, policy.domain
    if not domain.policy.spec.extra_capacity.ladder:
        return None, frozenset()
    size = cluster_size(snapshot, domain, pending_requests(snapshot, policy.pending), policy.counting)
    there = sum(
        (e.replicas * e.shape.vector(snapshot.resources) for e in policy.existing if not e.role.for_named),
        np.zeros(len(snapshot.resources), dtype=np.int64),
    )
    return ladder_step(domain, size, snapshot.resources, policy.state.ladder, there)


def _part_inputs(
    policy: PolicyInputs,
    domain: Domain,
    size: Size,
    mirrors: tuple[WantedShape, ...],
    elapsed: bool,
    buffered: IntArray,
    cache: PlanCache,
) -> tuple[PartInputs, frozenset[str]]:
    """Work out what of one domain's plan outlasts most changes, and which placeholders of others count for it."""
    snapshot = policy.snapshot
    demand = demand_of(
        snapshot,
        domain,
        priority=policy.priority,
        counting=policy.counting,
        mirrored=policy.mirrored if policy.buffered is None else policy.mirrored | policy.buffered.kinds,
        cache=cache,
        mix=() if policy.amount is None else policy.amount.mix,
    )
    nodes = node_rows(snapshot, domain.eligible, domain.templates, cache)
    empty = cache.compute(empty_nodes_of, nodes, domain.classes, snapshot.resources)
    exact = cache.compute(make_items, demand.rows, demand.requests, demand.reach)
    leading = cache.compute(reach_constraints, snapshot.constraints, snapshot.kinds.constraint_id, domain, exact, empty)
    items = weighed(exact, demand.weight)
    if are_many(items):
        placements = tuple(empty.placement(where).rows for where in leading)
        fitting = feasible_items(items.vectors, items.reach_id, leading, empty)
        there = tuple(shape.shape.vector(snapshot.resources) for shape in policy.existing if shape.role is Role.COVER)
        items = joined(items, empty.room, placements, fitting, there)
    existing = _here(policy, domain, empty)
    hosted, guests = _guests(policy, domain, size, mirrors, existing, buffered)
    inputs = PartInputs(
        resources=snapshot.resources,
        workloads=snapshot.kinds.workloads,
        unoffered=snapshot.kinds.unoffered,
        domain=domain,
        size=size,
        demand=demand,
        items=items,
        chances=cache.compute(chances_of, items.vectors, items.reach_id, items.reach, leading, domain, empty),
        empty=empty,
        mirrors=mirrors,
        existing=existing,
        guests=guests,
        buffered=buffered,
        elapsed=elapsed,
        added=policy.added,
    )
    return inputs, hosted


def _here(policy: PolicyInputs, domain: Domain, empty: EmptyNodes) -> tuple[ExistingShape, ...]:
    """Return what is there, with the replicas that count in this domain.

    Of a shape that could go elsewhere as well (a policy has come between, zones were switched on) these are the
    placeholders that stand here; of any other one all but those on nodes that are not the policy's any more.
    """
    away = Counter(stranger.pod.shape for stranger in policy.strangers)
    straying = {e.shape.name for e in policy.existing if empty.placement(e.shape.constraints).strays}
    here: Counter[str] = Counter()
    if straying:
        owned = domain.owned[policy.snapshot.nodes.class_id]
        here.update(p.shape for p in policy.placeholders if p.node >= 0 and p.shape in straying and owned[p.node])
    if not (away or straying):
        return policy.existing
    return tuple(
        replace(e, replicas=here[e.shape.name] if e.shape.name in straying else max(e.replicas - away[e.shape.name], 0))
        for e in policy.existing
    )


def _buffer_amount(policy: PolicyInputs, domain: Domain, zones: Sequence[Domain]) -> IntArray:
    """[R] what CapacityBuffers keep in a domain that counts."""
    if policy.buffered is None:
        return np.zeros(len(policy.snapshot.resources), dtype=np.int64)
    return policy.buffered.amount(domain, policy.snapshot.nodes.class_id, zones)


def _guests(
    policy: PolicyInputs,
    domain: Domain,
    size: Size,
    mirrors: Sequence[WantedShape],
    existing: Sequence[ExistingShape],
    buffered: IntArray,
) -> tuple[frozenset[str], IntArray]:
    """Return which placeholders of other policies on this domain's nodes count for it, and what they request."""
    resources = policy.snapshot.resources
    owned = domain.owned[policy.snapshot.nodes.class_id]
    guests = [guest for guest in policy.guests if owned[guest.pod.node]]
    if not guests:
        return frozenset(), np.zeros(len(resources), dtype=np.int64)
    own = [e for e in existing if not e.role.for_named]
    room = sum((e.replicas * e.shape.vector(resources) for e in own), policy.added.room_in(mirrors, len(resources)))
    number = None if size.replicas is None else size.replicas - sum(e.replicas for e in own)
    return counted_on(guests, size.desired - room - buffered, number)


def plan_part(part: PartInputs) -> PartPlan:
    """Plan one domain that has at least one eligible node or template."""
    covering = stable_cover(part)
    # S6 knows pods that can run somewhere: a chunk like one that fits nowhere would fit nowhere.
    announced = [w.vector[None, :] for w in part.mirrors if w.role is Role.DEMAND]
    pods, _ = distinct(np.concatenate([part.items.vectors[part.chances.feasible], *announced]))
    bounds = make_bounds(part.empty.allocatable, part.empty.average, pods, part.domain.policy.spec.granularity)
    if part.size.has_objective:
        # In the sizes that come: of what is smaller than a pod that comes often, no number lets it in.
        often = [w.vector for w in covering.wanted if w.role is Role.COVER]
        bounds = replace(bounds, chunk=np.max([bounds.chunk, *often], axis=0))
    whole = part.size.whole_nodes and part.empty.usual.any()
    filling = (fill_nodes if whole else stable_fill)(part, covering.wanted, bounds)
    uncovered, too_large = _why_uncovered(part, covering)
    # Also while a window has a rate instead: who scales goes on reading the number.
    number = part.size.replicas if not part.size.whole_nodes else None
    counted = number is not None or part.domain.policy.spec.extra_capacity.replicas is not None
    wanted = (*covering.wanted, *filling.wanted)
    pins = []
    for w in wanted:
        if part.size.whole_nodes and w.role is Role.FILL:
            continue  # it is to keep its node
        share = pinned_share(part.empty.room, w.vector, part.empty.placement(w.shape.constraints).rows)
        if share > PIN_PERCENT / 100 + 1e-9:
            pins.append(f"{w.shape.name} takes {share:.0%} of the smallest eligible node that it fits")
    # What pools announce counts towards the extra capacity: of each resource the larger, never the sum.
    demand = part.added.room_in((w for w in part.mirrors if w.role is Role.DEMAND), len(part.resources))
    desired, asked = np.maximum(filling.desired, demand), np.maximum(filling.asked, demand)
    return PartPlan(
        size=replace(part.size, desired=desired, asked=asked, demand=demand),
        wanted=wanted,
        uncovered=(*part.demand.uncovered, *uncovered),
        infeasible=(*([] if covering.infeasible is None else [covering.infeasible]), *too_large, *filling.infeasible),
        pins=tuple(pins),
        covered_share=_covered_share(part, covering),
        limit=covering.cover.limit,
        due=covering.due,
        note=part.size.feedback,
        capped=filling.capped,
        chunk=standard_chunk(part.size.base, bounds) if counted else None,
        buffered=part.buffered,
    )


def _present(part: PartInputs) -> BoolArray:
    """[I] whether any pod of an item is there now; its arrivals count for hours after the last one has gone."""
    present = np.zeros(len(part.items.weight), dtype=bool)
    present[part.items.kind_item[part.demand.present]] = True
    return present


def _covered_share(part: PartInputs, covering: StableCover) -> float:
    """Return the share of arrivals that is covered. What is not covered and has gone is not held against it."""
    weight, covered = part.items.weight, covering.cover.covered
    total = float(weight[covered | _present(part)].sum())
    return float(weight[covered].sum()) / total if total else 1.0


def _why_uncovered(part: PartInputs, covering: StableCover) -> tuple[list[UncoveredPods], list[str]]:
    """Name what the cover leaves out, and which of it fits nowhere (S3)."""
    spec, items, empty, cover = part.domain.policy.spec, part.items, part.empty, covering.cover
    if spec.cover.mode is CoverMode.NONE:
        return [], []
    uncovered: list[UncoveredPods] = []
    infeasible: list[str] = []
    total = float(items.weight.sum()) or 1.0
    reasons: dict[int, str] = {}
    """By item that fits."""
    nowhere: dict[_Exactly, str] = {}
    """Pods of one item may lack different resources."""
    missed = ~cover.covered & _present(part)
    for i in np.flatnonzero(missed).tolist():
        if not part.chances.feasible[i]:
            if len(nowhere) >= _NAMED_INFEASIBLE:
                continue
            where = part.chances.constraints[items.reach_id[i]]
            for row in np.flatnonzero(items.kind_item == i).tolist():
                key = _exactly(part, row)
                if key not in nowhere and len(nowhere) < _NAMED_INFEASIBLE:
                    lacking, runs = key[2:]
                    requests = part.demand.requests[row]
                    text = why_not(empty.room, requests, where, part.resources, lacking, runs=runs)
                    nowhere[key] = text
                    # What runs, fits: only a node's labels, taints or features can be wrong for the next pod.
                    if not runs or why_kept_off(empty.room, where):
                        infeasible.append(f"{part.workloads[items.kinds[row]]}: {text}")
        elif spec.cover.mode is CoverMode.LARGEST and not items.reach[items.reach_id[i]].all():
            reasons[i] = "it goes to some of the nodes only, and the one box of mode Largest goes to any"
        elif cover.limit == "ceiling":
            reasons[i] = "spec.extraCapacity.ceiling leaves no room for it"
        elif cover.limit == "objective":
            reasons[i] = "spec.objective asks for less room now than it takes"
        elif cover.limit is not None:
            reasons[i] = f"spec.cover.maxShapes ({spec.cover.max_shapes}) is reached"
        elif spec.cover.mode is CoverMode.LARGEST:
            reasons[i] = covering.infeasible or "the one box of mode Largest has no room for it"
        else:
            share = items.weight[i] / total
            reasons[i] = f"rare: {share:.1%} of arrivals, beyond spec.cover.coverage {spec.cover.coverage:g}"
    rows = np.flatnonzero(missed[items.kind_item])
    for row, k, i in zip(rows.tolist(), items.kinds[rows].tolist(), items.kind_item[rows].tolist(), strict=True):
        reason = reasons.get(i) or nowhere.get(_exactly(part, row), "it fits no empty node")
        uncovered.append(UncoveredPods(str(part.workloads[k]), reason))
    return uncovered, infeasible


def uncovered_gangs(policy: PolicyInputs, wanted: Sequence[WantedShape]) -> list[UncoveredPods]:
    """Name the gangs that all placeholders of a policy cannot hold whole."""
    snapshot = policy.snapshot
    reasons = gangs_without_room(snapshot, policy.domain, wanted, counting=policy.counting, cache=policy.cache)
    return [UncoveredPods(str(snapshot.kinds.workloads[k]), reason) for k, reason in reasons.items()]


def _exactly(part: PartInputs, row: int) -> _Exactly:
    """Return what keeps the pods of a row of the demand off all nodes follows from."""
    reach, runs = int(part.items.reach_id[part.items.kind_item[row]]), bool(part.demand.stands[row])
    return part.demand.requests[row].tobytes(), reach, part.unoffered[part.items.kinds[row]], runs


def _waiting(policy: PolicyInputs, zones: Mapping[str, Domain]) -> IntArray:
    """[Z, R] what pending pods add to each zone's base: they are divided among the zones that they could go to."""
    snapshot, rows = policy.snapshot, policy.pending
    shares = np.zeros((len(zones), len(snapshot.resources)), dtype=np.int64)
    if not len(rows) or policy.domain.policy.spec.extra_capacity.base is not Base.REQUESTED:
        return shares
    kinds = snapshot.kinds
    can = np.stack([reach_of(snapshot, part, policy.cache_of(zone))[1][rows] for zone, part in zones.items()])
    can[0] |= ~can.any(axis=0)  # to no zone: they count all the same
    total = kinds.pending[rows, None] * kinds.requests[rows]
    ways = can.sum(axis=0)[:, None]
    for z in range(len(zones)):
        first = (can.argmax(axis=0) == z)[:, None]  # gets what is left over
        shares[z] = np.where(can[z][:, None], total // ways, 0).sum(axis=0) + np.where(first, total % ways, 0).sum(
            axis=0
        )
    return shares


def _as_it_is(snapshot: Snapshot, domain: Domain, zone: str, size: Size, existing: Sequence[ExistingShape]) -> PartPlan:
    """Return a plan of what is there and still asked for: the zone has no eligible node to plan for."""
    rows = np.flatnonzero(domain.members)
    first = f" ({snapshot.nodes.names[rows[0]]}{' ...' if len(rows) > 1 else ''})" if len(rows) else ""
    wanted, need = list[WantedShape](), size.desired.copy()
    for there in sorted(existing, key=lambda each: each.role is Role.FILL):
        if there.role.for_named or (ZONE, zone) not in there.shape.node_selector:
            continue
        vector, count = there.shape.vector(snapshot.resources), there.replicas
        if size.replicas is None:
            held = (need > 0) & (vector > 0)
            least = int(there.role is Role.COVER and size.desired.any())
            count = min(count, int((-(-need[held] // vector[held])).max(initial=least)))
        need -= count * vector
        wanted.append(WantedShape(there.shape, there.role, 0 if size.replicas == 0 else count, vector))
    return PartPlan(
        size=size,
        wanted=tuple(wanted),
        uncovered=(),
        infeasible=(),
        pins=(),
        covered_share=1.0,
        limit=None,
        due=False,
        note=f"zone {zone} has no eligible node: {len(rows)}{first} not ready, cordoned or being removed; its pods "
        "count in the base, and of its slack stays what is still asked for",
        without_nodes=True,
    )


def unzoned(snapshot: Snapshot, domain: Domain) -> str | None:
    """Say which nodes of a policy that keeps slack per zone are in no zone; None when all are."""
    if domain.policy.spec.per_domain == "None":
        return None
    zoned = np.zeros_like(domain.members)
    for _, part in by_zone(node_view(snapshot), domain):
        zoned |= part.members
    rows = np.flatnonzero(domain.members & ~zoned)
    if not len(rows):
        return None
    return f"{len(rows)} nodes ({snapshot.nodes.names[rows[0]]} ...) have no label {ZONE}: no slack is kept for them"
