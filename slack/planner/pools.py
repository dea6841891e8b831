"""From what ActivationPools announce to placeholders: shapes of role `demand`, like the pools' own pods.

A pool is kept room for by the policy on whose nodes its pods may stand, as a workload is that reserves (S7), and its
namespace must be one that may reserve there. What is kept counts towards the extra capacity: cover and fill make up
what it leaves of it, so that of each resource there is the larger of both and never the sum. Nothing is kept for pods
that are there and pending: they bring their nodes themselves. No more is kept than ResourceQuotas of the pool's
namespace would let in as pods, nor than the policy's ceiling leaves; where it leaves less, it is divided as among
reservations, by namespaces first.

Pools whose pods are alike share a shape, so there are few, however many pools there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from slack.cluster.classes import Constraints, admits
from slack.cluster.labels import ZONE
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.cluster.wire import ResourceQuota
from slack.planner.burst_eviction.admission import Quotas
from slack.planner.domain.capacity import UNLIMITED
from slack.planner.domain.feasibility import allowed, astray, fits, why_not
from slack.planner.domain.host_names import HOST_REFUSED, refuses_hosts, requires_host
from slack.planner.domain.membership import Domain, by_zone, node_view
from slack.planner.model.added import NO_ADDITIONS, Additions
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.pool import Pool
from slack.planner.model.result import CutReservation, ExistingShape
from slack.planner.model.shape import Role, Shape, WantedShape
from slack.planner.objects.manifests import PRIORITY
from slack.planner.wanted.homes import Home, choose_home, home_of
from slack.planner.wanted.mirror_choice import PolicyMirrors
from slack.planner.wanted.mirror_domains import divided_mirror
from slack.planner.wanted.mirror_template import Reservation, mirror_constraints, mirror_shape, own_spread
from slack.planner.wanted.reserve_limits import Ask, Budget, admits_namespace, first_of_each, leveled, shared

GROUP = "pools"
"""For whom the placeholders are that several pools share; `Shape.reserved_for`."""
MOST_SHAPES = 200
"""Of one policy and role: each is a ReplicaSet, and an entry of its status."""
_LISTED = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Asking:
    """What a pool asks for now."""

    pool: Pool
    count: int
    rows: list[int]
    """Of `Snapshot.kinds`: its pods."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Pools of one namespace whose pods are alike, within one policy."""

    shape: Shape
    vector: IntArray
    """[R]"""
    asking: tuple[_Asking, ...]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.asking)


def assign_pools(
    snapshot: Snapshot,
    domains: Sequence[Domain],
    pools: Iterable[Pool],
    mirrors: Sequence[PolicyMirrors],
    mirrored: BoolArray,
    *,
    now: float,
    cache: PlanCache,
    priorities: Mapping[str, int],
    added: Sequence[Additions] = (),
    existing: Sequence[ExistingShape] = (),
    quotas: Iterable[ResourceQuota] = (),
) -> BoolArray:
    """Add what pools announce to what the policies keep for workloads by name.

    Args:
        snapshot: the cluster.
        domains: of the policies.
        pools: all of them, in any order.
        mirrors: of each domain; what is kept for pools, and what is not and why, is added here.
        mirrored: [K] the kinds for which mirrors keep room.
        now: Unix seconds.
        cache: of the plan.
        priorities: values of PriorityClasses by name, as far as they are known.
        added: what admission adds to the placeholders of each policy; nothing where it is not given.
        existing: the ReplicaSets that are there: a pool stays with the policy that has its placeholders.
        quotas: ResourceQuotas, as far as they are known.

    Returns:
        [K] the kinds for which room is kept that way, or by mirrors.
    """
    if not domains:
        return mirrored
    asking = _asking(snapshot, sorted(pools, key=lambda pool: pool.workload), mirrors[0], Quotas(quotas), now)
    if not asking:
        return mirrored
    homes = [
        home_of(snapshot, domain, cache.part(domain.policy.name), added[i] if added else NO_ADDITIONS, existing)
        for i, domain in enumerate(domains)
    ]
    kept = mirrored.copy()
    for at, groups in enumerate(_placed(snapshot, homes, asking, mirrors, priorities)):
        counts = _granted(snapshot, homes[at], groups, mirrors[at])
        for wanted in _merged(snapshot, homes[at].domain, groups, counts):
            mirrors[at].wanted.append(wanted)
            mirrors[at].covers.update(dict.fromkeys(wanted.kinds.tolist(), wanted.shape.name))
            kept[wanted.kinds] = True
    kept.flags.writeable = False
    return kept


