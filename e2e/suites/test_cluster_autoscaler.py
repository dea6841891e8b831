"""Beside the stock Cluster Autoscaler (CLUSTER_AUTOSCALER=path): nodes come for placeholders, and go with the load."""

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
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold

pytestmark = pytest.mark.autoscaler


def test_the_stock_autoscaler_scales_for_placeholders_and_back(
    cluster: Backend, cluster_autoscaler_binary: Path, hold: Hold
) -> None:
    """R3: untouched, it adds the node that slack needs and takes every node away when load and slack have gone."""
    api = cluster.api
    group = NodeGroup("general", max_count=6, boot_seconds=2)
    with ClusterAutoscaler(cluster, [group]), Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.3}, stabilization={"shrinkDelay": "5s"}))
        api.create(deployment("api", 9, cpu="800m", memory="1Gi"))
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        made = placeholders(api)
        assert made
        assert all(bool(p["spec"].get("nodeName")) == (hold is Hold.BOUND) for p in made)
        before = {p["metadata"]["uid"] for p in made}
        times = binding_seconds(api, lambda: scale(api, "api", 11), 2, 20, "api")
        print(
            "\nseconds from creation to binding in slack beside the Cluster Autoscaler:", [round(t, 3) for t in times]
        )
        assert times[-1] < 2.0
        wait_until_placed(api, "default", 90)
        displaced = 2 if hold is Hold.BOUND else 0  # two pods come, and nobody displaces an unbound placeholder
        assert len(before & {p["metadata"]["uid"] for p in placeholders(api)}) >= len(before) - displaced
        scale(api, "api", 0)
        wait_until(lambda: not placeholders(api), 60, "slack to be gone", state=lambda: status(api, "default"))
        wait_until(
            lambda: not nodes(api),
            150,
            "all nodes to be gone",
            state=lambda: [p["metadata"]["name"] for p in pods(api)],
        )


def test_the_largest_size_of_a_group_is_said(cluster: Backend, cluster_autoscaler_binary: Path) -> None:
    api = cluster.api
    group = NodeGroup("general", max_count=1)
    with ClusterAutoscaler(cluster, [group]), Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(deployment("api", 3, cpu="900m", memory="1Gi"))
        wait_for_running(api, 3, 60)
        api.create(
            policy(
                "default",
                hold="Bound",  # a bound probe is pending, an unbound one fits nowhere
                extraCapacity={"minRate": 1.0},
                stabilization={"giveUpAfter": "15s", "shrinkDelay": "5s"},
            )
        )
        found = wait_for_condition(api, "default", "LimitReached", "True", 90)
        print("\n" + found["message"])
        assert found["reason"] in ("AutoscalerLimit", "NoNodeGroupFits")
        wait_until(
            lambda: len(placeholders(api, bound=False)) == 1, 30, "one probe", state=lambda: status(api, "default")
        )
