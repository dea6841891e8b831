"""As few placeholders of one node as hold what the node lacks: chosen one by one, never by trying all subsets."""

from collections.abc import Callable, Sequence

import numpy as np

from slack.cluster.snapshot import IntArray


def as_few_as_suffice(
    requests: IntArray, lacks: IntArray, order: Sequence[int], help_of: Callable[[int, IntArray], float]
) -> list[int]:
    """Choose placeholders until they hold what is lacking, or none of the others helps.

    Each step takes one:

    1. The first in `order` that holds all that is still lacking.
    2. If there is none, the one that helps most; among equals the first in `order`.

    Args:
        requests: [X, R] of the placeholders.
        lacks: [R] what the node lacks; nothing of a resource where it is 0 or less.
        order: rows that may leave, the first to leave first.
        help_of: how much a row helps with what is still lacking ([R]); 0 if it does not.
    """
    left, rest, chosen = np.maximum(lacks, 0), list(order), list[int]()
    while rest and (left > 0).any():
        best = next((row for row in rest if (requests[row] >= left).all()), None)
        if best is None:
            helps = [help_of(row, left) for row in rest]
            most = int(np.argmax(helps))
            if helps[most] <= 0:
                break
            best = rest[most]
        chosen.append(best)
        rest.remove(best)
        left = np.maximum(left - requests[best], 0)
    return chosen


def without_spare(requests: IntArray, lacks: IntArray, chosen: Sequence[int], cost: IntArray) -> list[int]:
    """Return the chosen rows less those that the others suffice without, the dearest first.

    Args:
        requests: [X, R] of the placeholders.
        lacks: [R] what the node lacks.
        chosen: rows that hold it together.
        cost: [X]
    """
    kept = list(chosen)
    for row in sorted(kept, key=lambda row: -int(cost[row])):
        others = [other for other in kept if other != row]
        if np.all(requests[others].sum(axis=0) >= lacks):
            kept = others
    return kept
