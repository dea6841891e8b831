"""Images are there before the pods that need them: on a real kubelet with a registry on this machine. Root only.

`WARM_MEGABYTES=2000` measures with larger images; it is 50 otherwise.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.cluster import access
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.errors import UnavailableError
from e2e.harness.node import real_node
from e2e.harness.node.real_node import RealNode, burning_pod
from e2e.harness.node.registry import Registry
from e2e.harness.objects import condition, pods, wait_for_running, wait_until
from e2e.harness.product.operator import (
    MANIFESTS,
    NAMESPACE,
    POLICIES,
    Operator,
    install,
    placeholders,
    policy,
    status,
)

MEGABYTES = int(os.environ.get("WARM_MEGABYTES", "50"))
BURST = 3
MOST = 1.2
"""Created to Ready on a warm node, as a share of what an image takes that is there."""
PULLED_SECONDS = 180.0
RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["resource-slack-warm"], "verbs": ["patch"]},
]
"""What the chart gives with operator.warm.enabled."""
PROGRAM: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "resource-slack-warm", "namespace": NAMESPACE},
}
"""What the chart makes then."""


def warm_manifests() -> list[Json]:
    found = access.read_manifests(MANIFESTS)
    for manifest in found:
        if manifest["kind"] == "Role" and manifest["metadata"]["name"] == "resource-slack":
            manifest["rules"] += RULES
    return found


@dataclass
class World:
    api: Api
    node: RealNode
    registry: Registry

    def want(self, **warm: object) -> None:
        """Have the policy ask for images."""
        self.api.patch(f"{POLICIES}/default", {"spec": {"warm": None}})
        self.api.patch(f"{POLICIES}/default", {"spec": {"warm": warm}})

    def want_only(self, *images: str, **warm: object) -> None:
        self.want(images="None", imageList=list(images), **warm)

    def lists(self, image: str) -> bool:
        """Whether the node says that it has an image."""
        found = self.api.get(f"/api/v1/nodes/{self.node.name}")["status"].get("images") or []
        return any(image in (each.get("names") or []) for each in found)

    def wait_for_image(self, image: str) -> None:
        wait_until(lambda: self.lists(image), PULLED_SECONDS, f"{image} to be pulled", self.said)
        wait_until(lambda: not self.warm_pods(), 60, "the warm pods to go")

    def warm_pods(self) -> list[Json]:
        return pods(self.api, NAMESPACE, labelSelector="resource-slack.io/warm=true")

    def said(self) -> Json:
        """Return the condition ImagesNotPulled; {} while all is well."""
        found = status(self.api, "default").get("conditions") or []
        return next((each for each in found if each["type"] == "ImagesNotPulled"), {})

    def seconds_to_ready(self, name: str, image: str, count: int = BURST) -> float:
        """Create a burst of pods, wait until all are Ready, and take them away."""
        names = [f"{name}-{number}" for number in range(count)]
        began = time.monotonic()
        for each in names:
            pod = burning_pod(each, 0, request="10m")
            pod["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": "IfNotPresent"}
            self.api.create(pod)
        paths = [f"/api/v1/namespaces/default/pods/{each}" for each in names]
        wait_until(
            lambda: all(condition(self.api.get(path), "Ready") == "True" for path in paths),
            PULLED_SECONDS,
            f"{name} to be Ready",
            every=0.02,
        )
        seconds = time.monotonic() - began
        for path in paths:
            self.api.delete(path)
        wait_until(lambda: not any(self.api.find(path) for path in paths), 60, f"{name} to go")
        return seconds


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    try:
        real_node.require()
        build.ensure(["kubelet"])
    except UnavailableError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("warm")
    cluster = ControlPlane(folder, real_node.options(folder))
    with cluster, RealNode(cluster) as node, Registry(tmp_path_factory.mktemp("registry")) as registry:
        identity = install(cluster, warm_manifests())
        cluster.api.apply(PROGRAM)
        with Operator(cluster, "--warm", identity=identity) as operator:
            operator.wait_until_ready()
            spec = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "100m", "memory": "64Mi"}}, "hold": "Bound"}
            cluster.api.create(policy("default", **spec))
            wait_until(
                lambda: bool(placeholders(cluster.api, bound=True)),
                90,
                "a placeholder",
                lambda: status(cluster.api, "default"),
            )
            yield World(cluster.api, node, registry)


def test_a_burst_on_a_warm_node_is_ready_as_soon_as_with_an_image_that_is_there(world: World) -> None:
    there, warmed, cold = (world.registry.add("app", str(number), MEGABYTES) for number in range(3))
    world.seconds_to_ready("first", there, 1)
    world.want_only(warmed)
    world.wait_for_image(warmed)
    present = [world.seconds_to_ready(f"present{number}", there) for number in range(3)]
    served = world.registry.served_bytes
    warm = [world.seconds_to_ready(f"warm{number}", warmed) for number in range(3)]
    assert world.registry.served_bytes == served
    late = world.seconds_to_ready("cold", cold)
    print(f"{MEGABYTES} MB, seconds to Ready of {BURST} pods: present {present}, warm {warm}, cold {late}")
    print(f"warm relative to present: {min(warm) / min(present):.2f}; cold: {late / min(present):.2f}")
    assert min(warm) <= MOST * max(present)


def test_a_private_image_is_pulled_with_the_secret_that_the_policy_names(world: World) -> None:
    image = world.registry.add("private/app", "1")
    world.want_only(image)
    wait_until(lambda: image in world.said().get("message", ""), 60, "the refusal to be said", world.said)
    assert world.said()["reason"] == "ImagePullFailed"
    other = world.registry.add("private/app", "2")
    world.api.apply(world.registry.pull_secret("corp", NAMESPACE))
    world.want_only(other, imagePullSecrets=[{"name": "corp"}])
    world.wait_for_image(other)
    wait_until(lambda: not world.said(), 60, "all to be well", world.said)


def test_a_failing_registry_is_told_with_image_and_reason_and_tried_again(world: World) -> None:
    image = world.registry.add("app", "failing")
    world.registry.broken = True
    try:
        world.want_only(image)
        wait_until(lambda: image in world.said().get("message", ""), 60, "the failure to be said", world.said)
    finally:
        world.registry.broken = False
    assert world.said()["reason"] == "ImagePullFailed"
    assert "ErrImagePull" in world.said()["message"]
    world.wait_for_image(image)


def test_an_image_that_was_collected_is_pulled_again(world: World) -> None:
    image = world.registry.add("app", "collected")
    world.want_only(image)
    world.wait_for_image(image)
    time.sleep(35.0)  # the operator reads a node every 30 s: it has seen the image listed
    names = world.node.containerd.ctr("images", "ls", "-q").split()
    listed = world.api.get(f"/api/v1/nodes/{world.node.name}")["status"]["images"]
    aliases = next(each["names"] for each in listed if image in (each.get("names") or []))
    world.node.containerd.ctr("images", "rm", *(name for name in names if name in aliases))
    wait_until(lambda: not world.lists(image), 120, "the image to be gone")
    world.wait_for_image(image)


def test_a_rollout_is_pulled_for_before_its_first_pod(world: World) -> None:
    before, after = world.registry.add("shop", "1"), world.registry.add("shop", "2")
    world.want(images="Covered")
    labels = {"app": "shop"}
    container = burning_pod("shop", 0, request="10m")["spec"]["containers"][0] | {
        "image": before,
        "imagePullPolicy": "IfNotPresent",
    }
    shop = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
        },
    }
    world.api.create(shop)
    wait_for_running(world.api, 2, 90, labelSelector="app=shop")
    template = {"spec": {"containers": [container | {"image": after}], "terminationGracePeriodSeconds": 0}}
    path = "/apis/apps/v1/namespaces/default/deployments/shop"
    world.api.patch(path, {"spec": {"paused": True, "template": template}})
    world.wait_for_image(after)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(world.api, labelSelector="app=shop")} == {before}
    world.api.delete(path)


def test_nothing_is_pulled_under_disk_pressure(world: World) -> None:
    image = world.registry.add("app", "pressure")
    world.node.stop_kubelet()  # so that the condition stays as it is written here
    path = f"/api/v1/nodes/{world.node.name}"
    conditions = world.api.get(path)["status"]["conditions"]
    said = [each | {"status": "True"} if each["type"] == "DiskPressure" else each for each in conditions]
    world.api.patch(f"{path}/status", {"status": {"conditions": said}})
    served = world.registry.served_bytes
    time.sleep(31.0)  # the operator reads a node every 30 s
    world.want_only(image)
    wait_until(lambda: world.said().get("reason") == "DiskShort", 60, "the lack of disk to be said", world.said)
    assert "DiskPressure" in world.said()["message"]
    assert image in world.said()["message"]
    assert not world.warm_pods()
    assert world.registry.served_bytes == served
