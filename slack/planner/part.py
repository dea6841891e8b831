"""The shapes and counts that one domain (or one zone of it) should have: mirrors, then cover, then fill.

What is there already is kept as long as it serves and costs little more than a fresh choice (R1-2): a set of covering
placeholders that still reaches the goal is not swapped for a slightly better one, and one that no longer quite does is
given the stabilisation window. The caller remembers since when a change has been due.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.classes import Constraints, Taint, admits, tolerates
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.capacity import Size, dominant_share
from slack.planner.cover import Cover, Items, Terms, choose, make_items
from slack.planner.demand import Demand
from slack.planner.domain import Domain, conjunction
from slack.planner.feasible import Room, allowed, fit_matrix, fits, room_of, why_not
from slack.planner.fill import (
    Bounds,
    Fill,
    cost_of,
    count_for,
    fill,
    fill_further,
    make_bounds,
    standard_chunk,
    version_1,
)
from slack.planner.fill import useful as chunk_is_useful
from slack.planner.mirror import plain_tolerations
from slack.planner.outcome import ExistingShape, Uncovered
from slack.planner.policy import CoverMode
from slack.planner.shape import Role, Shape, amounts
from slack.planner.vectors import any_of, within

_LISTED = 20


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """One shape that should be there."""

    shape: Shape
    role: Role
    count: int
    vector: IntArray
    """[R]"""
    workloads: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    """Rows of `Snapshot.kinds` that it makes room for."""


@dataclass(frozen=True, slots=True, eq=False)
class PartPlan:
    """What one domain should have."""

    size: Size
    wanted: tuple[Wanted, ...]
    uncovered: tuple[Uncovered, ...]
    infeasible: tuple[str, ...]
    """Why wanted shapes were not made (S3)."""
    pins: tuple[str, ...]
    """Shapes that take more of the smallest node than the autoscaler's utilisation threshold allows."""
    covered_share: float
    """Share of the demand's weight for which there is room; 1.0 when there is none."""
    limit: str
    """What stopped the cover: 'ceiling', 'maxShapes' or ''."""
    due: frozenset[str]
    """Parts ('cover', 'fill') whose change is due but waits for the stabilisation window."""
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What planning one domain needs to know."""

    snapshot: Snapshot
    domain: Domain
    size: Size
    demand: Demand
    mirrors: tuple[Wanted, ...]
    existing: tuple[ExistingShape, ...]
    """Of this policy, those that are not being retired."""
    elapsed: frozenset[str]
    """Parts whose change has been due for the whole stabilisation window."""


def _sum(wanted: Sequence[Wanted], width: int) -> IntArray:
    total = np.zeros(width, dtype=np.int64)
    for item in wanted:
        total = total + item.count * item.vector
    return total


def _item_constraints(context: Context, items: Items, reach_id: int) -> Constraints:
    """Return constraints that lead to exactly the reach class: the domain's own, or the plainest of its pods'."""
    snapshot, domain = context.snapshot, context.domain
    if items.reach[reach_id].all():
        return domain.constraints
    taints = _taints(snapshot, domain)
    found = set()
    for i in np.flatnonzero(items.reach_id == reach_id):
        for kind in items.kinds[i]:
            own = snapshot.constraints[snapshot.kinds.constraint_id[kind]]
            tolerations = tuple(
                t for t in plain_tolerations(own.tolerations, domain) if any(tolerates(t, taint) for taint in taints)
            )
            found.add(
                replace(
                    domain.constraints,
                    node_selector=tuple(sorted({*domain.constraints.node_selector, *own.node_selector})),
                    node_affinity=conjunction(domain.constraints.node_affinity, own.node_affinity),
                    tolerations=tolerations,
                    runtime_class=own.runtime_class,
                )
            )
    return min(found, key=lambda c: (len(repr(c)), repr(c)))


def _taints(snapshot: Snapshot, domain: Domain) -> tuple[Taint, ...]:
    """Return the taints of the domain's nodes and templates."""
    classes = [c for c, mine in zip(snapshot.node_classes, domain.classes, strict=True) if mine]
    return tuple(sorted({taint for c in [*classes, *(t.node_class for t in domain.templates)] for taint in c.taints}))


def shape_of(context: Context, vector: IntArray, constraints: Constraints) -> Shape:
    """Return the shape with these requests and constraints."""
    return Shape(
        requests=amounts(vector, context.snapshot.resources),
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        scheduler_name=context.domain.policy.spec.scheduler_name,
        runtime_class=constraints.runtime_class,
        priority_class_name=context.domain.policy.spec.priority_class_name,
    )


