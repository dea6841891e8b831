"""Which policy mirrors which workload, and how many placeholders that makes (S7).

A workload is mirrored by the policy on whose nodes its pods may stand, whatever the taints there: its own tolerations
decide. Where anti-affinity leaves fewer places than are asked for, no more are made than there are places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.snapshot import Snapshot, Workload
from slack.planner.domain import Domain
from slack.planner.feasible import Room, allowed, fits, room_of, why_not
from slack.planner.mirror import (
    HOSTNAME,
    Reservation,
    mirror_constraints,
    mirror_shape,
    own_topology,
    reservations,
)
from slack.planner.outcome import Uncovered
from slack.planner.part import Wanted
from slack.planner.shape import Role


@dataclass(frozen=True, slots=True, eq=False)
class Mirrors:
    """The mirrors of one policy."""

    wanted: tuple[Wanted, ...]
    uncovered: tuple[Uncovered, ...]
    infeasible: tuple[str, ...]
    covers: Mapping[int, str]
    """Row in `Snapshot.kinds` -> shape."""


def _places(snapshot: Snapshot, domain: Domain, reservation: Reservation, key: str) -> int:
    """Return how many more topology domains of `key` the workload's pods could take."""
    reach = snapshot.reach[snapshot.constraints.index(reservation.constraints)] & domain.owned
    values = {dict(snapshot.node_classes[c].labels).get(key, "") for c in np.flatnonzero(reach)} - {""}
    kinds = [k for k, workload in enumerate(snapshot.kinds.workloads) if workload == reservation.workload]
    taken = int(snapshot.kinds.running[kinds].sum() + snapshot.kinds.pending[kinds].sum())
    return max(len(values) - taken, 0)


def _mirror(snapshot: Snapshot, domain: Domain, room: Room, reservation: Reservation) -> tuple[Wanted | None, str]:
    """Return the mirror of one workload, or why there is none."""
    constraints = mirror_constraints(reservation, domain)
    if constraints is None:
        return None, "its node selector excludes the policy's"
    spec = domain.policy.spec
    shape = mirror_shape(reservation, constraints, snapshot.resources, spec.priority_class_name)
    vector = shape.vector(snapshot.resources)
    if not vector.any():
        return None, "it requests nothing: no room needs to be kept"
    if not fits(room, vector, allowed(room, shape.constraints)):
        return None, why_not(room, vector, shape.constraints, snapshot.resources)
    count, reason = reservation.count, ""
    for key in own_topology(reservation):
        # Nodes are added by the autoscaler, zones are not: only other topologies bound the count.
        if key != HOSTNAME and (places := _places(snapshot, domain, reservation, key)) < count:
            count = places
            reason = f"its anti-affinity over {key} leaves {places} places for the {reservation.count} that it reserves"
    return Wanted(shape, Role.MIRROR, count, vector, (str(reservation.workload),)), reason


def _home(snapshot: Snapshot, domains: Sequence[Domain], reservation: Reservation) -> int | None:
    """Return which policy mirrors a workload: the one on most of whose nodes it may go, the most specific first."""
    best: tuple[int, int, int] | None = None
    for i, domain in enumerate(domains):
        constraints = mirror_constraints(reservation, domain)
        if constraints is None or domain.conflict:
            continue
        room = room_of(snapshot, replace(domain, eligible=_ready(snapshot, domain)))
        if not allowed(room, constraints).any():
            continue
        rank = (len(domain.policy.spec.node_selector), int(domain.members.sum()), -i)
        best = max(best, rank) if best else rank
    return None if best is None else -best[2]


def _ready(snapshot: Snapshot, domain: Domain) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[N] nodes that the policy selects, tainted ones too, that could take a pod now."""
    nodes = snapshot.nodes
    result: np.ndarray[tuple[int], np.dtype[np.bool_]] = domain.owned[nodes.class_id] & nodes.ready & nodes.schedulable
    return result


def mirror_all(snapshot: Snapshot, domains: Sequence[Domain]) -> tuple[tuple[Mirrors, ...], frozenset[Workload]]:
    """Give every annotated workload to one policy.

    Returns:
        the mirrors of each domain, and the workloads for which room is kept that way.
    """
    wanted: list[list[Wanted]] = [[] for _ in domains]
    uncovered: list[list[Uncovered]] = [[] for _ in domains]
    infeasible: list[list[str]] = [[] for _ in domains]
    covers: list[dict[int, str]] = [{} for _ in domains]
    mirrored = set()
    rooms = [room_of(snapshot, replace(domain, eligible=_ready(snapshot, domain))) for domain in domains]
    for reservation in reservations(snapshot):
        workload = str(reservation.workload)
        home = _home(snapshot, domains, reservation)
        at = home if home is not None else 0
        if not domains:
            continue
        if reservation.problem:
            uncovered[at].append(Uncovered(workload, reservation.problem))
            infeasible[at].append(f"{workload}: {reservation.problem}")
            continue
        mirror, reason = _mirror(snapshot, domains[at], rooms[at], reservation)
        if reason:
            uncovered[at].append(Uncovered(workload, reason))
            infeasible[at].append(f"{workload}: {reason}")
        if mirror is None or mirror.count == 0:
            continue
        kinds = [k for k, w in enumerate(snapshot.kinds.workloads) if w == reservation.workload]
        wanted[at].append(replace(mirror, kinds=tuple(kinds)))
        covers[at].update(dict.fromkeys(kinds, mirror.shape.name))
        mirrored.add(reservation.workload)
    return (
        tuple(
            Mirrors(tuple(wanted[i]), tuple(uncovered[i]), tuple(infeasible[i]), covers[i]) for i in range(len(domains))
        ),
        frozenset(mirrored),
    )
