"""Whole spare nodes: standard placeholders that are each as large as an empty node of the usual size (S2).

They are beside what the cover keeps: a node with a covering placeholder is none. What is about as large as a node
counts, so that some MiB more or less replace no placeholder; S6 and the granularity do not bound them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.model.shape import WantedShape
from slack.planner.removal.shapes import StandardPlaceholders, limit_count, retained_counts, room_of
from slack.planner.wanted.fill_choice import ChunkBounds, FillChoice, count_for, fill_further
from slack.planner.wanted.fill_stable import Filling, StableFill, only, shapes_left
from slack.planner.wanted.part_inputs import PartInputs
from slack.planner.wanted.standing import standing_of


def fill_nodes(part: PartInputs, cover: Sequence[WantedShape], bounds: ChunkBounds) -> StableFill:
    """Keep a domain's number of whole nodes free; more of them where its floor is above that.

    Args:
        part: the domain, with a node or template; `part.size.replicas` is the number.
        cover: its covering placeholders.
        bounds: of the placeholders for what a floor names and no such node has.
    """
    size, node, width = part.size, part.empty.usual, len(part.resources)
    taken = part.mirrored + part.added.room_in(cover, width)
    whole = node * (size.replicas or 0) + taken
    asked = np.maximum(size.asked, whole)
    desired = np.minimum(np.maximum(size.desired, whole), size.ceiling)
    need = np.maximum(desired - taken - part.beside, 0)
    number = count_for(np.where(node > 0, need, 0), node)
    standing = limit_count(_standing(part, cover), number)
    if sum(there.count for there in standing) >= number:
        have = room_of(standing, part.added, width)
        need = np.minimum(need, np.maximum(have, np.maximum(size.desired - taken - part.beside, 0)))
        desired = np.minimum(desired, np.maximum(need + taken, size.desired))
    most_new, most_shapes = shapes_left(part, cover)
    standing = retained_counts(standing, need, size.ceiling - taken, part.added, most_shapes)
    filling = Filling(part, taken, {there.shape.name: there for there in standing}, most_new)
    lacking = number - sum(there.count for there in standing)
    if lacking > 0:
        refilled = [there for there in standing if there.refilled and there.count]
        best = max(refilled, key=lambda there: (there.count, there.shape.name), default=None)
        filling.add_choice(FillChoice(node if best is None else best.vector, lacking), None)
    for r in np.flatnonzero(node == 0):
        missing = filling.missing(size.desired)
        if missing[r] > 0:
            filling.add_choice(fill_further(missing, bounds, int(r)), only(missing, int(r)))
    if filling.capped:
        desired = np.minimum(desired, np.maximum(desired - np.maximum(filling.missing(desired), 0), size.desired))
    return StableFill(filling.wanted(cover, most_shapes), desired, asked, filling.capped, tuple(filling.infeasible))


def _standing(part: PartInputs, cover: Sequence[WantedShape]) -> list[StandardPlaceholders]:
    """Return what is there and is about as large as a node; refilled is what still fits one."""
    here, node = part.domain.constraints, part.empty.usual
    tolerance = part.domain.policy.spec.stabilization.shape_tolerance
    return [
        replace(there, refilled=there.shape.constraints == here and part.empty.holds(there.vector, here))
        for there in standing_of(part, cover)
        if _is_about(there.vector, node, tolerance)
    ]


def _is_about(vector: IntArray, node: IntArray, tolerance: float) -> bool:
    return bool((np.abs(vector - node) <= tolerance * node).all())
