"""Which policy mirrors which workload, and how many placeholders that makes (S7).

A workload is mirrored by the policy on whose nodes its pods may stand, whatever the taints there: its own tolerations
decide. Where anti-affinity leaves fewer places than are asked for, or a ceiling less room, no more are made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slack.cluster.classes import admits
from slack.cluster.snapshot import BoolArray, Snapshot, Workload
from slack.planner.capacity import ceiling_of
from slack.planner.domain import Domain
from slack.planner.feasible import Room, allowed, empty_nodes, fits, room_of, why_not
from slack.planner.kept import Kept
from slack.planner.mirror import (
    HOSTNAME,
    Reservation,
    mirror_constraints,
    mirror_shape,
    own_topology,
    reservations,
)
from slack.planner.outcome import Uncovered
from slack.planner.shape import Role
from slack.planner.wanted import Wanted


@dataclass(slots=True, eq=False)
class Mirrors:
    """The mirrors of one policy."""

    wanted: list[Wanted] = field(default_factory=list)
    uncovered: list[Uncovered] = field(default_factory=list)
    infeasible: list[str] = field(default_factory=list)
    covers: dict[int, str] = field(default_factory=dict)
    """Row in `Snapshot.kinds` -> shape."""

    def lacks(self, workload: Workload, reason: str) -> None:
        """Note why a workload does not get what it asks for."""
        self.uncovered.append(Uncovered(str(workload), reason))
        self.infeasible.append(f"{workload}: {reason}")


@dataclass(frozen=True, slots=True, eq=False)
class _Home:
    """A policy that may take mirrors in."""

    domain: Domain
    room: Room
    """Of the nodes that it selects, tainted ones too."""


def _home_of(snapshot: Snapshot, domain: Domain, kept: Kept) -> _Home:
    nodes = snapshot.nodes
    ready = domain.owned[nodes.class_id] & nodes.ready & nodes.schedulable
    own = kept.part("home")
    made_of = (*empty_nodes(snapshot, ready, own), nodes.ready, nodes.schedulable, domain)
    return own.of("home", made_of, lambda: _Home(domain, room_of(snapshot, replace(domain, eligible=ready))))


def _places(snapshot: Snapshot, domain: Domain, reservation: Reservation, rows: Sequence[int], key: str) -> int:
    """Return how many more topology domains of `key` the workload's pods could take."""
    reach = snapshot.reach[reservation.constraint_id] & domain.owned
    classes = [snapshot.node_classes[c] for c in np.flatnonzero(reach)]
    classes += [t.node_class for t in domain.templates if admits(reservation.constraints, t.node_class)]
    values = {dict(node_class.labels).get(key, "") for node_class in classes} - {""}
    taken = int(snapshot.kinds.running[rows].sum() + snapshot.kinds.pending[rows].sum())
    return max(len(values) - taken, 0)


def _mirror(
    snapshot: Snapshot, home: _Home, reservation: Reservation, rows: Sequence[int]
) -> tuple[Wanted | None, str]:
    """Return the mirror of one workload, and why there is none, or less of it than asked for."""
    domain = home.domain
    constraints = mirror_constraints(reservation, domain)
    if constraints is None:
        return None, "its node selector excludes the policy's"
    shape = mirror_shape(reservation, constraints, snapshot.resources, domain.policy.spec.priority_class_name)
    vector = shape.vector(snapshot.resources)
    if not vector.any():
        return None, "it requests nothing: no room needs to be kept"
    if not fits(home.room, vector, allowed(home.room, shape.constraints)):
        return None, why_not(home.room, vector, shape.constraints, snapshot.resources)
    count, reason = reservation.count, ""
    for key in own_topology(reservation):
        # Nodes are added by the autoscaler, zones are not: only other topologies bound the count.
        if key != HOSTNAME and (places := _places(snapshot, domain, reservation, rows, key)) < count:
            count = places
            reason = f"its anti-affinity over {key} leaves {places} places for the {reservation.count} that it reserves"
    return Wanted(
        shape, Role.MIRROR, count, vector, (str(reservation.workload),), np.array(rows, dtype=np.int64)
    ), reason


def _choose_home(homes: Sequence[_Home], reservation: Reservation) -> int | None:
    """Return which policy mirrors a workload: the most specific one on whose nodes it may go, then the largest."""
    best: tuple[int, int, int] | None = None
    for i, home in enumerate(homes):
        constraints = mirror_constraints(reservation, home.domain)
        if constraints is None or home.domain.conflict or not allowed(home.room, constraints).any():
            continue
        rank = (len(home.domain.policy.spec.node_selector), int(home.domain.members.sum()), -i)
        best = max(best, rank) if best else rank
    return None if best is None else -best[2]


def mirror_all(snapshot: Snapshot, domains: Sequence[Domain], kept: Kept) -> tuple[tuple[Mirrors, ...], BoolArray]:
    """Give every annotated workload to one policy.

    Returns:
        the mirrors of each domain, and [K] the kinds for which room is kept that way.
    """
    mirrors = tuple(Mirrors() for _ in domains)
    mirrored = np.zeros(len(snapshot.kinds), dtype=bool)
    reserved = reservations(snapshot)
    if not reserved or not domains:
        return mirrors, mirrored
    homes = [_home_of(snapshot, domain, kept.part(domain.policy.name)) for domain in domains]
    left = [ceiling_of(snapshot, domain.policy) for domain in domains]
    kinds_of: dict[Workload, list[int]] = {reservation.workload: [] for reservation in reserved}
    for k, workload in enumerate(snapshot.kinds.workloads):
        if workload in kinds_of:
            kinds_of[workload].append(k)
    for reservation in reserved:
        workload, rows = reservation.workload, kinds_of[reservation.workload]
        home = _choose_home(homes, reservation)
        at = 0 if home is None else home  # somebody must say that no policy's nodes will do
        if reservation.problem:
            mirrors[at].lacks(workload, reservation.problem)
            continue
        mirror, reason = _mirror(snapshot, homes[at], reservation, rows)
        if reason:
            mirrors[at].lacks(workload, reason)
        if mirror is None:
            continue
        takes = mirror.vector > 0
        payable = max(int(np.min(left[at][takes] // mirror.vector[takes])), 0)
        if payable < mirror.count:
            reason = f"spec.extraCapacity.ceiling leaves room for {payable} of the {mirror.count} that it reserves"
            mirrors[at].uncovered.append(Uncovered(str(workload), reason))
            mirror = replace(mirror, count=payable)
        if mirror.count == 0:
            continue
        left[at] = left[at] - mirror.count * mirror.vector
        mirrors[at].wanted.append(mirror)
        mirrors[at].covers.update(dict.fromkeys(rows, mirror.shape.name))
        mirrored[rows] = True
    return mirrors, mirrored


def zone_of(mirror: Wanted, zones: Mapping[str, Domain], snapshot: Snapshot) -> str | None:
    """Return the one zone that a mirror can go to, None where it can go to several."""
    can = np.array([admits(mirror.shape.constraints, node_class) for node_class in snapshot.node_classes], dtype=bool)
    reached = [
        zone
        for zone, part in zones.items()
        if (can & part.owned).any() or any(admits(mirror.shape.constraints, t.node_class) for t in part.templates)
    ]
    return reached[0] if len(reached) == 1 else None