def _asking(
    snapshot: Snapshot, pools: Sequence[Pool], telling: PolicyMirrors, quotas: Quotas, now: float
) -> list[_Asking]:
    """Return the pools that ask for something now; `telling` is where it is said why others do not."""
    kinds, rows = snapshot.kinds, dict[object, list[int]]()
    own = {pool.workload for pool in pools}
    for row, workload in enumerate(kinds.workloads) if own else ():
        if workload in own:
            rows.setdefault(workload, []).append(row)
    found = []
    for pool in pools:
        mine = rows.get(pool.workload, [])
        if pool.problem is not None:
            telling.leave_out(pool.workload, pool.problem)
            continue
        there = int((kinds.running[mine] + kinds.pending[mine] + kinds.gated[mine]).sum())
        count = pool.announced(there, now)
        if pool.slack_pods > 0 and pool.freshness(now) < 1:
            telling.leave_out(pool.workload, _stale(pool, now))
        if count > 0 and (let_in := _let_in(quotas, pool, count)) < count:
            reason = f"ResourceQuotas of namespace {pool.workload.namespace} let in {let_in} more of its pods"
            _cut(telling, pool, count, let_in, reason)
            count = let_in
        if count > 0:
            found.append(_Asking(pool, count, mine))
    return found


def _let_in(quotas: Quotas, pool: Pool, count: int) -> int:
    try:
        return quotas.granted(pool.workload.namespace, pool.spec, count)
    except (msgspec.DecodeError, ValueError):
        return 0  # limits of its template that nobody can read: the API server would take no such pod


def _stale(pool: Pool, now: float) -> str:
    if pool.observed_at_seconds is None:
        return "status.demand.observedAt: it does not say when its demand was observed, so that counts for nothing"
    age = now - pool.observed_at_seconds
    if age < 0:
        return f"status.demand.observedAt: {-age:.0f} s from now, so what it announces counts for nothing"
    return f"its demand was observed {age:.0f} s ago and fades: does the demand controller run?"


def _cut(mirrors: PolicyMirrors, pool: Pool, asked: int, granted: int, reason: str) -> None:
    own = pool.workload
    mirrors.leave_out(own, reason)
    mirrors.cuts.append(CutReservation(own.namespace, own.kind, own.name, asked, granted, reason, pool.uid))
    mirrors.cuts.sort(key=str)


def _placed(
    snapshot: Snapshot,
    homes: Sequence[Home],
    asking: Sequence[_Asking],
    mirrors: Sequence[PolicyMirrors],
    priorities: Mapping[str, int],
) -> list[list[_Group]]:
    """Find out where pools go: by policy, those that are alike together; why others go nowhere is said."""
    alike: dict[object, list[_Asking]] = {}
    for one in asking:
        pool = one.pool
        apart = pool.workload if _among_pods(pool.constraints) else None
        rank = pool.spec.priority_class_name, pool.spec.priority, pool.spec.preemption_policy
        alike.setdefault((pool.workload.namespace, pool.requests, pool.constraints, apart, rank), []).append(one)
    found: list[list[_Group]] = [[] for _ in homes]
    for same in alike.values():
        reservation = _reservation(snapshot, same)
        labels = snapshot.namespaces.get(reservation.workload.namespace)
        chosen = choose_home(homes, reservation, snapshot.resources, snapshot.namespaces)
        at = 0 if chosen is None else chosen  # somebody must say that no policy's nodes will do
        useless = _useless(same[0].pool, homes[at].domain, priorities)
        runs = any(snapshot.kinds.running[row] for one in same for row in one.rows)
        made = _shape(snapshot, homes[at], reservation, labels, runs=runs)
        shape, reason = made if useless is None else (None, useless)
        if shape is None:
            for one in same:
                mirrors[at].leave_out(one.pool.workload, reason)
        else:
            found[at].append(_Group(shape, shape.vector(snapshot.resources), tuple(same)))
    return found


