"""Which placeholders leave for a burst of 500 pods: the choice, its parts, and a scan as the scheduler does it.

Usage:
    python -m benchmarks.burst_eviction                     # 5,000 nodes, 5,000 and 20,000 placeholders

CPU time of this process, the median of some runs. *Copy* is what holds the view's lock, *room* and *choice* run beside
it. The scan looks for each pod at a tenth of the nodes, as DefaultPreemption does, takes everything of lower priority
away there, puts back what may stay, and takes the node with the fewest victims; it is in Python like the choice, and
measured on a few pods.
"""

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeVar

import msgspec
import numpy as np

from benchmarks.report import Report, Value, parser, say, show
from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.columns import ClusterColumns
from slack.cluster.labels import LABEL_PLACEHOLDER, LABEL_POLICY, LABEL_SHAPE
from slack.planner.burst_eviction.burst import PodBurst
from slack.planner.burst_eviction.capacity import ClusterCapacity
from slack.planner.burst_eviction.capacity_builder import ClusterCapacityBuilder
from slack.planner.burst_eviction.choice import choose_evictions

NODES, BURST, FULL = 5_000, 500, 16
RUNS, SCANNED = 7, 4
NAMESPACE, POLICY, PRIORITY, NOW = "resource-slack", "default", -10, 1_795_298_000.0
SHARE = 0.1
"""DefaultPreemptionArgs.minCandidateNodesPercentage."""
TARGET_MS = 20.0
T = TypeVar("T")


def _node(number: int) -> wire.Node:
    document: dict[str, Any] = {
        "metadata": {"name": f"n{number:05d}", "uid": f"n{number}", "labels": {"pool": "web" if number % 4 else "db"}},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(document, wire.Node)


def _pod(number: int, node: int, *, placeholder: bool) -> wire.Pod:
    labels = {LABEL_PLACEHOLDER: "true", LABEL_POLICY: POLICY, LABEL_SHAPE: "a"} if placeholder else {}
    document = {
        "metadata": {
            "name": f"{'p' if placeholder else 'r'}{number}",
            "namespace": NAMESPACE if placeholder else "shop",
            "uid": f"{number * 2_654_435_761 % 2**32:08x}{'p' if placeholder else 'r'}",
            "labels": labels,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "own", "uid": "own", "controller": True}],
        },
        "spec": {
            "nodeName": f"n{node:05d}",
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)


def cluster(placeholders: int) -> ClusterColumns:
    """Return nodes that are filled with real pods and placeholders, and have no room for another pod."""
    columns = ClusterColumns(NAMESPACE)
    columns.apply_nodes(("ADDED", _node(number)) for number in range(NODES))
    for number in range(NODES * FULL - placeholders):
        columns.apply_pod("ADDED", _pod(number, number % NODES, placeholder=False))
    for number in range(placeholders):
        columns.apply_pod("ADDED", _pod(number, number % NODES, placeholder=True))
    return columns


def scan(room: ClusterCapacity, burst: PodBurst, pods: int) -> int:
    """Preempt for some pods, one after the other, as the scheduler does; return how many placeholders went."""
    standing, free = room.standing, room.free.tolist()
    asked = [dict(burst.requests).get(name, 0) for name in room.resources]
    on_node: dict[int, list[int]] = {}
    for row, node in enumerate(standing.node.tolist()):
        on_node.setdefault(node, []).append(row)
    requests = standing.requests.tolist()
    gone = 0
    for pod in range(pods):
        best: tuple[int, int, list[int]] | None = None
        looked = 0
        for step in range(len(free)):
            node = (step + pod) % len(free)
            victims = _victims(asked, free[node], on_node.get(node, ()), requests)
            if victims is None:
                continue
            looked += 1
            if best is None or len(victims) < best[0]:
                best = (len(victims), node, victims)
            if looked >= SHARE * len(free):
                break
        if best is not None:
            _, node, victims = best
            for row in victims:
                on_node[node].remove(row)
                free[node] = [amount + more for amount, more in zip(free[node], requests[row], strict=True)]
            free[node] = [amount - less for amount, less in zip(free[node], asked, strict=True)]
            gone += len(victims)
    return gone


def _victims(asked: list[int], free: list[int], rows: Sequence[int], requests: list[list[int]]) -> list[int] | None:
    left = [amount - less for amount, less in zip(free, asked, strict=True)]
    for row in rows:
        left = [amount + more for amount, more in zip(left, requests[row], strict=True)]
    if not rows or min(left) < 0:
        return None
    victims = []
    for row in rows:
        stays = [amount - less for amount, less in zip(left, requests[row], strict=True)]
        if min(stays) >= 0:
            left = stays
        else:
            victims.append(row)
    return victims


def milliseconds(action: Callable[[], T], runs: int = RUNS) -> tuple[float, T]:
    """Return the CPU time of an action, the median of some runs, and what it gives."""
    taken = []
    for _ in range(runs):
        began = time.process_time()
        found = action()
        taken.append((time.process_time() - began) * 1000)
    return median(taken), found


def measure(placeholders: int) -> dict[str, Value]:
    """Measure one size.

    Raises:
        RuntimeError: the choice has let in fewer pods than there are placeholders for.
    """
    say(f"{placeholders} placeholders: filling the columns")
    columns, builder = cluster(placeholders), ClusterCapacityBuilder()
    burst = PodBurst("shop/deploy/api", (("cpu", 500), ("memory", 1 << 30)), Constraints(), BURST, 0)
    room = builder.room(columns.room_copy(), [burst.constraints], {POLICY: PRIORITY}, NOW)
    say(f"{placeholders} placeholders: measuring")
    copy_ms, copy = milliseconds(columns.room_copy)
    room_ms, room = milliseconds(lambda: builder.room(copy, [burst.constraints], {POLICY: PRIORITY}, NOW))
    choice_ms, choice = milliseconds(lambda: choose_evictions(room, [burst]))
    scan_ms, gone = milliseconds(lambda: scan(room, burst, SCANNED), 1)
    if len(choice.leaving) != BURST or choice.served[0].let_in != BURST or gone != SCANNED:
        raise RuntimeError(f"{len(choice.leaving)} placeholders leave for {BURST} pods, {gone} for {SCANNED}")
    assert np.unique(np.array(choice.leaving)).size == BURST
    whole = copy_ms + room_ms + choice_ms
    return {
        "placeholders": placeholders,
        "copy ms": round(copy_ms, 1),
        "room ms": round(room_ms, 1),
        "choice ms": round(choice_ms, 1),
        "together ms": round(whole, 1),
        "scan ms": round(scan_ms / SCANNED * BURST),
        "scan to choice x": scan_ms / SCANNED * BURST / choice_ms,
    }


def main(arguments: Sequence[str] = ()) -> None:
    """Measure both sizes."""
    chosen = parser(__doc__ or "").parse_args(arguments)
    report = Report(f"a burst of {BURST} pods into placeholders on {NODES} nodes, CPU time")
    report.rows.extend(measure(placeholders) for placeholders in (5_000, 20_000))
    report.notes.append(f"(wanted: {TARGET_MS:.0f} ms together at 5,000 placeholders)")
    show([report], chosen.output)


if __name__ == "__main__":
    main(sys.argv[1:])
