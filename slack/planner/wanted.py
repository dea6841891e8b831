"""One shape that a policy should have, with its count: what cover, fill and mirrors all come to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.shape import Role, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """One shape that should be there."""

    shape: Shape
    role: Role
    count: int
    vector: IntArray
    """[R]"""
    workloads: tuple[str, ...] = ()
    kinds: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows of `Snapshot.kinds` that it makes room for."""


def room_in(wanted: Sequence[Wanted], width: int) -> IntArray:
    """[R] what all of them request together."""
    total = np.zeros(width, dtype=np.int64)
    for item in wanted:
        total = total + item.count * item.vector
    return total


def merged(wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
    """Add up equal shapes: a covering and a standard placeholder may be the same."""
    found: dict[str, Wanted] = {}
    for w in wanted:
        name = w.shape.name
        if name in found:
            first = found[name]
            w = replace(first, count=first.count + w.count, kinds=np.union1d(first.kinds, w.kinds))
        found[name] = w
    return tuple(found.values())
