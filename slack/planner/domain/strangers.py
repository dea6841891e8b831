"""Placeholders that stand on nodes that are not their policy's any more: labels were changed, or a policy came between.

Such a node keeps them where another policy has it now and wants extra capacity: that policy counts them and makes so
many fewer, and they stay in the ReplicaSets that made them. What nobody counts on is one too many.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray, Placeholder, Snapshot
from slack.planner.domain.membership import Domain
from slack.planner.model.added import vector_of
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.shape import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Stranger:
    """A bound placeholder on a node that another policy has."""

    pod: Placeholder
    vector: IntArray
    """[R] what it requests."""
    host: str | None
    """The policy that has the node; None where no policy has."""


def _nodes_of(placeholders: tuple[Placeholder, ...]) -> IntArray:
    """[P] the node of each placeholder, -1 where it has none."""
    return np.array([pod.node for pod in placeholders], dtype=np.int64)


def strangers_of(
    snapshot: Snapshot,
    domains: Sequence[Domain],
    placeholders: Mapping[str, tuple[Placeholder, ...]],
    shapes: Mapping[str, Mapping[str, Shape]],
    cache: PlanCache,
) -> dict[str, tuple[Stranger, ...]]:
    """Return by policy its placeholders on nodes that it does not select, or that a more specific policy has.

    Args:
        snapshot: the cluster.
        domains: of all policies.
        placeholders: by policy.
        shapes: by policy and name.
        cache: of the plan.
    """
    class_id = snapshot.nodes.class_id
    found: dict[str, tuple[Stranger, ...]] = {}
    for domain in domains:
        name = domain.policy.name
        mine = placeholders.get(name, ())
        if not mine or domain.owned.all():
            continue
        # Hundreds can be away, of which nearly all are mirrors or of a shape that is not known any more.
        countable = {key: shape for key, shape in shapes.get(name, {}).items() if not shape.reserved_for}
        rows = cache.part(name).compute(_nodes_of, mine)
        away = np.flatnonzero((rows >= 0) & ~domain.owned[class_id[rows]]) if countable else rows[:0]
        strangers = []
        for pod in map(mine.__getitem__, away.tolist()):
            shape = countable.get(pod.shape)
            if shape is not None and pod.is_held:
                vector = shape.vector(snapshot.resources)
                if pod.requests is not None:
                    vector = vector_of(pod.requests, snapshot.resources)
                strangers.append(Stranger(pod, vector, _host(domains, int(class_id[pod.node]))))
        if strangers:
            found[name] = tuple(sorted(strangers, key=lambda s: (s.pod.created_seconds, s.pod.name)))
    return found


def _host(domains: Iterable[Domain], node_class: int) -> str | None:
    for domain in domains:
        if domain.owned[node_class] and domain.conflict is None and not domain.policy.spec.dry_run:
            return domain.policy.name
    return None


def in_order(policies: Sequence[str], strangers: Mapping[str, Sequence[Stranger]]) -> tuple[str, ...]:
    """Return the policies so that a host comes before those whose placeholders it has, as far as that can be."""
    left, order = list(policies), list[str]()
    while left:
        waits = {name: {s.host for s in strangers.get(name, ())} & set(left) - {name} for name in left}
        first = next((name for name in left if not waits[name]), left[0])
        left.remove(first)
        order.append(first)
    return tuple(order)


def counted_on(guests: Sequence[Stranger], want: IntArray, number: int | None) -> tuple[frozenset[str], IntArray]:
    """Return the names of the guests that a policy counts on, the oldest first, and what these request.

    Args:
        guests: on its nodes.
        want: [R] what it wants beside its own placeholders.
        number: how many more it wants, where it wants a number; None for an amount.
    """
    names, room = set[str](), np.zeros_like(want)
    for guest in guests:
        short = (want - room > 0) & (guest.vector > 0)
        if short.any() if number is None else len(names) < number:
            names.add(guest.pod.name)
            room = room + guest.vector
    return frozenset(names), room
