"""Standard placeholders of two shapes, where one shape would overshoot.

What remains may be wanted in a ratio that no chunk has, because a chunk that makes room for no real pod is not made:
all of one shape then take far more than is wanted. Two shapes with ratios on either side of it come as close as whole
placeholders can.
"""

from dataclasses import replace

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.domain.capacity import RATED, dominant_share
from slack.planner.model.vectors import is_within
from slack.planner.wanted.fill_choice import (
    OVERSHOOT,
    ChunkBounds,
    FillChoice,
    choose_fill,
    count_for,
    raised,
    score,
)

Fills = tuple[FillChoice, ...]
"""One shape or two; none where nothing is to be filled."""
_MANY_MORE = 2
"""A shape that is chosen for its overshoot alone may take so many times the placeholders of one that overshoots."""
_SECOND = 1.1
"""A second shape must be worth a tenth: each is one more ReplicaSet, and one more size that moves."""
_MOST = 1 << 20
_BEST = 4
"""Of the chunks so many are tried in pairs that bring a resource at the least cost."""


def count_of(fills: Fills) -> int:
    """Return how many placeholders they are."""
    return sum(fill.count for fill in fills)


def nodes_of(fills: Fills, bounds: ChunkBounds) -> float:
    """Return how many average nodes they fill: the dominant share of all of them together."""
    total = sum((fill.count * fill.chunk for fill in fills), np.zeros_like(bounds.average))
    return float(dominant_share(total, bounds.average))


def pair_for(
    remaining: IntArray, chunks: tuple[IntArray, IntArray], limit: IntArray, bounds: ChunkBounds
) -> Fills | None:
    """Return how many of two chunks hold what remains at the least cost; None where both are not needed.

    Args:
        remaining: [R] what is to be filled of cpu and memory.
        chunks: the two.
        limit: [R] what a ceiling leaves.
        bounds: of the domain, for the cost.
    """
    found = []
    for first, second in (chunks, chunks[::-1]):
        count = most_within(remaining, first)
        for first_count in (count, count + 1):
            rest = np.maximum(remaining - first_count * first, 0)
            missing = rest.tolist()
            if not first_count or not any(missing):
                continue
            if any(left > 0 >= each for left, each in zip(missing, second.tolist(), strict=True)):
                continue
            fills = FillChoice(first, first_count), FillChoice(second, count_for(rest, second))
            if is_within(first_count * first + fills[1].count * second, limit):
                found.append(fills)
    return min(found, key=lambda fills: (score(fills, remaining, bounds), fills[0].count), default=None)


def most_within(remaining: IntArray, chunk: IntArray) -> int:
    """Return how many of a chunk take no more than what remains of cpu and memory, where something does."""
    pairs = zip(remaining.tolist(), chunk.tolist(), strict=True)
    counts = [left // each for left, each in pairs if left > 0 and each > 0]
    return min(_MOST, *counts) if counts else 0


def _chunks(bounds: ChunkBounds) -> list[IntArray]:
    """Return the largest useful chunk like each of the largest pods, those that bring cpu or memory cheaply."""
    found = [raised(np.minimum(largest, bounds.chunk), largest, bounds) for largest in bounds.largest]
    best: set[int] = set()
    for r in range(RATED):
        dear = [
            (float(dominant_share(chunk, bounds.average)) / int(chunk[r]), i)
            for i, chunk in enumerate(found)
            if chunk[r]
        ]
        best.update(i for _, i in sorted(dear)[:_BEST])
    return [found[i] for i in sorted(best)]


def choose_fills(remaining: IntArray, bounds: ChunkBounds, limit: IntArray) -> Fills:
    """Choose one chunk; or two where one overshoots by a quarter and they do not, or take far fewer placeholders.

    Args:
        remaining: [R] desired extra capacity less cover and mirrors; entries of 0 or less need nothing.
        bounds: of the domain.
        limit: [R] what a ceiling leaves.
    """
    rated = np.zeros_like(remaining)
    rated[:RATED] = np.maximum(remaining[:RATED], 0)
    single = choose_fill(remaining, bounds, limit)
    if single is None or single.count <= 1:
        return () if single is None else (single,)
    total = single.count * single.chunk
    few = count_for(rated, np.maximum(bounds.chunk, 1)) * _MANY_MORE
    if single.count <= few and (total[:RATED] <= OVERSHOOT * rated[:RATED]).all():
        return (single,)
    found: list[Fills] = [(single,)]
    chunks = _chunks(bounds)
    fewer = replace(bounds, largest=np.array(chunks, dtype=np.int64).reshape(-1, len(rated)))
    for chunk in chunks:
        least = most_within(rated, chunk)
        # One more where what is left of it would take many of the other: a chunk is whole, and another brings the rest.
        for count in (least, least + 1):
            second = choose_fill(rated - count * chunk, fewer, limit - count * chunk) if count else None
            if second is not None and is_within(count * chunk + second.count * second.chunk, limit):
                found.append((FillChoice(chunk, count), second))

    def rank(fills: Fills) -> tuple[float, list[list[int]]]:
        worth = score(fills, rated, bounds) * (_SECOND if len(fills) > 1 else 1.0)
        return round(worth, 6), [fill.chunk.tolist() for fill in fills]

    return min(found, key=rank)
