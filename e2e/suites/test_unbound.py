"""Unbound placeholders beside the stock autoscalers: capacity stays free, nodes come for it, stay for it, and go."""

from pathlib import Path

import pytest

from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import deployment, nodes, pods, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    Operator,
    binding_seconds,
    placeholders,
    policy,
    status,
    wait_until_placed,
)

pytestmark = pytest.mark.autoscaler


def test_the_cluster_autoscaler_keeps_nodes_for_unbound_placeholders(
    cluster: Backend, cluster_autoscaler_binary: Path
) -> None:
    api = cluster.api
    group = NodeGroup("general", max_count=8, boot_seconds=2)
    with ClusterAutoscaler(cluster, [group]), Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(
            policy("default", hold="Unbound", extraCapacity={"minRate": 0.5}, stabilization={"shrinkDelay": "5s"})
        )
        api.create(deployment("api", 9, cpu="800m", memory="1Gi"))
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        held = placeholders(api)
        assert held
        assert not any(pod["spec"].get("nodeName") for pod in held)
        uids = {pod["metadata"]["uid"] for pod in held}
        times = binding_seconds(api, lambda: scale(api, "api", 13), 4, 20, "api")
        print("\nseconds from creation to binding in free capacity:", [round(t, 3) for t in times])
        assert times[-1] < 2.0
        wait_until_placed(api, "default", 90)
        assert uids <= {pod["metadata"]["uid"] for pod in placeholders(api)}
        print(status(api, "default")["conditions"])
        scale(api, "api", 0)
        wait_until(lambda: not placeholders(api), 60, "slack to be gone", state=lambda: status(api, "default"))
        wait_until(
            lambda: not nodes(api),
            150,
            "all nodes to be gone",
            state=lambda: [p["metadata"]["name"] for p in pods(api)],
        )