def _workloads(context: Context, kinds: Sequence[int]) -> tuple[str, ...]:
    table = context.snapshot.kinds
    weight: dict[str, int] = {}
    for k in kinds:
        name = str(table.workloads[k])
        weight[name] = weight.get(name, 0) + int(max(table.arrivals[k], table.running[k]))
    return tuple(sorted(weight, key=lambda name: (-weight[name], name))[:_LISTED])


class _Incumbents:
    """The covering placeholders that are there: which items each makes room for."""

    def __init__(self, context: Context, items: Items, terms: Terms, room: Room) -> None:
        domain, spec = context.domain, context.domain.policy.spec
        classes = [c for c, mine in zip(context.snapshot.node_classes, domain.classes, strict=True) if mine]
        classes += [t.node_class for t in domain.templates]
        tolerance = 1 + spec.stabilization.shape_tolerance
        resources = context.snapshot.resources
        self.shapes: list[Shape] = []
        self.vectors: list[IntArray] = []
        strict, near = [], []
        for there in context.existing:
            shape = there.shape
            vector = shape.vector(resources)
            unusable = (
                there.role is not Role.COVER
                or shape.priority_class_name != spec.priority_class_name
                or shape.scheduler_name != spec.scheduler_name
                or not set(domain.constraints.node_selector) <= set(shape.node_selector)
                or any(name not in resources for name, _ in shape.requests)
            )
            reach = np.array([admits(shape.constraints, c) for c in classes], dtype=bool)
            if unusable or not reach.any() or not fits(room, vector, allowed(room, shape.constraints)):
                continue
            inside = ~any_of(reach[None, :] & ~items.reach, axis=1)[items.reach_id]
            self.shapes.append(shape)
            self.vectors.append(vector)
            strict.append(inside & within(items.vectors, vector))
            near.append(inside & within(items.vectors, np.floor(vector * tolerance)))
        width = len(items)
        self.strict = np.array(strict, dtype=bool).reshape(len(strict), width)
        self.near = np.array(near, dtype=bool).reshape(len(near), width)
        self.cost = sum(float(dominant_share(v, context_average(context))) for v in self.vectors)


def context_average(context: Context) -> IntArray:
    """[R] average eligible node of the domain, the measure of cost."""
    return make_bounds(_allocatable(context), np.zeros((0, len(context.snapshot.resources)), dtype=np.int64), 1).average


def _allocatable(context: Context) -> IntArray:
    """[M, R] of the eligible nodes; of the templates where there is none."""
    rows = context.snapshot.nodes.allocatable[context.domain.eligible]
    if len(rows):
        return rows
    return np.stack([t.allocatable for t in context.domain.templates])


def _cover(context: Context, items: Items, room: Room, average: IntArray) -> tuple[list[Wanted], Cover, bool]:
    """Choose the covering placeholders, the ones that are there first.

    Returns:
        the wanted shapes, the cover, and whether a change is due that waits.
    """
    spec, width = context.domain.policy.spec, len(context.snapshot.resources)
    feasible = np.zeros(len(items), dtype=bool)
    constraints = [_item_constraints(context, items, q) for q in range(len(items.reach))] if len(items) else []
    for q, where in enumerate(constraints):
        of_class = items.reach_id == q
        feasible[of_class] = fit_matrix(room, items.vectors[of_class], allowed(room, where))
    terms = Terms(
        goal=spec.cover.coverage,
        max_shapes=spec.cover.max_shapes,
        room=context.size.ceiling - _sum(context.mirrors, width),
        cost=dominant_share(items.vectors, average) if len(items) else np.zeros(0),
        feasible=feasible,
    )
    cover = choose(spec.cover.mode, items, terms)
    if spec.cover.mode is CoverMode.LARGEST:
        if cover.box is None or cover.limit:
            return [], cover, False
        kinds = [int(k) for i in np.flatnonzero(cover.covered) for k in items.kinds[i]]
        shape = shape_of(context, cover.box, context.domain.constraints)
        return [Wanted(shape, Role.COVER, 1, cover.box, _workloads(context, kinds), tuple(kinds))], cover, False
    fresh = [
        (shape_of(context, items.vectors[i], constraints[items.reach_id[i]]), items.vectors[i]) for i in cover.chosen
    ]
    chosen, due = _settle(context, items, terms, cover, fresh, _Incumbents(context, items, terms, room))
    wanted, covered = [], np.zeros(len(items), dtype=bool)
    for shape, vector in chosen:
        covers = _covered_by(context, items, shape, vector)
        kinds = [int(k) for i in np.flatnonzero(covers) for k in items.kinds[i]]
        covered |= covers
        wanted.append(Wanted(shape, Role.COVER, 1, vector, _workloads(context, kinds), tuple(kinds)))
    return wanted, replace(cover, covered=covered), due


