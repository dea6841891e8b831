"""S6, R5, R6, R7: which placeholders it takes so that the pods there are would find room.

Pods are reduced to *items*: distinct request vectors within a *reach class* (pods that can go to the same node
classes of the domain). A candidate placeholder is an item itself, so none is larger than some real pod (R5); it covers
every item that is no larger in any resource and may go wherever the candidate may. `Everything` takes the frontier, the
items that no other covers. `Frequent` takes the best weight per cost until enough arrivals are covered.
`Largest` is version 2's one box, which can need a node larger than any pod does (against R5): of the boxes that fit a
node it is the one for most pods. `None` is version 1.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.model.added import zero
from slack.planner.model.vectors import any_of, distinct, holds, within
from slack.planner.policy.spec import CoverMode

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Limit = Literal["ceiling", "maxShapes", "objective"]
"""What stops a cover; "objective": less room is asked for than it would take."""


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Distinct (reach class, request vector) pairs; I rows, sorted."""

    vectors: IntArray
    """[I, R]"""
    reach_id: IntArray
    """[I] row in `reach`."""
    reach: BoolArray
    """[Q, D] node classes of the domain that pods of a reach class may go to."""
    weight: FloatArray
    """[I] arrivals in the window, or running replicas where these are more."""
    kinds: IntArray
    """[K] rows of `Snapshot.kinds`, each of which one item stands for."""
    kind_item: IntArray
    """[K] which item."""
    level: int = 0
    """The widest cells of the grid on which vectors were joined (`joining`)."""

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.weight)

    def kinds_of(self, mask: BoolArray) -> IntArray:
        """Return the rows of `Snapshot.kinds` that the items of a mask stand for, sorted."""
        rows: IntArray = self.kinds[mask[self.kind_item]]
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class CoverChoice:
    """The chosen items, and why others stay uncovered."""

    chosen: tuple[int, ...]
    """Items that become placeholders, sorted; none covers another."""
    box: IntArray | None
    """[R] the one box of mode Largest."""
    covered: BoolArray
    """[I]"""
    limit: Limit | None
    """What stopped the cover before its goal."""
    needed: float = 0.0
    """The weight that is enough to cover: what is there already stays while it reaches as much."""


def make_items(kinds: IntArray, requests: IntArray, reach: BoolArray) -> Items:
    """Group kinds into items, which weigh nothing yet.

    Args:
        kinds: [K] rows of `Snapshot.kinds`.
        requests: [K, R] of these kinds.
        reach: [K, D] node classes of the domain that each may go to.
    """
    classes, reach_id = reach_classes(reach)
    rows, item = distinct(np.concatenate([reach_id[:, None], requests], axis=1))
    return Items(
        vectors=rows[:, 1:],
        reach_id=rows[:, 0],
        reach=classes,
        weight=np.zeros(len(rows)),
        kinds=kinds,
        kind_item=item,
    )


def reach_classes(reach: BoolArray) -> tuple[BoolArray, npt.NDArray[np.intp]]:
    """Return the distinct rows of [K, D], sorted, and which of them each row is."""
    # As bytes: where a pod names a node by its host name there are as many columns as nodes.
    rows, which = distinct(np.packbits(reach, axis=1))
    return np.unpackbits(rows, axis=1, count=reach.shape[1]).astype(bool), which


def weighed(items: Items, weight: FloatArray) -> Items:
    """Return the items with the weight [K] of their kinds."""
    return replace(items, weight=np.bincount(items.kind_item, weights=weight, minlength=len(items)).astype(np.float64))


def cover_matrix(vectors: IntArray, reach_id: IntArray, reach: BoolArray) -> BoolArray:
    """[I, I] whether a placeholder like item i makes room for item j; the arguments are those of `Items`."""
    there, beyond = reach.astype(np.float32), (~reach).astype(np.float32)
    inside = there @ beyond.T == 0  # [Q, Q] where reach p is part of reach q
    sizes = np.bincount(reach_id, minlength=len(inside))  # items are sorted by reach class: blocks, not lookups
    covers = holds(vectors, vectors)
    covers &= np.repeat(np.repeat(inside, sizes, axis=0), sizes, axis=1)
    return covers


def frontier(covers: BoolArray, feasible: BoolArray) -> tuple[int, ...]:
    """Return the feasible items that no other feasible item covers."""
    others = covers & feasible[:, None]
    np.fill_diagonal(others, False)
    return tuple(int(i) for i in np.flatnonzero(feasible & ~any_of(others)))


@dataclass(frozen=True, slots=True, eq=False)
class CoverLimits:
    """What a cover must keep to."""

    goal: float
    """Share of the weight that is to be covered."""
    max_shapes: int
    room: IntArray
    """[R] ceiling less what mirrors take."""
    cost: FloatArray
    """[I] dominant share of an average node; finite."""
    feasible: BoolArray
    """[I] fits some empty eligible node (S3)."""
    covers: BoolArray
    """[I, I] as `cover_matrix` gives it; no rows for modes that do not choose among items."""
    coverable: BoolArray
    """[I] some feasible item makes room for it."""
    measure: IntArray
    """[R] the average node that costs are shares of."""
    hosts: IntArray
    """[M, R] what empty nodes hold that the policy's placeholders may go to: the box of mode Largest must fit one."""
    added: IntArray = field(default_factory=zero)
    """[R] what admission adds to a placeholder: it takes up room, too."""


def _drop_needless(chosen: set[int], items: Items, limits: CoverLimits, needed: float) -> set[int]:
    """Take out, the most costly first, what the goal does not need; best-weight-first overshoots sometimes."""
    for i in sorted(chosen, key=lambda i: (-limits.cost[i], i)):
        rest = sorted(chosen - {i})
        if rest and items.weight[any_of(limits.covers[rest])].sum() >= needed:
            chosen = chosen - {i}
    return chosen


