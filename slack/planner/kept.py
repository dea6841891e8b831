"""What a plan may take over from the one before, because nothing that it follows from has changed.

From one plan to the next hardly a node, a constraint or a kind of pod changes: numbers of pods do. So what follows from
the former only is worked out once and kept together with what it was made of. A plan is the same with or without: that
is why every function that is handed to `of` may read nothing but what is named beside it. There is one value a name,
and parts (policies, zones) that a plan has not asked for go: what is kept is never more than one plan makes.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from operator import is_
from typing import TypeVar, cast

import numpy as np

from slack.cluster.snapshot import NodeColumns, PodKinds, Presence, Snapshot

T = TypeVar("T")
_Part = TypeVar("_Part", NodeColumns, PodKinds, Presence, Snapshot)


class Kept:
    """Values by name, each with the parts that it was made of. Not thread-safe: it belongs to who plans.

    Usage:
        kept = Kept()
        plan(snapshot, policies, now=now, kept=kept)
        plan(later, policies, now=soon, kept=kept)
    """

    def __init__(self) -> None:
        self._values: dict[object, tuple[tuple[object, ...], object]] = {}
        self._parts: dict[str, Kept] = {}
        self._asked: set[str] = set()

    def of(self, name: str, made_of: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return what `make` returns, the earlier value where it was made of the very same objects.

        Args:
            name: of the value; a plan that asks for it again does so with the same parts.
            made_of: all that `make` reads. These are compared by identity, so nobody may change them afterwards.
            make: a pure function of these parts.
        """
        found = self._values.get(name)
        if found is not None and len(found[0]) == len(made_of) and all(map(is_, found[0], made_of)):
            return cast("T", found[1])  # made by an earlier `make` of that name
        value = make()
        self._values[name] = (made_of, value)
        return value

    def same(self, name: str, value: T) -> T:
        """Return the earlier value of that name where it is equal, so that what was made of it is found again."""
        found = self._values.get(name)
        if found is not None and _equal(found[1], value):
            return cast("T", found[1])  # equal, and so of the same type
        self._values[name] = ((), value)
        return value

    def shared(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the earlier one's parts wherever they are equal."""
        before = cast("Snapshot | None", self._values.get(Snapshot, ((), None))[1])
        if before is not None:
            snapshot = _shared(
                before,
                replace(
                    snapshot,
                    nodes=_shared(before.nodes, snapshot.nodes),
                    kinds=_shared(before.kinds, snapshot.kinds),
                    presence=_shared(before.presence, snapshot.presence),
                ),
            )
        self._values[Snapshot] = ((), snapshot)
        return snapshot

    def part(self, name: str) -> "Kept":
        """Return what is kept for one part of the plan, a policy or a zone: names there are its own."""
        self._asked.add(name)
        return self._parts.setdefault(name, Kept())

    def end(self) -> None:
        """End a plan: forget the parts that it has not asked for."""
        self._parts = {name: part for name, part in self._parts.items() if name in self._asked}
        for part in self._parts.values():
            part.end()
        self._asked.clear()


def _equal(one: object, other: object) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())
    if is_dataclass(one):
        return all(_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


def _shared(before: _Part, now: _Part) -> _Part:
    """Return `now` with the fields of `before` that are equal, `before` itself where all are."""
    earlier = {f.name: value for f in fields(now) if _equal(value := getattr(before, f.name), getattr(now, f.name))}
    return before if len(earlier) == len(fields(now)) else replace(now, **earlier)
