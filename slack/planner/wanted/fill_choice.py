"""Standard placeholders for what the cover leaves of the extra capacity.

Fewer, larger chunks beat many small ones: a real pod then displaces one of them, and each takes a pod slot and an IP.
So each placeholder has a price beside the room that it takes, and what overshoots by a quarter costs several times what
it takes: a thousandth of the room never decides for hundreds more.
But a chunk must not be larger than some real pod (S6), nor than an average node / granularity, nor pin its node:
placeholders count in full in the autoscaler's utilisation, so they stay under 45 % of the smallest eligible node.
Version 2's printed split gives chunks of 60m where the biggest pods take most of the extra capacity, and a negative
remainder where they take more than all of it: nothing is filled then, and a chunk that makes room for no real pod is
not made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.domain.capacity import RATED, dominant_share
from slack.planner.domain.empty_nodes import UNITS
from slack.planner.model.vectors import any_of, holds, is_within, within

PIN_PERCENT = 45
"""Under the autoscaler's default utilisation threshold of 50 %, with room for DaemonSets."""
_PRICE = 0.2
"""Of one more placeholder, in chunks of the largest size: a slot, an IP, one more victim where a larger pod comes."""
OVERSHOOT = 1.25
"""A fill takes less than a quarter more than is wanted, where one does that is not made of crumbs."""
_DEARER = 3.0
"""So many times what is beyond that."""
_PINNED = 0.25
"""A node that is kept costs a quarter of what keeps it."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkBounds:
    """What limits a chunk in one domain."""

    chunk: IntArray
    """[R] average node / granularity, and 45 % of the smallest node."""
    unpinned: IntArray
    """[R] 45 % of the smallest node: what is larger keeps its node."""
    largest: IntArray
    """[F, R] real pods that no other exceeds; no rows where there are no pods, then S6 limits nothing."""
    pods: IntArray
    """[I, R] distinct requests of real pods; a chunk must make room for one of them."""
    average: IntArray
    """[R] average node, the measure of cost."""


@dataclass(frozen=True, slots=True, eq=False)
class FillChoice:
    """`count` placeholders of `chunk`."""

    chunk: IntArray
    count: int


def make_bounds(allocatable: IntArray, average: IntArray, pods: IntArray, granularity: int) -> ChunkBounds:
    """Work out a domain's bounds.

    Args:
        allocatable: [M, R] of its eligible nodes (or templates), at least one row.
        average: [R] average node.
        pods: [I, R] distinct requests of the real pods there.
        granularity: chunks per average node.
    """
    pods = pods[pods.any(axis=1)]
    exceeded = holds(pods, pods).T
    np.fill_diagonal(exceeded, False)
    unpinned = allocatable.min(axis=0) * PIN_PERCENT // 100
    return ChunkBounds(
        # Rounded up: by one byte less, what is a node's would take one chunk more than the granularity.
        chunk=np.minimum(-(-average // granularity), unpinned),
        unpinned=unpinned,
        largest=pods[~any_of(exceeded, axis=1)],
        pods=pods,
        average=average,
    )


def count_for(remaining: IntArray, chunk: IntArray) -> int:
    """Return how many chunks hold at least `remaining` in every resource.

    Raises:
        ValueError: when the chunk has none of a resource that remains.
    """
    count = 0
    for left, each in zip(remaining.tolist(), chunk.tolist(), strict=True):  # as in `_shares`
        if left > 0:
            if each <= 0:
                raise ValueError("the chunk lacks a resource that remains")
            count = max(count, -(-left // each))
    return count


def useful(chunk: IntArray, bounds: ChunkBounds) -> bool:
    """Tell whether the chunk makes room for some real pod and is not larger than all of them (S6)."""
    if not len(bounds.pods):
        return True
    return bool(within(bounds.pods, chunk).any() and within(chunk, bounds.largest).any())


def shares(vector: IntArray, bounds: ChunkBounds) -> float:
    """Return what a vector takes of an average node, its shares of all resources added up; infinite for what none has.

    Both cpu and memory count: room of either that nobody asked for is overshoot.
    """
    return _shares(vector, bounds.average)


def _shares(vector: IntArray, node: IntArray) -> float:
    total = 0.0
    for amount, most in zip(vector.tolist(), node.tolist(), strict=True):  # few numbers: numpy takes ten times as long
        if amount > 0:
            total += float(amount) / float(most) if most else math.inf
    return total


def cost_of(fill: FillChoice, bounds: ChunkBounds) -> float:
    """Return what the fill takes of average nodes."""
    return fill.count * shares(fill.chunk, bounds)


def overshoots(cost: float, count: int, remaining: IntArray, bounds: ChunkBounds) -> float:
    """Return how much a fill takes beyond a quarter more than is wanted; one placeholder cannot be less."""
    return 0.0 if count <= 1 else max(cost - OVERSHOOT * shares(remaining, bounds), 0.0)


def score(fills: Sequence[FillChoice], remaining: IntArray, bounds: ChunkBounds) -> float:
    """Return what is to be as little as can be: room, number, overshoot, nodes that are pinned; in average nodes."""
    cost, count = sum(cost_of(fill, bounds) for fill in fills), sum(fill.count for fill in fills)
    pinned = sum(cost_of(fill, bounds) for fill in fills if not is_within(fill.chunk, bounds.unpinned))
    price = count * _PRICE * _shares(bounds.chunk[:RATED], bounds.average[:RATED])
    return round(cost + price + _PINNED * pinned + _DEARER * overshoots(cost, count, remaining, bounds), 6)


def rounded_up(vector: IntArray) -> IntArray:
    """Return a vector that reads well: 10m and 1Mi are its smallest steps."""
    rounded = vector.copy()
    for r, unit in UNITS.items():
        if rounded[r] >= unit:
            rounded[r] = -(-rounded[r] // unit) * unit
    return rounded


def _split(remaining: IntArray, most: IntArray, limit: IntArray) -> IntArray | None:
    """Divide `remaining` into the fewest equal chunks of at most `most`; None where `most` lacks what remains.

    Chunks are rounded up, but for two cases:
    1. Rounding adds more than one chunk to all of them together, as it does to many small ones.
    2. Rounded ones are together over `limit`: a ceiling would cut a whole one off then.
    """
    need = remaining > 0
    if (most[need] <= 0).any():
        return None
    pieces = count_for(remaining, np.where(need, most, 1))
    even = -(-remaining // pieces)
    chunk: IntArray = np.minimum(rounded_up(even), np.maximum(most, even))
    chunk = np.where(chunk - even > even // pieces, even, chunk)
    return np.where((chunk > limit // pieces) & need, np.maximum(np.minimum(even, limit // pieces), 1), chunk)


def _count_within(remaining: IntArray, chunk: IntArray, limit: IntArray) -> int:
    """Return how many chunks hold what remains, or as many as the limit allows when only crumbs are missing then."""
    count, takes = count_for(remaining, chunk), chunk > 0
    most = int(np.min(limit[takes] // chunk[takes]))
    return most if most < count and bool((remaining - most * chunk < max(most, 1)).all()) else count


def raised(chunk: IntArray, largest: IntArray, bounds: ChunkBounds) -> IntArray:
    """Return the chunk, made large enough for the cheapest pod that `largest` holds where it is too small for any."""
    if within(bounds.pods, chunk).any():
        return chunk
    held = bounds.pods[within(bounds.pods, largest)]
    least: IntArray = held[int(np.argmin(dominant_share(held, bounds.average)))]
    return np.maximum(chunk, least)


def _candidates(remaining: IntArray, bounds: ChunkBounds, limit: IntArray) -> list[IntArray]:
    if not len(bounds.pods):
        chunk = _split(remaining, bounds.chunk, limit)
        return [] if chunk is None else [chunk]
    found = []
    for largest in bounds.largest:
        chunk = _split(remaining, np.minimum(largest, bounds.chunk), limit)
        if chunk is not None:
            found.append(raised(chunk, largest, bounds))
    return found


def choose_fill(remaining: IntArray, bounds: ChunkBounds, limit: IntArray | None = None) -> FillChoice | None:
    """Choose the chunk that fills what remains of cpu and memory: few placeholders that take little more than that.

    Args:
        remaining: [R] desired extra capacity less cover and mirrors; entries of 0 or less need nothing.
        bounds: of the domain.
        limit: [R] what a ceiling leaves, None for no ceiling.

    Returns:
        None when nothing remains, or when no chunk within the bounds has what remains.
    """
    rated = np.zeros_like(remaining)
    rated[:RATED] = np.maximum(remaining[:RATED], 0)
    if not rated.any():
        return None
    most = np.full_like(remaining, np.iinfo(np.int64).max) if limit is None else np.maximum(limit, 0)
    options = [FillChoice(chunk, _count_within(rated, chunk, most)) for chunk in _candidates(rated, bounds, most)]
    if not options:
        # No single pod has all that remains: repeat the real pod that brings it at the least cost.
        lacking = [pod for pod in bounds.pods if (pod[rated > 0] > 0).all()]
        options = [FillChoice(pod, count_for(rated, pod)) for pod in lacking]

    return min(options, key=lambda f: (score((f,), rated, bounds), f.count, f.chunk.tolist()), default=None)


def fill_further(remaining: IntArray, bounds: ChunkBounds, resource: int) -> FillChoice:
    """Fill one further resource (a GPU, say) that a floor names, like the real pod that brings it at the least cost."""
    have = bounds.pods[bounds.pods[:, resource] > 0] if len(bounds.pods) else bounds.pods
    if len(have):
        per_unit = dominant_share(have, bounds.average) / have[:, resource]
        chunk: IntArray = have[int(np.argmin(per_unit))]
    else:
        chunk = np.zeros_like(remaining)
        chunk[resource] = max(1, min(int(bounds.chunk[resource]), int(remaining[resource])))
    return FillChoice(chunk, -(-int(remaining[resource]) // int(chunk[resource])))


def version_1(
    desired: IntArray, average: IntArray, granularity: int, limit: IntArray | None = None
) -> FillChoice | None:
    """Version 1: chunks of an average node / granularity, whatever the pods; smaller ones where a ceiling asks for it.

    With base Allocatable this is ceil(node_cnt x granularity x rate) chunks; the printed node_cnt x granularity would
    be the whole cluster.

    Args:
        desired: [R] extra capacity, no more than the limit.
        average: [R] average node.
        granularity: chunks per average node.
        limit: [R] what a ceiling leaves, None for no ceiling.
    """
    chunk = np.zeros_like(average)
    chunk[:RATED] = -(-average[:RATED] // granularity)
    rated = np.where(np.arange(len(desired)) < RATED, np.maximum(desired, 0), 0)
    if not rated.any() or not chunk[:RATED].all():
        return None
    count = count_for(rated, chunk)
    if limit is None or within(count * chunk, limit):
        return FillChoice(chunk, count)
    smaller = _split(rated, np.where(rated > 0, np.minimum(chunk, np.maximum(limit, 0)), 0), np.maximum(limit, 0))
    return None if smaller is None else FillChoice(smaller, _count_within(rated, smaller, np.maximum(limit, 0)))


def standard_chunk(base: IntArray, bounds: ChunkBounds) -> IntArray | None:
    """Return the chunk for a fixed number of placeholders: as large as the bounds allow, in the base's ratio."""
    ratio = np.where(np.arange(len(base)) < RATED, np.maximum(base, 0), 0)
    if not ratio[:RATED].all():
        ratio = np.where(np.arange(len(base)) < RATED, bounds.average, 0)
    # As much as a node: split into the fewest pieces, its chunk is as large as the bounds allow.
    scale = float(np.min(bounds.average[:RATED] / np.maximum(ratio[:RATED], 1)))
    whole = np.maximum((ratio * scale).astype(np.int64), (ratio > 0).astype(np.int64))
    found = choose_fill(whole, bounds)
    return None if found is None else found.chunk
