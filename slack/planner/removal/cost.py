"""What it costs that a placeholder leaves: the capacity that it holds, as a number (`ordering.Criterion.COST`)."""

import numpy as np

from slack.cluster.snapshot import IntArray

_MILLION = 1_000_000


def removal_costs(requests: IntArray, largest: IntArray) -> IntArray:
    """[X] what each placeholder takes of the largest node, in millionths, all resources together.

    Placeholders of all nodes are compared by it. On one overcommitted node they are compared by their dominant share of
    that node (`victims.pushed_out`): there it matters which resource is short, and not what they hold together.

    Args:
        requests: [X, R] of the placeholders.
        largest: [R] the most of each resource that a node has; a resource that none has costs nothing.
    """
    found = np.zeros(len(requests), dtype=np.int64)
    for r in np.flatnonzero(largest > 0).tolist():
        found += np.rint(requests[:, r] / largest[r] * _MILLION).astype(np.int64)
    return found
