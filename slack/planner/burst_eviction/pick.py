"""For equal pods that lack room: how many of each node's placeholders leave.

Each node offers the steps of its hull (`curves`). Those of the best rate are taken first, of these those on nodes that
nobody wants to delete, then the cheapest, then in the turn in which ReplicaSet controllers would take placeholders
away. The last step is the one with the fewest placeholders that lets in the pods that are left, wherever it is.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.burst_eviction.curves import Curves, HullSteps, curves, hulls, share
from slack.planner.removal.ordering import Criterion, order_of_leaving

_NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class EvictablePlaceholders:
    """Those that may leave; X rows."""

    node: IntArray
    """[X] row of `Places`."""
    requests: IntArray
    """[X, R]"""
    priority: IntArray
    cost: IntArray
    turn: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Nodes where the pods may go; D rows."""

    rest: IntArray
    """[D, R] what is free."""
    slots: IntArray
    """[D] pods that may be added."""
    candidate: BoolArray
    """[D] an autoscaler would like to delete it."""


def pick(
    placeholders: EvictablePlaceholders, places: Places, vector: IntArray, lacking: int, most: int
) -> tuple[IntArray, IntArray]:
    """Pick those that leave.

    Args:
        placeholders: who may leave.
        places: where.
        vector: [R] of a pod.
        lacking: how many pods lack room.
        most: how many of them one node may take.

    Returns:
        rows of `placeholders` in the order in which they leave, and [D] how many pods come.
    """
    pods = np.zeros(len(places.rest), dtype=np.int64)
    order = _order_of_leaving(placeholders, places, vector, most)
    node = placeholders.node[order]
    if not len(order):
        return _NONE, pods
    own = curves(node, placeholders.requests[order], places.rest[node], places.slots[node], vector, most)
    steps = hulls(own)
    if not len(steps.row):
        return _NONE, pods
    taken = _sorted_steps(own, steps, placeholders.cost[order], placeholders.turn[order], places.candidate[node])
    reached = np.zeros(len(own.first), dtype=np.int64)
    done = np.zeros(len(own.first), dtype=np.int64)
    total = np.cumsum(steps.pods[taken])
    whole = int(np.searchsorted(total, lacking, side="right"))
    left = lacking - (int(total[whole - 1]) if whole else 0)
    rows = np.sort(steps.row[taken[:whole]])  # along a node they rise: the last one counts
    reached[own.segment[rows]] = own.steps[rows]
    done[own.segment[rows]] = own.gain[rows]
    if left and whole < len(taken):
        row = _last_step(own, reached, done, left, placeholders.cost[order], placeholders.turn[order])
        reached[own.segment[row]] = own.steps[row]
        done[own.segment[row]] += left
    pods[node[own.first]] = done
    leaving = np.flatnonzero(own.steps <= reached[own.segment])
    return order[leaving[_by_step(own, steps, taken, leaving)]], pods


def _order_of_leaving(placeholders: EvictablePlaceholders, places: Places, vector: IntArray, most: int) -> IntArray:
    """Return the rows by node, and there in the order in which they leave.

    The criteria (`ordering.Criterion`) are PRIORITY, PODS_LET_IN, COST and TURN. Those that let in no pod alone come
    with the largest first: these are the fewest.
    """
    node = placeholders.node
    alone = share(places.rest[node] + placeholders.requests, vector)
    lets_in = np.clip(np.floor(alone), 0, most)
    return order_of_leaving(
        {
            Criterion.PRIORITY: placeholders.priority,
            Criterion.PODS_LET_IN: np.where(lets_in > 0, -lets_in, -alone),
            Criterion.COST: placeholders.cost,
            Criterion.TURN: placeholders.turn,
        },
        within=node,
    )


def _sorted_steps(own: Curves, steps: HullSteps, cost: IntArray, turn: IntArray, candidate: BoolArray) -> IntArray:
    """Return steps in the order in which they are taken: along a node as they come."""
    node = own.segment[steps.row]
    total = np.cumsum(cost)
    spent = total[steps.row] - total[own.first[node]] + cost[own.first[node]]
    spent[1:] -= np.where(node[1:] == node[:-1], spent[:-1], 0)
    place = np.empty(len(node), dtype=np.int64)
    place[np.lexsort((turn[steps.row], spent, candidate[steps.row], -steps.rate))] = np.arange(len(node))
    # A step does not come before those before it on its node.
    offset = node * len(node)
    place = np.maximum.accumulate(place + offset) - offset
    return np.lexsort((steps.row, place))


def _last_step(own: Curves, reached: IntArray, done: IntArray, left: int, cost: IntArray, turn: IntArray) -> int:
    """Return the row with which a node lets in the `left` pods that are missing: there is one."""
    enough = (own.steps > reached[own.segment]) & (own.gain - done[own.segment] >= left)
    rows = np.flatnonzero(enough)
    more = own.steps[rows] - reached[own.segment[rows]]
    total = np.cumsum(cost)
    before = np.where(reached > 0, total[own.first + np.maximum(reached, 1) - 1], total[own.first] - cost[own.first])
    spent = total[rows] - before[own.segment[rows]]
    return int(rows[np.lexsort((rows, turn[rows], spent, more))[0]])


def _by_step(own: Curves, steps: HullSteps, taken: IntArray, leaving: IntArray) -> IntArray:
    """Return the order of rows that leave: as the steps were taken, so that each node is done with before the next."""
    place = np.full(len(own.segment) + 1, len(taken), dtype=np.int64)
    place[steps.row[taken]] = np.arange(len(taken))
    # A row belongs to the next step of its node; behind the last one there is only what the last step took.
    ahead = np.append(steps.row, len(own.segment))[np.searchsorted(steps.row, leaving)]
    of_node = np.append(own.segment, -1)[ahead] == own.segment[leaving]
    return np.lexsort((leaving, place[np.where(of_node, ahead, len(own.segment))]))
