"""S6, R5, R6, R7: which placeholders it takes so that the pods there are would find room.

Pods are reduced to *items*: distinct request vectors within a *reach class* (pods that can go to the same node
classes of the domain). A candidate placeholder is an item itself, so none is larger than some real pod (R5); it covers
every item that is no larger in any resource and may go wherever the candidate may. `Everything` takes the frontier, the
items that no other covers. `Frequent` takes the best weight per cost until enough arrivals are covered.
`Largest` is version 2's one box, which can need a node larger than any pod does (against R5); `None` is version 1.
"""

from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.policy import CoverMode
from slack.planner.vectors import any_of, distinct, holds, within

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


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

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.weight)

    def kinds_of(self, mask: BoolArray) -> IntArray:
        """Return the rows of `Snapshot.kinds` that the items of a mask stand for, sorted."""
        rows: IntArray = self.kinds[mask[self.kind_item]]
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """The chosen items, and why others stay uncovered."""

    chosen: tuple[int, ...]
    """Items that become placeholders, sorted; none covers another."""
    box: IntArray | None
    """[R] the one box of mode Largest."""
    covered: BoolArray
    """[I]"""
    limit: str
    """What stopped the cover before its goal: 'ceiling', 'maxShapes' or ''."""
    needed: float = 0.0
    """The weight that is enough to cover: what is there already stays while it reaches as much."""


def make_items(kinds: IntArray, requests: IntArray, reach: BoolArray) -> Items:
    """Group kinds into items, which weigh nothing yet.

    Args:
        kinds: [K] rows of `Snapshot.kinds`.
        requests: [K, R] of these kinds.
        reach: [K, D] node classes of the domain that each may go to.
    """
    classes, reach_id = distinct(reach)
    rows, item = distinct(np.concatenate([reach_id[:, None], requests], axis=1))
    return Items(
        vectors=rows[:, 1:],
        reach_id=rows[:, 0],
        reach=classes,
        weight=np.zeros(len(rows)),
        kinds=kinds,
        kind_item=item,
    )


def weighed(items: Items, weight: FloatArray) -> Items:
    """Return the items with the weight [K] of their kinds."""
    return replace(items, weight=np.bincount(items.kind_item, weights=weight, minlength=len(items)).astype(np.float64))


def cover_matrix(items: Items) -> BoolArray:
    """[I, I] whether a placeholder like item i makes room for item j."""
    inside = ~any_of(items.reach[:, None, :] & ~items.reach[None, :, :], axis=2)  # [Q, Q] reach q is part of reach p
    sizes = np.bincount(items.reach_id, minlength=len(inside))  # items are sorted by reach class: blocks, not lookups
    covers = holds(items.vectors, items.vectors)
    covers &= np.repeat(np.repeat(inside, sizes, axis=0), sizes, axis=1)
    return covers


def frontier(covers: BoolArray, feasible: BoolArray) -> tuple[int, ...]:
    """Return the feasible items that no other feasible item covers."""
    others = covers & feasible[:, None]
    np.fill_diagonal(others, False)
    return tuple(int(i) for i in np.flatnonzero(feasible & ~any_of(others)))


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
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


def _drop_needless(chosen: set[int], items: Items, terms: Terms, needed: float) -> set[int]:
    """Take out, the most costly first, what the goal does not need; best-weight-first overshoots sometimes."""
    for i in sorted(chosen, key=lambda i: (-terms.cost[i], i)):
        rest = sorted(chosen - {i})
        if rest and items.weight[any_of(terms.covers[rest])].sum() >= needed:
            chosen = chosen - {i}
    return chosen


def goal_of(items: Items, terms: Terms) -> float:
    """Return the weight that mode Frequent is to cover.

    What cannot be covered at any price is no part of the goal; it is named as uncovered all the same.
    """
    return terms.goal * float(items.weight[terms.coverable].sum())


def frequent(items: Items, terms: Terms) -> tuple[tuple[int, ...], str]:
    """Choose by weight per cost until the goal, the ceiling or maxShapes is reached.

    A candidate that covers chosen ones takes their place: its cost is what it adds. Ties go to the first item.

    Returns:
        the chosen items and what stopped the choice early ('' when the goal is reached).
    """
    covers = terms.covers
    payable = terms.feasible & within(items.vectors, terms.room)
    needed = goal_of(items, terms) - 1e-9
    chosen: set[int] = set()
    covered = np.zeros(len(items), dtype=bool)
    limit = ""
    table = covers.astype(np.float32)
    while items.weight[covered].sum() < needed:
        gain = table @ (items.weight * ~covered).astype(np.float32)
        current = sorted(chosen)
        replaced = covers[:, current]
        added_cost = terms.cost - replaced @ terms.cost[current]
        spent = items.vectors[current].sum(axis=0)
        total = spent + items.vectors - replaced.astype(np.int64) @ items.vectors[current]
        count = len(current) + 1 - replaced.sum(axis=1)
        useful = (gain > 0) & terms.feasible
        affordable = useful & payable & within(total, terms.room)
        possible = affordable & (count <= terms.max_shapes)
        if not possible.any():
            limit = "" if not useful.any() else "maxShapes" if affordable.any() else "ceiling"
            break
        value = np.where(possible, gain / np.maximum(added_cost, 1e-6), -1.0)
        best = int(np.argmax(value))
        chosen = {i for i in chosen if not covers[best, i]} | {best}
        covered = any_of(covers[sorted(chosen)])
    if not limit:
        chosen = _drop_needless(chosen, items, terms, needed)
    return tuple(sorted(chosen)), limit


def everything(items: Items, terms: Terms) -> tuple[tuple[int, ...], str]:
    """Choose the whole frontier, the cheapest first as far as the ceiling allows."""
    chosen: list[int] = []
    spent = np.zeros(items.vectors.shape[1], dtype=np.int64)
    limit = ""
    for i in sorted(frontier(terms.covers, terms.feasible), key=lambda i: (terms.cost[i], i)):
        if within(spent + items.vectors[i], terms.room):
            chosen.append(i)
            spent = spent + items.vectors[i]
        else:
            limit = "ceiling"
    return tuple(sorted(chosen)), limit


def choose(mode: CoverMode, items: Items, terms: Terms) -> Cover:
    """Choose the covering placeholders of one domain."""
    nothing = np.zeros(len(items), dtype=bool)
    if mode is CoverMode.NONE or not len(items):
        return Cover((), None, nothing, "")
    if mode is CoverMode.LARGEST:
        box: IntArray = items.vectors.max(axis=0)
        if (box > terms.room).any():
            return Cover((), box, nothing, "ceiling")
        # The box goes anywhere in the domain: it makes room for pods that may do so too.
        covered = np.all(items.reach, axis=1)[items.reach_id]
        return Cover((), box, covered, "", float(items.weight[covered].sum()))
    chosen, limit = (everything if mode is CoverMode.EVERYTHING else frequent)(items, terms)
    covered = any_of(terms.covers[list(chosen)]) if chosen else nothing
    reached = float(items.weight[covered].sum())
    if mode is CoverMode.FREQUENT:
        reached = min(reached, goal_of(items, terms))
    return Cover(chosen, None, covered, limit, reached)
