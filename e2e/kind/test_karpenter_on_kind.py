"""Karpenter's kwok nodes beside kind's real ones: placeholders of an operator in the cluster bring a node."""

from pathlib import Path

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.kind import Kind
from e2e.harness.objects import deployment, nodes, pods, scale, wait_for_running
from e2e.harness.product.operator import binding_seconds, placeholders, wait_until_placed
from e2e.kind import workers
from slack.cluster.hold import Hold

BASE = 3
"""Pods of a core: a node of four has them, and no room for as many placeholders."""
POOL = {"pool": "kwok"}
SPEC: Json = {"nodeSelector": POOL, "extraCapacity": {"minRate": 1.0}, "cover": {"mode": "None"}}
pytestmark = pytest.mark.timeout(1500)


def places(api: Api) -> set[str]:
    """The nodes of the placeholders."""
    return {pod["spec"]["nodeName"] for pod in placeholders(api, bound=True)}


def test_placeholders_bring_a_kwok_node_beside_the_kind_nodes(cluster: Kind, tmp_path: Path, hold: Hold) -> None:
    api, real = cluster.api, set(workers.names(cluster))
    values = {"policies": {"default": {"hold": hold, **SPEC}}}
    with Karpenter(cluster) as karpenter, workers.Release(cluster, tmp_path, values):
        karpenter.add_pool("default", labels=POOL, consolidate_after="10m")
        api.create(deployment("base", BASE, cpu="1", memory="64Mi", nodeSelector=POOL))
        wait_for_running(api, BASE, 120, labelSelector="app=base")
        wait_until_placed(api, "default", 120)
        brought = {node["metadata"]["name"] for node in nodes(api)}
        assert len(brought) == 2
        assert places(api) <= brought, "none on kind's own nodes"
        assert bool(places(api)) == (hold is Hold.BOUND)
        seconds = binding_seconds(api, lambda: scale(api, "base", 2 * BASE), BASE, 60, "base")
        print(f"\n{BASE} pods bound within {seconds[-1]:.2f} s, where placeholders had brought a node")
        assert {pod["spec"]["nodeName"] for pod in pods(api, "default", labelSelector="app=base")} <= brought
        assert real <= {node["metadata"]["name"] for node in api.items("/api/v1/nodes")}
