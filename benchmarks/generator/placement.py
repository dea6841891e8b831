"""Where pods stand: greedy, vectorised over nodes, so that every pod fits and its constraints hold."""

import numpy as np

from benchmarks.generator.pools import ZONES, BoolArray, IntArray, NodeColumns
from benchmarks.generator.workloads import Kind, Spread, Workload, eligible

NO_NODE = -1


def demand(workload: Workload) -> IntArray:
    """Return what one pod takes of `NodeColumns.free`."""
    return np.array([workload.pod_cpu_millis, workload.pod_memory_mebibytes * 1024, 1, workload.gpus], dtype=np.int64)


def place(workload: Workload, nodes: NodeColumns, free: IntArray, rng: np.random.Generator, wanted: int) -> IntArray:
    """Take room for `wanted` pods from `free` and return their nodes; `NO_NODE` for those that found none."""
    mask = eligible(workload, nodes)
    room = _room(workload, free) * mask
    if workload.kind is Kind.DAEMON_SET or workload.spread is Spread.APART:
        room = np.minimum(room, 1)
    if workload.kind is Kind.DAEMON_SET:
        found = np.flatnonzero(room)[:wanted]
    elif workload.spread is Spread.ZONES:
        found = _place_by_zone(nodes, room, mask, rng, wanted)
    else:
        found = _scatter(room, rng, wanted)
    np.subtract.at(free, found, demand(workload))
    return np.concatenate([found, np.full(wanted - len(found), NO_NODE)]).astype(np.int64)


def _room(workload: Workload, free: IntArray) -> IntArray:
    asked = demand(workload)
    used = np.flatnonzero(asked)
    room: IntArray = (free[:, used] // asked[used]).min(axis=1)
    return np.maximum(room, 0)


def _scatter(room: IntArray, rng: np.random.Generator, wanted: int) -> IntArray:
    """Deal pods out to nodes at random, one to each of them before any has a second."""
    room, found = room.copy(), [np.empty(0, dtype=np.int64)]
    while wanted > 0:
        candidates = np.flatnonzero(room)
        if not len(candidates):
            break
        chosen = rng.permutation(candidates)[:wanted]
        room[chosen] -= 1
        wanted -= len(chosen)
        found.append(chosen)
    return np.concatenate(found)


def _place_by_zone(
    nodes: NodeColumns, room: IntArray, mask: BoolArray, rng: np.random.Generator, wanted: int
) -> IntArray:
    """Place so that no zone with an eligible node has two pods more than another."""
    zones = [zone for zone in range(len(ZONES)) if (mask & (nodes.zone == zone)).any()]
    if not zones:
        return np.empty(0, dtype=np.int64)
    parts = [
        _scatter(room * (nodes.zone == zone), rng, len(range(place, wanted, len(zones))))
        for place, zone in enumerate(zones)
    ]
    most = min(len(part) for part in parts) + 1
    return np.concatenate([part[:most] for part in parts])
