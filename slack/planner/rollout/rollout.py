"""From what should be there to what should be written now (S2, R1-2).

Growing is at once. Shrinking waits until less has been enough for the whole shrink delay. A shape that replaces another
grows step by step, waits for bound, and the old one shrinks by the same amount of room; a ceiling holds at every
instant, for it counts what is there as well as what is asked for. A bound placeholder leaves for no other reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.model.added import NO_ADDITIONS, AddedBefore, Additions, zero
from slack.planner.model.result import ExistingShape
from slack.planner.model.shape import Role, WantedShape
from slack.planner.removal.shapes import ROLE_ORDER, CountedShape, limit_to_ceiling, release_pending, to_lose
from slack.planner.rollout.backoff import ShapePods

Counts = tuple[tuple[float, int], ...]
_STEPS = 4
"""A replacement takes about so many steps, so that it never asks for twice the slack at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RolloutTarget:
    """What one shape's ReplicaSet should say now."""

    wanted: WantedShape
    """With count 0 for a shape that is being retired."""
    replicas: int
    retiring: bool


@dataclass(frozen=True, slots=True, eq=False)
class CurrentState:
    """What is there, in one policy."""

    existing: Mapping[str, ExistingShape]
    pods: Mapping[str, ShapePods]
    ceiling: IntArray
    """[R]"""
    caps: Mapping[str, int]
    now: float
    shrink_delay_seconds: float
    give_up_seconds: float
    added: Additions = NO_ADDITIONS
    """What admission adds to placeholders; it counts towards the ceiling as well."""
    beside: IntArray = field(default_factory=zero)
    """[R] what placeholders request whose ReplicaSet is gone or cannot be read."""
    release_pending: bool = False
    """Pending placeholders that are not wanted go at once: an objective knows that no more such pods are to come now,
    and what pods have just taken is not to be bought again."""

    def replicas(self, name: str) -> int:
        """Return spec.replicas of a shape, 0 where there is none."""
        there = self.existing.get(name)
        return there.replicas if there else 0

    def bound(self, name: str) -> int:
        """Return its bound placeholders."""
        return self.pods[name].bound if name in self.pods else 0

    def present(self, name: str) -> int:
        """Return its placeholders, on nodes or not."""
        return self.pods[name].bound + self.pods[name].pending if name in self.pods else 0

    def told(self, name: str) -> int:
        """Return its unbound placeholders that autoscalers were told of."""
        return self.pods[name].told if name in self.pods else 0

    def waited(self, name: str) -> int:
        """Return how many times its oldest pending placeholder has used up the policy's patience."""
        pods = self.pods.get(name)
        return int(pods.oldest_pending_seconds / max(self.give_up_seconds, 1.0)) if pods else 0

    def size(self, name: str, vector: IntArray) -> IntArray:
        """[R] what a placeholder of a shape with this vector requests."""
        return self.added.additions_to(name).size(vector)

    def room(self, wanted: WantedShape, count: int) -> IntArray:
        """[R] what so many placeholders of a shape request."""
        return self.added.additions_to(wanted.shape.name).room(count, wanted.vector)

    def used(self, name: str) -> int:
        """Return what it may take at this instant: what is asked for, or what is still there of it."""
        pods = self.pods.get(name, ShapePods(0, 0, 0.0))
        return max(self.replicas(name), pods.bound + pods.pending)


def remember(counts: Counts, count: int, replicas: int, current: CurrentState) -> Counts:
    """Add a wanted count to those of the window; what no later maximum can come from is dropped."""
    start = current.now - current.shrink_delay_seconds
    within = [(at, c) for at, c in counts if at > start and c > count]
    if not counts and replicas > count and current.shrink_delay_seconds > 0:
        within = [(current.now, replicas)]  # first seen, or restarted: the delay begins now
    return (*within, (current.now, count))


def steady(count: int, counts: Counts, replicas: int) -> int:
    """Return the replicas of a shape that nothing replaces: up at once, down to the window's largest."""
    return count if count >= replicas else min(replicas, max(count, *(c for _, c in counts)))


