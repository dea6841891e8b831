"""Nodes without machines: kwok plays their kubelets, by the stages in `stages.yaml`.

A node is kwok's when it has the annotation `kwok.x-k8s.io/node: fake`, which Karpenter's kwok build and Cluster
Autoscaler's kwok provider set too. kwok serves nothing here: without a node port it opens no listener.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.api import Api, Json
from e2e.harness.processes import Program

MANAGED = {"kwok.x-k8s.io/node": "fake"}
BOOT_SECONDS = "e2e.resource-slack/boot-seconds"
START_SECONDS = "e2e.resource-slack/start-seconds"
RUN_SECONDS = "e2e.resource-slack/run-seconds"
STOP_SECONDS = "e2e.resource-slack/stop-seconds"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_STAGES = Path(__file__).with_name("stages.yaml")
_LEASE_SECONDS = 40  # as the kubelet's


def configuration() -> str:
    """Return kwok's configuration file: its options and the stages."""
    options: dict[str, Any] = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageNodesWithAnnotationSelector": "kwok.x-k8s.io/node=fake",
            "cidr": "10.128.0.1/9",
            "nodeIP": "127.0.0.1",
            "nodeLeaseDurationSeconds": _LEASE_SECONDS,
            # The default of 4 plays a few hundred pods a second; a load test starts thousands.
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 16,
            "nodeLeaseParallelism": 8,
        },
    }
    return yaml.safe_dump(options, sort_keys=False) + "---\n" + _STAGES.read_text(encoding="utf-8")


def program(binary: Path, kubeconfig: Path, run_folder: Path) -> Program:
    """Return the kwok controller for a cluster, not started yet."""
    config = run_folder / "kwok.yaml"
    config.write_text(configuration(), encoding="utf-8")
    return Program("kwok", [str(binary), f"--kubeconfig={kubeconfig}", f"--config={config}"], run_folder)


def begin_anew(api: Api, kwok: Program) -> None:
    """Start kwok anew where none of its nodes is left, and take away what leases these leave.

    kwok 0.8 tries for ever to renew the lease of a node that another one of the same name has replaced. In a session of
    an hour that came to fifty refused writes a second, and then no lease was renewed at all: every node was unknown
    after a minute.
    """
    nodes = api.items("/api/v1/nodes")
    if any(MANAGED.items() <= (node["metadata"].get("annotations") or {}).items() for node in nodes):
        return
    names = {node["metadata"]["name"] for node in nodes}
    kwok.kill()  # to end it in order takes it seconds
    for lease in api.items(_LEASES):
        if lease["metadata"]["name"] not in names:
            api.delete(f"{_LEASES}/{lease['metadata']['name']}")
    kwok.start()


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    zone: str = "zone-a",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    annotations: Mapping[str, str] | None = None,
    boot_seconds: int = 0,
    extended: Mapping[str, str] | None = None,
) -> Json:
    """Return a node that kwok will manage; create it with `api.create`, which keeps the status.

    Args:
        name: also its host name label.
        cpu: allocatable (and capacity), as a quantity.
        memory: as `cpu`.
        pods: how many pods it takes.
        zone: `topology.kubernetes.io/zone`.
        labels: more labels, or others.
        taints: as in a node's spec.
        annotations: more annotations.
        boot_seconds: from creation to Ready; 0 makes a node that is Ready from the start.
        extended: further resources, such as `{"example.com/gpu": "2"}`.
    """
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi", **(extended or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {**MANAGED, BOOT_SECONDS: str(boot_seconds), **(annotations or {})},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": zone,
                **(labels or {}),
            },
        },
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [_ready(boot_seconds == 0)],
            "nodeInfo": _NODE_INFO,
        },
    }


_NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": "v1.36.3-kwok",
    "kubeProxyVersion": "",
    "containerRuntimeVersion": "kwok://",
    "kernelVersion": "kwok",
    "osImage": "kwok",
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
}


def _ready(ready: bool) -> Json:
    return {
        "type": "Ready",
        "status": str(ready),
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "kwok" if ready else "booting",
    }
