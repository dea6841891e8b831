"""The standard placeholders of one domain: what cover and mirrors leave of the extra capacity.

What is there counts, in any shape (`standing`); only what is missing is made anew, in the size that would be chosen
today, or in one that is there and does for little more: sizes follow every pod, and shapes must not (R1-2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.domain.capacity import RATED, dominant_share
from slack.planner.domain.feasibility import why_not
from slack.planner.model.shape import Role, Shape, WantedShape
from slack.planner.policy.spec import CoverMode
from slack.planner.removal.shapes import (
    MOST_SHAPES,
    StandardPlaceholders,
    limit_count,
    limit_shapes,
    retained_counts,
    room_of,
)
from slack.planner.wanted.cover_stable import shape_of
from slack.planner.wanted.fill_bursts import Burst, bursts_of, fills_for
from slack.planner.wanted.fill_choice import (
    OVERSHOOT,
    ChunkBounds,
    FillChoice,
    count_for,
    fill_further,
    score,
    shares,
    standard_chunk,
    version_1,
)
from slack.planner.wanted.fill_pair import Fills, count_of, pair_for
from slack.planner.wanted.part_inputs import PartInputs
from slack.planner.wanted.standing import standing_of, with_refills

MOST_PLACEHOLDERS = 5000
"""Of one shape. More than a pod a node of the largest cluster is a mistake of units, and would flood the API server."""
_MANY = 5
"""Twice as many placeholders as needed are too many, but not while they are this few."""
_MOST_PAIRED = 4
"""Of the shapes that are there so many are tried in pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class StableFill:
    """The standard placeholders of one domain."""

    wanted: tuple[WantedShape, ...]
    desired: IntArray
    """[R] extra capacity wanted; a fixed number of placeholders is the room of so many chunks."""
    asked: IntArray
    """[R] the same if there were no ceiling."""
    capped: bool
    """The ceiling cut placeholders off."""
    infeasible: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Filling:
    """The standard placeholders of one domain as they are put together."""

    part: PartInputs
    taken: IntArray
    """[R] what cover and mirrors make up of the extra capacity."""
    found: dict[str, StandardPlaceholders]
    most_new: int
    """A new shape is made only while they are fewer: those that the cover counts on as well are some of eight."""
    infeasible: list[str] = field(default_factory=list)
    capped: bool = False

    def rest(self, amount: IntArray) -> IntArray:
        """[R] what is left of an amount."""
        left: IntArray = amount - self.taken - room_of(list(self.found.values()), self.part.added, len(amount))
        return left

    def missing(self, desired: IntArray) -> IntArray:
        """[R] what is left of the extra capacity beside what others make up of it, see `PartInputs.beside`."""
        left: IntArray = self.rest(desired) - self.part.beside
        return left

    def shape(self, chunk: IntArray) -> Shape:
        """Return the shape that chunks of this size have here."""
        domain = self.part.domain
        return shape_of(domain.policy, chunk, domain.constraints, self.part.resources)

    def add_choice(self, choice: FillChoice, need: IntArray | None) -> None:
        """Add placeholders of the choice: as many as hold the need, its own number where there is none."""
        part, chunk, shape = self.part, choice.chunk, self.shape(choice.chunk)
        added = part.added.additions_to(shape.name)
        before = self.found.get(shape.name, StandardPlaceholders(shape, chunk, 0))
        asked = before.count + choice.count
        there = added.room(before.count, chunk)
        if need is not None:
            asked = max(added.enough(asked, np.where(need > 0, need + there, 0), chunk), before.count)
        within_ceiling = max(min(asked, added.within(self.rest(part.size.ceiling) + there, chunk)), before.count)
        self.capped = self.capped or within_ceiling < asked
        count = max(min(within_ceiling, MOST_PLACEHOLDERS), before.count)
        if count < within_ceiling:
            self.infeasible.append(
                f"standard placeholder: {within_ceiling} would be needed, {count} is the most; check the size"
            )
        where = part.domain.constraints
        if not part.empty.holds(chunk, where):
            self.infeasible.append(f"standard placeholder: {why_not(part.empty.room, chunk, where, part.resources)}")
        elif count:
            self.found[shape.name] = StandardPlaceholders(shape, chunk, count)

    def wanted(self, cover: Sequence[WantedShape], most_shapes: int) -> tuple[WantedShape, ...]:
        """Return them, in no more than so many shapes beside those of the cover."""
        # what the cover has a placeholder of is no further size
        shared = sum(self.found[w.shape.name].count > 0 for w in cover if w.shape.name in self.found)
        return tuple(
            WantedShape(there.shape, Role.FILL, there.count, there.vector, used_up=not there.refilled)
            # where none that is there may be made more of, today's size takes the place of the rarest
            for there in limit_shapes([there for _, there in sorted(self.found.items())], most_shapes + shared)
        )


