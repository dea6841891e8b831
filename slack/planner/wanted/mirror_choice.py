"""Which policy mirrors which workload, and how many placeholders that makes (S7).

A workload is mirrored by the policy on whose nodes its pods may stand, whatever the taints there: its own tolerations
decide, and whether it fits there. Where anti-affinity leaves fewer places than are asked for, or a ceiling less room,
no more are made.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from slack.cluster.classes import admits
from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import BoolArray, Snapshot, Workload
from slack.planner.domain.counting import Counting
from slack.planner.domain.feasibility import allowed, astray, fits, why_not
from slack.planner.domain.host_names import HOST_REFUSED, refuses_hosts, requires_host
from slack.planner.domain.membership import Domain
from slack.planner.model.added import NO_ADDITIONS, Additions
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import CutReservation, ExistingShape, UncoveredPods
from slack.planner.model.shape import Role, Shape, WantedShape
from slack.planner.wanted.homes import Home, choose_home, home_of
from slack.planner.wanted.mirror_domains import divided_mirror
from slack.planner.wanted.mirror_standing import MirrorsThere, StandingMirrors
from slack.planner.wanted.mirror_template import (
    Reservation,
    mirror_constraints,
    mirror_shape,
    own_spread,
    own_topology,
    reservations,
)
from slack.planner.wanted.preemption_blockers import why_useless
from slack.planner.wanted.reserve_limits import (
    MOST_MIRRORED,
    Ask,
    admits_namespace,
    asks_for_labels,
    budget_of,
    first_of_each,
    own_most,
    shared,
    why_cut,
)


@dataclass(slots=True, eq=False)
class PolicyMirrors:
    """What one policy keeps for those who have asked by name: mirrors, and what pools announce."""

    wanted: list[WantedShape] = field(default_factory=list)
    uncovered: list[UncoveredPods] = field(default_factory=list)
    infeasible: list[str] = field(default_factory=list)
    cuts: list[CutReservation] = field(default_factory=list)
    covers: dict[int, str] = field(default_factory=dict)
    """Row in `Snapshot.kinds` -> shape."""
    strays: dict[str, bool] = field(default_factory=dict)
    """Mirrors that today's policies would not make so: False for those that keep room for nobody and go first."""

    def leave_out(self, workload: Workload, reason: str) -> None:
        """Note why nothing is kept for a workload or pool; the policy is none the less what it should be."""
        self.uncovered.append(UncoveredPods(str(workload), reason))

    def lacks(self, workload: Workload, reason: str) -> None:
        """Note why a workload does not get what it asks for."""
        self.uncovered.append(UncoveredPods(str(workload), reason))
        self.infeasible.append(f"{workload}: {reason}")

    def cut(self, reservation: Reservation, granted: int, reason: str) -> None:
        """Note that a workload gets less than it reserves, by a bound of the policy."""
        workload, asked = reservation.workload, reservation.count
        self.uncovered.append(UncoveredPods(str(workload), reason))
        self.cuts.append(
            CutReservation(workload.namespace, workload.kind, workload.name, asked, granted, reason, reservation.uid)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A mirror that its policy could make, of at least one placeholder."""

    reservation: Reservation
    rows: list[int]
    mirror: WantedShape
    bound: str | None
    """Why it is less already than what is reserved."""


def _places(snapshot: Snapshot, domain: Domain, reservation: Reservation, rows: Sequence[int], key: str) -> int:
    """Return how many more topology domains of `key` the workload's pods could take."""
    reach = snapshot.reach[reservation.constraint_id] & domain.owned
    classes = [snapshot.node_classes[c] for c in np.flatnonzero(reach)]
    classes += [t.node_class for t in domain.templates if admits(reservation.constraints, t.node_class)]
    values = {dict(node_class.labels).get(key, "") for node_class in classes} - {""}
    taken = int(snapshot.kinds.running[rows].sum() + snapshot.kinds.pending[rows].sum())
    return max(len(values) - taken, 0)


def _mirror(
    snapshot: Snapshot, home: Home, reservation: Reservation, rows: Sequence[int]
) -> tuple[WantedShape | None, str | None]:
    """Return the mirror of one workload, and why there is none, or less of it than asked for."""
    domain = home.domain
    constraints = mirror_constraints(reservation, domain)
    if constraints is None:
        return None, "its node selector excludes the policy's"
    if requires_host(constraints) and refuses_hosts(snapshot, domain.policy):
        return None, HOST_REFUSED
    shape = mirror_shape(reservation, constraints, snapshot.resources, domain.policy, snapshot.namespaces)
    vector = shape.vector(snapshot.resources)
    if not vector.any():
        return None, "it requests nothing: no room needs to be kept"
    if why := astray(home.room, replace(shape.constraints, features=reservation.constraints.features)):
        return None, why
    if not fits(home.room, vector, allowed(home.room, shape.constraints)):
        runs, unoffered = bool(snapshot.kinds.running[rows].any()), reservation.unoffered
        return None, why_not(home.room, vector, shape.constraints, snapshot.resources, unoffered, runs=runs)
    count, reason = reservation.count, None
    for key in own_topology(reservation, snapshot.namespaces):
        # Nodes are added by the autoscaler, zones are not: only other topologies bound the count.
        if key != HOSTNAME and (places := _places(snapshot, domain, reservation, rows, key)) < count:
            count = places
            reason = f"its anti-affinity over {key} leaves {places} places for the {reservation.count} that it reserves"
    return WantedShape(
        shape, Role.MIRROR, count, vector, (str(reservation.workload),), np.array(rows, dtype=np.int64)
    ), reason


def assign_mirrors(
    snapshot: Snapshot,
    domains: Sequence[Domain],
    counting: Sequence[Counting],
    cache: PlanCache,
    added: Sequence[Additions] = (),
    existing: Sequence[ExistingShape] = (),
) -> tuple[tuple[PolicyMirrors, ...], BoolArray]:
    """Give every annotated workload to one policy.

    Args:
        snapshot: the cluster.
        domains: of the policies.
        counting: how each kind counts, by domain.
        cache: of the plan.
        added: what admission adds to the placeholders of each policy; nothing where it is not given.
        existing: the ReplicaSets that are there: a workload stays with the policy that has its mirrors.

    Returns:
        the mirrors of each domain, and [K] the kinds for which room is kept that way.
    """
    mirrors = tuple(PolicyMirrors() for _ in domains)
    mirrored = np.zeros(len(snapshot.kinds), dtype=bool)
    reserved = reservations(snapshot)
    if not reserved or not domains:
        return mirrors, mirrored
    homes = [
        home_of(snapshot, domain, cache.part(domain.policy.name), added[i] if added else NO_ADDITIONS, existing)
        for i, domain in enumerate(domains)
    ]
    kinds_of: dict[Workload, list[int]] = {reservation.workload: [] for reservation in reserved}
    for k, workload in enumerate(snapshot.kinds.workloads):
        if workload in kinds_of:
            kinds_of[workload].append(k)
    candidates: list[list[_Candidate]] = [[] for _ in homes]
    for reservation in reserved:
        labels = snapshot.namespaces.get(reservation.workload.namespace)
        chosen = choose_home(homes, reservation, snapshot.resources, snapshot.namespaces)
        at = 0 if chosen is None else chosen  # somebody must say that no policy's nodes will do
        candidate = _candidate(
            snapshot, homes[at], reservation, kinds_of[reservation.workload], labels, mirrors[at], counting[at]
        )
        if candidate is not None:
            candidates[at].append(candidate)
    there = MirrorsThere(snapshot, domains, existing)
    for at, home in enumerate(homes):
        for candidate, count in _granted(snapshot, home, candidates[at], mirrors[at], counting[at]):
            labels = snapshot.namespaces.get(candidate.reservation.workload.namespace)
            replicas = there.replicas(candidate.mirror.shape.reserved_for, at)
            divide = partial(_divided, snapshot, home.domain, candidate, replicas)
            todays = [each.shape for each in divide(count)]
            lives_on = there.mirrors_of(candidate.reservation, todays, at, labels)
            _share_out(candidate, count, lives_on, mirrors, at, divide)
            mirrored[candidate.rows] = True
        mirrors[at].cuts.sort(key=str)
    return mirrors, mirrored


def _divided(
    snapshot: Snapshot, domain: Domain, candidate: _Candidate, replicas: Mapping[Shape, int], count: int
) -> tuple[WantedShape, ...]:
    """Return the placeholders of a candidate: unbound ones zone by zone, if its workload spreads over zones."""
    mirror = replace(candidate.mirror, count=count)
    if domain.policy.form.is_scheduled:
        return (mirror,)
    own = candidate.reservation
    spread = own_spread(own.constraints.topology_spread, own.labels)
    return divided_mirror(snapshot, domain, spread, mirror, replicas)


def _share_out(
    candidate: _Candidate,
    count: int,
    lives_on: Iterable[StandingMirrors],
    mirrors: Sequence[PolicyMirrors],
    at: int,
    divide: Callable[[int], Sequence[WantedShape]],
) -> None:
    """Let the mirrors that are there count, each for the policy that has made it; today's makes what is missing."""
    for standing in lives_on:
        stays = min(len(standing.names), count)
        count -= stays
        theirs = mirrors[standing.at]
        theirs.strays.update(dict.fromkeys(standing.names, True) | dict.fromkeys(standing.strays, False))
        if stays:
            theirs.wanted.append(replace(candidate.mirror, shape=standing.shape, count=stays, used_up=True))
            theirs.covers.update(dict.fromkeys(candidate.rows, standing.shape.name))
    made = [each for each in divide(count) if each.count] if count else []
    mirrors[at].wanted += made
    for each in made[:1]:
        mirrors[at].covers.update(dict.fromkeys(candidate.rows, each.shape.name))


def _candidate(
    snapshot: Snapshot,
    home: Home,
    reservation: Reservation,
    rows: list[int],
    labels: Mapping[str, str] | None,
    mirrors: PolicyMirrors,
    counting: Counting,
) -> _Candidate | None:
    """Return what a workload may have by itself; why it is less, or nothing, is noted."""
    workload, policy = reservation.workload, home.domain.policy
    if reservation.problem is not None:
        mirrors.lacks(workload, reservation.problem)
        return None
    asked, bound, reason = reservation.count, None, None
    if not admits_namespace(policy.spec.reserve, workload.namespace, labels):
        reason = f"spec.reserve.namespaces of policy {policy.name} does not select namespace {workload.namespace}"
        if labels is None and asks_for_labels(policy.spec.reserve):
            reason += ", whose labels are not known"
        mirrors.cut(reservation, 0, reason)
        return None
    if useless := why_useless(snapshot, home.domain, rows, counting):
        mirrors.cut(reservation, 0, useless)
        return None
    most = own_most(policy.spec.reserve, snapshot, rows, workload.kind, reservation.replicas, counting)
    if most < asked:
        share = f"{policy.spec.reserve.max_share * 100:g}%"
        bound = f"spec.reserve.maxShare ({share} of its running pods) allows {most} of the {asked} that it reserves"
    mirror, reason = _mirror(snapshot, home, replace(reservation, count=min(asked, most)), rows)
    if reason is not None:
        mirrors.lacks(workload, reason)
    if mirror is not None and mirror.count > 0:
        return _Candidate(reservation, rows, mirror, bound)
    if bound is not None and reason is None:
        mirrors.cut(reservation, 0, bound)
    return None


def _granted(
    snapshot: Snapshot, home: Home, candidates: Sequence[_Candidate], mirrors: PolicyMirrors, counting: Counting
) -> Iterator[tuple[_Candidate, int]]:
    """Yield the mirrors that a policy pays for, and how many placeholders of each; what is cut is noted."""
    if not candidates:
        return
    budget = budget_of(snapshot, home.domain, home.ceiling, counting)
    asks = []
    for candidate in candidates:
        workload, mirror = candidate.reservation.workload, candidate.mirror
        unit = np.append(home.added.additions_to(mirror.shape.name).size(mirror.vector), 1)
        asks.append(Ask(workload.namespace, str(workload), mirror.count, unit, str(workload) in home.mirrors))
    served = first_of_each(asks, MOST_MIRRORED)
    counts = dict(zip(served, shared([asks[i] for i in served], budget), strict=True))
    left = home.ceiling
    for i, candidate in enumerate(candidates):
        mirror, added = candidate.mirror, home.added.additions_to(candidate.mirror.shape.name)
        count = min(counts.get(i, 0), added.within(left, mirror.vector))
        left = left - added.room(count, mirror.vector)
        asked, reason = candidate.reservation.count, candidate.bound
        if i not in counts:
            reason = f"a policy mirrors {MOST_MIRRORED} workloads at most"
        elif count < mirror.count:
            reason = why_cut(replace(asks[i], count=asked), count, budget, snapshot.resources)
        if reason is not None:
            mirrors.cut(candidate.reservation, count, reason)
        if count > 0:
            yield candidate, count


def zone_of(mirror: WantedShape, zones: Mapping[str, Domain], snapshot: Snapshot) -> str | None:
    """Return the one zone that a mirror can go to, None where it can go to several."""
    can = np.array([admits(mirror.shape.constraints, node_class) for node_class in snapshot.node_classes], dtype=bool)
    reached = [
        zone
        for zone, part in zones.items()
        if (can & part.owned).any() or any(admits(mirror.shape.constraints, t.node_class) for t in part.templates)
    ]
    return reached[0] if len(reached) == 1 else None