def _covered_by(context: Context, items: Items, shape: Shape, vector: IntArray) -> BoolArray:
    """[I] items for which one placeholder of the shape makes room."""
    domain = context.domain
    classes = [c for c, mine in zip(context.snapshot.node_classes, domain.classes, strict=True) if mine]
    classes += [t.node_class for t in domain.templates]
    reach = np.array([admits(shape.constraints, c) for c in classes], dtype=bool)
    inside = ~any_of(reach[None, :] & ~items.reach, axis=1)[items.reach_id]
    return inside & within(items.vectors, vector)


def _settle(
    context: Context,
    items: Items,
    terms: Terms,
    cover: Cover,
    fresh: list[tuple[Shape, IntArray]],
    there: _Incumbents,
) -> tuple[list[tuple[Shape, IntArray]], bool]:
    """Decide between what is there and the fresh choice (R1-2)."""
    if not there.shapes or {shape.name for shape in there.shapes} == {shape.name for shape, _ in fresh}:
        return fresh, False
    tolerance = 1 + context.domain.policy.spec.stabilization.shape_tolerance
    incumbents = list(zip(there.shapes, there.vectors, strict=True))
    total = np.sum(there.vectors, axis=0)
    reached = items.weight[cover.covered].sum() - 1e-9
    strict = bool(items.weight[there.strict.any(axis=0)].sum() >= reached)
    near = bool(items.weight[there.near.any(axis=0)].sum() >= reached)
    cheap = there.cost <= tolerance * terms.cost[list(cover.chosen)].sum() + 1e-9
    allowed_set = bool((total <= terms.room).all()) and (
        context.domain.policy.spec.cover.mode is CoverMode.EVERYTHING or len(incumbents) <= terms.max_shapes
    )
    if allowed_set and strict and cheap:
        return incumbents, False
    if allowed_set and (strict or near) and "cover" not in context.elapsed:
        return incumbents, True
    # A fresh choice, but where something that is there does the same for little more, that stays.
    kept = []
    for (shape, vector), i in zip(fresh, cover.chosen, strict=True):
        same = [
            (s, v)
            for row, (s, v) in enumerate(incumbents)
            if there.strict[row, i] and s.constraints == shape.constraints and (v <= np.ceil(vector * tolerance)).all()
        ]
        kept.append(same[0] if same and "cover" not in context.elapsed else (shape, vector))
    return list({shape.name: (shape, vector) for shape, vector in kept}.values()), False


