"""How many pods fit on each node as its placeholders leave one after the other, and the steps that are worth taking.

A node's curve is the number of pods let in by its first k placeholders. Its upper hull gives the steps: from one point
on it to the next, no other number of placeholders lets in more pods for each that leaves. All nodes are followed at
once, column by column; nothing here grows with pods x nodes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slack.cluster.snapshot import IntArray

FloatArray = npt.NDArray[np.float64]
_PLENTY = 1 << 30
"""Pods on a node: as many as nobody asks for."""


def fits(free: IntArray, vector: IntArray) -> IntArray:
    """[X] how many pods of `vector` [R] fit into each row of `free` [X, R]; a pod that requests nothing fits always."""
    asked = np.flatnonzero(vector > 0)
    found = np.full(len(free), _PLENTY, dtype=np.int64)
    for r in asked.tolist():
        np.minimum(found, free[:, r] // vector[r], out=found)
    return np.maximum(found, 0)


def share(free: IntArray, vector: IntArray) -> FloatArray:
    """[X] the same, not rounded down: how far each row is on its way to the next pod."""
    found = np.full(len(free), float(_PLENTY))
    for r in np.flatnonzero(vector > 0).tolist():
        np.minimum(found, free[:, r] / vector[r], out=found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The curves of all nodes, end to end: X rows, one a placeholder, sorted by node and in the order of leaving."""

    first: IntArray
    """[S] where each node's rows begin."""
    segment: IntArray
    """[X] which node's."""
    steps: IntArray
    """[X] how many placeholders have left with this one: 1, 2, ..."""
    gain: IntArray
    """[X] pods let in by then, never falling along a node."""


def curves(node: IntArray, requests: IntArray, rest: IntArray, slots: IntArray, vector: IntArray, most: int) -> Curves:
    """Follow the curves.

    Args:
        node: [X] of each placeholder, rising.
        requests: [X, R]
        rest: [X, R] what is free on its node now; there is no room for a pod in it.
        slots: [X] pods that may be added to its node now.
        vector: [R] of a pod.
        most: pods that a node may take; what is beyond does not count.
    """
    new = np.ones(len(node), dtype=bool)
    new[1:] = node[1:] != node[:-1]
    first = np.flatnonzero(new)
    segment = np.cumsum(new) - 1
    steps = np.arange(len(node)) - first[segment] + 1
    total = np.cumsum(requests, axis=0)
    before = total[first] - requests[first]
    gone = total - before[segment]
    gain = np.minimum(fits(rest + gone, vector), np.maximum(slots + steps, 0))
    return Curves(first, segment, steps, np.minimum(gain, most))


@dataclass(frozen=True, slots=True, eq=False)
class HullSteps:
    """Points of the hulls, in the order of their rows."""

    row: IntArray
    """[H] of the curves: with this placeholder the step is done."""
    pods: IntArray
    """[H] let in by the step."""
    rate: FloatArray
    """[H] pods for each placeholder of the stretch of the hull on which it lies; it falls along a node."""


def hulls(own: Curves) -> HullSteps:
    """Return the steps worth taking of every node, from none of its placeholders to all that help."""
    size = len(own.segment)
    at_steps = np.zeros(len(own.first), dtype=np.int64)
    at_gain = np.zeros(len(own.first), dtype=np.int64)
    rate = np.zeros(size)
    while size:
        ahead = own.steps - at_steps[own.segment]
        slope = np.where(ahead > 0, (own.gain - at_gain[own.segment]) / np.maximum(ahead, 1), 0.0)
        best = np.maximum.reduceat(slope, own.first)
        on_hull = (slope == best[own.segment]) & (slope > 0)
        if not on_hull.any():
            break
        rate[on_hull] = slope[on_hull]
        rows = np.flatnonzero(on_hull)
        last = np.full(len(own.first), -1, dtype=np.int64)
        last[own.segment[rows]] = rows  # rows rise, so the last one of each node stays
        moved = np.flatnonzero(last >= 0)
        at_steps[moved] = own.steps[last[moved]]
        at_gain[moved] = own.gain[last[moved]]
    row = np.flatnonzero(rate > 0)
    pods = own.gain[row].copy()
    same = own.segment[row[1:]] == own.segment[row[:-1]]
    pods[1:] -= np.where(same, own.gain[row[:-1]], 0)
    return HullSteps(row, pods, rate[row])