def _useless(pool: Pool, domain: Domain, priorities: Mapping[str, int]) -> str | None:
    """Say why its pods cannot take a placeholder's place; None where they can, or their priority is not known."""
    if pool.spec.preemption_policy == "Never" and domain.policy.form.occupies_nodes:
        return "preemptionPolicy Never: its pods cannot take a placeholder's place"
    own, given = pool.spec.priority, pool.spec.priority_class_name
    own = priorities.get(given) if own is None and given else own
    ours = priorities.get(domain.policy.spec.priority_class_name, PRIORITY)
    if own is not None and own <= ours:
        return f"priority {own} is not above the placeholders' ({ours})"
    return None


def _among_pods(constraints: Constraints) -> bool:
    """Whether it matters to its pods where others of the same workload are."""
    return bool(constraints.anti_affinity or constraints.pod_affinity or constraints.topology_spread)


def _reservation(snapshot: Snapshot, same: Sequence[_Asking]) -> Reservation:
    """Return what pools that are alike ask for as a workload's reservation."""
    pool, amounts = same[0].pool, dict(same[0].pool.requests)
    return Reservation(
        workload=pool.workload,
        count=sum(one.count for one in same),
        replicas=0,
        requests=np.array([amounts.pop(name, 0) for name in snapshot.resources], dtype=np.int64),
        unoffered=tuple(sorted(amounts.items())),
        constraint_id=-1,
        constraints=pool.constraints,
        labels=pool.labels,
        problem=None,
        uid=pool.uid,
        group="" if _among_pods(pool.constraints) else GROUP,
    )


def _shape(
    snapshot: Snapshot, home: Home, reservation: Reservation, labels: Mapping[str, str] | None, *, runs: bool
) -> tuple[Shape | None, str]:
    """Return the placeholder for a pod of these pools, or why there is none."""
    policy, resources = home.domain.policy, snapshot.resources
    namespace = reservation.workload.namespace
    if not (reservation.requests.any() or reservation.unoffered):
        return None, "spec.template: its pods request nothing: no room needs to be kept"
    if not admits_namespace(policy.spec.reserve, namespace, labels):
        return None, f"spec.reserve.namespaces of policy {policy.name} does not select namespace {namespace}"
    constraints = mirror_constraints(reservation, home.domain)
    if constraints is None:
        return None, f"outside every policy: its node selector excludes that of {policy.name}"
    if requires_host(constraints) and refuses_hosts(snapshot, policy):
        return None, HOST_REFUSED
    shape = mirror_shape(reservation, constraints, resources, policy, snapshot.namespaces)
    if why := astray(home.room, replace(shape.constraints, features=reservation.constraints.features)):
        return None, why
    vector = shape.vector(resources)
    if reservation.unoffered or not fits(home.room, vector, allowed(home.room, shape.constraints)):
        return None, why_not(home.room, vector, shape.constraints, resources, reservation.unoffered, runs=runs)
    return shape, ""


def _granted(snapshot: Snapshot, home: Home, groups: Sequence[_Group], mirrors: PolicyMirrors) -> list[int]:
    """Return how many placeholders each group gets of what the policy's ceiling leaves beside its mirrors."""
    if not groups:
        return []
    width = len(snapshot.resources)
    taken = home.added.room_in(mirrors.wanted, width)
    ceiling = np.where(home.ceiling == UNLIMITED, UNLIMITED, np.maximum(home.ceiling - taken, 0))
    most = np.append(ceiling, UNLIMITED)
    asks = []
    for group in groups:
        unit = np.append(home.added.additions_to(group.shape.name).size(group.vector), 1)
        namespace, there = group.asking[0].pool.workload.namespace, group.shape.name in home.demand
        asks.append(Ask(namespace, f"{namespace}/{group.shape.name}", group.count, unit, there))
    named = ("spec.extraCapacity.ceiling",) * (width + 1)
    served = first_of_each(asks, MOST_SHAPES)
    shares = shared([asks[i] for i in served], Budget(most, most, named)) if _bounded(most) else None
    counts = {i: asks[i].count if shares is None else shares[n] for n, i in enumerate(served)}
    for i, group in enumerate(groups):
        if counts.get(i, 0) < group.count:
            _tell_cut(snapshot, group, counts.get(i), asks[i], most, mirrors)
    return [counts.get(i, 0) for i in range(len(groups))]


