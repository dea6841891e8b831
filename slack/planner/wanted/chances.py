"""What placeholders like a domain's items could do: what leads where these go, what fits, what makes room for what.

Nodes, constraints and kinds decide that, whatever the items weigh: it outlasts most changes of a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.classes import Constraints, tolerates
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray
from slack.planner.domain.capacity import dominant_share
from slack.planner.domain.empty_nodes import EmptyNodes
from slack.planner.domain.feasibility import astray, fit_matrix
from slack.planner.domain.membership import Domain, conjunction
from slack.planner.model.vectors import any_of, sorted_distinct
from slack.planner.policy.spec import CoverMode
from slack.planner.wanted.cover_choice import FloatArray, Items, cover_matrix
from slack.planner.wanted.mirror_template import plain_tolerations


@dataclass(frozen=True, slots=True, eq=False)
class Chances:
    """What items, nodes and constraints decide, whatever the items weigh."""

    constraints: tuple[Constraints, ...]
    """[Q] what leads to each reach class."""
    feasible: BoolArray
    cost: FloatArray
    covers: BoolArray
    coverable: BoolArray


def chances_of(
    vectors: IntArray,
    reach_id: IntArray,
    reach: BoolArray,
    constraints: tuple[Constraints, ...],
    domain: Domain,
    empty: EmptyNodes,
) -> Chances:
    """Work out what placeholders like the items could do, whatever these weigh.

    Args:
        vectors: [I, R] of `Items`, as are the next two.
        reach_id: [I]
        reach: [Q, D]
        constraints: [Q] as `reach_constraints` returns them.
        domain: the policy's part of the cluster.
        empty: its empty nodes.
    """
    feasible = feasible_items(vectors, reach_id, constraints, empty)
    cost = dominant_share(vectors, empty.average) if len(vectors) else np.zeros(0)
    chooses = domain.policy.spec.cover.mode in (CoverMode.FREQUENT, CoverMode.EVERYTHING)
    covers = cover_matrix(vectors, reach_id, reach) if chooses else np.zeros((0, len(vectors)), dtype=bool)
    return Chances(
        constraints=constraints,
        feasible=feasible,
        cost=np.where(feasible, cost, 0.0),  # what fits nowhere is never chosen, and its cost may be infinite
        covers=covers,
        coverable=any_of(covers[feasible]) if chooses else np.zeros(len(vectors), dtype=bool),
    )


def feasible_items(
    vectors: IntArray, reach_id: IntArray, constraints: tuple[Constraints, ...], empty: EmptyNodes
) -> BoolArray:
    """[I] which items fit an empty node that they may go to; see `chances_of`."""
    feasible = np.zeros(len(vectors), dtype=bool)
    for q, leading in enumerate(constraints):
        of_class = reach_id == q
        if astray(empty.room, leading) is not None:
            continue
        feasible[of_class] = fit_matrix(empty.room, vectors[of_class], empty.placement(leading).rows)
    return feasible


def _plainest(candidates: Sequence[Constraints]) -> Constraints:
    """Return the constraints that say least; the choice must not depend on the order of pods."""

    def size(c: Constraints) -> int:
        terms = sum(1 + len(term) for term in c.node_affinity)
        return len(c.node_selector) + terms + len(c.tolerations) + len(c.features)

    least = min(size(c) for c in candidates)
    return min((c for c in candidates if size(c) == least), key=repr)


def reach_constraints(
    constraints: tuple[Constraints, ...], constraint_id: IndexArray, domain: Domain, items: Items, empty: EmptyNodes
) -> tuple[Constraints, ...]:
    """[Q] constraints that lead to exactly each reach class: the domain's own, or the plainest of its pods'.

    A runtime class is not among them: what its admission adds (selector, tolerations, overhead) the pods already have.
    """
    found = []
    kind_reach = items.reach_id[items.kind_item]
    ids = constraint_id[items.kinds]
    for q, reach in enumerate(items.reach):
        if reach.all():
            found.append(domain.constraints)
            continue
        own = _plainest([constraints[c] for c in sorted_distinct(ids[kind_reach == q])])
        found.append(
            replace(
                domain.constraints,
                node_selector=tuple(sorted({*domain.constraints.node_selector, *own.node_selector})),
                node_affinity=conjunction(domain.constraints.node_affinity, own.node_affinity),
                tolerations=tuple(
                    t
                    for t in plain_tolerations(own.tolerations, domain)
                    if any(tolerates(t, taint) for taint in empty.taints)
                ),
                features=own.features,
            )
        )
    return tuple(found)
