"""Mirrors that are there already live on where the workload's pods may go, whatever has become of the policies (S2).

A policy that comes, goes or takes nodes changes what mirrors of a workload say about nodes, and whose they would be
today; what they keep room for is the same. So they count as long as they are bound, in the ReplicaSets that made them,
and only what is missing is made by today's policy. None is made again in the old shape.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.membership import Domain
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.wanted.mirror_template import Reservation
from slack.planner.wanted.reserve_limits import admits_namespace


@dataclass(frozen=True, slots=True, eq=False)
class StandingMirrors:
    """The bound mirrors of one workload in one shape that it would not get today."""

    at: int
    """The policy that has made them: which of the domains."""
    shape: Shape
    names: tuple[str, ...]
    """Those that count, the oldest first."""
    strays: tuple[str, ...]
    """Those that stand where they keep room for nobody."""


class MirrorsThere:
    """What is there of all mirrors."""

    def __init__(self, snapshot: Snapshot, domains: Sequence[Domain], existing: Iterable[ExistingShape]) -> None:
        """Sort it by workload.

        Args:
            snapshot: the cluster.
            domains: of the policies.
            existing: the ReplicaSets that are there.
        """
        self._snapshot = snapshot
        self._domains = domains
        self._shapes: dict[str, list[ExistingShape]] = {}
        for there in sorted(existing, key=lambda there: (there.policy, there.shape.name)):
            if there.role is Role.MIRROR and there.replicas:
                self._shapes.setdefault(there.shape.reserved_for, []).append(there)
        self._at = {domain.policy.name: at for at, domain in enumerate(domains)}

    @cached_property
    def _bound(self) -> Mapping[tuple[str, str], list[tuple[str, int]]]:
        """Names and nodes of the bound ones by policy and shape; looked at only where policies have changed."""
        names = {(there.policy, there.shape.name) for shapes in self._shapes.values() for there in shapes}
        found: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for pod in sorted(self._snapshot.placeholders, key=lambda pod: (pod.created_seconds, pod.name)):
            if pod.node >= 0 and (pod.policy, pod.shape) in names:
                found.setdefault((pod.policy, pod.shape), []).append((pod.name, pod.node))
        return found

    @cached_property
    def _host(self) -> IntArray:
        """[NC] which domain has each node class, -1 for none."""
        hosts = np.full(len(self._snapshot.node_classes), -1, dtype=np.int64)
        for at, domain in enumerate(self._domains):
            if domain.conflict is None:
                hosts[domain.owned] = at
        return hosts

    def replicas(self, reserved_for: str, at: int) -> Mapping[Shape, int]:
        """Return how many mirrors of a workload one policy has, by shape."""
        found = self._shapes.get(reserved_for, ())
        return {there.shape: there.replicas for there in found if self._at.get(there.policy) == at}

    def mirrors_of(
        self, reservation: Reservation, todays: Collection[Shape], at: int, labels: Mapping[str, str] | None
    ) -> Iterator[StandingMirrors]:
        """Yield the mirrors of a workload that it would not get today, those of today's policy first.

        Args:
            reservation: of the workload.
            todays: the shapes that it would get; they differ in their nodes only.
            at: the policy that it would get it from.
            labels: of its namespace.
        """
        today = next(iter(todays))
        others = [(self._at.get(there.policy), there.shape) for there in self._shapes.get(today.reserved_for, ())]
        for owner, shape in sorted(others, key=lambda other: other[0] != at):
            if owner is None or (owner == at and shape in todays) or not self._lasts(owner, shape, today):
                continue
            names, strays = list[str](), list[str]()
            for name, node in self._bound.get((self._domains[owner].policy.name, shape.name), ()):
                (names if self._serves(node, reservation, labels) else strays).append(name)
            yield StandingMirrors(owner, shape, tuple(names), tuple(strays))

    def _lasts(self, owner: int, shape: Shape, today: Shape) -> bool:
        """Tell whether it is today's but for the nodes that policies name, and its policy still stands behind it."""
        domain = self._domains[owner]
        if domain.conflict is not None or domain.policy.spec.dry_run:
            return False
        if shape.priority_class_name != domain.policy.spec.priority_class_name:
            return False
        if shape.form != domain.policy.form:
            return False
        return _but_for_nodes(shape) == _but_for_nodes(today)

    def _serves(self, node: int, reservation: Reservation, labels: Mapping[str, str] | None) -> bool:
        """Tell whether the workload's pods may go to a node of some policy that lets its namespace reserve."""
        node_class = int(self._snapshot.nodes.class_id[node])
        host = int(self._host[node_class])
        if host < 0 or not self._snapshot.reach[reservation.constraint_id][node_class]:
            return False
        return admits_namespace(self._domains[host].policy.spec.reserve, reservation.workload.namespace, labels)


def _but_for_nodes(shape: Shape) -> Shape:
    return replace(shape, node_selector=(), node_affinity=(), tolerations=(), priority_class_name="")
