"""Giving up in time, saying why, and shrinking into whole nodes."""

import time

import pytest

from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, pods, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    Operator,
    held,
    placeholders,
    policy,
    replica_sets,
    status,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold


def test_no_word_from_any_autoscaler_is_said_after_two_minutes(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node("node-0")])
    api.create(deployment("api", 4, cpu="900m", memory="1Gi"))
    wait_for_running(api, 4, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        # Unbound ones that nobody answers become bound, which tests of `Auto` show.
        api.create(policy("default", hold="Bound", extraCapacity={"minRate": 0.5}))
        wait_until(lambda: placeholders(api, bound=False), 20, "pending placeholders")
        found = wait_for_condition(api, "default", "AutoscalerIgnoresPlaceholders", "True", 150)
        assert "--expendable-pods-priority-cutoff" in found["message"]


@pytest.mark.autoscaler
def test_a_limit_of_the_autoscaler_holds_placeholders_at_one_probe(cluster: Backend, hold: Hold) -> None:
    """A NodePool's limit is reached: what is pending goes but for a probe, and comes back when there is room."""
    api = cluster.api

    def waiting() -> int:
        """Placeholders without capacity: of unbound ones the status alone tells."""
        return int(status(api, "default")["pending"])

    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("default", cpu_limit="5")  # one node of 4 cpu
        operator.wait_until_ready()
        api.create(
            policy(
                "default",
                hold=hold,
                extraCapacity={"minRate": 0, "floor": {"cpu": "6", "memory": "4Gi"}},
                stabilization={"giveUpAfter": "15s", "shrinkDelay": "5s"},
            )
        )
        api.create(deployment("api", 2, cpu="900m", memory="512Mi"))
        wait_for_running(api, 2, 60)
        found = wait_for_condition(api, "default", "LimitReached", "True", 90)
        print("\n" + found["message"])
        assert found["reason"] in ("AutoscalerLimit", "NoNodeGroupFits")
        wait_until(
            lambda: waiting() <= len(replica_sets(api)),
            30,
            "a probe for each shape at the most",
            state=lambda: (len(placeholders(api)), status(api, "default")),
        )
        there = {pod["metadata"]["uid"] for pod in held(api, hold)}
        assert len(there) > (0 if hold is Hold.BOUND else waiting()), "what has capacity stays"
        karpenter.add_pool("default", cpu_limit="50")
        wait_until_placed(api, "default", 120)
        assert there <= {pod["metadata"]["uid"] for pod in placeholders(api)}


def test_a_quota_that_refuses_placeholders_is_named(cluster: Backend, hold: Hold) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(4)])
    api.create(deployment("api", 8, cpu="900m", memory="1Gi"))
    wait_for_running(api, 8, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "slack", "namespace": NAMESPACE},
                "spec": {"hard": {"pods": "1"}},
            }
        )
        try:
            api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.5}))
            found = wait_for_condition(api, "default", "LimitReached", "True", 40)
            assert found["reason"] == "QuotaExceeded"
            assert "quota" in found["message"]
        finally:
            api.delete(f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/slack")


def test_a_large_shape_is_said_to_pin_its_node(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(3)])
    api.create(deployment("large", 2, cpu="3", memory="1Gi"))
    wait_for_running(api, 2, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold="Bound"))  # an unbound one is on no node
        found = wait_for_condition(api, "default", "PinsNodes", "True")
        assert "75%" in found["message"]


def test_slack_shrinks_into_whole_nodes(cluster: Backend) -> None:
    """Of placeholders on nodes with real pods and on nodes of their own, the latter leave, so that a node is empty."""
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(3)])
    api.create(deployment("api", 3, cpu="2400m", memory="1Gi"))
    wait_for_running(api, 3, 30)
    busy = {p["spec"]["nodeName"] for p in pods(api, "default")}
    assert len(busy) == 3
    create_all(api, [kwok.node(f"spare-{i}") for i in range(2)])
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        size = {"minRate": 0, "floor": {"cpu": "4800m", "memory": "4Gi"}}
        # No pod is small: version 1's chunks, of a fifth of a node. Bound: only those keep a node from being empty.
        spec = {"extraCapacity": size, "cover": {"mode": "None"}, "stabilization": {"shrinkDelay": "4s"}}
        api.create(policy("default", hold="Bound", **spec))
        wait_until_placed(api, "default")
        many = placeholders(api)
        before = {p["metadata"]["uid"] for p in many}
        small = {"minRate": 0, "floor": {"cpu": "1600m", "memory": "2Gi"}}
        api.patch("/apis/resource-slack.io/v1alpha1/slackpolicies/default", {"spec": {"extraCapacity": small}})
        wait_until(lambda: len(placeholders(api)) == 2, 40, "two placeholders", state=lambda: status(api, "default"))
        left = placeholders(api)
        assert {p["metadata"]["uid"] for p in left} <= before, "the ones that stay are not new"
        occupied = {p["spec"]["nodeName"] for p in pods(api) if p["spec"].get("nodeName")}
        assert len({f"spare-{i}" for i in range(2)} - occupied) >= 1, "a node is empty"
        time.sleep(3)
        assert len(nodes(api)) == 5


@pytest.mark.autoscaler
def test_slack_goes_to_zero_with_the_last_pod(cluster: Backend, hold: Hold) -> None:
    api = cluster.api
    create_all(api, [kwok.node("node-0")])
    api.create(deployment("api", 3, cpu="500m", memory="1Gi"))
    wait_for_running(api, 3, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold=hold, stabilization={"shrinkDelay": "3s"}))
        wait_until_placed(api, "default")
        assert placeholders(api)
        scale(api, "api", 0)
        wait_until(lambda: not placeholders(api), 40, "no placeholder", state=lambda: status(api, "default"))
        assert operator.program.running
