"""A real node with the throttler's agent as the chart has it, and pods as the webhook would make them. Root only.

Figures of load are off in its policies: others on this machine make load.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.node import gate_image, real_node
from e2e.harness.node.real_node import RealNode
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.product.gated_pods import NAMESPACE, GatedPods
from e2e.harness.product.operator import install
from e2e.harness.product.throttler import AGENT_NAME, Agent, Controller, enable, rendered
from slack.cluster.labels import API_VERSION
from slack.throttler.config import KIND
from slack.throttler.injection import PERMITS_IN, GateOptions

_OFF = dict.fromkeys(("maxLoadAverageMultiplier", "maxCPU", "maxIOPressure", "minRate"))


@dataclass(frozen=True)
class PacedNode(GatedPods):
    """A node with an agent."""

    cluster: ControlPlane
    node: RealNode
    agent: Agent
    authority: Authority

    def policy(self, slots: int, **spec: object) -> None:
        """Write the policy, and wait until the agent goes by it."""
        per_core = f"{(slots + 0.01) / (os.cpu_count() or 1):.4f}"
        whole = {**_OFF, "maxStartingContainersPerCore": per_core, "noProbeHold": "1s", **spec}
        self.api.apply({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "default"}, "spec": whole})
        wait_until(lambda: self.agent.metric("slack_throttler_slots") == slots, 20, f"{slots} slots")
        time.sleep(0.5)  # what else has changed came with it, or is unchanged

    def grants(self) -> list[Json]:
        """Read the agent's journal."""
        lines = self.agent.journal.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line]

    def began(self, name: str, container: str) -> float:
        """When a container began to run that first of all prints /proc/uptime, in monotonic seconds."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log?container={container}"
        return float(self.api.text(path).split()[0]) - time.clock_gettime(time.CLOCK_BOOTTIME) + time.monotonic()


@dataclass(frozen=True)
class KeyedNode(PacedNode):
    """A node with an agent and a controller, whose permits are keys of ConfigMaps; pods are made by its webhook."""

    controller: Controller

    def create(self, manifest: Json, **_: object) -> str:
        """Create a pod, and let the webhook do the rest; returns its name."""
        self.api.create(manifest)
        return str(manifest["metadata"]["name"])

    def keys(self, name: str) -> set[str]:
        """Return the keys of a pod's ConfigMap; none where there is no ConfigMap."""
        config_map = self.pod(name)["metadata"]["annotations"][PERMITS_IN]
        found = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{config_map}")
        return set((found or {}).get("data") or ())


@contextmanager
def keyed_node(folder: Path, kubelet: Mapping[str, object] | None = None, *flags: str) -> Iterator[KeyedNode]:
    """Start a cluster, a node, a controller with backend configmap, and an agent.

    Args:
        folder: for all of them.
        kubelet: further fields of its configuration.
        flags: of `helm template`.

    Raises:
        UnavailableError: there can be none here, with the reason.
    """
    authority, manifests = _rendered(folder, "--set=throttler.backend=configmap", *flags)
    with ControlPlane(folder, real_node.options(folder)) as cluster, RealNode(cluster, kubelet) as node:
        install(cluster)
        enable(cluster.api, NAMESPACE)
        with (
            Controller(cluster, manifests, authority) as controller,
            Agent(cluster, manifests, authority, folder, controller, node.name) as agent,
        ):
            controller.register(manifests, NAMESPACE)
            options = GateOptions(image="", agent_port=agent.port, agent_name=AGENT_NAME, authority="")
            yield KeyedNode(cluster.api, options, cluster, node, agent, authority, controller)


@contextmanager
def paced_node(folder: Path, kubelet: Mapping[str, object] | None = None) -> Iterator[PacedNode]:
    """Start a cluster, a node and an agent.

    Args:
        folder: for all of them.
        kubelet: further fields of its configuration.

    Raises:
        UnavailableError: there can be none here, with the reason.
    """
    authority, manifests = _rendered(folder)
    with ControlPlane(folder, real_node.options(folder)) as cluster, RealNode(cluster, kubelet) as node:
        install(cluster)
        make_namespace(cluster.api, NAMESPACE)
        image = gate_image.bring(node.containerd, folder)
        with Agent(cluster, manifests, authority, folder, node=node.name) as agent:
            options = GateOptions(
                image=image,
                agent_port=agent.port,
                agent_name=AGENT_NAME,
                authority=authority.certificate_path.read_text(),
                image_pull_policy="Never",
            )
            yield PacedNode(cluster.api, options, cluster, node, agent, authority)


def _rendered(folder: Path, *flags: str) -> tuple[Authority, list[Json]]:
    real_node.require()
    build.ensure(["kubelet"])
    for name in ("authority", "helm"):
        (folder / name).mkdir()
    authority = Authority.create(folder / "authority")
    return authority, rendered(folder / "helm", authority, *flags)
