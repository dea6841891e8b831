"""Which of its pods a ReplicaSet's controller takes away when it is told to have fewer.

Whoever lowers a ReplicaSet and deletes pods of his own choice races with its controller, which deletes as many of its
own choice if it sees the new number before it sees the deletions. If both choose the same pods, these go once. So the
choice follows the controller's order wherever that costs nothing.

The order is that of controller_utils.go ActivePodsWithRanks (kube-controller-manager 1.36): not ready before ready, the
lower pod-deletion-cost, more pods of the same owner on the node, ready for a shorter time (in powers of two), the lower
uid. What a pause container never does, to be started again, is left out; so is the time of creation, by which pods go
that got ready in the same second.
"""

import numpy as np

from slack.cluster.room_copy import PlaceholderColumns
from slack.cluster.snapshot import IntArray
from slack.cluster.tables.placeholder_table import UID_BITS

_COST_BITS, _SIBLING_BITS, _AGE_BITS = 12, 10, 6
_COST_LIMIT = (1 << (_COST_BITS - 1)) - 1
_SIBLING_LIMIT = (1 << _SIBLING_BITS) - 1
_NANOSECONDS = 1e9


def scale_down_turns(own: PlaceholderColumns, place: IntArray, now: float) -> IntArray:
    """[P] numbers of which, among the pods of one ReplicaSet, the lowest is the first to go.

    Args:
        own: placeholders; the ReplicaSets of one policy have one owner, so all of its pods on a node count together.
        place: [P] a number for the node on which each is, -1 for those that do not count.
        now: Unix time.
    """
    if not len(place):
        return np.zeros(0, dtype=np.int64)
    ready = ~np.isnan(own.ready_seconds)
    cost = np.clip(own.cost, -_COST_LIMIT, _COST_LIMIT) + _COST_LIMIT
    cell = own.policy.astype(np.int64) * (int(place.max()) + 1) + place
    counted = np.flatnonzero(place >= 0)
    siblings = np.zeros(len(place), dtype=np.int64)
    siblings[counted] = np.bincount(cell[counted])[cell[counted]]
    age = np.maximum(now - np.where(ready, own.ready_seconds, now), 0.0) * _NANOSECONDS
    bucket = np.log2(np.maximum(age, 1.0)).astype(np.int64)
    turn = ready.astype(np.int64)
    turn = (turn << _COST_BITS) + cost
    turn = (turn << _SIBLING_BITS) + (_SIBLING_LIMIT - np.minimum(siblings, _SIBLING_LIMIT))
    turn = (turn << _AGE_BITS) + np.minimum(bucket, (1 << _AGE_BITS) - 1)
    found: IntArray = (turn << UID_BITS) + own.uid_order
    return found
