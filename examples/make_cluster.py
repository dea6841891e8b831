"""Writes examples/cluster.json: a small, realistic cluster as `kubectl get nodes,pods,... -A -o json` prints one.

Twelve nodes in two pools and three zones, about forty workloads: shops' web services, workers on a tainted pool, a
database with anti-affinity that is excluded (R6), a mirrored gateway (S7), DaemonSets, batch jobs. Seeded: the same
file each time.

    python examples/make_cluster.py > examples/cluster.json
"""

import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

Json = dict[str, Any]

SEED = 7
WRITTEN = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
ZONES = ("eu-1a", "eu-1b", "eu-1c")
POOLS = {"web": (8, "8", "32Gi"), "batch": (4, "16", "64Gi")}
"""Nodes, cpu, memory."""
BATCH_TAINT = {"key": "pool", "value": "batch", "effect": "NoSchedule"}
RESERVED = {"cpu": "200m", "memory": "1Gi"}

# namespace, name, replicas, cpu, memory, hours since its newest pods came
SERVICES: tuple[tuple[str, str, int, str, str, float], ...] = (
    ("shop", "api", 6, "500m", "1Gi", 0.2),
    ("shop", "cart", 3, "250m", "512Mi", 1),
    ("shop", "catalog", 4, "500m", "2Gi", 0.5),
    ("shop", "checkout", 3, "500m", "1Gi", 2),
    ("shop", "frontend", 5, "250m", "256Mi", 0.1),
    ("shop", "images", 2, "1", "1Gi", 5),
    ("shop", "mailer", 1, "100m", "128Mi", 90),
    ("shop", "prices", 2, "250m", "512Mi", 20),
    ("shop", "recommend", 2, "1", "4Gi", 3),
    ("shop", "search", 3, "1", "3Gi", 1),
    ("shop", "sessions", 2, "200m", "1Gi", 60),
    ("shop", "stock", 2, "250m", "512Mi", 14),
    ("pay", "fraud", 2, "1500m", "3Gi", 4),
    ("pay", "gateway", 4, "1", "1Gi", 6),
    ("pay", "invoices", 1, "250m", "512Mi", 70),
    ("pay", "ledger", 2, "500m", "1Gi", 30),
    ("pay", "refunds", 1, "100m", "256Mi", 200),
    ("pay", "risk", 2, "500m", "2Gi", 9),
    ("ops", "alerts", 1, "100m", "256Mi", 300),
    ("ops", "dashboards", 1, "250m", "512Mi", 300),
    ("ops", "ingress", 3, "500m", "512Mi", 80),
    ("ops", "registry", 1, "200m", "512Mi", 300),
    ("ops", "traces", 2, "500m", "2Gi", 110),
    ("team-a", "backend", 2, "250m", "512Mi", 0.7),
    ("team-a", "feature-1", 1, "250m", "512Mi", 0.3),
    ("team-a", "feature-2", 1, "250m", "512Mi", 0.4),
    ("team-b", "backend", 2, "500m", "1Gi", 0.9),
    ("team-b", "preview", 1, "100m", "256Mi", 0.2),
)
WORKERS: tuple[tuple[str, str, int, str, str, float], ...] = (
    ("data", "encoder", 3, "3", "6Gi", 0.5),
    ("data", "indexer", 2, "2", "8Gi", 8),
    ("data", "thumbnails", 4, "1", "2Gi", 0.3),
    ("data", "exports", 2, "500m", "4Gi", 2),
)
JOBS: tuple[tuple[str, str, str, str, float], ...] = (
    ("data", "nightly-report-29473740", "2", "4Gi", 0.6),
    ("data", "reindex-29474045", "1", "2Gi", 0.2),
    ("pay", "settle-29474050", "500m", "1Gi", 0.1),
)
DAEMONS: tuple[tuple[str, str, str, str], ...] = (
    ("kube-system", "node-agent", "100m", "200Mi"),
    ("ops", "log-shipper", "100m", "256Mi"),
)