def _release(target: int, count: int, name: str, current: CurrentState, role: Role) -> int:
    """Let pending placeholders go at once when far fewer are wanted.

    What a pool does not announce any more goes so, however little it is: its pods have come, and it may have no more.
    """
    at_once = role is Role.DEMAND or current.release_pending
    return release_pending(target, count, replicas=current.replicas(name), bound=current.bound(name), at_once=at_once)


def _replaced_by(old: ExistingShape, vector: IntArray, wanted: Sequence[WantedShape]) -> list[WantedShape]:
    """Return the wanted shapes that do an unwanted one's work.

    A standard placeholder is replaced by the other standard ones of its zone; a covering one by one that goes to the
    same nodes and is at least as large; a mirror by its workload's. What pools announce is of several pools, and what
    is not announced any more waits to shrink, whatever else is.
    """
    same = [w for w in wanted if w.role is old.role]
    twin = [w for w in same if w.shape.is_twin_of(old.shape)]
    if twin:  # the same in another form: bound, or unbound otherwise
        return twin
    if old.role is Role.DEMAND:
        return []
    if old.role is Role.MIRROR:
        return [w for w in same if w.shape.reserved_for == old.shape.reserved_for]
    if old.role is Role.FILL:
        # Of its own zone; or of all zones, where slack per zone is switched on or off.
        where = set(old.shape.node_selector)
        near = [w for w in same if where <= set(w.shape.node_selector) or where >= set(w.shape.node_selector)]
        return [w for w in near if set(w.shape.node_selector) == where] or near
    return [w for w in same if w.shape.constraints == old.shape.constraints and bool((w.vector >= vector).all())]


