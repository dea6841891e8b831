"""Standard placeholders for what the cover leaves of the extra capacity.

Fewer, larger chunks beat many small ones: a real pod then displaces one of them, and each takes a pod slot and an IP.
But a chunk must not be larger than some real pod (S6), nor than an average node / granularity, nor pin its node:
placeholders count in full in the autoscaler's utilisation, so they stay under 45 % of the smallest eligible node.
Version 2's printed split gives chunks of 60m where the biggest pods take most of the extra capacity, and a negative
remainder where they take more than all of it: nothing is filled then, and a chunk that makes room for no real pod is
not made.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.planner.capacity import RATED, dominant_share
from slack.planner.vectors import any_of, holds, within

PIN_PERCENT = 45
"""Under the autoscaler's default utilisation threshold of 50 %, with room for DaemonSets."""
_UNIT = {CPU: 10, MEMORY: 1 << 20}
"""Chunks are rounded to 10m and 1Mi, so that they read well and move less."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What limits a chunk in one domain."""

    chunk: IntArray
    """[R] average node / granularity, and 45 % of the smallest node."""
    largest: IntArray
    """[F, R] real pods that no other exceeds; no rows where there are no pods, then S6 limits nothing."""
    pods: IntArray
    """[I, R] distinct requests of real pods; a chunk must make room for one of them."""
    average: IntArray
    """[R] average node, the measure of cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """`count` placeholders of `chunk`."""

    chunk: IntArray
    count: int


def make_bounds(allocatable: IntArray, average: IntArray, pods: IntArray, granularity: int) -> Bounds:
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
    return Bounds(
        # Rounded up: by one byte less, what is a node's would take one chunk more than the granularity.
        chunk=np.minimum(-(-average // granularity), allocatable.min(axis=0) * PIN_PERCENT // 100),
        largest=pods[~any_of(exceeded, axis=1)],
        pods=pods,
        average=average,
    )


def count_for(remaining: IntArray, chunk: IntArray) -> int:
    """Return how many chunks hold at least `remaining` in every resource.

    Raises:
        ValueError: when the chunk has none of a resource that remains.
    """
    need = remaining > 0
    if (chunk[need] <= 0).any():
        raise ValueError("the chunk lacks a resource that remains")
    return int(np.max(-(-remaining[need] // chunk[need]), initial=0))


def useful(chunk: IntArray, bounds: Bounds) -> bool:
    """Tell whether the chunk makes room for some real pod and is not larger than all of them (S6)."""
    if not len(bounds.pods):
        return True
    return bool(within(bounds.pods, chunk).any() and within(chunk, bounds.largest).any())


def cost_of(fill: Fill, bounds: Bounds) -> float:
    """Return the dominant share of average nodes that the fill takes."""
    return fill.count * float(dominant_share(fill.chunk, bounds.average))


def _round_up(vector: IntArray) -> IntArray:
    rounded = vector.copy()
    for r, unit in _UNIT.items():
        if rounded[r] >= unit:
            rounded[r] = -(-rounded[r] // unit) * unit
    return rounded


def _split(remaining: IntArray, most: IntArray, limit: IntArray) -> IntArray | None:
    """Divide `remaining` into the fewest equal chunks of at most `most`; None where `most` lacks what remains.

    Chunks are rounded up, unless that takes them together over `limit`: a ceiling would cut a whole one off then.
    """
    need = remaining > 0
    if (most[need] <= 0).any():
        return None
    pieces = count_for(remaining, np.where(need, most, 1))
    even = -(-remaining // pieces)
    chunk: IntArray = np.minimum(_round_up(even), np.maximum(most, even))
    return np.where((chunk > limit // pieces) & need, np.maximum(np.minimum(even, limit // pieces), 1), chunk)


def _count_within(remaining: IntArray, chunk: IntArray, limit: IntArray) -> int:
    """Return how many chunks hold what remains, or as many as the limit allows when only crumbs are missing then."""
    count, takes = count_for(remaining, chunk), chunk > 0
    most = int(np.min(limit[takes] // chunk[takes]))
    return most if most < count and bool((remaining - most * chunk < max(most, 1)).all()) else count


def _candidates(remaining: IntArray, bounds: Bounds, limit: IntArray) -> list[IntArray]:
    if not len(bounds.pods):
        chunk = _split(remaining, bounds.chunk, limit)
        return [] if chunk is None else [chunk]
    order = np.argsort(dominant_share(bounds.pods, bounds.average), kind="stable")
    found = []
    for largest in bounds.largest:
        chunk = _split(remaining, np.minimum(largest, bounds.chunk), limit)
        if chunk is None:
            continue
        if not within(bounds.pods, chunk).any():
            # Too small for any pod: as large as the cheapest pod that this one is not smaller than.
            least = next(bounds.pods[i] for i in order if within(bounds.pods[i], largest))
            chunk = np.maximum(chunk, least)
        found.append(chunk)
    return found


def fill(remaining: IntArray, bounds: Bounds, limit: IntArray | None = None) -> Fill | None:
    """Choose the chunk that fills what remains of cpu and memory at the least cost, with the fewest placeholders.

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
    options = [Fill(chunk, _count_within(rated, chunk, most)) for chunk in _candidates(rated, bounds, most)]
    if not options:
        # No single pod has all that remains: repeat the real pod that brings it at the least cost.
        lacking = [pod for pod in bounds.pods if (pod[rated > 0] > 0).all()]
        options = [Fill(pod, count_for(rated, pod)) for pod in lacking]
    return min(options, key=lambda f: (round(cost_of(f, bounds), 6), f.count, f.chunk.tolist()), default=None)


