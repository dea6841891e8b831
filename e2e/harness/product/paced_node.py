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
from e2e.harness.product.throttler import AGENT_NAME, Agent, rendered
from slack.cluster.labels import API_VERSION
from slack.throttler.config import KIND
from slack.throttler.injection import GateOptions

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


@contextmanager
def paced_node(folder: Path, kubelet: Mapping[str, object] | None = None) -> Iterator[PacedNode]:
    """Start a cluster, a node and an agent.

    Args:
        folder: for all of them.
        kubelet: further fields of its configuration.

    Raises:
        UnavailableError: there can be none here, with the reason.
    """
    real_node.require()
    build.ensure(["kubelet"])
    for name in ("authority", "helm"):
        (folder / name).mkdir()
    authority = Authority.create(folder / "authority")
    manifests = rendered(folder / "helm", authority)
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
