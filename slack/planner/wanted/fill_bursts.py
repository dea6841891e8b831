"""Chunks for bursts: where pods come in numbers, a standard placeholder makes room for several whole ones of them.

One placeholder that lets in four pods is one write in place of four, whoever makes way for a burst. So of the fills
that take little more than the cheapest, the one is chosen that lets in most of the pods for what it takes; its chunks
hold a whole number of such pods, and nothing is left over in each. The bounds are those of every chunk: node /
granularity, the pin limit, and the largest pod (S6); where they leave no room for two pods nothing changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.domain.capacity import RATED
from slack.planner.model.vectors import distinct, is_within
from slack.planner.wanted.fill_choice import (
    OVERSHOOT,
    ChunkBounds,
    FillChoice,
    count_for,
    rounded_up,
    score,
    shares,
    useful,
)
from slack.planner.wanted.fill_pair import Fills, choose_fills, count_of, pair_for

_MOST_BURSTS = 4
"""Sizes of pods that are looked at, those whose bursts take the most room."""
_DIGITS = 6
"""To which sizes are compared."""
_WORTH = 1.1
"""So much more a fill must let in for what it takes: sizes move with every pod, and a hair must not change them."""


@dataclass(frozen=True, slots=True, eq=False)
class Burst:
    """Pods of one size that came together."""

    pod: IntArray
    """[R]"""
    together: int
    """2, 4 or 8; 8 stands for more, too."""


def bursts_of(requests: IntArray, together: IntArray, average: IntArray) -> tuple[Burst, ...]:
    """Return the bursts that chunks are made for, that of the most room first.

    Args:
        requests: [K, R] of the kinds of pods that the domain keeps room for.
        together: [K] as in `PodKinds`.
        average: [R] average node.
    """
    # Standard placeholders have cpu and memory only.
    rows = np.flatnonzero((together > 1) & ~requests[:, RATED:].any(axis=1))
    if not len(rows):
        return ()
    pods, which = distinct(requests[rows])
    most = np.zeros(len(pods), dtype=np.int64)
    np.maximum.at(most, which, together[rows])
    # As `_size` says; written out, as it is for each size of pods.
    sizes = most * (pods[:, :RATED] / np.maximum(average[:RATED], 1)).sum(axis=1)
    # Nearly all are too small by far; the others are compared as people would write them, and ties go to the first.
    least = np.sort(sizes)[-_MOST_BURSTS:][0] - 10.0 ** (1 - _DIGITS)
    near = np.flatnonzero(sizes >= least).tolist()
    found = sorted(near, key=lambda row: (-round(float(sizes[row]), _DIGITS), row))
    return tuple(Burst(pods[row], int(most[row])) for row in found[:_MOST_BURSTS])


def pods_in(chunk: IntArray, pod: IntArray) -> int:
    """Return how many pods a placeholder makes room for by itself."""
    pairs: Iterable[tuple[int, int]] = zip(chunk.tolist(), pod.tolist(), strict=True)
    return min(each // asked for each, asked in pairs if asked > 0)


def fills_for(remaining: IntArray, bounds: ChunkBounds, limit: IntArray, bursts: Sequence[Burst]) -> Fills:
    """Choose what fills the remaining room, as `choose_fills`, with chunks for bursts where they are worth it.

    Args:
        remaining: [R] desired extra capacity less cover and mirrors; entries of 0 or less need nothing.
        bounds: of the domain.
        limit: [R] what a ceiling leaves.
        bursts: which pods came together lately.
    """
    plain = choose_fills(remaining, bounds, limit)
    if not plain or not bursts:
        return plain
    rated = np.where(np.arange(len(remaining)) < RATED, np.maximum(remaining, 0), 0)
    dearest = OVERSHOOT * score(plain, rated, bounds)
    most = np.maximum((OVERSHOOT * rated).astype(np.int64), _room(plain))
    options = [
        (fills, cost)
        for chunk in _chunks(rated, bounds, bursts)
        for fills in _fills(chunk, rated, plain, bounds, limit)
        if count_of(fills) <= OVERSHOOT * count_of(plain)
        and is_within(_room(fills), most)
        and (cost := score(fills, rated, bounds)) <= dearest
    ]
    if not options:
        return plain
    weights = [(burst, shares(burst.pod, bounds) * _size(burst, bounds.average)) for burst in bursts]

    def worth(fills: Fills, cost: float) -> float:
        return round(sum(_let_in(fills, burst) * w for burst, w in weights) / cost, 6)

    worths = [worth(fills, cost) for fills, cost in options]
    most_worth = max(worths)
    # A long way of telling options apart, for those that are equally good only.
    equal = [fills for (fills, _), own in zip(options, worths, strict=True) if own == most_worth]
    best = max(equal, key=lambda f: (-len(f), [(-fill.chunk).tolist() for fill in f]))
    return best if most_worth >= _WORTH * worth(plain, score(plain, rated, bounds)) else plain


def outgrown(vector: IntArray, chunks: Sequence[IntArray], bursts: Sequence[Burst]) -> bool:
    """Tell whether placeholders of this size let in no more than half of what today's do.

    That is judged by the burst of the most room of which today's let in several pods.

    Args:
        vector: [R]
        chunks: those that would be chosen today.
        bursts: which pods came together lately.
    """
    for burst in bursts if chunks else ():
        number = min(max(pods_in(chunk, burst.pod) for chunk in chunks), burst.together)
        if number > 1:
            return 2 * pods_in(vector, burst.pod) <= number
    return False


def _size(burst: Burst, average: IntArray) -> float:
    """Return what a burst takes of average nodes."""
    return burst.together * float((burst.pod[:RATED] / np.maximum(average[:RATED], 1)).sum())


def _room(fills: Fills) -> IntArray:
    total: IntArray = sum((fill.count * fill.chunk for fill in fills[1:]), fills[0].count * fills[0].chunk)
    return total


def _let_in(fills: Fills, burst: Burst) -> int:
    return sum(fill.count * pods_in(fill.chunk, burst.pod) for fill in fills)


def _chunks(rated: IntArray, bounds: ChunkBounds, bursts: Sequence[Burst]) -> list[IntArray]:
    """Return chunks of whole pods: of nothing else, and in the ratio of what remains."""
    found: dict[tuple[int, ...], IntArray] = {}
    for burst in bursts:
        for number in range(2, burst.together + 1):
            whole = number * burst.pod
            if not is_within(whole, bounds.chunk):
                break
            asked = whole > 0
            options = [whole]
            if (rated[asked] > 0).all():
                scale = float(np.max(whole[asked] / rated[asked]))
                options.append(np.maximum(rounded_up((rated * scale).astype(np.int64)), whole))
            for chunk in options:
                if is_within(chunk, bounds.chunk) and useful(chunk, bounds):
                    found[tuple(chunk.tolist())] = chunk
    return list(found.values())


def _fills(chunk: IntArray, rated: IntArray, plain: Fills, bounds: ChunkBounds, limit: IntArray) -> list[Fills]:
    """Return fills with chunks of this size: of nothing else, and beside those that would be chosen without bursts."""
    found: list[Fills] = []
    if (chunk[rated > 0] > 0).all():
        count = count_for(rated, chunk)
        if is_within(count * chunk, limit):
            found.append((FillChoice(chunk, count),))
    for fill in plain:
        if (fill.chunk != chunk).any():
            pair = pair_for(rated, (chunk, fill.chunk), limit, bounds)
            if pair is not None:
                found.append(pair)
    return found
