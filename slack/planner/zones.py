"""Planning a policy's domain, or every zone of it where slack is kept per zone.

A zone that has no eligible node now (all of them not ready, say) is left as it is: what stood there is wanted again in
a minute, and the other zones have their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.capacity import Size, base_of, size_of
from slack.planner.demand import demand_of, kinds_reach
from slack.planner.domain import ZONE, Domain, by_zone
from slack.planner.kept import Kept
from slack.planner.mirrors import zone_of
from slack.planner.outcome import ExistingShape, PolicyMemory
from slack.planner.part import Context, PartPlan, plan_part
from slack.planner.policy import Base
from slack.planner.shape import Role
from slack.planner.wanted import Wanted, room_in

_NO_KINDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What planning one policy's parts needs to know."""

    snapshot: Snapshot
    domain: Domain
    pending: IntArray
    """Rows of kinds whose pending pods belong to the policy's base."""
    mirrors: tuple[Wanted, ...]
    mirrored: BoolArray
    """[K]"""
    existing: tuple[ExistingShape, ...]
    memory: PolicyMemory
    priority: int
    default_rate: float
    now: float
    kept: Kept
    """Of this policy."""

    def kept_of(self, zone: str) -> Kept:
        """Return what is kept for a zone; of a domain that is not split, it is the policy's."""
        return self.kept.part(zone) if zone else self.kept


def plan_parts(request: Request) -> tuple[list[PartPlan], dict[str, float]]:
    """Plan every part.

    Returns:
        the parts, and by part and zone since when a change has been due.
    """
    snapshot, domain, memory = request.snapshot, request.domain, request.memory
    zones = request.kept.of(
        "zones", (domain, snapshot.node_classes, snapshot.nodes.class_id), lambda: dict(by_zone(snapshot, domain))
    )
    delay = domain.policy.spec.stabilization.shrink_delay.total_seconds()
    homes = [next(iter(zones)) if len(zones) == 1 else zone_of(m, zones, snapshot) for m in request.mirrors]
    adrift = [m for m, home in zip(request.mirrors, homes, strict=True) if home is None]
    waiting = _waiting(request, zones)
    kept = tuple(there for there in request.existing if not there.retiring)
    parts, due = [], {}
    for number, (zone, part) in enumerate(zones.items()):
        size = size_of(
            snapshot,
            part,
            base_of(snapshot, part, _NO_KINDS) + waiting[number],
            default_rate=request.default_rate,
            now=request.now,
            part=len(zones),
            set_aside=room_in(adrift, len(snapshot.resources)),
        )
        if not (part.eligible.any() or part.templates):
            parts.append(_as_it_is(snapshot, zone, size, kept))
            continue
        since = {name: memory.cheaper_since.get(f"{name}/{zone}", request.now) for name in ("cover", "fill")}
        own = request.kept_of(zone)
        found = plan_part(
            Context(
                snapshot=snapshot,
                domain=part,
                size=size,
                demand=demand_of(snapshot, part, priority=request.priority, mirrored=request.mirrored, kept=own),
                mirrors=tuple(m for m, home in zip(request.mirrors, homes, strict=True) if home == zone),
                existing=kept,
                elapsed=frozenset(name for name, at in since.items() if request.now - at >= delay),
                kept=own,
            )
        )
        parts.append(found)
        due.update({f"{name}/{zone}": since[name] for name in sorted(found.due)})
    return parts, due


def _waiting(request: Request, zones: Mapping[str, Domain]) -> IntArray:
    """[Z, R] what pending pods add to each zone's base: they are divided among the zones that they could go to."""
    snapshot, rows = request.snapshot, request.pending
    shares = np.zeros((len(zones), len(snapshot.resources)), dtype=np.int64)
    if not len(rows) or request.domain.policy.spec.extra_capacity.base is not Base.REQUESTED:
        return shares
    kinds = snapshot.kinds
    can = np.stack([kinds_reach(snapshot, part, request.kept_of(zone))[1][rows] for zone, part in zones.items()])
    can[0] |= ~can.any(axis=0)  # to no zone: they count all the same
    total = kinds.pending[rows, None] * kinds.requests[rows]
    ways = can.sum(axis=0)[:, None]
    for z in range(len(zones)):
        first = (can.argmax(axis=0) == z)[:, None]  # gets what is left over
        shares[z] = np.where(can[z][:, None], total // ways, 0).sum(axis=0) + np.where(first, total % ways, 0).sum(
            axis=0
        )
    return shares


def _as_it_is(snapshot: Snapshot, zone: str, size: Size, existing: Sequence[ExistingShape]) -> PartPlan:
    """Return a plan of what is there: the zone has no eligible node to plan for."""
    wanted = tuple(
        Wanted(there.shape, there.role, there.replicas, there.shape.vector(snapshot.resources))
        for there in existing
        if there.role is not Role.MIRROR and (ZONE, zone) in there.shape.node_selector
    )
    return PartPlan(
        size=size,
        wanted=wanted,
        uncovered=(),
        infeasible=(),
        pins=(),
        covered_share=1.0,
        limit="",
        due=frozenset(),
        note=f"zone {zone} has no eligible node: its slack is left as it is",
    )


def unzoned(snapshot: Snapshot, domain: Domain) -> str:
    """Say which nodes of a policy that keeps slack per zone are in no zone, '' when all are."""
    if domain.policy.spec.per_domain == "None":
        return ""
    zoned = np.zeros_like(domain.members)
    for _, part in by_zone(snapshot, domain):
        zoned |= part.members
    rows = np.flatnonzero(domain.members & ~zoned)
    if not len(rows):
        return ""
    return f"{len(rows)} nodes ({snapshot.nodes.names[rows[0]]} ...) have no label {ZONE}: no slack is kept for them"
