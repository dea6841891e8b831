"""Which policy takes placeholders in for somebody who has asked for them by name: a workload, or a pool."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slack.cluster.selectors import Namespaces
from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.capacity import ceiling_of
from slack.planner.domain.feasibility import EmptyNodeCapacity, allowed, fits, node_rows, room_of
from slack.planner.domain.membership import Domain
from slack.planner.model.added import Additions
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role
from slack.planner.wanted.mirror_template import Reservation, mirror_constraints, mirror_shape
from slack.planner.wanted.reserve_limits import admits_namespace


@dataclass(frozen=True, slots=True, eq=False)
class Home:
    """A policy that may take placeholders in."""

    domain: Domain
    room: EmptyNodeCapacity
    """Of the nodes that it selects and that are ready, tainted ones too, and of its templates."""
    present: EmptyNodeCapacity
    """Of all nodes that it selects: one that is not ready for a minute moves no mirrors to another policy."""
    ceiling: IntArray
    """[R]"""
    added: Additions
    mirrors: frozenset[str]
    """Workloads that it has mirrors of."""
    demand: frozenset[str]
    """Names of the shapes that it keeps for pools."""


def home_of(
    snapshot: Snapshot, domain: Domain, cache: PlanCache, added: Additions, existing: Iterable[ExistingShape]
) -> Home:
    """Return a policy as somewhere to go.

    Args:
        snapshot: the cluster.
        domain: of the policy.
        cache: of the policy.
        added: what admission adds to its placeholders.
        existing: the ReplicaSets that are there.
    """
    nodes, name = snapshot.nodes, domain.policy.name
    owned = domain.owned[nodes.class_id]
    ready = owned & nodes.ready & nodes.schedulable
    mine = [there for there in existing if there.policy == name and there.replicas and not there.retiring]
    here, present = cache.part("ready"), cache.part("present")
    return Home(
        domain=domain,
        room=here.compute(room_of, node_rows(snapshot, ready, domain.templates, here)),
        present=present.compute(room_of, node_rows(snapshot, owned, (), present)),
        ceiling=ceiling_of(snapshot, domain.policy),
        added=added,
        mirrors=frozenset(there.shape.reserved_for for there in mine if there.role is Role.MIRROR),
        demand=frozenset(there.shape.name for there in mine if there.role is Role.DEMAND),
    )


def choose_home(
    homes: Sequence[Home], reservation: Reservation, resources: tuple[str, ...], namespaces: Namespaces
) -> int | None:
    """Return which policy keeps placeholders for a workload or pool: None where it may go to no policy's nodes.

    One that lets its namespace reserve goes before all others.

    It is one on whose nodes a placeholder fits, rather on nodes that are there than on those of a template, and whose
    ceiling has room for it. Of these the one that has its placeholders already, then the most specific one, then the
    largest: a policy on whose nodes it cannot run must not take it from one that has room.
    """
    best: tuple[int, ...] | None = None
    labels = namespaces.get(reservation.workload.namespace)
    for i, home in enumerate(homes):
        constraints = mirror_constraints(reservation, home.domain)
        rows = None if constraints is None else allowed(home.room, constraints)
        if constraints is None or rows is None or home.domain.conflict is not None or not rows.any():
            continue
        policy = home.domain.policy
        shape = mirror_shape(reservation, constraints, resources, policy, namespaces)
        vector = shape.vector(resources)
        more = home.added.additions_to(shape.name)
        payable = more.within(home.ceiling, vector) if vector.any() else reservation.count
        rank = (
            admits_namespace(policy.spec.reserve, reservation.workload.namespace, labels),
            fits(home.room, vector, rows),
            payable > 0,
            fits(home.present, vector, allowed(home.present, constraints)),
            payable >= reservation.count,
            str(reservation.workload) in home.mirrors or shape.name in home.demand,
            len(policy.spec.node_selector),
            int(home.domain.members.sum()),
            -i,
        )
        best = rank if best is None else max(best, rank)
    return None if best is None else -best[-1]