def _fill(context: Context, wanted: Sequence[Wanted], bounds: Bounds, room: Room) -> tuple[list[Wanted], bool]:
    """Fill what cover and mirrors leave, with the chunk that is there as long as it costs little more."""
    spec, width = context.domain.policy.spec, len(context.snapshot.resources)
    taken = _sum([*context.mirrors, *wanted], width)
    left = context.size.ceiling - taken
    chunk: IntArray | None = None
    desired = context.size.desired
    if context.size.replicas is not None:
        chunk = standard_chunk(context.size.base, bounds)
        desired = np.maximum(desired, chunk * context.size.replicas) if chunk is not None else desired
    filled: list[Wanted] = []
    constraints = context.domain.constraints
    rows = allowed(room, constraints)

    def add(choice: Fill) -> None:
        room_for = int(min((left // np.maximum(choice.chunk, 1))[choice.chunk > 0]))
        count = min(choice.count, max(room_for, 0))
        if count > 0 and fits(room, choice.chunk, rows):
            filled.append(Wanted(shape_of(context, choice.chunk, constraints), Role.FILL, count, choice.chunk))

    due = False
    for r in range(2, width):
        remaining = desired - taken
        if remaining[r] > 0:
            add(fill_further(remaining, bounds, r))
            taken = _sum([*context.mirrors, *wanted, *filled], width)
            left = context.size.ceiling - taken
    remaining = np.maximum(desired - taken, 0)
    best: Fill | None
    if chunk is not None:
        best = Fill(chunk, count_for(np.where(chunk > 0, remaining, 0), chunk))
    elif spec.cover.mode is CoverMode.NONE:
        best = version_1(remaining, bounds.average, spec.granularity)
    else:
        best = fill(remaining, bounds)
    if best is not None and best.count:
        best, due = _keep_chunk(context, remaining, best, bounds, room)
        add(best)
    return filled, due


def _keep_chunk(context: Context, remaining: IntArray, best: Fill, bounds: Bounds, room: Room) -> tuple[Fill, bool]:
    """Prefer the chunk that is there: sizes follow every pod, shapes must not (R1-2)."""
    spec, resources = context.domain.policy.spec, context.snapshot.resources
    rated = remaining.copy()
    rated[2:] = 0
    for there in context.existing:
        vector = there.shape.vector(resources)
        same = there.role is Role.FILL and there.shape == shape_of(context, vector, context.domain.constraints)
        serves = same and bool((vector[rated > 0] > 0).all())
        if spec.cover.mode is not CoverMode.NONE:
            serves = serves and chunk_is_useful(vector, bounds)
        if not serves or not fits(room, vector, allowed(room, context.domain.constraints)):
            continue
        kept = Fill(vector, count_for(rated, vector))
        dear = cost_of(kept, bounds) > cost_of(best, bounds) * (1 + spec.stabilization.shape_tolerance) + 1e-9
        too_many = kept.count > 2 * best.count and kept.count > 5
        if not dear and not too_many:
            return kept, False
        if "fill" not in context.elapsed:
            return kept, True
    return best, False


def _why_uncovered(context: Context, items: Items, cover: Cover, room: Room) -> tuple[list[Uncovered], list[str]]:
    """Name what the cover leaves out, and which of it fits nowhere (S3)."""
    spec, resources = context.domain.policy.spec, context.snapshot.resources
    if spec.cover.mode is CoverMode.NONE:
        return [], []
    uncovered: list[Uncovered] = []
    infeasible: list[str] = []
    total = float(items.weight.sum()) or 1.0
    for i in np.flatnonzero(~cover.covered):
        constraints = _item_constraints(context, items, int(items.reach_id[i]))
        share = items.weight[i] / total
        if not fits(room, items.vectors[i], allowed(room, constraints)):
            reason = why_not(room, items.vectors[i], constraints, resources)
            infeasible.append(f"{context.snapshot.kinds.workloads[items.kinds[i][0]]}: {reason}")
        elif cover.limit:
            reason = (
                "spec.extraCapacity.ceiling leaves no room for it"
                if cover.limit == "ceiling"
                else (f"spec.cover.maxShapes ({spec.cover.max_shapes}) is reached")
            )
        elif spec.cover.mode is CoverMode.LARGEST:
            reason = "it goes to some of the nodes only, and the one box of mode Largest goes to any"
        else:
            reason = f"rare: {share:.1%} of arrivals, beyond spec.cover.coverage {spec.cover.coverage:g}"
        names = sorted({str(context.snapshot.kinds.workloads[k]) for k in items.kinds[i]})
        uncovered.extend(Uncovered(name, reason) for name in names)
    return uncovered, infeasible


def plan_part(context: Context) -> PartPlan:
    """Plan one domain that has at least one node or template."""
    snapshot, domain, demand = context.snapshot, context.domain, context.demand
    room = room_of(snapshot, domain)
    items = make_items(demand.rows, demand.requests, demand.reach, demand.weight)
    bounds = make_bounds(_allocatable(context), np.unique(items.vectors, axis=0), domain.policy.spec.granularity)
    covering, cover, cover_due = _cover(context, items, room, bounds.average)
    infeasible = []
    if covering and domain.policy.spec.cover.mode is CoverMode.LARGEST:
        box = covering[0]
        if not fits(room, box.vector, allowed(room, domain.constraints)):
            infeasible.append(
                "the box of the largest cpu and the largest memory (spec.cover.mode Largest): "
                + why_not(room, box.vector, domain.constraints, snapshot.resources)
            )
            covering, cover = [], replace(cover, covered=np.zeros_like(cover.covered))
    filling, fill_due = _fill(context, covering, bounds, room)
    uncovered, too_large = _why_uncovered(context, items, cover, room)
    smallest = _allocatable(context).min(axis=0)
    wanted = [*covering, *filling]
    pins = [
        f"{w.shape.name} takes {dominant_share(w.vector, smallest):.0%} of the smallest eligible node"
        for w in wanted
        if dominant_share(w.vector, smallest) > 0.45 + 1e-9
    ]
    total = float(items.weight.sum())
    due = {name for name, is_due in (("cover", cover_due), ("fill", fill_due)) if is_due}
    return PartPlan(
        size=context.size,
        wanted=tuple(wanted),
        uncovered=(*demand.uncovered, *uncovered),
        infeasible=(*infeasible, *too_large),
        pins=tuple(pins),
        covered_share=float(items.weight[cover.covered].sum()) / total if total else 1.0,
        limit=cover.limit,
        due=frozenset(due),
        note=context.size.feedback,
    )