def fill_further(remaining: IntArray, bounds: Bounds, resource: int) -> Fill:
    """Fill one further resource (a GPU, say) that a floor names, like the real pod that brings it at the least cost."""
    have = bounds.pods[bounds.pods[:, resource] > 0] if len(bounds.pods) else bounds.pods
    if len(have):
        per_unit = dominant_share(have, bounds.average) / have[:, resource]
        chunk: IntArray = have[int(np.argmin(per_unit))]
    else:
        chunk = np.zeros_like(remaining)
        chunk[resource] = max(1, min(int(bounds.chunk[resource]), int(remaining[resource])))
    return Fill(chunk, -(-int(remaining[resource]) // int(chunk[resource])))


def version_1(desired: IntArray, average: IntArray, granularity: int) -> Fill | None:
    """Version 1: chunks of an average node / granularity, whatever the pods.

    With base Allocatable this is ceil(node_cnt x granularity x rate) chunks; the printed node_cnt x granularity would
    be the whole cluster.
    """
    chunk = np.zeros_like(average)
    chunk[:RATED] = -(-average[:RATED] // granularity)
    rated = np.where(np.arange(len(desired)) < RATED, np.maximum(desired, 0), 0)
    if not rated.any() or not chunk[:RATED].all():
        return None
    return Fill(chunk, count_for(rated, chunk))


def standard_chunk(base: IntArray, bounds: Bounds) -> IntArray | None:
    """Return the chunk for a fixed number of placeholders: as large as the bounds allow, in the base's ratio."""
    ratio = np.where(np.arange(len(base)) < RATED, np.maximum(base, 0), 0)
    if not ratio[:RATED].all():
        ratio = np.where(np.arange(len(base)) < RATED, bounds.average, 0)
    # As much as a node: split into the fewest pieces, its chunk is as large as the bounds allow.
    scale = float(np.min(bounds.average[:RATED] / np.maximum(ratio[:RATED], 1)))
    whole = np.maximum((ratio * scale).astype(np.int64), (ratio > 0).astype(np.int64))
    found = fill(whole, bounds)
    return None if found is None else found.chunk