class Cluster:
    """Builds the objects and puts pods where they fit, most free cpu first, as the scheduler's spreading would."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes: list[Json] = []
        self.free: dict[str, list[int]] = {}
        self.pods: list[Json] = []
        self.others: list[Json] = []

    def uid(self) -> str:
        """Return a uid that is the same each time."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def letters(self, count: int) -> str:
        """Return a part of a pod's name as the controllers make them."""
        return "".join(self.random.choices("bcdfghjklmnpqrstvwxz2456789", k=count))

    def meta(self, name: str, namespace: str | None, age_hours: float, **more: Any) -> Json:
        """Return metadata."""
        created = WRITTEN - timedelta(hours=age_hours)
        where = {"namespace": namespace} if namespace else {}
        return {"name": name, **where, "uid": self.uid(), "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}", **more}

    def add_nodes(self) -> None:
        """Add both pools, spread over the zones."""
        for pool, (count, cpu, memory) in POOLS.items():
            for number in range(count):
                name = f"{pool}-{number + 1}"
                labels = {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "node.kubernetes.io/instance-type": f"m.{cpu}",
                    "pool": pool,
                    "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
                }
                allocatable = {
                    "cpu": f"{int(cpu) * 1000 - 200}m",
                    "memory": f"{int(memory[:-2]) * 1024 - 1024}Mi",
                    "ephemeral-storage": "100Gi",
                    "pods": "110",
                }
                self.nodes.append(
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "metadata": self.meta(name, None, 24.0 * (20 - number), labels=labels),
                        "spec": {"taints": [BATCH_TAINT]} if pool == "batch" else {},
                        "status": {
                            "allocatable": allocatable,
                            "capacity": {**allocatable, "cpu": cpu, "memory": memory},
                            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                        },
                    }
                )
                self.free[name] = [millis(allocatable["cpu"]), mebibytes(allocatable["memory"])]

    def place(self, pool: str, cpu: str, memory: str, avoid: set[str]) -> str:
        """Return a node for a pod and take its room there."""
        fitting = [
            name
            for name, (free_cpu, free_memory) in self.free.items()
            if name.startswith(pool)
            and name not in avoid
            and free_cpu >= millis(cpu)
            and free_memory >= mebibytes(memory)
        ]
        if not fitting:
            raise ValueError(f"the {pool} pool is full")
        node = max(fitting, key=lambda name: (self.free[name][0], name))
        self.take(node, cpu, memory)
        return node

    def take(self, node: str, cpu: str, memory: str) -> None:
        """Take room on a node."""
        self.free[node][0] -= millis(cpu)
        self.free[node][1] -= mebibytes(memory)

    def pod(
        self, name: str, namespace: str, node: str, owner: tuple[str, str], age: float, spec: Json, labels: Json
    ) -> None:
        """Add a running pod."""
        kind, owner_name = owner
        api = "batch/v1" if kind == "Job" else "apps/v1"
        reference = {"apiVersion": api, "kind": kind, "name": owner_name, "uid": self.uid(), "controller": True}
        annotations = spec.pop("annotations", None)
        more: Json = {"labels": labels, "ownerReferences": [reference]}
        if annotations:
            more["annotations"] = annotations
        self.pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": self.meta(name, namespace, age, **more),
                "spec": {
                    "nodeName": node,
                    "schedulerName": "default-scheduler",
                    "priority": 0,
                    "preemptionPolicy": "PreemptLowerPriority",
                    **spec,
                },
                "status": {"phase": "Running"},
            }
        )

    def deployment(
        self, namespace: str, name: str, replicas: int, template: Json, age: float, annotations: Json
    ) -> None:
        """Add a Deployment with its pods, placed."""
        labels = {"app": name}
        pool = "batch" if "tolerations" in template else "web"
        requests = template["containers"][0]["resources"]["requests"]
        self.others.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": self.meta(name, namespace, age + 500, labels=labels, annotations=annotations),
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": template},
                },
            }
        )
        digest = self.letters(10)
        used: set[str] = set()
        for _ in range(replicas):
            node = self.place(pool, requests["cpu"], requests["memory"], used if "affinity" in template else set())
            used.add(node)
            since = age + self.random.random() * age * 4
            own_labels = {**labels, "pod-template-hash": digest}
            self.pod(
                f"{name}-{digest}-{self.letters(5)}",
                namespace,
                node,
                ("ReplicaSet", f"{name}-{digest}"),
                since,
                dict(template),
                own_labels,
            )

    def daemons(self) -> None:
        """Add the DaemonSets' pods to every node."""
        for namespace, name, cpu, memory in DAEMONS:
            for node in list(self.free):
                self.take(node, cpu, memory)
                template = {**containers(cpu, memory), "tolerations": [{"operator": "Exists"}]}
                pod = f"{name}-{self.letters(5)}"
                self.pod(pod, namespace, node, ("DaemonSet", name), 400, template, {"app": name})

    def database(self) -> None:
        """Add a database: three large pods, one a node, excluded since they never come in a burst (R6)."""
        spread = {"labelSelector": {"matchLabels": {"app": "postgres"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}}
        used: set[str] = set()
        for number in range(3):
            node = self.place("web", "3", "12Gi", used)
            used.add(node)
            spec = {
                **containers("3", "12Gi"),
                "nodeSelector": {"pool": "web"},
                "affinity": affinity,
                "annotations": {"resource-slack.io/exclude": "true"},
            }
            self.pod(f"postgres-{number}", "db", node, ("StatefulSet", "postgres"), 700, spec, {"app": "postgres"})

    def jobs(self) -> None:
        """Add running jobs."""
        for namespace, name, cpu, memory, age in JOBS:
            batch = namespace == "data"
            node = self.place("batch" if batch else "web", cpu, memory, set())
            template = containers(cpu, memory) | (batch_only() if batch else {})
            self.pod(f"{name}-{self.letters(5)}", namespace, node, ("Job", name), age, template, {"job-name": name})

    def items(self) -> Iterator[Json]:
        """Yield everything in kubectl's order."""
        yield from self.nodes
        yield from sorted(self.pods, key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"]))
        yield from self.others


def containers(cpu: str, memory: str) -> Json:
    """Return a pod spec with one container."""
    return {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }
        ]
    }


def batch_only() -> Json:
    """Return what sends a pod to the batch pool."""
    return {
        "nodeSelector": {"pool": "batch"},
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}],
    }


def millis(text: str) -> int:
    """Return millicores."""
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def mebibytes(text: str) -> int:
    """Return mebibytes."""
    return int(text[:-2]) * (1024 if text.endswith("Gi") else 1)


def build() -> Json:
    """Return the whole List."""
    cluster = Cluster(SEED)
    cluster.add_nodes()
    cluster.daemons()
    cluster.database()
    for namespace, name, replicas, cpu, memory, age in SERVICES:
        template = containers(cpu, memory)
        annotations: Json = {}
        if (namespace, name) == ("pay", "gateway"):
            selector = {"matchLabels": {"app": name}}
            term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
            template["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            annotations = {"resource-slack.io/reserve": "2"}
        cluster.deployment(namespace, name, replicas, template, age, annotations)
    for namespace, name, replicas, cpu, memory, age in WORKERS:
        cluster.deployment(namespace, name, replicas, containers(cpu, memory) | batch_only(), age, {})
    cluster.jobs()
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(cluster.items())}


if __name__ == "__main__":
    json.dump(build(), sys.stdout, indent=None, separators=(",", ":"))
    sys.stdout.write("\n")
