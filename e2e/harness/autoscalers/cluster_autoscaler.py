"""The stock Cluster Autoscaler with its kwok provider, when who runs the suite has its binary (`CLUSTER_AUTOSCALER`).

The harness does not build it. Facts about 1.36 that the code keeps to:

- The provider reads its two ConfigMaps once, at the start: groups are fixed while it runs.
- One document in the templates must be a `List`; a lone `Node` is refused, and a node without annotations crashes it.
- A node of a group is a copy of the template. So the template has a Ready condition that is False (without one, pods
  are put on it at once), and no host name (all copies would share it; the kwok stage sets it).
- It counts a group's size from the nodes in the cluster, and it may only remove nodes that it made.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml

from e2e.harness.api import Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.errors import UnavailableError
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program

VARIABLE = "CLUSTER_AUTOSCALER"
GROUP_LABEL = "e2e.resource-slack/group"
_PREFIX = "cluster-autoscaler.kwok.nodegroup"
_NAMESPACE = "kube-system"
_TEMPLATES = "kwok-provider-templates"


@dataclass(frozen=True)
class NodeGroup:
    """A group of equal nodes, made from one template; its nodes have the label `e2e.resource-slack/group: <name>`."""

    name: str
    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    zone: str = "zone-a"
    min_count: int = 0
    max_count: int = 10
    boot_seconds: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Json] = ()

    def template(self) -> Json:
        """Return the node that the provider copies."""
        # A boot time of at least a second makes the node Ready=False at first, also when the group asks for none.
        document = kwok.node(
            f"{self.name}-template",
            cpu=self.cpu,
            memory=self.memory,
            pods=self.pods,
            zone=self.zone,
            labels={GROUP_LABEL: self.name, **self.labels},
            taints=self.taints,
            annotations={f"{_PREFIX}/min-count": str(self.min_count), f"{_PREFIX}/max-count": str(self.max_count)},
            boot_seconds=max(self.boot_seconds, 1),
        )
        document["metadata"]["annotations"][kwok.BOOT_SECONDS] = str(self.boot_seconds)
        del document["metadata"]["labels"]["kubernetes.io/hostname"]
        return document


def binary() -> Path:
    """Return the binary that the environment names.

    Raises:
        UnavailableError: the variable is not set, or names no program.
    """
    value = os.environ.get(VARIABLE, "")
    if not value:
        raise UnavailableError(f"set {VARIABLE} to the path of a stock cluster-autoscaler 1.36 binary")
    path = Path(value)
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise UnavailableError(f"{VARIABLE}={value} is not a program")
    return path.resolve()


class ClusterAutoscaler:
    """Cluster Autoscaler beside one cluster.

    Usage:

        with ClusterAutoscaler(cluster, [NodeGroup("general", max_count=5)]):
            ...
    """

    def __init__(self, cluster: Backend, groups: Sequence[NodeGroup], flags: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._groups = groups
        self._flags = flags
        self._program: Program | None = None

    def start(self) -> Self:
        """Write the provider's ConfigMaps, start the program and wait until it has gone through its loop."""
        program = binary()
        for document in config_maps(self._groups):
            self._cluster.api.apply(document)
        port = free_port()
        user = self._cluster.user("cluster-autoscaler", ["system:masters"])
        environment = {
            "KWOK_PROVIDER_MODE": "local",  # the provider makes a client of its own, from KUBECONFIG
            "KUBECONFIG": str(user.kubeconfig),
            "POD_NAMESPACE": _NAMESPACE,
        }
        command = [str(program), f"--kubeconfig={user.kubeconfig}", *flags(port), *self._flags]
        self._program = Program("cluster-autoscaler", command, self._cluster.run_folder, environment).start()
        status = f"/api/v1/namespaces/{_NAMESPACE}/configmaps/cluster-autoscaler-status"
        self._program.wait_until_ready(
            lambda: "Running" in (self._cluster.api.find(status) or {}).get("data", {}).get("status", ""), seconds=60
        )
        return self

    def stop(self) -> None:
        """End the program (which deletes the nodes of its groups on the way) and take its ConfigMaps away."""
        if self._program is not None:
            self._program.stop()
        for name in ("kwok-provider-config", _TEMPLATES, "cluster-autoscaler-status"):
            self._cluster.api.delete(f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{name}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def flags(port: int) -> list[str]:
    """Return the flags for tests: a short loop, and nodes that go after 20 s of being unneeded (stock: 10 minutes)."""
    return [
        "--cloud-provider=kwok",
        "--leader-elect=false",
        f"--address={LOOPBACK}:{port}",
        "--scan-interval=2s",
        "--scale-down-unneeded-time=20s",
        "--scale-down-delay-after-add=10s",
        "--scale-down-delay-after-delete=2s",
        "--unremovable-node-recheck-timeout=10s",
        "--expander=least-waste",
        "--kube-client-qps=50",
        "--kube-client-burst=100",
        "--v=2",
    ]


def config_maps(groups: Sequence[NodeGroup]) -> list[Json]:
    """Return the provider's two ConfigMaps."""
    config = {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": GROUP_LABEL},
        "nodes": {"skipTaint": True},  # else every node has the taint kwok-provider=true:NoSchedule
        "configmap": {"name": _TEMPLATES},
    }
    templates = {"apiVersion": "v1", "kind": "List", "items": [group.template() for group in groups]}
    return [_config_map("kwok-provider-config", "config", config), _config_map(_TEMPLATES, "templates", templates)]


def _config_map(name: str, key: str, document: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "data": {key: yaml.safe_dump(document, sort_keys=False)},
    }
