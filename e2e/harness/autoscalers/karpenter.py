"""The real Karpenter, in its kwok build: it provisions and removes kwok nodes as it would a cloud's machines.

Its metrics and health servers listen on all addresses (it has no option for that); they tell metrics and nothing else.
It runs with `WhenEmpty` consolidation after 5 s by default, so that a suite sees nodes go in seconds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from e2e.harness import build
from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster.access import read_manifests
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import condition, wait_until
from e2e.harness.ports import free_port, is_listening
from e2e.harness.processes import Program

ZONES = ("zone-a", "zone-b", "zone-c")
NODEPOOLS = "/apis/karpenter.sh/v1/nodepools"


@dataclass(frozen=True)
class InstanceType:
    """A machine that Karpenter may choose, offered on demand in every zone; 100m CPU and 10Mi of it are overhead."""

    name: str
    cpu: str
    memory: str
    price: float
    extended: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> Json:
        """Return the entry of the instance types file (whose capitalised keys are the kwok provider's)."""
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": self.cpu, "memory": self.memory, "ephemeral-storage": "100Gi", **self.extended},
            "offerings": [
                {
                    "Price": self.price,
                    "Available": True,
                    "Requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                    ],
                }
                for zone in ZONES
            ],
        }


SMALL = InstanceType("e2e-4x-amd64-linux", "4100m", "16394Mi", 0.2)  # 4 CPU and 16 GiB are left for pods


class Karpenter:
    """Karpenter beside one cluster.

    Usage:

        with Karpenter(cluster) as karpenter:
            karpenter.add_pool("default")
    """

    def __init__(
        self, cluster: Backend, instance_types: Sequence[InstanceType] = (SMALL,), flags: Sequence[str] = ()
    ) -> None:
        self._cluster = cluster
        self._types = instance_types
        self._flags = flags
        self._program: Program | None = None

    def start(self) -> Self:
        """Install the CRDs, start the program and wait until it leads."""
        binary = build.ensure(["karpenter"])["karpenter"]
        install_crds(self._cluster.api, binary.parent / "crds")
        types = self._cluster.run_folder / "instance-types.json"
        types.write_text(json.dumps([entry.document() for entry in self._types]), encoding="utf-8")
        metrics, health = free_port(), free_port()
        command = [
            str(binary),
            "--disable-leader-election=true",
            f"--metrics-port={metrics}",
            f"--health-probe-port={health}",
            f"--instance-types-file-path={types}",
            "--batch-idle-duration=200ms",  # its defaults of 1 s and 10 s gather pods for fewer, larger nodes
            "--batch-max-duration=2s",
            *self._flags,
        ]
        user = self._cluster.user("karpenter", ["system:masters"])
        environment = {"KUBECONFIG": str(user.kubeconfig), "SYSTEM_NAMESPACE": "kube-system"}
        self._program = Program("karpenter", command, self._cluster.run_folder, environment).start()
        self._program.wait_until_ready(lambda: is_listening(health), seconds=30)
        return self

    def stop(self) -> None:
        """End the program; nodes, claims and pools stay for the cleaning."""
        if self._program is not None:
            self._program.stop()

    def add_pool(
        self,
        name: str,
        boot_seconds: int = 0,
        cpu_limit: str = "1000",
        consolidate_after: str = "5s",
        consolidation: str = "WhenEmpty",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Json] = (),
        expire_after: str = "Never",
    ) -> None:
        """Create a NodePool (and its node class) and wait until Karpenter calls it ready.

        Args:
            name: of the pool and of its class.
            boot_seconds: how long after the claim its node joins the cluster.
            cpu_limit: the pool's limit.
            consolidate_after: how long a node must be empty.
            consolidation: `WhenEmpty` or `WhenEmptyOrUnderutilized`.
            labels: on the pool's nodes.
            taints: on the pool's nodes.
            expire_after: how long a node may live.
        """
        api = self._cluster.api
        api.apply(
            {
                "apiVersion": "karpenter.kwok.sh/v1alpha1",
                "kind": "KWOKNodeClass",
                "metadata": {"name": name},
                "spec": {"nodeRegistrationDelay": f"{boot_seconds}s"},
            }
        )
        api.apply(_pool(name, cpu_limit, consolidate_after, consolidation, labels or {}, taints, expire_after))
        wait_until(
            lambda: condition(api.get(f"{NODEPOOLS}/{name}"), "Ready") == "True",
            30,
            f"NodePool {name} to be ready",
            state=lambda: api.get(f"{NODEPOOLS}/{name}").get("status"),
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _established(api: Api, path: str) -> bool:
    found = api.find(path)
    if found is None or condition(found, "Established") != "True":
        return False
    spec = found["spec"]
    try:  # the API server answers 429 while it takes up the storage of kinds that came together
        api.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    except ApiError as error:
        if error.status in {404, 429}:
            return False
        raise
    return True


def install_crds(api: Api, folder: Path) -> None:
    """Apply the CRDs in a folder and wait until the API server serves them."""
    crds = read_manifests(folder)
    for crd in crds:
        api.apply(crd)
    for crd in crds:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
        wait_until(
            partial(_established, api, path),
            20,
            f"{crd['metadata']['name']} to be served",
        )


def _pool(
    name: str,
    cpu_limit: str,
    consolidate_after: str,
    consolidation: str,
    labels: Mapping[str, str],
    taints: Sequence[Json],
    expire_after: str,
) -> Json:
    template = {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "taints": list(taints),
            "expireAfter": expire_after,
        },
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": template,
            "limits": {"cpu": cpu_limit},
            "disruption": {
                "consolidationPolicy": consolidation,
                "consolidateAfter": consolidate_after,
                "budgets": [{"nodes": "100%"}],
            },
        },
    }
