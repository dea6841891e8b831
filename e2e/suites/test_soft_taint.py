"""The soft taint: the few nodes that hold unbound placeholders get it, real pods avoid them, and it goes again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import nodes, pod, pods, wait_until
from e2e.harness.product.helm import Helm
from e2e.harness.product.operator import Operator, install, placeholders, policy, status, wait_until_placed
from slack.cluster.labels import SOFT_TAINT

OURS: Json = {"key": SOFT_TAINT, "effect": "PreferNoSchedule"}
OTHERS: Json = {"key": "example.com/other", "effect": "PreferNoSchedule"}
POLICY = "/apis/resource-slack.io/v1alpha1/slackpolicies/default"
PINNED = {"karpenter.sh/do-not-disrupt": "true"}


@pytest.fixture
def operator(cluster: Backend, tmp_path: Path) -> Iterator[Operator]:
    """An operator with the setting on, and with the rights that the chart grants for it."""
    manifests = Helm(tmp_path).template("--set=operator.softTaint.enabled=true")
    with Operator(cluster, "--soft-taint", identity=install(cluster, manifests)) as operator:
        yield operator


def taints(api: Api) -> dict[str, set[str]]:
    return {node["metadata"]["name"]: {t["key"] for t in node["spec"].get("taints", [])} for node in nodes(api)}


def tainted(api: Api) -> set[str]:
    return {name for name, keys in taints(api).items() if SOFT_TAINT in keys}


def node_of(api: Api, name: str) -> str:
    return next((each["spec"].get("nodeName", "") for each in pods(api) if each["metadata"]["name"] == name), "")


def hold(api: Api) -> None:
    """Create a policy of five cores, and wait until nodes hold them."""
    floor = {"cpu": "5", "memory": "1Gi"}
    api.create(policy("default", hold="Unbound", extraCapacity={"minRate": 0.1, "floor": floor}))
    wait_until_placed(api, "default", 120)
    wait_until(lambda: bool(tainted(api)), 60, "nodes to be tainted", state=lambda: what_is_there(api))


def what_is_there(api: Api) -> list[object]:
    return [taints(api), [each["spec"].get("tolerations") for each in placeholders(api)], status(api, "default")]


@pytest.mark.autoscaler
@pytest.mark.usefixtures("cluster_autoscaler_binary")
def test_real_pods_avoid_nodes_that_hold_placeholders_and_the_taint_goes_with_the_policy(
    cluster: Backend, operator: Operator
) -> None:
    api = cluster.api
    flags = ["--scale-down-unneeded-time=10m"]
    with ClusterAutoscaler(cluster, [NodeGroup("general", max_count=6, boot_seconds=2)], flags):
        operator.wait_until_ready()
        for name in "abc":
            api.create(pod(name, cpu="3", memory="1Gi"))
        wait_until(lambda: all(node_of(api, name) for name in "abc"), 90, "three nodes with a pod each")
        for name in "bc":
            api.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)
        hold(api)
        free = node_of(api, "a")
        wait_until(lambda: len(tainted(api)) == 2, 60, "the two roomy nodes", state=lambda: what_is_there(api))
        assert free not in tainted(api)
        (first, _) = sorted(tainted(api))
        api.patch(f"/api/v1/nodes/{first}", {"spec": {"taints": [OURS, OTHERS]}})
        for number in range(3):
            api.create(pod(f"small-{number}"))
        wait_until(lambda: bool(node_of(api, "small-2")), 30, "small pods to be placed")
        assert {node_of(api, f"small-{number}") for number in range(3)} == {free}, "LeastAllocated prefers empty nodes"
        api.delete(POLICY)
        wait_until(lambda: not tainted(api), 60, "the taints to be gone", state=lambda: taints(api))
        assert OTHERS["key"] in taints(api)[first]


def test_karpenter_adds_no_node_for_placeholders_that_tolerate_it(cluster: Backend, operator: Operator) -> None:
    api = cluster.api
    with Karpenter(cluster) as karpenter:
        karpenter.add_pool("general", boot_seconds=2)
        operator.wait_until_ready()
        api.create(pod("real", cpu="500m", annotations=PINNED))
        wait_until(lambda: bool(node_of(api, "real")), 60, "the first node")
        hold(api)
        there = {node["metadata"]["name"] for node in nodes(api)}
        operator.wait_for_plans(4, seconds=90)
        assert {node["metadata"]["name"] for node in nodes(api)} == there
        assert tainted(api) <= there
        api.delete(POLICY)
        wait_until(lambda: not tainted(api), 60, "the taints to be gone", state=lambda: taints(api))
