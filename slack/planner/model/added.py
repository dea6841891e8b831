"""What admission makes of placeholders: what they request beyond their shape, and how many are enough or too many then.

A sidecar, a LimitRange's default and a RuntimeClass's overhead are part of what a placeholder takes, and of what it
gives back when a real pod displaces it: they count towards the ceiling, and towards the room that is wanted. A shape
stays what it was; only its number follows. What admission takes away makes no more placeholders than were planned.

Placeholders of one shape may differ, for those that were there before a webhook stay as they were. So every number is
such that no step back follows from it: the next plan of the same world says the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.model.shape import Shape, WantedShape

MOST_REMEMBERED = 256
"""Shapes of a policy of which it is remembered, those seen last."""
REMEMBERED_SECONDS = 86400.0
"""The most that any was given counts for so long after it was last seen: admission may do it again."""
ZERO: IntArray = np.zeros((), dtype=np.int64)


def zero() -> IntArray:
    """Give nothing of any resource."""
    return ZERO


Amounts = tuple[tuple[str, int], ...]
"""As `Shape.requests` has them."""


@dataclass(frozen=True, slots=True)
class AddedBefore:
    """The most that a shape's placeholders were given by admission.

    It holds until the policy is changed, or the operator restarts: where one placeholder alone is above the ceiling, it
    would otherwise be made and taken away for ever. Only where there are placeholders that were given less, it is
    forgotten after a day.
    """

    amounts: Amounts
    seconds: float
    """When a placeholder that was given so much was last seen."""
    generation: int
    """Of the policy."""
    own: bool
    """The shape has a RuntimeClass: its overhead says nothing of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """What admission adds to the placeholders of one shape."""

    there: int = 0
    """Placeholders of which it is known."""
    total: IntArray = field(default_factory=zero)
    """[R] what these request beyond the shape, together."""
    most: IntArray = field(default_factory=zero)
    """[R] the most that one of them does, or one before them did: a new one may do the same."""

    def size(self, vector: IntArray) -> IntArray:
        """[R] what a new placeholder of a shape with this vector may request."""
        if self is NOTHING:
            return vector
        size: IntArray = vector + self.most
        return size

    def room(self, count: int, vector: IntArray) -> IntArray:
        """[R] what `count` placeholders request: those that are there, and new ones; of fewer, their average."""
        if self is NOTHING:  # nearly always
            plain: IntArray = count * vector
            return plain
        if count < self.there:
            part: IntArray = count * vector + -(-self.total * count // self.there)
            return part
        whole: IntArray = self.there * vector + self.total + (count - self.there) * self.size(vector)
        return whole

    def enough(self, planned: int, need: IntArray, vector: IntArray) -> int:
        """Return how many hold `need`, where `planned` would without what admission adds."""
        if self is NOTHING:
            return planned
        size, rows = self.size(vector), need > 0
        if not self.most.any() or not rows.any() or (vector[rows] <= 0).any():
            return planned
        missing = (need - self.room(self.there, vector))[rows]
        return max(min(planned, self.there + int(np.max(-(-missing // size[rows])))), 0)

    def within(self, limit: IntArray, vector: IntArray) -> int:
        """Return how many the limit has room for."""
        takes = vector > 0
        planned = int(np.min(limit[takes] // vector[takes]))
        if self is not NOTHING and self.most.any():
            size = self.size(vector)
            takes = size > 0
            left = (limit - self.room(self.there, vector))[takes]
            planned = min(planned, self.there + int(np.min(left // size[takes])))
        return max(planned, 0)


NOTHING = Added()


@dataclass(frozen=True, eq=False)
class Additions:
    """What admission adds to the placeholders of one policy."""

    by_shape: tuple[tuple[str, Added], ...] = ()
    """Every shape of which a placeholder has been seen, where something is added to any."""
    elsewhere: IntArray = field(default_factory=zero)
    """[R] what other shapes are expected to get: the most that any of those that are known did."""

    @cached_property
    def _by_name(self) -> Mapping[str, Added]:
        return dict(self.by_shape)

    @cached_property
    def _of_others(self) -> Added:
        return Added(most=self.elsewhere) if self.elsewhere.any() else NOTHING

    def additions_to(self, name: str) -> Added:
        """Return what is added to placeholders of the shape with this name."""
        return self._by_name.get(name, self._of_others)

    def room_in(self, wanted: Iterable[WantedShape], width: int) -> IntArray:
        """[R] what all of them request together."""
        total = np.zeros(width, dtype=np.int64)
        for w in wanted:
            total = total + self.additions_to(w.shape.name).room(w.count, w.vector)
        return total


NO_ADDITIONS = Additions()


def vector_of(amounts: Amounts, resources: Sequence[str]) -> IntArray:
    """Return amounts as a row after `resources`; what is not named there is left out."""
    by_name = dict(amounts)
    return np.array([by_name.get(name, 0) for name in resources], dtype=np.int64)


def beyond(actual: Amounts, planned: Amounts) -> Amounts:
    """Return what of `actual` is more than planned."""
    before = dict(planned)
    return tuple((name, amount - before.get(name, 0)) for name, amount in actual if amount > before.get(name, 0))


def _most(rows: Iterable[Amounts]) -> Amounts:
    most: dict[str, int] = {}
    for row in rows:
        most.update({key: max(amount, most.get(key, 0)) for key, amount in row})
    return tuple(sorted(most.items()))


def seen(
    shapes: Mapping[str, Shape],
    counts: Mapping[tuple[str, Amounts], int],
    before: Mapping[str, AddedBefore],
    generation: int,
    now: float,
) -> tuple[Mapping[str, Mapping[Amounts, int]], Mapping[str, AddedBefore]]:
    """Look at the placeholders of one policy.

    Args:
        shapes: of its ReplicaSets, by name.
        counts: how many of its placeholders have a shape and such requests, pending ones too: admission comes before
            scheduling.
        before: what the previous plan remembered.
        generation: of the policy.
        now: Unix seconds.

    Returns:
        by shape, how many placeholders there are with how much beyond it; and what to remember.
    """
    found: dict[str, dict[Amounts, int]] = {}
    for (name, requests), count in counts.items():
        if name in shapes:
            more = beyond(requests, shapes[name].requests)
            found.setdefault(name, {})[more] = found.get(name, {}).get(more, 0) + count
    known = {name: old for name, old in before.items() if old.generation == generation and name not in found}
    for name, amounts in found.items():
        old, own = before.get(name), bool(shapes[name].runtime_class)
        recent = old is not None and old.generation == generation and now - old.seconds < REMEMBERED_SECONDS
        there = _most(amounts)
        most = _most([there, old.amounts]) if old is not None and recent else there
        since = old.seconds if old is not None and most != there else now
        known[name] = AddedBefore(most, since, generation, own)
    return found, dict(list(known.items())[-MOST_REMEMBERED:])


def additions_of(
    found: Mapping[str, Mapping[Amounts, int]], known: Mapping[str, AddedBefore], resources: Sequence[str], now: float
) -> Additions:
    """Turn what `seen` has found into rows after `resources`; the same value as long as nothing is added."""
    if not any(entry.amounts for entry in known.values()):
        return NO_ADDITIONS
    rows = {name: vector_of(entry.amounts, resources) for name, entry in sorted(known.items())}
    none = np.zeros(len(resources), dtype=np.int64)
    by_shape = []
    for name, most in rows.items():
        there = found.get(name, {})
        total = sum((count * vector_of(more, resources) for more, count in there.items()), none)
        by_shape.append((name, Added(sum(there.values()), total, most) if most.any() else NOTHING))
    # What is there tells best, and what was there lately; a policy that has neither goes by what there was.
    plain = [name for name in rows if not known[name].own]
    near = [name for name in plain if name in found or now - known[name].seconds < REMEMBERED_SECONDS]
    others = [rows[name] for name in near or plain]
    return Additions(tuple(by_shape), np.max(others, axis=0) if others else none)
