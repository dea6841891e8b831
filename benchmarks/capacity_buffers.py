"""What 2,000 CapacityBuffers in 300 namespaces cost a plan on 5,000 nodes: time and memory, with and without.

Usage:
    python -m benchmarks.capacity_buffers
    python -m benchmarks.capacity_buffers --share 0.1

Half of the buffers name a Deployment with pods, the other half a PodTemplate of their own. A third of the namespaces
have a ResourceQuota. A plan is measured after a pod and a quota have changed, which is what nearly all plans follow.
Each plan is checked: no namespace has more than its quota, its share or the ceiling leaves it.
Exit code 1 if it takes too long, buffers take too much memory, or a namespace has too much.
"""

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Container, Sequence
from functools import partial
from statistics import median
from typing import Any

import msgspec

from benchmarks.generator import NOW, scaled
from benchmarks.planning import cpu_seconds, filled
from benchmarks.report import Report, parser, say, show
from slack.capacity_buffers.api import CapacityBuffer, PodTemplateObject, ScaledTarget
from slack.capacity_buffers.ceiling import BufferCeiling, CeilingLedger
from slack.capacity_buffers.plan import BufferInputs, BufferPlan, plan_buffers
from slack.capacity_buffers.plan_memory import PlanMemory, target_workload
from slack.cluster import wire
from slack.cluster.snapshot import Snapshot

BUFFERS, NAMESPACES = 2_000, 300
WANTED_MS, WANTED_MIB = 30.0, 20.0
ROUNDS = 9
QUOTA_CORES, USED_CORES, QUOTA_PODS = 20, 5, 50
CEILING_CORES, SHARE = 5_000, 0.1


class BufferScene:
    """Buffers with what they name."""

    def __init__(self, snapshot: Snapshot, count: int) -> None:
        """Make so many buffers for a cluster."""
        deployments = sorted({own for own in snapshot.kinds.workloads if own.kind == "deploy"})
        self.buffers: list[CapacityBuffer] = []
        self.templates: dict[tuple[str, str], PodTemplateObject] = {}
        self.targets: dict[str, ScaledTarget] = {}
        for number in range(count):
            spec: dict[str, Any] = {"replicas": 2, "limits": {"cpu": "8", "memory": "32Gi"}}
            namespace = f"team-{number % NAMESPACES}"
            if number % 2 and deployments:
                own = deployments[number % len(deployments)]
                namespace = own.namespace
                reference = {"apiGroup": "apps", "kind": "Deployment", "name": own.name}
                spec |= {"percentage": 20, "scalableRef": reference}
            else:
                spec["podTemplateRef"] = {"name": f"chunk-{number}"}
                self.templates[namespace, f"chunk-{number}"] = _template(namespace, f"chunk-{number}", number)
            metadata = {"name": f"cb-{number}", "namespace": namespace, "uid": f"uid-{number}"}
            raw = msgspec.json.encode({"metadata": metadata, "spec": spec})
            self.buffers.append(msgspec.json.decode(raw, type=CapacityBuffer))
            if target_workload(self.buffers[-1]) is not None:
                self.targets[f"uid-{number}"] = ScaledTarget(10, _pod_spec(number), {"app": "web"})
        self.quotas = [_quota(f"team-{number}") for number in range(0, NAMESPACES, 3)]
        self.memory = PlanMemory()

    def change_quota(self) -> None:
        """Show that pods of one namespace have changed."""
        self.quotas = [_quota("team-0"), *self.quotas[1:]]

    def plan(self, snapshot: Snapshot) -> tuple[BufferPlan, ...]:
        """Plan for all of them."""
        inputs = BufferInputs(
            templates=lambda namespace, name: self.templates.get((namespace, name)),
            targets=lambda own: self.targets.get(own.uid),
            ranges=lambda _: (),
            quotas=self.quotas,
            ceiling=CeilingLedger(BufferCeiling(cpu=CEILING_CORES * 1000, namespace_share=SHARE)),
            unbound_scheduler="resource-slack.io/unbound",
            memory=self.memory,
        )
        return plan_buffers(snapshot, self.buffers, inputs)


def _pod_spec(number: int) -> wire.PodSpec:
    requests = {"cpu": f"{100 + 50 * (number % 16)}m", "memory": f"{1 + number % 4}Gi"}
    document = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.PodSpec).detach()


def _template(namespace: str, name: str, number: int) -> PodTemplateObject:
    metadata = wire.Metadata(name=name, namespace=namespace, generation=1)
    return PodTemplateObject(metadata, wire.PodTemplate(spec=_pod_spec(number)))


def _quota(namespace: str) -> wire.ResourceQuota:
    hard = {"requests.cpu": str(QUOTA_CORES), "pods": str(QUOTA_PODS)}
    return wire.ResourceQuota(
        metadata=wire.Metadata(name="quota", namespace=namespace),
        spec=wire.QuotaSpec(hard=dict(hard)),
        status=wire.QuotaStatus(hard=dict(hard), used={"requests.cpu": str(USED_CORES)}),
    )


def beyond_bounds(plans: Sequence[BufferPlan], bounded: Container[str]) -> int:
    """Count the namespaces that have more than they may; all of them together are one more."""
    millis, chunks = Counter[str](), Counter[str]()
    for plan in plans:
        if plan.chunk is not None:
            millis[plan.buffer.namespace] += plan.replicas * plan.chunk.requests.get("cpu", 0)
            chunks[plan.buffer.namespace] += plan.replicas
    found = int(millis.total() > CEILING_CORES * 1000)
    for name, amount in millis.items():
        most = CEILING_CORES * 1000 * SHARE
        if name in bounded:
            most = min(most, (QUOTA_CORES - USED_CORES) * 1000)
        found += amount > most or (name in bounded and chunks[name] > QUOTA_PODS)
    return found


def report(share: float) -> Report:
    """Measure without buffers and with them."""
    size = scaled(share)
    say(f"capacity buffers: reading {size.pods} pods")
    columns, some = filled(size)
    columns.dates_pods = True
    found = Report(f"CapacityBuffers among {size.pods} pods on {size.nodes} nodes, CPU time")
    for count in (0, int(BUFFERS * share)):
        gc.collect()
        tracemalloc.start()
        scene = BufferScene(columns.snapshot(NOW), count)
        scene.plan(columns.snapshot(NOW))
        gc.collect()
        mib = tracemalloc.get_traced_memory()[0] / (1 << 20)
        tracemalloc.stop()
        times = []
        for pod in some[:ROUNDS]:
            columns.apply_pods([("DELETED", pod)])
            snapshot = columns.snapshot(NOW)
            scene.change_quota()
            times.append(cpu_seconds(partial(scene.plan, snapshot)))
        bounded = {own.metadata.namespace or "" for own in scene.quotas}
        beyond = beyond_bounds(scene.plan(columns.snapshot(NOW)), bounded)
        good = median(times) * 1e3 <= WANTED_MS and mib <= WANTED_MIB and not beyond
        found.rows.append(
            {
                "buffers": count,
                "plan ms": median(times) * 1e3,
                "wanted ms": WANTED_MS,
                "memory MiB": mib,
                "most MiB": WANTED_MIB,
                "beyond bounds": beyond,
                "": "ok" if good else "missed",
            }
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row without buffers and one with them; return 1 if they cost too much."""
    options = parser("What CapacityBuffers cost a plan.")
    options.add_argument("--share", type=float, default=1.0, help="of 5,000 nodes, 150,000 pods and 2,000 buffers")
    given = options.parse_args(arguments)
    found = report(given.share)
    show([found], given.output)
    return 1 if any(row[""] == "missed" for row in found.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