def _bounded(most: IntArray) -> bool:
    return bool((most < UNLIMITED).any())


def _tell_cut(
    snapshot: Snapshot, group: _Group, granted: int | None, ask: Ask, most: IntArray, mirrors: PolicyMirrors
) -> None:
    """Say of each pool of a group what it gets of what it announces."""
    takes = np.flatnonzero(ask.unit[:-1] > 0)
    tight = max(takes.tolist(), key=lambda r: float(ask.unit[r] / max(int(most[r]), 1)))
    asked = [float(one.count) for one in group.asking]
    for one, part in zip(group.asking, leveled(asked, float(granted or 0)), strict=True):
        if granted is None:
            reason = f"a policy keeps {MOST_SHAPES} shapes for pools at most"
        else:
            where = f"spec.extraCapacity.ceiling ({snapshot.resources[tight]})"
            reason = f"{where} leaves room for {int(part)} of the {one.count} pods that it announces"
        if part < one.count:
            _cut(mirrors, one.pool, one.count, int(part), reason)


def _merged(snapshot: Snapshot, domain: Domain, groups: Sequence[_Group], counts: Sequence[int]) -> list[WantedShape]:
    """Return the placeholders, a shape once, however many namespaces share it; in each zone its part of them."""
    found: dict[Shape, list[tuple[int, _Group]]] = {}
    for group, count in zip(groups, counts, strict=True):
        if count > 0:
            found.setdefault(group.shape, []).append((count, group))
    wanted = []
    for shape, parts in found.items():
        vector, whole = parts[0][1].vector, sum(count for count, _ in parts)
        asking = sorted(
            (one for _, group in parts for one in group.asking), key=lambda one: (-one.count, one.pool.workload)
        )
        rows = [row for one in asking for row in one.rows if (snapshot.kinds.requests[row] <= vector).all()]
        names = tuple(str(one.pool.workload) for one in asking[:_LISTED])
        kinds = np.array(sorted(rows), dtype=np.int64)
        pool = parts[0][1].asking[0].pool
        spread = [] if shape.form.is_scheduled else own_spread(pool.constraints.topology_spread, pool.labels)
        for own, count in _by_zone(snapshot, domain, shape, whole):
            announced = WantedShape(own, Role.DEMAND, count, vector, names, kinds)
            wanted += [each for each in divided_mirror(snapshot, domain, spread, announced, {}) if each.count]
    return wanted


def _by_zone(snapshot: Snapshot, domain: Domain, shape: Shape, count: int) -> list[tuple[Shape, int]]:
    """Divide placeholders among the zones that they could go to, where slack is kept zone by zone.

    So what is kept for pools is part of some zone's extra capacity, too, and never comes on top of it.
    """
    if domain.policy.spec.per_domain == "None" or ZONE in dict(shape.node_selector):
        return [(shape, count)]
    found = []
    for zone, part in by_zone(node_view(snapshot), domain):
        pinned = replace(shape, node_selector=tuple(sorted({*shape.node_selector, (ZONE, zone)})))
        where = [snapshot.node_classes[c] for c in np.flatnonzero(part.owned)]
        where += [template.node_class for template in part.templates]
        if zone and any(admits(pinned.constraints, node_class) for node_class in where):
            found.append(pinned)
    if not found:
        return [(shape, count)]
    each, more = divmod(count, len(found))
    parts = [(pinned, each + (number < more)) for number, pinned in enumerate(found)]
    return [(pinned, number) for pinned, number in parts if number]