def shapes_left(part: PartInputs, cover: Sequence[WantedShape]) -> tuple[int, int]:
    """Return how many new shapes standard placeholders may have beside those of the cover, and how many in all."""
    made_to_cover = sum(w.role is Role.COVER for w in cover)
    most_new = MOST_SHAPES - (len(cover) - made_to_cover)
    return most_new, max(most_new + max(part.domain.policy.spec.cover.max_shapes - made_to_cover, 0), 1)


def _filled_by_buffers(part: PartInputs, need: IntArray) -> BoolArray:
    """[R] resources of which buffers keep enough, while another one is missing: placeholders are to have none of it."""
    rated = np.arange(len(need)) < RATED
    found: BoolArray = rated & (part.buffered > 0) & (need == 0) & bool((need[:RATED] > 0).any())
    return found


def stable_fill(part: PartInputs, cover: Sequence[WantedShape], bounds: ChunkBounds) -> StableFill:
    """Fill what is left of a domain's extra capacity.

    Args:
        part: the domain, its extra capacity and its empty nodes.
        cover: its covering placeholders.
        bounds: of its chunks.
    """
    size, width = part.size, len(part.resources)
    taken = part.mirrored + part.added.room_in(cover, width)
    desired, asked, chunk = size.desired, size.asked, None
    if size.replicas is not None:
        chunk = standard_chunk(size.base, bounds)
        if chunk is not None:
            asked = np.maximum(asked, chunk * size.replicas)
            desired = np.minimum(np.maximum(desired, chunk * size.replicas), size.ceiling)
    need = np.maximum(desired - taken - part.beside, 0)
    filled = _filled_by_buffers(part, need)
    standing = [there for there in standing_of(part, cover) if not there.vector[filled].any()]
    bursts = bursts_of(part.demand.requests, part.demand.together, part.empty.average)
    best = _todays(part, standing, need, bounds, chunk, size.ceiling - taken, bursts)
    standing = with_refills(standing, part, bounds, [fill.chunk for fill in best], bursts)
    if chunk is not None and best:
        # A fixed number is a number, whatever size each has.
        standing = limit_count(standing, best[0].count)
        have = room_of(standing, part.added, width)
        if sum(there.count for there in standing) >= best[0].count:
            need = np.minimum(need, np.maximum(have, np.maximum(size.desired - taken - part.beside, 0)))
            desired = np.minimum(desired, np.maximum(need + taken, size.desired))
    most_new, most_shapes = shapes_left(part, cover)
    standing = retained_counts(standing, need, size.ceiling - taken, part.added, most_shapes)
    filling = Filling(part, taken, {there.shape.name: there for there in standing}, most_new)
    for r in range(RATED, width):
        missing = filling.missing(desired)
        if missing[r] > 0:
            filling.add_choice(fill_further(missing, bounds, r), only(missing, r))
    missing = _rated(filling.missing(desired))
    if missing.any() and best and not filled.any():
        rated = _rated(need - _further(filling))
        new = _new(filling, missing, rated, best, bounds, bursts)
        if size.has_objective and (desired - missing >= size.lowest).all() and _is_less_than_half(missing, new, bounds):
            desired, asked, new = desired - missing, asked - missing, ()
        fixed = chunk is not None and not standing
        for fill in new[:-1]:
            filling.add_choice(fill, None)
        left = np.where(missing > 0, np.maximum(filling.missing(desired), 0), 0)
        for last in new[-1:] if len(new) < 2 or left.any() else ():
            filling.add_choice(last, None if fixed else left)
    elif missing.any():
        # No pod requests all that is wanted, or buffers keep enough of one resource: each is filled by itself.
        for r in range(RATED):
            missing = _rated(filling.missing(desired))
            if missing[r] > 0:
                filling.add_choice(fill_further(missing, bounds, r), only(missing, r))
    # A ceiling in equal parts may be a few millicores or bytes less than the ceiling; nobody misses them.
    crumbs = filling.missing(desired)
    number = sum(there.count for there in filling.found.values())
    desired = desired - np.where((crumbs > 0) & (crumbs < number), crumbs, 0)
    return StableFill(filling.wanted(cover, most_shapes), desired, asked, filling.capped, tuple(filling.infeasible))


def _is_less_than_half(missing: IntArray, fills: Fills, bounds: ChunkBounds) -> bool:
    """Whether what is missing is less than half of each placeholder that would be made: those of an objective round."""
    share = float(dominant_share(missing, bounds.average))
    return all(2 * share <= float(dominant_share(fill.chunk, bounds.average)) for fill in fills)


def _rated(amount: IntArray) -> IntArray:
    """Return what of an amount is cpu and memory and more than nothing."""
    return np.where(np.arange(len(amount)) < RATED, np.maximum(amount, 0), 0)


