"""A plan against a straightforward loop over pods and nodes, at 1/25, 1/5 and the whole of R10's cluster."""

import json
import time
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

import msgspec

from benchmarks.generator import NOW, Json, Size, nodes, pods, scaled
from slack.cluster.columns import ClusterColumns
from slack.cluster.quantity import base_units, cpu_millis
from slack.cluster.wire import Node, Pod
from slack.planner.plan import plan
from slack.planner.policy import Cover, CoverMode, Policy, PolicySpec

SHARES = (1 / 25, 1 / 5, 1.0)
NAIVE_NODES, NAIVE_PODS = 200, 1000
"""For how many the loop is really run; its time is scaled up to all of them, for at full size it takes minutes."""


def filled(size: Size) -> ClusterColumns:
    """Return columns that have seen the generated cluster."""
    columns = ClusterColumns("resource-slack")
    columns.apply_nodes([("ADDED", msgspec.convert(node, Node)) for node in nodes(size)])
    decoder = msgspec.json.Decoder(Pod)
    batch: list[tuple[str, Pod]] = []
    for pod in pods(size):
        batch.append(("ADDED", decoder.decode(json.dumps(pod))))
        if len(batch) >= 1000:
            columns.apply_pods(batch)
            batch = []
    columns.apply_pods(batch)
    return columns


def naive(cluster_pods: Sequence[Json], cluster_nodes: Sequence[Json]) -> tuple[int, int]:
    """Sum requests and find the largest pod that fits some node, pod by pod and node by node, as R1 forbids."""
    total, largest = 0, 0
    for pod in cluster_pods:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        cpu, memory = cpu_millis(requests["cpu"]), base_units(requests["memory"])
        total += cpu
        selector = pod["spec"].get("nodeSelector") or {}
        for node in cluster_nodes:
            labels, room = node["metadata"]["labels"], node["status"]["allocatable"]
            if any(labels.get(key) != value for key, value in selector.items()):
                continue
            if cpu <= cpu_millis(room["cpu"]) and memory <= base_units(room["memory"]):
                largest = max(largest, cpu)
    return total, largest


def seconds(action: Callable[[], object], times: int) -> float:
    """Return the median time of an action."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return median(taken)


def policies() -> tuple[Policy, ...]:
    """Three policies that divide the cluster, all with the frontier cover."""
    return (
        Policy(name="default", spec=PolicySpec(cover=Cover(mode=CoverMode.FREQUENT))),
        Policy(name="memory", spec=PolicySpec(node_selector={"pool": "memory"})),
        Policy(name="general", spec=PolicySpec(node_selector={"pool": "general"})),
    )


def line(size: Size) -> str:
    """Measure one size and return its line of the table."""
    columns, chosen = filled(size), policies()
    columns.require_labels(key for policy in chosen for key in policy.spec.node_selector)
    snapshot = columns.snapshot(NOW)
    snapshot_seconds = seconds(lambda: columns.snapshot(NOW), 5)
    plan_seconds = seconds(lambda: plan(snapshot, chosen, now=NOW), 5)
    some_nodes = list(islice(nodes(size), NAIVE_NODES))
    some_pods = list(islice(pods(size), NAIVE_PODS))
    part = seconds(lambda: naive(some_pods, some_nodes), 1)
    loop_seconds = part * size.pods / len(some_pods) * size.nodes / len(some_nodes)
    return (
        f"{size.nodes:>6} {size.pods:>8} {len(snapshot.kinds):>6} {snapshot_seconds * 1e3:>12.1f} "
        f"{plan_seconds * 1e3:>9.1f} {loop_seconds * 1e3:>12.0f} {loop_seconds / plan_seconds:>8.0f}x"
    )


def main() -> None:
    """Print one line a size."""
    print("plan of three policies with the frontier cover, against a loop over pods x nodes")
    print(f"{'nodes':>6} {'pods':>8} {'kinds':>6} {'snapshot ms':>12} {'plan ms':>9} {'loop ms':>12} {'ratio':>9}")
    for share in SHARES:
        print(line(scaled(share)))
    print(f"(the loop is run on at most {NAIVE_PODS} pods and {NAIVE_NODES} nodes and scaled up)")


if __name__ == "__main__":
    main()