def _step(wanted: WantedShape) -> int:
    """Return how many of a shape come at a time while it replaces another."""
    return max(1, -(-wanted.count // _STEPS))


def _still_needed(old: ExistingShape, wanted: Sequence[WantedShape], size: IntArray, current: CurrentState) -> int:
    """Return how many of an old shape must stay until what replaces it is bound.

    An unbound placeholder fits where its twin leaves, and is told of when that has left: that it is there is enough.
    No more than a step is ahead of what was told: if nobody can be told, the others stay as they are.
    """
    missing = np.zeros_like(size)
    for w in wanted:
        in_place = not w.shape.form.is_scheduled and w.shape.is_twin_of(old.shape)
        ahead = min(current.present(w.shape.name), current.told(w.shape.name) + _step(w))
        there = ahead if in_place else current.bound(w.shape.name)
        bound = min(there, w.count)
        # Placeholders that nobody makes a node for cannot be bound before the old ones make room for them: the probe
        # of a hold does not keep the old ones, nor, where no autoscaler ever says a word, one more each patience.
        held = max(current.waited(w.shape.name), 1 if w.shape.name in current.caps else 0)
        missing = missing + max(w.count - bound - held, 0) * current.size(w.shape.name, w.vector)
    return to_lose(missing, size)


def _surplus(wanted: Sequence[WantedShape], size: IntArray, counts: Counts, current: CurrentState) -> int:
    """Return how many of an old shape are more than what replaces it: they wait for the shrink delay."""
    before = max((count for _, count in counts), default=0) * size
    return to_lose(before - sum((current.room(w, w.count) for w in wanted), np.zeros_like(size)), size)


def _within_ceiling(targets: list[RolloutTarget], current: CurrentState) -> list[RolloutTarget]:
    """Cut growth to what the ceiling leaves beside all that is there, and shrink what is above it at once."""
    used = np.zeros_like(current.ceiling) + current.beside
    for t in targets:
        used = used + current.room(t.wanted, current.used(t.wanted.shape.name))
    sizes = [current.size(t.wanted.shape.name, t.wanted.vector) for t in targets]
    result: dict[int, int] = {}
    blocked = np.zeros_like(current.ceiling)
    names = [t.wanted.shape.name for t in targets]
    order = sorted(range(len(targets)), key=lambda i: (ROLE_ORDER[targets[i].wanted.role], names[i]))
    for i in order:
        t = targets[i]
        now = current.used(t.wanted.shape.name)
        if t.replicas <= now:
            result[i] = t.replicas
            continue
        vector = sizes[i]
        takes = vector > 0
        more = int(np.min((current.ceiling - used)[takes] // vector[takes], initial=t.replicas - now))
        more = max(min(more, t.replicas - now), 0)
        used = used + more * vector
        result[i] = now + more
        if now + more < t.replicas:
            blocked = np.maximum(blocked, vector)
    planned = np.zeros_like(current.ceiling) + current.beside
    for i, t in enumerate(targets):
        planned = planned + current.room(t.wanted, result[i])
    shapes = [
        CountedShape(sizes[i], result[i], t.wanted.count, t.wanted.role, t.retiring) for i, t in enumerate(targets)
    ]
    counts = limit_to_ceiling(shapes, planned, blocked, current.ceiling)
    return [RolloutTarget(t.wanted, count, t.retiring) for t, count in zip(targets, counts, strict=True)]


def first_steps(
    targets: Sequence[RolloutTarget], known: Mapping[str, AddedBefore], current: CurrentState
) -> dict[str, int]:
    """Return the replicas to begin with under a ceiling while nobody knows what admission adds: one shows it.

    Mirrors wait for a standard or covering placeholder, unless there are none: what admission has against the mirror
    of one workload holds nothing else up. A shape with a RuntimeClass shows its own overhead.
    """
    steps: dict[str, int] = {}
    untold = [t for t in targets if t.wanted.shape.name not in known]
    shared = [] if any(not entry.own for entry in known.values()) else [t for t in untold if not _has_overhead(t)]
    plain = [t for t in shared if not t.wanted.role.for_named]
    tried = sum(current.used(t.wanted.shape.name) for t in plain)
    first = [t for t in plain if t.replicas > current.used(t.wanted.shape.name)][: 0 if tried else 1]
    alone = [t for t in untold if _has_overhead(t)] + (first if plain else shared)
    for t in (*shared, *alone):
        there = current.used(t.wanted.shape.name)  # pods are there without their ReplicaSet when somebody deleted it
        if t.replicas > there:
            steps[t.wanted.shape.name] = max(there, 1) if t in alone else there
    return steps


def _has_overhead(target: RolloutTarget) -> bool:
    return bool(target.wanted.shape.runtime_class)


def roll_out(
    wanted: Sequence[WantedShape], resources: tuple[str, ...], earlier: Mapping[str, Counts], current: CurrentState
) -> tuple[tuple[RolloutTarget, ...], dict[str, Counts]]:
    """Work out the replicas of every shape, wanted or there.

    Returns:
        targets sorted by role and name, and the counts to remember.
    """
    names = {w.shape.name for w in wanted}
    old = [there for name, there in sorted(current.existing.items()) if name not in names]
    counts: dict[str, Counts] = {}
    targets: list[RolloutTarget] = []
    exchanged: set[str] = set()
    for there in old:
        name, vector = there.shape.name, there.shape.vector(resources)
        counts[name] = remember(earlier.get(name, ()), 0, there.replicas, current)
        new = _replaced_by(there, vector, wanted)
        if new:
            size = current.size(name, vector)
            keep = max(_still_needed(there, new, size, current), _surplus(new, size, counts[name], current))
            replicas = min(there.replicas, keep)
            if there.replicas > 0:
                exchanged.update(w.shape.name for w in new)
        else:
            replicas = steady(0, counts[name], there.replicas)
        replicas = _release(replicas, 0, name, current, there.role)
        targets.append(RolloutTarget(WantedShape(there.shape, there.role, 0, vector), replicas, retiring=True))
    for w in wanted:
        name = w.shape.name
        replicas = current.replicas(name)
        counts[name] = remember(earlier.get(name, ()), w.count, replicas, current)
        target = _release(steady(w.count, counts[name], replicas), w.count, name, current, w.role)
        if name in exchanged:
            target = min(target, max(replicas, current.bound(name) + _step(w)))
        if w.used_up:
            target = min(target, current.bound(name))
        targets.append(RolloutTarget(w, min(target, current.caps.get(name, target)), retiring=not w.count))
    targets = _within_ceiling(targets, current)
    return tuple(sorted(targets, key=lambda t: (ROLE_ORDER[t.wanted.role], t.retiring, t.wanted.shape.name))), counts
