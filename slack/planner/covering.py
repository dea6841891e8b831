"""Which covering placeholders a domain should have: the fresh choice, and what is there as long as it serves (R1-2).

What is there stays while it reaches the goal and costs little more than a fresh choice. Where it is a little too small
(by no more than the shape tolerance), larger than every pod that it covers (S6), or too dear, it stays for the
stabilisation window and is then replaced; where it is much too small, at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints, tolerates
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.capacity import dominant_share
from slack.planner.cover import Cover, FloatArray, Items, Terms, choose, cover_matrix
from slack.planner.domain import Domain, conjunction
from slack.planner.feasible import fit_matrix, fits, why_not
from slack.planner.ground import Ground
from slack.planner.kept import Kept
from slack.planner.mirror import plain_tolerations
from slack.planner.outcome import ExistingShape
from slack.planner.policy import CoverMode, Policy
from slack.planner.shape import Role, Shape, amounts
from slack.planner.vectors import any_of, within
from slack.planner.wanted import Wanted

_LISTED = 20
_Choice = list[tuple[Shape, IntArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Covering:
    """The cover of one domain as placeholders."""

    wanted: tuple[Wanted, ...]
    cover: Cover
    constraints: tuple[Constraints, ...]
    """[Q] what leads to each reach class."""
    feasible: BoolArray
    """[I] items that fit some empty node."""
    due: bool
    """A change waits for the stabilisation window."""
    infeasible: str
    """Why the box of mode Largest was not made, '' otherwise."""


def _plainest(candidates: Sequence[Constraints]) -> Constraints:
    """Return the constraints that say least; the choice must not depend on the order of pods."""

    def size(c: Constraints) -> int:
        return len(c.node_selector) + sum(1 + len(term) for term in c.node_affinity) + len(c.tolerations)

    least = min(size(c) for c in candidates)
    return min((c for c in candidates if size(c) == least), key=repr)


def reach_constraints(snapshot: Snapshot, domain: Domain, items: Items, ground: Ground) -> tuple[Constraints, ...]:
    """[Q] constraints that lead to exactly each reach class: the domain's own, or the plainest of its pods'.

    A runtime class is not among them: what its admission adds (selector, tolerations, overhead) the pods already have.
    """
    found = []
    kind_reach = items.reach_id[items.kind_item]
    ids = snapshot.kinds.constraint_id[items.kinds]
    for q, reach in enumerate(items.reach):
        if reach.all():
            found.append(domain.constraints)
            continue
        own = _plainest([snapshot.constraints[c] for c in np.unique(ids[kind_reach == q])])
        found.append(
            replace(
                domain.constraints,
                node_selector=tuple(sorted({*domain.constraints.node_selector, *own.node_selector})),
                node_affinity=conjunction(domain.constraints.node_affinity, own.node_affinity),
                tolerations=tuple(
                    t
                    for t in plain_tolerations(own.tolerations, domain)
                    if any(tolerates(t, taint) for taint in ground.taints)
                ),
            )
        )
    return tuple(found)


def shape_of(policy: Policy, vector: IntArray, constraints: Constraints, resources: tuple[str, ...]) -> Shape:
    """Return the shape with these requests and constraints."""
    return Shape(
        requests=amounts(vector, resources),
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        scheduler_name=policy.spec.scheduler_name,
        runtime_class=constraints.runtime_class,
        priority_class_name=policy.spec.priority_class_name,
    )


def _workloads(
    snapshot: Snapshot, items: Items, covers: BoolArray, heaviest_first: npt.NDArray[np.intp]
) -> tuple[str, ...]:
    """Return the workloads of the items of a mask, those with the heaviest kind first; not all are even looked at.

    Args:
        snapshot: the cluster.
        items: of the domain.
        covers: [I] which items.
        heaviest_first: [K] the order of their kinds.
    """
    names: dict[str, None] = {}
    for k in items.kinds[heaviest_first[covers[items.kind_item[heaviest_first]]]]:
        names[str(snapshot.kinds.workloads[k])] = None
        if len(names) == _LISTED:
            break
    return tuple(names)


def _covered_by(items: Items, reach: BoolArray, limit: IntArray) -> BoolArray:
    """[I] items that a placeholder of at most `limit` with this reach makes room for, wherever it stands."""
    inside = ~any_of(reach[None, :] & ~items.reach, axis=1)
    covered: BoolArray = inside[items.reach_id] & within(items.vectors, limit)
    return covered


class _Incumbents:
    """The covering placeholders that are there: which items each makes room for."""

    def __init__(
        self, there: Sequence[ExistingShape], domain: Domain, items: Items, ground: Ground, resources: tuple[str, ...]
    ) -> None:
        spec = domain.policy.spec
        tolerance = 1 + spec.stabilization.shape_tolerance
        self.shapes: list[Shape] = []
        self.vectors: list[IntArray] = []
        strict, near = [], []
        for one in there:
            shape = one.shape
            if (
                one.role is not Role.COVER
                or shape.priority_class_name != spec.priority_class_name
                or shape.scheduler_name != spec.scheduler_name
                or not set(domain.constraints.node_selector) <= set(shape.node_selector)
            ):
                continue
            vector, footing = shape.vector(resources), ground.footing(shape.constraints)
            if footing.strays or not footing.reach.any() or not fits(ground.room, vector, footing.rows):
                continue
            self.shapes.append(shape)
            self.vectors.append(vector)
            strict.append(_covered_by(items, footing.reach, vector))
            near.append(_covered_by(items, footing.reach, np.floor(vector * tolerance).astype(np.int64)))
        width = len(items)
        self.strict = np.array(strict, dtype=bool).reshape(len(strict), width)
        self.near = np.array(near, dtype=bool).reshape(len(near), width)
        self.cost = sum(float(dominant_share(v, ground.average)) for v in self.vectors)

    def oversized(self, items: Items) -> bool:
        """Tell whether one of them is larger than every pod that it covers (S6), or covers none."""
        return any(
            not any_of((items.vectors[covered] == vector).all(axis=1))
            for vector, covered in zip(self.vectors, self.strict, strict=True)
        )


def _settle(
    policy: Policy, items: Items, terms: Terms, cover: Cover, fresh: _Choice, there: _Incumbents, elapsed: bool
) -> tuple[_Choice, bool]:
    """Decide between what is there and the fresh choice, given its cost; and whether a change waits."""
    spec, names = policy.spec, {shape.name for shape, _ in fresh}
    if names <= {shape.name for shape in there.shapes}:
        return fresh, False  # nothing new, and what goes waits for the shrink delay anyway (`retain`)
    tolerance = 1 + spec.stabilization.shape_tolerance
    incumbents = list(zip(there.shapes, there.vectors, strict=True))
    needed = cover.needed - 1e-9
    strict = bool(items.weight[there.strict.any(axis=0)].sum() >= needed)
    near = bool(items.weight[there.near.any(axis=0)].sum() >= needed)
    fresh_cost = sum(float(dominant_share(vector, terms.measure)) for _, vector in fresh)
    cheap = there.cost <= tolerance * fresh_cost + 1e-9
    few = spec.cover.mode is not CoverMode.FREQUENT or len(incumbents) <= terms.max_shapes
    bearable = few and bool((np.sum(there.vectors, axis=0) <= terms.room).all())
    if bearable and strict and cheap and not there.oversized(items):
        return incumbents, False
    if bearable and (strict or near) and not elapsed:
        return incumbents, True
    if elapsed or spec.cover.mode is CoverMode.LARGEST:
        return fresh, False
    # A fresh choice, but where something that is there does the same for little more, that stays.
    kept = {}
    for (shape, vector), i in zip(fresh, cover.chosen, strict=True):
        same = [
            (s, v)
            for row, (s, v) in enumerate(incumbents)
            if there.strict[row, i] and s.constraints == shape.constraints and (v <= np.ceil(vector * tolerance)).all()
        ]
        choice = same[0] if same else (shape, vector)
        kept[choice[0].name] = choice
    if (sum(vector for _, vector in kept.values()) > terms.room).any():
        return fresh, False
    return list(kept.values()), False


@dataclass(frozen=True, slots=True, eq=False)
class _Chances:
    """What items, nodes and constraints decide, whatever the items weigh."""

    constraints: tuple[Constraints, ...]
    """[Q] what leads to each reach class."""
    feasible: BoolArray
    cost: FloatArray
    covers: BoolArray
    coverable: BoolArray


def _chances(snapshot: Snapshot, domain: Domain, items: Items, ground: Ground) -> _Chances:
    constraints = reach_constraints(snapshot, domain, items, ground)
    feasible = np.zeros(len(items), dtype=bool)
    for q, where in enumerate(constraints):
        of_class = items.reach_id == q
        feasible[of_class] = fit_matrix(ground.room, items.vectors[of_class], ground.footing(where).rows)
    cost = dominant_share(items.vectors, ground.average) if len(items) else np.zeros(0)
    chooses = domain.policy.spec.cover.mode in (CoverMode.FREQUENT, CoverMode.EVERYTHING)
    covers = cover_matrix(items) if chooses else np.zeros((0, len(items)), dtype=bool)
    return _Chances(
        constraints=constraints,
        feasible=feasible,
        cost=np.where(feasible, cost, 0.0),  # what fits nowhere is never chosen, and its cost may be infinite
        covers=covers,
        coverable=any_of(covers[feasible]) if chooses else np.zeros(len(items), dtype=bool),
    )


def cover_domain(
    snapshot: Snapshot,
    domain: Domain,
    items: Items,
    heaviness: IntArray,
    ground: Ground,
    room: IntArray,
    existing: Sequence[ExistingShape],
    *,
    elapsed: bool,
    kept: Kept,
) -> Covering:
    """Choose the covering placeholders, the ones that are there first.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        items: its pods.
        heaviness: [K] of their kinds, to name the heaviest ones.
        ground: its empty nodes.
        room: [R] ceiling less what mirrors take.
        existing: the policy's ReplicaSets that are not being retired.
        elapsed: a change has been due for the whole stabilisation window.
        kept: of this domain.
    """
    spec, resources = domain.policy.spec, snapshot.resources
    made_of = (items.vectors, items.kinds, snapshot.kinds.constraint_id, snapshot.constraints, ground, domain)
    chances = kept.of("chances", made_of, lambda: _chances(snapshot, domain, items, ground))
    constraints, feasible = chances.constraints, chances.feasible
    terms = Terms(
        goal=spec.cover.coverage,
        max_shapes=spec.cover.max_shapes,
        room=room,
        cost=chances.cost,
        feasible=feasible,
        covers=chances.covers,
        coverable=chances.coverable,
        measure=ground.average,
    )
    cover = choose(spec.cover.mode, items, terms)
    infeasible, box = "", cover.box
    if box is not None:
        if not ground.holds(box, domain.constraints):
            infeasible = "the box of the largest cpu and the largest memory (spec.cover.mode Largest): " + why_not(
                ground.room, box, domain.constraints, resources
            )
        if infeasible or cover.limit:
            cover = replace(cover, covered=np.zeros_like(cover.covered))
            return Covering((), cover, constraints, feasible, False, infeasible)
        choices = [(box, domain.constraints)]
    else:
        choices = [(items.vectors[i], constraints[items.reach_id[i]]) for i in cover.chosen]
    fresh = [(shape_of(domain.policy, vector, where, resources), vector) for vector, where in choices]
    chosen, due = fresh, False
    if spec.cover.mode is not CoverMode.NONE:
        there = _Incumbents(existing, domain, items, ground, resources)
        chosen, due = _settle(domain.policy, items, terms, cover, fresh, there, elapsed)
    wanted, covered = [], np.zeros(len(items), dtype=bool)
    heaviest_first = np.argsort(-heaviness, kind="stable")  # once for all shapes
    for shape, vector in chosen:
        covers = _covered_by(items, ground.footing(shape.constraints).reach, vector)
        covered |= covers
        workloads = _workloads(snapshot, items, covers, heaviest_first)
        wanted.append(Wanted(shape, Role.COVER, 1, vector, workloads, items.kinds_of(covers)))
    return Covering(tuple(wanted), replace(cover, covered=covered), constraints, feasible, due, infeasible)
