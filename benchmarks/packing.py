"""How long it takes to see where unbound placeholders fit, at 5,000 nodes and 150,000 pods.

Usage:
    python -m benchmarks.packing                       # 200, 1,000 and 5,000 placeholders in 8 and 64 sizes
    python -m benchmarks.packing --profile             # the last of these, and where its time goes

Each snapshot packs all of them anew. After a change is, as in `benchmarks.planning`, one pod's event, a snapshot and a
plan of four policies, CPU time. Half of the sizes belong to one pool of nodes, and one in eight is a mirror that avoids
nodes with pods of its workload and with another mirror. Some fit nowhere. Exit code 1 if a change takes too long.
"""

import cProfile
import sys
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import msgspec

from benchmarks.decoding import top_lines
from benchmarks.generator import NOW, Size, scaled
from benchmarks.planning import CHANGES, Remembering, cpu_seconds, filled, made_again, policies
from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.columns import ClusterColumns
from slack.cluster.labels import (
    ANNOTATION_RESERVED_FOR,
    HOSTNAME,
    LABEL_HOLD,
    LABEL_PLACEHOLDER,
    LABEL_POLICY,
    LABEL_SHAPE,
    UNBOUND,
)
from slack.cluster.snapshot import Snapshot
from slack.cluster.wire import Pod
from slack.planner.model.plan_cache import PlanCache

PLACEHOLDERS, SIZES = (200, 1_000, 5_000), (8, 64)
WANTED_MS = 20.0
MIRROR_EVERY = 8
POOLS = ("general", "memory")


def unbound_placeholder(number: int, size: int, workload: str) -> Pod:
    """Return an unbound placeholder of one of the sizes.

    Args:
        number: of the pod.
        size: number of its size, which decides its requests, its pool, and whether it is a mirror.
        workload: that mirrors reserve capacity for, as in `reserved-for`.
    """
    pool = POOLS[size // 2 % len(POOLS)]
    mirror = size % MIRROR_EVERY == MIRROR_EVERY - 1
    cpu = f"{100 + 250 * (size % 16)}m"
    metadata: dict[str, Any] = {
        "name": f"slack-{pool}-{size}-{number}",
        "namespace": "resource-slack",
        "uid": f"unbound-{number}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            LABEL_PLACEHOLDER: "true",
            LABEL_POLICY: pool,
            LABEL_SHAPE: f"s{size:05d}",
            LABEL_HOLD: UNBOUND,
        },
        "ownerReferences": [{"kind": "ReplicaSet", "name": f"slack-{pool}-{size}", "uid": "own", "controller": True}],
    }
    spec: dict[str, Any] = {
        "schedulerName": "resource-slack.io/unbound",
        "containers": [
            {"name": "placeholder", "resources": {"requests": {"cpu": cpu, "memory": f"{1 + size // 8}Gi"}}}
        ],
    }
    if size % 2:
        spec["nodeSelector"] = {"pool": pool}
    if mirror:
        metadata["annotations"] = {ANNOTATION_RESERVED_FOR: workload}
        term = {"labelSelector": {"matchLabels": {"app": "api"}}, "topologyKey": HOSTNAME}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    document = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [told]}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def measure(columns: ClusterColumns, some: Sequence[Pod], count: int, sizes: int, profile: cProfile.Profile) -> Row:
    """Measure with so many placeholders in so many sizes; they are removed again."""
    say(f"packing: {count} placeholders in {sizes} sizes")
    planner = Remembering(policies(), PlanCache())
    workload = str(columns.snapshot(NOW).kinds.workloads[0])
    placeholders = [unbound_placeholder(number, number % sizes, workload) for number in range(count)]
    columns.apply_pods([("ADDED", pod) for pod in placeholders])

    def change(event: str, pod: Pod) -> None:
        columns.apply_pods([(event, pod)])
        planner.plan(columns.snapshot(NOW))

    def snapshot() -> Snapshot:
        return columns.snapshot(NOW)

    for _ in range(3):
        planner.plan(columns.snapshot(NOW))
    fitting = sum(placeholder.node >= 0 for placeholder in columns.snapshot(NOW).placeholders)
    with profile:
        changes = [cpu_seconds(partial(change, "DELETED", pod)) for pod in some[:CHANGES]]
        changes += [cpu_seconds(partial(change, "ADDED", made_again(pod))) for pod in some[:CHANGES]]
    snapshots = median(cpu_seconds(snapshot) for _ in range(CHANGES))
    columns.apply_pods([("DELETED", pod) for pod in placeholders])
    return {
        "placeholders": count,
        "sizes": sizes,
        "fit": fitting,
        "its snapshot ms": snapshots * 1e3,
        "after a change ms": median(changes) * 1e3,
        "wanted ms": WANTED_MS,
        "": "ok" if median(changes) * 1e3 <= WANTED_MS else "missed",
    }


class _Unwatched(cProfile.Profile):
    """Profiles nothing."""

    def __enter__(self) -> "_Unwatched":
        return self

    def __exit__(self, *_: object) -> None:
        return


def report(size: Size, asked: Sequence[tuple[int, int]], profile: cProfile.Profile | None = None) -> Report:
    """Measure each number of placeholders and sizes, and none first."""
    say(f"packing: reading {size.pods} pods")
    columns, some = filled(size)
    columns.require_labels(key for policy in policies() for key in policy.spec.node_selector)
    found = Report(f"unbound placeholders among {size.pods} pods on {size.nodes} nodes, CPU time")
    used: list[Pod] = list(some)
    for count, sizes in asked:
        taken, used = used[:CHANGES], used[CHANGES:]
        found.rows.append(measure(columns, taken, count, sizes, profile or _Unwatched()))
    if profile is not None:
        found.notes += ["", *top_lines(profile)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each number of placeholders and sizes; return 1 if a change takes too long."""
    options = parser("How long it takes to see where unbound placeholders fit.")
    options.add_argument("--share", type=float, default=1.0, help="of 5,000 nodes and 150,000 pods")
    options.add_argument("--profile", action="store_true", help="the most placeholders alone, and where its time goes")
    given = options.parse_args(arguments)
    asked = [(0, 1), *((count, sizes) for count in PLACEHOLDERS for sizes in SIZES)]
    found = report(
        scaled(given.share), asked[-1:] if given.profile else asked, cProfile.Profile() if given.profile else None
    )
    show([found], given.output)
    return 0 if all(row[""] == "ok" for row in found.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
