"""A realistic cluster, seeded, as the API server sends it: pools, zones, taints, workloads of many sizes.

Pods come as JSON lines' worth of dictionaries, one at a time, so that 150,000 of them never stand in memory together.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
CREATED = "2027-01-15T07:00:00Z"
NOW = 1_800_000_000.0
_SIZES = (
    (100, 128),
    (100, 256),
    (250, 256),
    (250, 512),
    (500, 512),
    (500, 1024),
    (1000, 2048),
    (2000, 4096),
    (4000, 8192),
)
_POOLS = (("general", 0.7, None), ("memory", 0.2, None), ("batch", 0.1, "batch"))


@dataclass(frozen=True, slots=True)
class Size:
    """How large the generated cluster is."""

    nodes: int
    pods: int
    workloads: int


FULL = Size(nodes=5_000, pods=150_000, workloads=3_000)
"""R10."""


def scaled(share: float) -> Size:
    """Return a fraction of R10's cluster; never less than one node, pod and workload."""
    return Size(*(max(1, int(n * share)) for n in (FULL.nodes, FULL.pods, FULL.workloads)))


def nodes(size: Size) -> Iterator[Json]:
    """Yield Node objects: three pools over three zones, one of them tainted."""
    for i in range(size.nodes):
        pool, taint = _pool_of(i / size.nodes)
        name = f"node-{i:05}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "creationTimestamp": CREATED,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "topology.kubernetes.io/zone": f"zone-{'abc'[i % 3]}",
                    "pool": pool,
                },
            },
            "spec": {"taints": [{"key": "dedicated", "value": taint, "effect": "NoSchedule"}]} if taint else {},
            "status": {
                "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:01:00Z"}],
            },
        }


def _pool_of(share: float) -> tuple[str, str | None]:
    for pool, part, taint in _POOLS:
        if share < part:
            return pool, taint
        share -= part
    return _POOLS[0][0], None


def pods(size: Size, seed: int = 1) -> Iterator[Json]:
    """Yield bound Pod objects with managedFields, status and all, about 5 KB of JSON each."""
    rng = random.Random(seed)
    shapes = [rng.choices(_SIZES, weights=(20, 18, 16, 14, 12, 9, 6, 4, 1))[0] for _ in range(size.workloads)]
    pools = [rng.choices(_POOLS, weights=(7, 2, 1))[0] for _ in range(size.workloads)]
    picky = [rng.random() < 0.25 for _ in range(size.workloads)]
    for i in range(size.pods):
        w = min(int(rng.paretovariate(0.6)) - 1, size.workloads - 1) if i % 2 else i // 2 % size.workloads
        node = rng.randrange(size.nodes)
        yield _pod(i, w, shapes[w], pools[w][0] if picky[w] else "", pools[w][2], f"node-{node:05}")


def _pod(i: int, w: int, shape: tuple[int, int], pool: str, taint: str | None, node: str) -> Json:
    cpu_millis, memory_mebibytes = shape
    name, replica_set = f"w{w:04}-7d9c5b{w % 97:02}-{i:06}", f"w{w:04}-7d9c5b{w % 97:02}"
    spec: Json = {
        "nodeName": node,
        "priority": 0,
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1.2.3",
                "env": [{"name": f"SETTING_{n}", "value": "x" * 24} for n in range(8)],
                "resources": {"requests": {"cpu": f"{cpu_millis}m", "memory": f"{memory_mebibytes}Mi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
            }
        ],
    }
    if pool:
        spec["nodeSelector"] = {"pool": pool}
    if taint and pool:
        spec["tolerations"].append({"key": "dedicated", "operator": "Equal", "value": taint, "effect": "NoSchedule"})
    fields: Json = {f'k:{{"name":"SETTING_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(8)}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{w % 40:02}",
            "uid": f"{i:08x}-0000-4000-8000-{w:012x}",
            "resourceVersion": str(1000 + i),
            "creationTimestamp": CREATED,
            "labels": {"app": f"w{w:04}", "pod-template-hash": f"7d9c5b{w % 97:02}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": replica_set,
                    "uid": f"rs-{w}",
                    "controller": True,
                }
            ],
            "managedFields": [
                {"manager": manager, "operation": "Update", "time": CREATED, "fieldsV1": {"f:spec": {"f:env": fields}}}
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": spec,
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": t, "status": "True", "lastTransitionTime": CREATED}
                for t in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "podIP": "10.0.0.1",
            "startTime": CREATED,
        },
    }
