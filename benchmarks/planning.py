"""A plan against a straightforward loop over pods and nodes, at 1/25, 1/5 and the whole of R10's cluster.

After a change: an event of a pod into the columns, a snapshot, the plan of four policies with what the last plan
remembers. From nothing: the first snapshot and plan after all pods and nodes were read, when nothing is kept yet.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from statistics import median
from types import MappingProxyType

import msgspec

from benchmarks.generator import NOW, Json, Size, node_pages, nodes, pod_pages, pods, scaled
from benchmarks.report import Report, Row, parser, say, show
from slack.cluster.columns import ClusterColumns
from slack.cluster.quantity import base_units, cpu_millis
from slack.cluster.wire import Node, Pod
from slack.kube.watch import PageDecoder
from slack.planner.outcome import Memory
from slack.planner.plan import plan
from slack.planner.policy import Cover, CoverMode, Policy, PolicySpec, TolerationSpec

SHARES = (1 / 25, 1 / 5, 1.0)
CHANGES = 20
NAIVE_NODES, NAIVE_PODS = 200, 1000
"""For how many the loop is really run; its time is scaled up to all of them, for at full size it takes minutes."""


def filled(size: Size) -> ClusterColumns:
    """Return columns that have seen the generated cluster."""
    columns = ClusterColumns("resource-slack")
    node_decoder, pod_decoder = PageDecoder(Node), PageDecoder(Pod)
    for page in node_pages(size):
        columns.apply_nodes([("ADDED", node) for node in node_decoder.decode(page)[0]])
    for page in pod_pages(size):
        columns.apply_pods([("ADDED", pod) for pod in pod_decoder.decode(page)[0]])
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


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of an action; the machine is shared, so the wall says little."""
    began = time.process_time()
    action()
    return time.process_time() - began


def policies() -> tuple[Policy, ...]:
    """Four policies that divide the cluster by pools: the frontier cover by weight in three, the whole one in one."""

    def of_pool(pool: str, taint: str = "", mode: CoverMode = CoverMode.FREQUENT) -> Policy:
        tolerations = (TolerationSpec(key=taint, operator="Exists"),) if taint else ()
        spec = PolicySpec(node_selector={"pool": pool}, tolerations=tolerations, cover=Cover(mode=mode))
        return Policy(name=pool, spec=spec)

    return (
        of_pool("general"),
        of_pool("memory", mode=CoverMode.EVERYTHING),
        of_pool("batch", "dedicated"),
        of_pool("gpu", "example.com/gpu"),
    )


def measure(size: Size) -> Row:
    """Measure one size and return its row of the table."""
    say(f"planning: reading {size.pods} pods")
    columns, chosen = filled(size), policies()
    columns.require_labels(key for policy in chosen for key in policy.spec.node_selector)
    memory: Memory = MappingProxyType({})

    def look_and_plan() -> None:
        nonlocal memory
        memory = plan(columns.snapshot(NOW), chosen, now=NOW, memory=memory).memory

    nothing = cpu_seconds(look_and_plan)
    decoder = msgspec.json.Decoder(Pod)
    changed = [decoder.decode(msgspec.json.encode(pod)) for pod in islice(pods(size), CHANGES)]

    def change(event: str, pod: Pod) -> None:
        columns.apply_pods([(event, pod)])
        look_and_plan()

    changes = [cpu_seconds(partial(change, event, pod)) for event in ("DELETED", "ADDED") for pod in changed]
    snapshots = [cpu_seconds(lambda: columns.snapshot(NOW)) for _ in range(CHANGES)]
    snapshot = columns.snapshot(NOW)
    some_nodes, some_pods = list(islice(nodes(size), NAIVE_NODES)), list(islice(pods(size), NAIVE_PODS))
    part = cpu_seconds(lambda: naive(some_pods, some_nodes))
    loop = part * size.pods / len(some_pods) * size.nodes / len(some_nodes)
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "kinds": len(snapshot.kinds),
        "shapes": len({tuple(row) for row in snapshot.kinds.requests.tolist()}),
        "from nothing ms": nothing * 1e3,
        "after a change ms": median(changes) * 1e3,
        "its snapshot ms": median(snapshots) * 1e3,
        "loop s": loop,
        "loop / change x": loop / median(changes),
    }


def report() -> Report:
    """Measure every size."""
    return Report(
        "plan of four policies, frontier cover, CPU time; against a loop over pods x nodes",
        [measure(scaled(share)) for share in SHARES],
        [f"(the loop is run on at most {NAIVE_PODS} pods and {NAIVE_NODES} nodes and scaled up)"],
    )


def main() -> None:
    """Print one row a size."""
    show([report()], parser(__doc__ or "").parse_args().output)


if __name__ == "__main__":
    main()
