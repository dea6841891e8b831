"""Which covering placeholders a domain should have: the fresh choice, and what is there as long as it serves (R1-2).

What is there stays while it reaches the goal, whatever it was made for; where it does not, it is topped up. Where it is
a little too small (by no more than the shape tolerance), it stays for the stabilisation window first. What is larger
than every pod that it covers (S6) covers as long as it is bound, as a standard placeholder that is not refilled. What
the cover counts on no longer is a standard placeholder like any other: it goes where it is one too many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints
from slack.cluster.snapshot import BoolArray, IntArray, Workload
from slack.planner.domain.capacity import RATED, UNLIMITED, dominant_share
from slack.planner.domain.feasibility import fits, why_not
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, Shape, WantedShape, amounts
from slack.planner.model.vectors import any_of, within
from slack.planner.policy.spec import CoverMode, Policy
from slack.planner.wanted.cover_choice import CoverChoice, CoverLimits, FloatArray, Items, choose_cover
from slack.planner.wanted.fill_choice import OVERSHOOT
from slack.planner.wanted.joining import rounded_up
from slack.planner.wanted.part_inputs import PartInputs

_LISTED = 20
_MOST = float(1 << 62)
"""Of an amount: what is more is no number of 64 bits."""
_Choice = list[tuple[Shape, IntArray]]


@dataclass(frozen=True, slots=True, eq=False)
class StableCover:
    """The cover of one domain as placeholders."""

    wanted: tuple[WantedShape, ...]
    cover: CoverChoice
    due: bool
    """A change waits for the stabilisation window."""
    infeasible: str | None
    """Why the box of mode Largest is not that of all pods."""


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
        unbound_scheduler=policy.unbound_scheduler,
        yields_to_markers=policy.yields_to_markers,
        tolerates_soft_taint=policy.tolerates_soft_taint,
    )


def _workloads(
    names: tuple[Workload, ...], items: Items, covers: BoolArray, heaviest_first: npt.NDArray[np.intp]
) -> tuple[str, ...]:
    """Return the workloads of the items of a mask, those with the heaviest kind first; not all are even looked at.

    Args:
        names: of all kinds.
        items: of the domain.
        covers: [I] which items.
        heaviest_first: [K] the order of their kinds.
    """
    found: dict[str, None] = {}
    for k in items.kinds[heaviest_first[covers[items.kind_item[heaviest_first]]]]:
        found[str(names[k])] = None
        if len(found) == _LISTED:
            break
    return tuple(found)


def _covered_by(items: Items, reach: BoolArray, limit: IntArray) -> BoolArray:
    """[I] items that a placeholder of at most `limit` with this reach makes room for, wherever it stands."""
    inside = ~any_of(reach[None, :] & ~items.reach, axis=1)
    covered: BoolArray = inside[items.reach_id] & within(items.vectors, limit)
    return covered


def _is_size_of(pods: IntArray, vector: IntArray, level: int) -> bool:
    """Tell whether a placeholder is as large as some pod, itself or rounded up on the grid that joins sizes.

    One that was joined stays when fewer sizes are there and nothing is joined any more.
    """
    if any_of((pods == vector).all(axis=1)):
        return True
    return any(bool((rounded_up(pods, own) == vector).all(axis=1).any()) for own in range(level + 1))


class _There:
    """The placeholders that are there, whatever they were made for: which items each makes room for."""

    def __init__(self, part: PartInputs) -> None:
        items, empty, spec = part.items, part.empty, part.domain.policy.spec
        tolerance = 1 + spec.stabilization.shape_tolerance
        self.choice: _Choice = []
        """Those that were made to cover come first."""
        self.own = 0
        """So many of these were."""
        strict, near = [], []
        for existing in sorted(part.existing, key=lambda there: not _covering(there)):
            shape = existing.shape
            if (
                existing.role.for_named
                or not existing.replicas
                or shape.precedence != part.domain.policy.precedence
                or not set(part.domain.constraints.node_selector) <= set(shape.node_selector)
            ):
                continue
            vector, placement = shape.vector(part.resources), empty.placement(shape.constraints)
            if not placement.reach.any() or not fits(empty.room, vector, placement.rows):
                continue
            nearly = _covered_by(items, placement.reach, np.floor(vector * tolerance).astype(np.int64))
            if nearly.any():
                self.choice.append((shape, vector))
                self.own += _covering(existing)
                strict.append(_covered_by(items, placement.reach, vector))
                near.append(nearly)
        width = len(items)
        self.strict = np.array(strict, dtype=bool).reshape(len(strict), width)
        self.near = np.array(near, dtype=bool).reshape(len(near), width)


def _covering(there: ExistingShape) -> bool:
    return there.role is Role.COVER and not there.retiring


def _settle(part: PartInputs, limits: CoverLimits, cover: CoverChoice, fresh: _Choice) -> tuple[_Choice, bool]:
    """Decide between what is there and the fresh choice; and whether a change waits.

    What was made to cover comes first, then standard placeholders that cover as well; a new one comes last. What the
    cover counts on no longer is not gone: it is a standard placeholder like any other (`standing`).
    """
    there, weight, needed = _There(part), part.items.weight, cover.needed - 1e-9
    own = list(range(there.own))
    if {shape.name for shape, _ in fresh} == {there.choice[row][0].name for row in own}:
        return fresh, False
    if _is_bearable([there.choice[row] for row in own], own, part, limits):
        rows = _enough(own, there.strict, weight, needed)
        if weight[any_of(there.strict[rows])].sum() >= needed:
            return _without_needless([there.choice[row] for row in rows], there.strict[rows], part, limits), False
        rows = _enough(own, there.near, weight, needed)
        if not part.elapsed and weight[any_of(there.near[rows])].sum() >= needed:
            return [there.choice[row] for row in rows], True
    names = {shape.name for shape, _ in there.choice}
    new = [(shape, vector) for shape, vector in fresh if shape.name not in names]
    reach = [part.empty.placement(shape.constraints).reach for shape, _ in new]
    more = [_covered_by(part.items, where, vector) for (_, vector), where in zip(new, reach, strict=True)]
    covers = np.concatenate([there.strict, np.array(more, dtype=bool).reshape(len(new), len(weight))])
    rows, all_of_it = _enough(own, there.strict, weight, needed), [*there.choice, *new]
    rows = _enough(rows, covers, weight, needed)
    choice = _without_needless([all_of_it[row] for row in rows], covers[rows], part, limits)
    made = [row for row in rows if row < there.own or row >= len(there.choice)]
    kept = {shape.name for shape, _ in choice}
    made = [row for row in made if all_of_it[row][0].name in kept]
    return (choice if _is_bearable(choice, made, part, limits) else fresh), False


def _enough(rows: Sequence[int], covers: BoolArray, weight: FloatArray, needed: float) -> list[int]:
    """Return these rows, and as many others as it takes to cover what is needed, or all that can; best ones first."""
    found = list(rows)
    covered = any_of(covers[found])
    while weight[covered].sum() < needed:
        gains = (covers & ~covered).astype(np.float64) @ weight
        best = int(np.argmax(gains)) if len(gains) else 0
        if not len(gains) or gains[best] <= 0:
            break
        found.append(best)
        covered = covered | covers[best]
    return found


def _without_needless(choice: _Choice, covers: BoolArray, part: PartInputs, limits: CoverLimits) -> _Choice:
    """Leave out, the most costly first, what the rest does without.

    Half of what the goal may leave uncovered is kept as a distance: shares of arrivals move all the time.
    """
    weight = part.items.weight
    total = float(weight[limits.coverable].sum())
    enough = min(total * (1 + limits.goal) / 2, float(weight[any_of(covers)].sum())) - 1e-9
    if part.domain.policy.spec.cover.mode is not CoverMode.FREQUENT:
        enough = float(weight[any_of(covers)].sum()) - 1e-9
    cost = [float(dominant_share(vector, limits.measure)) for _, vector in choice]
    left = list(range(len(choice)))
    for row in sorted(left, key=lambda row: (-cost[row], choice[row][0].name)):
        rest = [other for other in left if other != row]
        if rest and weight[any_of(covers[rest])].sum() >= enough:
            left = rest
    return [choice[row] for row in left]


def _is_bearable(choice: _Choice, made: Sequence[int], part: PartInputs, limits: CoverLimits) -> bool:
    """Tell whether no more than maxShapes are made to cover, and whether the ceiling leaves room for all of them."""
    few = part.domain.policy.spec.cover.mode is not CoverMode.FREQUENT or len(made) <= limits.max_shapes
    return few and not _above(choice, part, limits)


def _above(choice: _Choice, part: PartInputs, limits: CoverLimits) -> bool:
    """Whether these are more than the ceiling leaves, with what admission adds to them."""
    total = np.zeros_like(limits.room)
    for shape, vector in choice:
        total = total + part.added.additions_to(shape.name).size(vector)
    return bool((total > limits.room).any())


def _asked(part: PartInputs) -> IntArray:
    """[R] what an objective leaves for the cover: of each resource the part of a node that it asks for of any one.

    And a quarter more, as of other placeholders: one is whole, and half of one lets nothing in.
    """
    asked: IntArray = np.maximum(part.size.desired - part.buffered, 0)
    node = part.empty.average
    share = float(dominant_share(np.where(np.arange(len(asked)) < RATED, asked, 0), node))
    if not np.isfinite(share):
        return np.full_like(asked, UNLIMITED)
    most = np.full_like(asked, UNLIMITED)  # as a float it would be beyond 64 bits
    most[:RATED] = np.minimum(np.ceil(OVERSHOOT * share * node[:RATED]), _MOST)
    return most


def _lacks(part: PartInputs) -> bool:
    """Whether what is there, in any shape, is less than an objective asks for: only then a new shape is made."""
    own = [e for e in part.existing if not e.role.for_named]
    rooms = (part.added.additions_to(e.shape.name).room(e.replicas, e.shape.vector(part.resources)) for e in own)
    missing = part.size.desired - part.mirrored - part.buffered - sum(rooms, np.zeros_like(part.size.desired))
    return bool((missing[:RATED] > 0).any())


def stable_cover(part: PartInputs) -> StableCover:
    """Choose the covering placeholders, the ones that are there first."""
    domain, items, chances, empty, resources = part.domain, part.items, part.chances, part.empty, part.resources
    spec = domain.policy.spec
    room = ceiling = np.maximum(part.size.ceiling - part.mirrored - part.buffered, 0)
    if part.size.has_objective:
        room = np.minimum(ceiling, _asked(part))
    limits = CoverLimits(
        goal=spec.cover.coverage,
        max_shapes=spec.cover.max_shapes,
        room=room,
        cost=chances.cost,
        feasible=chances.feasible,
        covers=chances.covers,
        coverable=chances.coverable,
        measure=empty.average,
        hosts=empty.hosts(domain.constraints),
        added=part.added.elsewhere,
    )
    cover = choose_cover(spec.cover.mode, items, limits)
    if cover.limit == "ceiling" and (room < ceiling).any():
        cover = replace(cover, limit="objective")
    infeasible, box = None, cover.box
    if box is not None:
        choices = [(box, domain.constraints)]
        whole = items.vectors[chances.feasible].max(axis=0)
        if cover.limit is None and not empty.holds(whole, domain.constraints):
            infeasible = "the box of the largest cpu and the largest memory (spec.cover.mode Largest): " + why_not(
                empty.room, whole, domain.constraints, resources
            )
    else:
        choices = [(items.vectors[i], chances.constraints[items.reach_id[i]]) for i in cover.chosen]
    fresh = [(shape_of(domain.policy, vector, where, resources), vector) for vector, where in choices]
    chosen, due = fresh, False
    if spec.cover.mode is not CoverMode.NONE:
        chosen, due = _settle(part, limits, cover, fresh)
    if part.size.has_objective and not _lacks(part):
        there = {e.shape.name for e in part.existing if e.replicas}
        kept = [(shape, vector) for shape, vector in chosen if shape.name in there]
        if len(kept) < len(chosen):
            chosen, cover = kept, replace(cover, limit="objective")
    wanted, covered = [], np.zeros(len(items), dtype=bool)
    made = {shape for shape, _ in fresh}
    heaviest_first = np.argsort(-part.demand.heaviness, kind="stable")  # once for all shapes
    for shape, vector in chosen:
        covers = _covered_by(items, empty.placement(shape.constraints).reach, vector)
        covered |= covers
        workloads = _workloads(part.workloads, items, covers, heaviest_first)
        # S6: what is larger than every pod that it covers lives on as long as it is bound, and is not made again.
        exact = shape in made or _is_size_of(items.vectors[covers], vector, items.level)
        role = Role.COVER if exact else Role.FILL
        wanted.append(WantedShape(shape, role, 1, vector, workloads, items.kinds_of(covers), used_up=not exact))
    return StableCover(tuple(wanted), replace(cover, covered=covered), due, infeasible)
