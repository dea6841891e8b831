"""Many distinct sizes as few: request vectors joined on a logarithmic grid, upwards, so that none is below a pod.

Which placeholders make room for which pods is counted for every pair of distinct vectors, and jobs with computed
memory make thousands of these. Beyond `MOST_EXACT` of them in a domain, a vector is rounded up by at most 2 % in each
resource, as far as it still fits a node that its pods fit. That follows from the vector and the nodes alone, not from
other pods, so plans do not swing. Where the cells of that grid are too many as well, those that weigh most keep it,
and those that are there as placeholders; the others are rounded up to wider cells of the same grid.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.domain.feasibility import EmptyNodeCapacity
from slack.planner.model.vectors import any_of, distinct, holds, maximal, within
from slack.planner.wanted.cover_choice import Items

MOST_EXACT = 1_000
"""Distinct vectors of a domain up to which nothing is joined; ordinary clusters have tens or hundreds."""
_MOST_JOINED = 800
_FINE_SHARE = 2
"""Of these, one in so many may be cells of the fine grid."""
_LARGEST = 1 << 54


def _lines() -> Iterator[int]:
    """Yield the whole part of 1.02 to the power of 0, 1, 2 and so on, up to the first that is above all requests."""
    above, below = 1, 1
    while above // below <= _LARGEST:
        yield above // below
        above, below = above * 51, below * 50
    yield above // below


LINES = np.fromiter(_lines(), dtype=np.int64)
"""Each line is at most 2 % above the one before it, and up to 50 all integers are lines: small counts stay exact."""
WIDEST = len(LINES).bit_length()
"""At this level all that is requested is one cell."""


def rounded_up(vectors: IntArray, level: int = 0) -> IntArray:
    """Return the vectors, or one, each amount on the grid's next line at or above it; what is 0 stays 0.

    Args:
        vectors: [..., R]
        level: one line in 2**level is taken; those of a level are lines of all below it.
    """
    return _at_level(vectors, np.searchsorted(LINES, vectors), level)


def _at_level(vectors: IntArray, line: npt.NDArray[np.intp], level: int) -> IntArray:
    line = np.minimum(-(-line >> level) << level, len(LINES) - 1) if level else line
    rounded: IntArray = np.where(vectors > 0, np.maximum(LINES[np.minimum(line, len(LINES) - 1)], vectors), 0)
    return rounded


def are_many(items: Items) -> bool:
    """Tell whether items are to be joined."""
    return len(items) > MOST_EXACT


def joined(
    items: Items,
    room: EmptyNodeCapacity,
    placements: tuple[BoolArray, ...],
    feasible: BoolArray,
    there: tuple[IntArray, ...],
) -> Items:
    """Join the vectors of items, whose number and weight may be any.

    Args:
        items: exact, with their weight.
        room: the domain's empty nodes.
        placements: [Q] rows of `room` that each reach class leads to.
        feasible: [I] which items fit one of these.
        there: vectors of placeholders that are there: their cells stay what they are.
    """
    line = np.searchsorted(LINES, items.vectors)
    vectors = _at_level(items.vectors, line, 0)
    held = _holders(items, vectors, room, placements, feasible)
    vectors = _within_nodes(vectors, items.vectors, held)
    cells, cell = distinct(np.concatenate([items.reach_id[:, None], vectors], axis=1))
    level = 0
    if len(cells) > _MOST_JOINED:
        weight = np.bincount(cell, weights=items.weight, minlength=len(cells))
        fine = np.zeros(len(cells), dtype=bool)
        fine[np.lexsort((np.arange(len(cells)), -weight))[: _MOST_JOINED // _FINE_SHARE]] = True
        for vector in there:
            fine |= within(cells[:, 1:], vector) & within(vector[None, :], cells[:, 1:])
        coarse, room_left = np.flatnonzero(~fine[cell]), _MOST_JOINED - int(fine.sum())
        exact, own_line, own_held = items.vectors[coarse], line[coarse], held[coarse]
        number = len(cells)
        while number > room_left and level < WIDEST:
            level += 1
            wide = _within_nodes(_at_level(exact, own_line, level), exact, own_held)
            wider = np.concatenate([items.reach_id[coarse, None], wide], axis=1)
            number = len(distinct(wider)[0])
        vectors[coarse] = wide
        cells, cell = distinct(np.concatenate([items.reach_id[:, None], vectors], axis=1))
    return replace(
        items,
        vectors=cells[:, 1:],
        reach_id=cells[:, 0],
        weight=np.bincount(cell, weights=items.weight, minlength=len(cells)).astype(np.float64),
        kind_item=cell[items.kind_item],
        level=level,
    )


def _within_nodes(wanted: IntArray, vectors: IntArray, held: IntArray) -> IntArray:
    """Keep what was rounded up within the node that holds the vector itself: [I, R] capacities, 0 where none does."""
    smaller: IntArray = np.where(within(vectors, held)[:, None], np.minimum(wanted, held), wanted)
    return smaller


def _holders(
    items: Items, rounded: IntArray, room: EmptyNodeCapacity, placements: tuple[BoolArray, ...], feasible: BoolArray
) -> IntArray:
    """[I, R] what an empty node has that holds the item; the largest one where it fits several, nothing where none."""
    held = np.zeros_like(items.vectors)
    for q, rows in enumerate(placements):
        mine = np.flatnonzero((items.reach_id == q) & feasible)
        capacity = maximal(room.capacity[rows & (room.slots > 0)])
        if not len(mine) or not len(capacity):
            continue
        # Where a vector rounded up fits some node, that one is chosen, and nothing is cut.
        whole = holds(capacity, rounded[mine])
        exact = holds(capacity, items.vectors[mine])
        first = np.where(any_of(whole), whole.argmax(axis=0), exact.argmax(axis=0))
        held[mine] = capacity[first]
    return held
