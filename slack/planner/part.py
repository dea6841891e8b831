"""The shapes and counts that one domain (or one zone of it) should have: mirrors, then cover, then fill."""

from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.snapshot import Snapshot
from slack.planner.capacity import Size
from slack.planner.cover import Items, make_items, weighed
from slack.planner.covering import Covering, cover_domain
from slack.planner.demand import Demand
from slack.planner.domain import Domain
from slack.planner.feasible import empty_nodes, pinned_share, why_not
from slack.planner.fill import PIN_PERCENT, Bounds, make_bounds
from slack.planner.filling import fill_domain
from slack.planner.ground import Ground, ground_of
from slack.planner.kept import Kept
from slack.planner.outcome import ExistingShape, Uncovered
from slack.planner.policy import CoverMode
from slack.planner.vectors import distinct
from slack.planner.wanted import Wanted, room_in

_NAMED_INFEASIBLE = 50
"""Reasons are worked out for so many infeasible items at most: nobody reads more, and each takes a while."""


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
    capped: bool = False
    """The ceiling cut standard placeholders off."""


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
    kept: Kept
    """Of this domain."""


def _why_uncovered(
    context: Context, items: Items, covering: Covering, ground: Ground
) -> tuple[list[Uncovered], list[str]]:
    """Name what the cover leaves out, and which of it fits nowhere (S3)."""
    spec, snapshot, cover = context.domain.policy.spec, context.snapshot, covering.cover
    if spec.cover.mode is CoverMode.NONE:
        return [], []
    uncovered: list[Uncovered] = []
    infeasible: list[str] = []
    total = float(items.weight.sum()) or 1.0
    reasons: dict[int, str] = {}
    missed = ~cover.covered
    for i in np.flatnonzero(missed).tolist():
        if not covering.feasible[i]:
            reasons[i] = "it fits no empty node"
            if len(infeasible) < _NAMED_INFEASIBLE:
                where = covering.constraints[items.reach_id[i]]
                reasons[i] = why_not(ground.room, items.vectors[i], where, snapshot.resources)
                first = items.kinds[items.kind_item == i][0]
                infeasible.append(f"{snapshot.kinds.workloads[first]}: {reasons[i]}")
        elif cover.limit == "ceiling":
            reasons[i] = "spec.extraCapacity.ceiling leaves no room for it"
        elif cover.limit:
            reasons[i] = f"spec.cover.maxShapes ({spec.cover.max_shapes}) is reached"
        elif spec.cover.mode is CoverMode.LARGEST:
            reasons[i] = (
                covering.infeasible or "it goes to some of the nodes only, and the one box of mode Largest goes to any"
            )
        else:
            share = items.weight[i] / total
            reasons[i] = f"rare: {share:.1%} of arrivals, beyond spec.cover.coverage {spec.cover.coverage:g}"
    rows = np.flatnonzero(missed[items.kind_item])
    for k, i in zip(items.kinds[rows].tolist(), items.kind_item[rows].tolist(), strict=True):
        uncovered.append(Uncovered(str(snapshot.kinds.workloads[k]), reasons[i]))
    return uncovered, infeasible


def plan_part(context: Context) -> PartPlan:
    """Plan one domain that has at least one eligible node or template; a plan that nothing has changed for is kept."""
    snapshot, kept = context.snapshot, context.kept
    nodes = empty_nodes(snapshot, context.domain.eligible, kept)
    made_of = (
        *nodes,
        snapshot.constraints,
        snapshot.kinds.constraint_id,
        snapshot.kinds.workloads,
        context.domain,
        context.demand,
        context.mirrors,
        kept.same("size", context.size),
        kept.same("existing", context.existing),
        kept.same("elapsed", context.elapsed),
    )
    return kept.of("part", made_of, lambda: _plan_part(context, nodes))


def _plan_part(context: Context, nodes: tuple[object, ...]) -> PartPlan:
    snapshot, domain, demand, kept = context.snapshot, context.domain, context.demand, context.kept
    resources, width, size = snapshot.resources, len(snapshot.resources), context.size
    ground = kept.of("ground", (*nodes, domain), lambda: ground_of(snapshot, domain))
    grouped = kept.of(
        "items",
        (demand.rows, demand.requests, demand.reach),
        lambda: make_items(demand.rows, demand.requests, demand.reach),
    )
    items = weighed(grouped, demand.weight)
    mirrored = room_in(context.mirrors, width)
    covering = cover_domain(
        snapshot,
        domain,
        items,
        demand.heaviness,
        ground,
        size.ceiling - mirrored,
        context.existing,
        elapsed="cover" in context.elapsed,
        kept=kept,
    )

    def bound() -> Bounds:
        # S6 knows pods that can run somewhere: a chunk like one that fits nowhere would fit nowhere.
        pods, _ = distinct(items.vectors[covering.feasible])
        return make_bounds(ground.allocatable, ground.average, pods, domain.policy.spec.granularity)

    filling = fill_domain(
        domain,
        size,
        mirrored + room_in(covering.wanted, width),
        kept.of("bounds", (items.vectors, covering.feasible, ground, domain), bound),
        ground,
        context.existing,
        resources,
        elapsed="fill" in context.elapsed,
    )
    uncovered, too_large = _why_uncovered(context, items, covering, ground)
    wanted = (*covering.wanted, *filling.wanted)
    pins = []
    for w in wanted:
        share = pinned_share(ground.room, w.vector, ground.footing(w.shape.constraints).rows)
        if share > PIN_PERCENT / 100 + 1e-9:
            pins.append(f"{w.shape.name} takes {share:.0%} of the smallest eligible node that it fits")
    total = float(items.weight.sum())
    due = {name for name, is_due in (("cover", covering.due), ("fill", filling.due)) if is_due}
    return PartPlan(
        size=replace(size, desired=filling.desired),
        wanted=wanted,
        uncovered=(*demand.uncovered, *uncovered),
        infeasible=(*([covering.infeasible] if covering.infeasible else []), *too_large, *filling.infeasible),
        pins=tuple(pins),
        covered_share=float(items.weight[covering.cover.covered].sum()) / total if total else 1.0,
        limit=covering.cover.limit,
        due=frozenset(due),
        note=size.feedback,
        capped=filling.capped,
    )
