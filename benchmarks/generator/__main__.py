"""`python -m benchmarks.generator`: what generated clusters are like, at 1/25, 1/5 and the whole of R10."""

import argparse
import resource
import statistics
import time
from collections import Counter

from benchmarks.generator.layout import Layout
from benchmarks.generator.lists import node_pages, pod_pages
from benchmarks.generator.pools import MACHINES
from benchmarks.generator.rendering import PodWriter
from benchmarks.generator.size import Size, scaled
from benchmarks.generator.states import Stage
from benchmarks.generator.workloads import Kind, Spread

SHARES = (1 / 25, 1 / 5, 1.0)
_EVERY = 7
"""Of how many pods one is weighed; pods of a workload are alike."""


def describe(size: Size, seed: int) -> dict[str, str]:
    """Generate one size and return the column that tells about it."""
    began = time.process_time()
    pages = sum(len(page) for page in pod_pages(size, seed))
    taken = time.process_time() - began
    node_bytes = sum(len(page) for page in node_pages(size, seed)) / size.nodes
    layout = Layout(size, seed)
    writer = PodWriter(layout)
    states = list(layout.states())
    sizes = [len(writer.item(state)) for state in states[::_EVERY]]
    cuts = statistics.quantiles(sizes, n=20)
    workloads, kinds = layout.workloads, Counter(state.workload.kind for state in states)
    stages, spread = Counter(state.stage for state in states), Counter(workload.spread for workload in workloads)
    count = len(workloads)
    used = 1 - layout.free[:, :2].sum(axis=0) / layout.nodes.free[:, :2].sum(axis=0)
    reach = {
        (workload.pools, workload.reach.zones, workload.spread, workload.gpus > 0, workload.priority_class)
        for workload in workloads
    }
    shapes = {(workload.pod_cpu_millis, workload.pod_memory_mebibytes, workload.gpus) for workload in workloads}
    selective = sum(bool(workload.reach.pools or workload.reach.zones) for workload in workloads)
    extra = sum(workload.init_container or workload.native_sidecar for workload in workloads)
    counts = sorted(workload.replicas for workload in workloads)
    return {
        "nodes": f"{size.nodes:,}",
        "pods": f"{size.pods:,}",
        "workloads": f"{count:,}",
        "bytes a pod: mean": f"{pages / size.pods:,.0f}",
        "bytes a pod: p5 / p95": f"{cuts[0]:,.0f} / {cuts[-1]:,.0f}",
        "bytes a node": f"{node_bytes:,.0f}",
        "pages of 500: MB": f"{pages / 1e6:,.0f}",
        "pages of 500: CPU s": f"{taken:.1f}",
        "peak memory so far: MiB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}",
        "request shapes": f"{len(shapes)}",
        "constraint classes": f"{len(reach)}",
        "replicas: median / largest": f"{counts[len(counts) // 2]} / {counts[-1]:,}",
        "requested of allocatable: CPU": f"{used[0]:.0%}",
        "requested of allocatable: memory": f"{used[1]:.0%}",
        **{f"pods of {'nobody' if kind is Kind.BARE else kind.value}": f"{kinds[kind]:,}" for kind in Kind},
        "pods pending": f"{stages[Stage.UNSCHEDULABLE] / size.pods:.2%}",
        "pods terminating": f"{stages[Stage.TERMINATING] / size.pods:.2%}",
        **{
            f"workloads, {constraint.value}": f"{spread[constraint] / count:.1%}"
            for constraint in Spread
            if constraint is not Spread.NONE
        },
        "workloads, bound to pools or zones": f"{selective / count:.1%}",
        "workloads, init or sidecar": f"{extra / count:.1%}",
        "workloads, GPUs": f"{sum(workload.gpus > 0 for workload in workloads) / count:.1%}",
        "workloads, a priority class": f"{sum(bool(workload.priority_class) for workload in workloads) / count:.1%}",
        "pools": f"{len({machine.pool for machine in MACHINES})}",
    }


def main() -> None:
    """Print one column a size."""
    parser = argparse.ArgumentParser(description="What generated clusters are like.")
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    columns = [describe(scaled(share), seed) for share in SHARES]
    for name in columns[0]:
        print(f"{name:<44}" + "".join(f"{column[name]:>18}" for column in columns))


if __name__ == "__main__":
    main()
