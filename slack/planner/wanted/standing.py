"""Which placeholders of a domain live on, and how many of each size: what is there is used up first (S2).

The extra capacity is a sum of room, whatever shapes it is in. So a size that is wanted no longer is no reason for a
bound placeholder to go: each one that is there counts, and a shape gives some up only where all of them together hold
more than is wanted. A shape that nothing should ask a node for any more (larger than every pod, S6; too large for every
node; for other nodes than the policy's; one of too many) is used up: its placeholders stay as long as they are bound,
and what displaces one of them makes room for today's size. How many of each live on: `slack.planner.removal.shapes`.
"""

from collections.abc import Sequence
from dataclasses import replace

from slack.cluster.snapshot import IntArray
from slack.planner.model.shape import WantedShape
from slack.planner.policy.spec import CoverMode
from slack.planner.removal.shapes import StandardPlaceholders
from slack.planner.wanted.fill_bursts import Burst, outgrown
from slack.planner.wanted.fill_choice import ChunkBounds, useful
from slack.planner.wanted.part_inputs import PartInputs

_REFILLED = 4
"""So many of them are refilled when they are displaced, those with the most placeholders; rarer ones merge away."""


def standing_of(part: PartInputs, cover: Sequence[WantedShape]) -> list[StandardPlaceholders]:
    """Return what is there in this domain beside mirrors, and beside what the cover counts on, by name of the shape."""
    policy, empty = part.domain.policy, part.empty
    covering = {w.shape.name: w.count for w in cover}
    found = []
    for there in part.existing:
        shape = there.shape
        count = there.replicas - covering.get(shape.name, 0)
        if there.role.for_named or count <= 0:
            continue
        if shape.precedence != policy.precedence:
            continue
        if empty.placement(shape.constraints).reach.any():
            found.append(StandardPlaceholders(shape, shape.vector(part.resources), count))
    return sorted(found, key=lambda standing: standing.shape.name)


def with_refills(
    standing: Sequence[StandardPlaceholders],
    part: PartInputs,
    bounds: ChunkBounds,
    chunks: Sequence[IntArray],
    bursts: Sequence[Burst] = (),
) -> list[StandardPlaceholders]:
    """Tell which of the shapes are refilled: those that real pods may be as large as, and not too many of them.

    Where bursts want chunks that hold twice as many of their pods, what is smaller is not refilled either.

    Args:
        standing: what is there.
        part: the domain.
        bounds: of its chunks.
        chunks: those that would be chosen today.
        bursts: which pods came together lately.
    """
    spec = part.domain.policy.spec
    here = part.domain.constraints

    def serves(there: StandardPlaceholders) -> bool:
        if there.shape.constraints != here or not part.empty.holds(there.vector, here):
            return False
        return spec.cover.mode is CoverMode.NONE or useful(there.vector, bounds)

    good = [there for there in standing if serves(there)]
    smaller = {there.shape.name for there in good if outgrown(there.vector, chunks, bursts)}
    good = [there for there in good if there.shape.name not in smaller]
    good.sort(key=lambda there: (-there.count, there.shape.name))
    names = {there.shape.name for there in good[:_REFILLED]}
    names |= {there.shape.name for there in good if any((there.vector == chunk).all() for chunk in chunks)}
    return [replace(there, refilled=there.shape.name in names) for there in standing]
