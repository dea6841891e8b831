"""Which shape loses placeholders, and how many, where all shapes together are too many: one list of limits.

Standard placeholders of a domain are limited first, where the fill is chosen (`wanted.fill_stable` and `fill_nodes`).
All shapes of a policy are limited afterwards, where their ReplicaSets are counted (`rollout`). Which placeholders of a
shape leave is said by `ordering`. Values only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.model.added import Additions
from slack.planner.model.shape import Role, Shape

MOST_SHAPES = 8
"""Of standard placeholders of one domain, beside those of the cover: each is a ReplicaSet."""
_FEW = 10
"""A surplus of this many pending placeholders waits for the shrink delay."""
ROLE_ORDER = {Role.COVER: 0, Role.MIRROR: 1, Role.DEMAND: 2, Role.FILL: 3}
"""Who gets room under a ceiling first; room is taken away the other way round."""


class ShapeLimit(IntEnum):
    """The limits, in the order in which they are applied.

    Limits 1 to 3 take from shapes that are not refilled first, then from the rarest, then by name (`_losing_order`).
    """

    NUMBER = 1
    """`limit_count`: no more placeholders than a fixed number; only where a policy has one."""
    AMOUNT = 2
    """`retained_counts`: no more than the room that is wanted of them, or that the ceiling leaves them."""
    SHAPES = 3
    """`limit_shapes`: no more shapes than a domain may have."""
    PENDING = 4
    """`release_pending`: pending placeholders leave at once if far fewer are wanted."""
    CEILING = 5
    """`limit_to_ceiling`: all shapes of a policy stay within its ceiling. Those that are given up lose first, then by
    role from the last of `ROLE_ORDER`."""


@dataclass(frozen=True, slots=True, eq=False)
class StandardPlaceholders:
    """The placeholders of one shape that are there and count as standard ones."""

    shape: Shape
    vector: IntArray
    """[R]"""
    count: int
    refilled: bool = True
    """What is displaced of it is made again in this size, and more may be made of it."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedShape:
    """A shape of a policy as its ceiling sees it."""

    size: IntArray
    """[R] what each of its placeholders requests."""
    count: int
    """How many there are to be now."""
    wanted: int
    role: Role
    is_retiring: bool


def room_of(standing: Sequence[StandardPlaceholders], added: Additions, width: int) -> IntArray:
    """[R] what all of them request together."""
    total = np.zeros(width, dtype=np.int64)
    for there in standing:
        total = total + added.additions_to(there.shape.name).room(there.count, there.vector)
    return total


def limit_count(standing: Sequence[StandardPlaceholders], number: int) -> list[StandardPlaceholders]:
    """Return no more than a number of placeholders (`ShapeLimit.NUMBER`)."""
    over = sum(there.count for there in standing) - number
    found = []
    for there in sorted(standing, key=_losing_order):
        less = min(max(over, 0), there.count)
        over -= less
        found.append(replace(there, count=there.count - less))
    return found


def retained_counts(
    standing: Sequence[StandardPlaceholders],
    need: IntArray,
    most: IntArray,
    added: Additions,
    most_shapes: int = MOST_SHAPES,
) -> list[StandardPlaceholders]:
    """Return how many of each live on: all but what is more than needed, or more than there may be.

    Applies `ShapeLimit.AMOUNT`, then `ShapeLimit.SHAPES`.

    Args:
        standing: what is there.
        need: [R] room that is wanted of them; 0 or less where none is.
        most: [R] room that they may take.
        added: what admission adds to them.
        most_shapes: so many of them may stay; what the cover leaves of maxShapes is theirs as well.
    """
    need, left = np.maximum(need, 0), {there.shape.name: there for there in standing}
    room = room_of(standing, added, len(need))
    for there in sorted(standing, key=_losing_order):
        takes = there.vector > 0
        size = (added.additions_to(there.shape.name).room(there.count, there.vector) // there.count)[takes]
        spare = int(np.min((room - need)[takes] // size, initial=there.count))
        over = int(np.max(-((most - room)[takes] // size), initial=0))
        count = there.count - min(max(spare, over, 0), there.count)
        room = room - added.additions_to(there.shape.name).room(there.count, there.vector)
        room = room + added.additions_to(there.shape.name).room(count, there.vector)
        left[there.shape.name] = replace(there, count=count)
    return limit_shapes(list(left.values()), most_shapes)


def limit_shapes(standing: Sequence[StandardPlaceholders], most_shapes: int) -> list[StandardPlaceholders]:
    """Return no more than a number of shapes that stay (`ShapeLimit.SHAPES`); the others have a count of 0."""
    there_are = sorted((there for there in standing if there.count), key=_losing_order)
    gone = {there.shape.name for there in there_are[: max(len(there_are) - most_shapes, 0)]}
    return [replace(there, count=0) if there.shape.name in gone else there for there in standing]


def release_pending(target: int, wanted: int, *, replicas: int, bound: int, at_once: bool) -> int:
    """Return how many placeholders of a shape are to be there when pending ones are let go (`ShapeLimit.PENDING`).

    A mistaken size must not ask for nodes.

    Args:
        target: how many there would be.
        wanted: how many are wanted.
        replicas: how many its ReplicaSet asks for.
        bound: how many are on nodes: these stay.
        at_once: the pending ones go however few they are.
    """
    few = replicas - wanted <= max(wanted, _FEW)
    return target if few and not at_once else min(target, max(wanted, bound))


def to_lose(over: IntArray, vector: IntArray) -> int:
    """Return how many placeholders it takes to lose `over`, as far as their kind can help."""
    need = (over > 0) & (vector > 0)
    return int(np.max(-(-over[need] // vector[need]), initial=0))


def limit_to_ceiling(
    shapes: Sequence[CountedShape], planned: IntArray, blocked: IntArray, ceiling: IntArray
) -> list[int]:
    """Return the count of each shape within the ceiling (`ShapeLimit.CEILING`).

    What is above the ceiling goes at once. Shapes that are given up, or that wait to shrink, make way for at least one
    placeholder that the ceiling keeps from growing.

    Args:
        shapes: of one policy.
        planned: [R] what all of them request.
        blocked: [R] the placeholder that the ceiling keeps from growing; 0 if there is none.
        ceiling: [R]
    """
    counts = [shape.count for shape in shapes]
    for i in sorted(range(len(shapes)), key=lambda i: (not shapes[i].is_retiring, -ROLE_ORDER[shapes[i].role])):
        size = shapes[i].size
        makes_way = min(to_lose(planned + blocked - ceiling, size), max(counts[i] - shapes[i].wanted, 0))
        less = max(makes_way, min(to_lose(planned - ceiling, size), counts[i]))
        counts[i] -= less
        planned = planned - less * size
    return counts


def _losing_order(there: StandardPlaceholders) -> tuple[bool, int, str]:
    return (there.refilled, there.count, there.shape.name)
