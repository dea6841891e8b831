"""How each kind of pod counts for a policy. This is the one place that decides it; docs/how-it-works.md has the table.

The base, the weights of the cover, gangs, reservations and `explain` all read these columns. Gated pods need no column:
`PodKinds` keeps them apart, so no sum has them. Whether a pod's requests fit any node is a later question: of the base
in `slack.planner.wanted.demand`, of the cover in `slack.planner.wanted.chances`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Presence, Snapshot
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """Which kinds count where, for one policy; K kinds."""

    bound: BoolArray
    """[K] their bound pods are part of the base.

    Those below the placeholders' priority are not: a placeholder preempts them, so the base would fall with each
    placeholder that the rate adds, and rise again once that is gone.
    """
    unbound: BoolArray
    """[K] their pods without a node are part of the base, and of what the cover is weighed by.

    These are the pods that start if a placeholder leaves: of the policy's scheduler, and above the placeholders'
    priority. Any tenant can queue others without end, at no cost, and no placeholder helps them.
    """
    foreign: BoolArray
    """[K] they name another scheduler than the policy's."""
    not_above: BoolArray
    """[K] their priority is not above the placeholders', so they preempt none."""


def counting_of(snapshot: Snapshot, domain: Domain, placeholder_priority: int, cache: PlanCache) -> Counting:
    """Return how each kind of pod counts.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        placeholder_priority: value of the placeholders' PriorityClass.
        cache: of this domain.
    """
    kinds, scheduler = snapshot.kinds, domain.policy.spec.scheduler_name
    return cache.compute(
        _counting, kinds.gated > 0, kinds.priority, kinds.constraint_id, snapshot.constraints, scheduler,
        placeholder_priority,
    )  # fmt: skip


def standing(presence: Presence, kinds: int, domain: Domain) -> IntArray:
    """[K] bound pods of every kind on nodes of the domain; `kinds` is how many there are."""
    here = domain.classes[presence.node_class]
    counts = np.bincount(presence.kind[here], weights=presence.count[here], minlength=kinds)
    return counts.astype(np.int64)


def bound_requests(snapshot: Snapshot, classes: BoolArray, counting: Counting) -> IntArray:
    """[R] what the bound pods that are part of the base request, on nodes of these classes.

    No more can run on a node than it has, whatever a pod requests that names its node itself.

    Args:
        snapshot: the cluster.
        classes: [NC] node classes to count on.
        counting: how each kind counts for the policy.
    """
    nodes = snapshot.nodes
    here = classes[nodes.class_id].astype(np.int64)
    running: IntArray = here @ np.clip(nodes.real, 0, nodes.allocatable)
    others = _requests_beside(snapshot, classes, counting)
    if others.any():
        everything = here @ nodes.real.astype(np.float64)  # beyond an int64 where pods request anything
        running = np.minimum(running.astype(np.float64), np.maximum(everything - others, 0)).astype(np.int64)
    return running


def _requests_beside(snapshot: Snapshot, classes: BoolArray, counting: Counting) -> FloatArray:
    """[R] what the bound pods request that are no part of the base, on nodes of these classes."""
    presence = snapshot.presence
    rows = np.flatnonzero(classes[presence.node_class] & ~counting.bound[presence.kind])
    total: FloatArray = presence.count[rows].astype(np.float64) @ snapshot.kinds.requests[presence.kind[rows]]
    return total


def low_priority_requests(snapshot: Snapshot, classes: BoolArray, counting: Counting) -> IntArray:
    """[R] what bound pods at or below the placeholders' priority request, on nodes of these classes.

    Bound placeholders keep such pods out. Where placeholders are unbound, these pods take capacity that is held free.
    No more can run on a node than it has, whatever a pod requests that names its node itself.
    """
    presence, nodes = snapshot.presence, snapshot.nodes
    rows = np.flatnonzero(classes[presence.node_class] & counting.not_above[presence.kind])
    total = presence.count[rows].astype(np.float64) @ snapshot.kinds.requests[presence.kind[rows]]
    most = classes[nodes.class_id].astype(np.float64) @ nodes.allocatable
    found: IntArray = np.minimum(total, most).astype(np.int64)
    return found


def _counting(
    gated: BoolArray,
    priority: IntArray,
    constraint_id: IndexArray,
    constraints: tuple[Constraints, ...],
    scheduler: str,
    placeholder_priority: int,
) -> Counting:
    foreign = np.array([own.scheduler_name != scheduler for own in constraints], dtype=bool)[constraint_id]
    not_above = priority <= placeholder_priority
    return Counting(
        bound=priority >= placeholder_priority,
        unbound=~(gated | foreign | not_above),
        foreign=foreign,
        not_above=not_above,
    )