def goal_of(items: Items, limits: CoverLimits) -> float:
    """Return the weight that mode Frequent is to cover.

    What cannot be covered at any price is no part of the goal; it is named as uncovered all the same.
    """
    return limits.goal * float(items.weight[limits.coverable].sum())


def frequent(items: Items, limits: CoverLimits) -> tuple[tuple[int, ...], Limit | None]:
    """Choose by weight per cost until the goal, the ceiling or maxShapes is reached.

    Where maxShapes ends it by weight alone, if that covers more: shapes are what is scarce then, and a few tiny pods
    that each may go elsewhere must not take all of them from a workload of many.

    Returns:
        the chosen items and what stopped the choice early (None when the goal is reached).
    """
    chosen, limit = _greedy(items, limits, by_cost=True)
    if limit == "maxShapes":
        other, stopped = _greedy(items, limits, by_cost=False)
        if _weight_of(other, items, limits) > _weight_of(chosen, items, limits) + 1e-9:
            return other, stopped
    return chosen, limit


def _weight_of(chosen: tuple[int, ...], items: Items, limits: CoverLimits) -> float:
    return float(items.weight[any_of(limits.covers[list(chosen)])].sum()) if chosen else 0.0


def _greedy(items: Items, limits: CoverLimits, *, by_cost: bool) -> tuple[tuple[int, ...], Limit | None]:
    """Choose the best item again and again, see `frequent`.

    A candidate that covers chosen ones takes their place: its cost is what it adds. Ties go to the first item.
    """
    covers = limits.covers
    sizes = items.vectors + limits.added
    payable = limits.feasible & within(sizes, limits.room)
    needed = goal_of(items, limits) - 1e-9
    chosen: set[int] = set()
    covered = np.zeros(len(items), dtype=bool)
    limit: Limit | None = None
    table = covers.astype(np.float32)
    while items.weight[covered].sum() < needed:
        gain = table @ (items.weight * ~covered).astype(np.float32)
        current = sorted(chosen)
        replaced = covers[:, current]
        added_cost = limits.cost - replaced @ limits.cost[current]
        spent = sizes[current].sum(axis=0)
        total = spent + sizes - replaced.astype(np.int64) @ sizes[current]
        count = len(current) + 1 - replaced.sum(axis=1)
        useful = (gain > 0) & limits.feasible
        affordable = useful & payable & within(total, limits.room)
        possible = affordable & (count <= limits.max_shapes)
        if not possible.any():
            limit = None if not useful.any() else "maxShapes" if affordable.any() else "ceiling"
            break
        value = np.where(possible, gain / np.maximum(added_cost, 1e-6) if by_cost else gain, -1.0)
        best = int(np.argmax(value))
        chosen = {i for i in chosen if not covers[best, i]} | {best}
        covered = any_of(covers[sorted(chosen)])
    if limit is None:
        chosen = _drop_needless(chosen, items, limits, needed)
    return tuple(sorted(chosen)), limit


def everything(items: Items, limits: CoverLimits) -> tuple[tuple[int, ...], Limit | None]:
    """Choose the whole frontier, the cheapest first as far as the ceiling allows."""
    chosen: list[int] = []
    spent = np.zeros(items.vectors.shape[1], dtype=np.int64)
    limit: Limit | None = None
    for i in sorted(frontier(limits.covers, limits.feasible), key=lambda i: (limits.cost[i], i)):
        more = spent + items.vectors[i] + limits.added
        if within(more, limits.room):
            chosen.append(i)
            spent = more
        else:
            limit = "ceiling"
    return tuple(sorted(chosen)), limit


def largest(items: Items, limits: CoverLimits) -> tuple[BoolArray, Limit | None]:
    """Choose the items of the one box of mode Largest.

    What fits nowhere, or is above the ceiling by itself, must not take the room of all others away. Where the box of
    the rest fits no node, it is that of the items that fit one node, of the node for which they weigh most.

    Returns:
        [I] the items, and what stopped the choice.
    """
    payable = limits.feasible & within(items.vectors + limits.added, limits.room)
    stopped: Limit | None = "ceiling" if (limits.feasible & ~payable).any() else None
    if not payable.any() or not len(limits.hosts):
        return np.zeros(len(items), dtype=bool), stopped
    together = holds(distinct(limits.hosts)[0], items.vectors) & payable
    return together[int(np.argmax(together @ items.weight))], stopped


def choose_cover(mode: CoverMode, items: Items, limits: CoverLimits) -> CoverChoice:
    """Choose the covering placeholders of one domain."""
    nothing = np.zeros(len(items), dtype=bool)
    if mode is CoverMode.NONE or not len(items):
        return CoverChoice((), None, nothing, None)
    if mode is CoverMode.LARGEST:
        boxed, stopped = largest(items, limits)
        if not boxed.any():
            return CoverChoice((), None, nothing, stopped)
        # The box goes anywhere in the domain: it makes room for pods that may do so too.
        covered = boxed & np.all(items.reach, axis=1)[items.reach_id]
        box: IntArray = items.vectors[boxed].max(axis=0)
        return CoverChoice((), box, covered, stopped, float(items.weight[covered].sum()))
    chosen, limit = (everything if mode is CoverMode.EVERYTHING else frequent)(items, limits)
    covered = any_of(limits.covers[list(chosen)]) if chosen else nothing
    reached = float(items.weight[covered].sum())
    if mode is CoverMode.FREQUENT:
        reached = min(reached, goal_of(items, limits))
    return CoverChoice(chosen, None, covered, limit, reached)