def only(need: IntArray, resource: int) -> IntArray:
    """Return what is needed of one resource, and nothing of the others."""
    return np.where(np.arange(len(need)) == resource, need, 0)


def _further(filling: Filling) -> IntArray:
    """[R] the room of placeholders that are there for other resources than cpu and memory."""
    others = [there for there in filling.found.values() if there.vector[RATED:].any()]
    return room_of(others, filling.part.added, len(filling.taken))


def _todays(
    part: PartInputs,
    standing: Sequence[StandardPlaceholders],
    need: IntArray,
    bounds: ChunkBounds,
    chunk: IntArray | None,
    left: IntArray,
    bursts: Sequence[Burst],
) -> Fills:
    """Return the standard placeholders that would be chosen today if none were there."""
    others = [there for there in standing if there.vector[RATED:].any()]
    rated = _rated(need - room_of(others, part.added, len(need)))
    if not rated.any():
        return ()
    if chunk is not None:
        return (FillChoice(chunk, count_for(np.where(chunk > 0, rated, 0), chunk)),)
    spec = part.domain.policy.spec
    if spec.cover.mode is CoverMode.NONE:
        # Where an average node is one piece, an empty one has less: its DaemonSets stay.
        usual = part.empty.usual * spec.granularity
        average = np.where(usual > 0, np.minimum(bounds.average, usual), bounds.average)
        plain = version_1(rated, average, spec.granularity, left)
        return () if plain is None else (plain,)
    return fills_for(rated, bounds, left, bursts)


def _new(
    filling: Filling, missing: IntArray, whole: IntArray, best: Fills, bounds: ChunkBounds, bursts: Sequence[Burst]
) -> Fills:
    """Choose what is made anew: a size that is there while it does for little more, else today's.

    Args:
        filling: what is there.
        missing: [R] room that it lacks.
        whole: [R] room that is wanted of all standard placeholders.
        best: what would be chosen today if none were there.
        bounds: of the chunks.
        bursts: which pods came together lately.
    """
    part = filling.part
    left = filling.rest(part.size.ceiling)
    there = [t for t in filling.found.values() if t.count]
    if not there:
        return best
    fixed = tuple(FillChoice(t.vector, t.count) for t in there)
    tolerance = 1 + part.domain.policy.spec.stabilization.shape_tolerance

    def cost(fills: Fills) -> float:
        return score((*fixed, *fills), whole, bounds)

    chunks = [fill.chunk for fill in best]
    tried = [_holding(chunks, missing, left, bounds), *(_holding([chunk], missing, left, bounds) for chunk in chunks)]
    fresh = min(filter(None, tried), key=cost, default=())
    total = room_of(there, part.added, len(missing)) + sum((f.count * f.chunk for f in fresh), np.zeros_like(missing))
    if not fresh or shares(_rated(total), bounds) > OVERSHOOT * shares(whole, bounds):
        # What is there has another ratio than is wanted: what is missing has its own.
        other = fills_for(missing, bounds, left, bursts)
        fresh = min((f for f in (fresh, other) if f), key=cost, default=())
    sizes = {tuple(t.vector.tolist()) for t in there} | {tuple(f.chunk.tolist()) for f in fresh}
    full = len(sizes) > filling.most_new
    most = np.max([bounds.chunk, *chunks], axis=0) * tolerance
    standing = [t for t in there if t.refilled and (full or bool((t.vector <= most).all()))]
    options: list[tuple[IntArray, ...]] = [(t.vector,) for t in standing if full or _few_enough(t.vector, whole, best)]
    options += [(a.vector, b.vector) for a, b in combinations(standing[:_MOST_PAIRED], 2)]
    found = [fills for chunks in options if (fills := _holding(chunks, missing, left, bounds))]
    if fresh and not full:
        bearable = tolerance * cost(fresh)
        found = [f for f in found if cost(f) <= bearable and (count_of(f) <= 2 * count_of(fresh) or count_of(f) < 2)]
    return min(found, key=lambda fills: (len(fills), cost(fills)), default=fresh or best)


def _few_enough(chunk: IntArray, whole: IntArray, best: Fills) -> bool:
    """Tell whether all of the fill in chunks of this size would not be far too many placeholders."""
    takes = whole > 0
    if (chunk[takes] <= 0).any():
        return False
    number = count_for(whole, chunk)
    return number <= 2 * count_of(best) or number <= _MANY


def _holding(chunks: Sequence[IntArray], missing: IntArray, left: IntArray, bounds: ChunkBounds) -> Fills:
    """Return how many of one chunk or two hold what is missing; none where they cannot, or two are not needed."""
    if len(chunks) == 2:
        pair = pair_for(missing, (chunks[0], chunks[1]), left, bounds)
        return () if pair is None else pair
    (chunk,) = chunks
    return (FillChoice(chunk, count_for(missing, chunk)),) if (chunk[missing > 0] > 0).all() else ()
