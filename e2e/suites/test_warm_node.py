"""Images are there before the pods that need them: on a real kubelet with a registry on this machine. Root only."""

import os
import time
from pathlib import Path

import pytest

from e2e.harness import build
from e2e.harness.api import Json
from e2e.harness.cluster import access
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import UnavailableError
from e2e.harness.node import images, real_node
from e2e.harness.node.real_node import RealNode, burning_pod
from e2e.harness.node.registry import Registry
from e2e.harness.objects import condition, pods, wait_until
from e2e.harness.product.operator import MANIFESTS, NAMESPACE, Operator, install, placeholders, policy, status

MEGABYTES = int(os.environ.get("WARM_MEGABYTES", "50"))
RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["resource-slack-warm"], "verbs": ["patch"]},
]
"""What the chart gives with operator.warm.enabled."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    try:
        real_node.require()
        build.ensure(["kubelet"])
    except UnavailableError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("warm")
    return ControlPlane(folder, real_node.options(folder))


def warm_manifests() -> list[Json]:
    found = access.read_manifests(MANIFESTS)
    for manifest in found:
        if manifest["kind"] == "Role" and manifest["metadata"]["name"] == "resource-slack":
            manifest["rules"] += RULES
    return found


def image(registry: Registry, folder: Path, tag: str) -> str:
    bulk = folder / "bulk"
    bulk.write_bytes(os.urandom(MEGABYTES * 1_000_000))
    return registry.add(
        "app", tag, images.archive(folder / "app.tar", "app:1", ["/bin/sleep", "3600"], files={"bulk": bulk})
    )


def seconds_to_ready(cluster: ControlPlane, name: str, wanted: str) -> float:
    pod = burning_pod(name, 0, request="10m")
    pod["spec"]["containers"][0] |= {"image": wanted, "imagePullPolicy": "IfNotPresent"}
    began = time.monotonic()
    cluster.api.create(pod)
    path = f"/api/v1/namespaces/default/pods/{name}"
    wait_until(lambda: condition(cluster.api.get(path), "Ready") == "True", 120, f"{name} to be Ready", every=0.05)
    return time.monotonic() - began


def test_a_pod_on_a_warm_node_is_ready_as_soon_as_with_an_image_that_is_there(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with cluster, RealNode(cluster) as node, Registry() as registry:
        warmed, cold = image(registry, tmp_path, "1"), image(registry, tmp_path, "2")
        identity = install(cluster, warm_manifests())
        with Operator(cluster, "--warm", identity=identity) as operator:
            operator.wait_until_ready()
            spec = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "100m", "memory": "64Mi"}}, "hold": "Bound"}
            cluster.api.create(policy("default", **spec, warm={"images": "None", "imageList": [warmed]}))
            wait_until(
                lambda: bool(placeholders(cluster.api, bound=True)),
                90,
                "a placeholder",
                lambda: status(cluster.api, "default"),
            )

            def there() -> bool:
                found = cluster.api.get(f"/api/v1/nodes/{node.name}")["status"].get("images") or []
                return any(warmed in (each.get("names") or []) for each in found)

            wait_until(there, 120, "the image to be pulled")
            wait_until(
                lambda: not [pod for pod in pods(cluster.api, NAMESPACE) if "slack-warm" in pod["metadata"]["name"]],
                60,
                "the warm pod to go",
            )
            present = [seconds_to_ready(cluster, f"present{number}", images.BURNER) for number in range(3)]
            warm = [seconds_to_ready(cluster, "warm", warmed)]
            late = [seconds_to_ready(cluster, "cold", cold)]
            print(f"MB {MEGABYTES} present {present} warm {warm} cold {late}")
            assert min(warm) <= 1.2 * max(present)
            wait_until(lambda: "timeToReady" in status(cluster.api, "default"), 90, "the time to Ready in the status")
            print(status(cluster.api, "default")["timeToReady"])
