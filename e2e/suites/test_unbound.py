"""Unbound placeholders without an autoscaler: capacity stays free, and what is changed by hand is put right."""

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import deployment, wait_until
from e2e.harness.product.full_machines import create_three_busy_nodes
from e2e.harness.product.operator import (
    NAMESPACE,
    REPLICA_SETS,
    Operator,
    binding_seconds,
    held,
    is_told,
    placeholders,
    policy,
    replica_sets,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.mark.core
def test_a_burst_finds_free_capacity_and_what_is_changed_by_hand_is_put_right(cluster: Backend) -> None:
    """Without an autoscaler: the operator alone keeps unbound placeholders told of, and no more than it wants."""
    api = cluster.api
    create_three_busy_nodes(api)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        ceiling = {"cpu": "2400m", "memory": "3Gi"}
        api.create(policy("default", hold="Unbound", extraCapacity={"minRate": 0.25, "ceiling": ceiling}))
        wait_until(lambda: len(held(api, Hold.UNBOUND)) == 3, 30, "three placeholders to be told of")
        wait_until_placed(api, "default")
        first = held(api, Hold.UNBOUND)
        _untell(api, first[0])
        wait_until(lambda: len(held(api, Hold.UNBOUND)) == 3, 30, "the condition to be written again")
        (ours,) = replica_sets(api)
        api.patch(f"{REPLICA_SETS}/{ours['metadata']['name']}", {"spec": {"replicas": 500}})
        taken_back = "slack_ownership_taken_back_total"
        wait_until(lambda: operator.metric(taken_back, part="replicas") == 1, 30, "the count to be taken back")
        wait_until(lambda: len(placeholders(api)) == 3, 60, "the surplus to be gone")
        wait_until(lambda: len(held(api, Hold.UNBOUND)) == 3, 30, "those that are left to be told of")
        uids = {pod["metadata"]["uid"] for pod in placeholders(api)}
        times = binding_seconds(
            api, lambda: api.create(deployment("burst", 2, cpu="800m", memory="1Gi")), 2, 20, "burst"
        )
        assert times[-1] < 2.0, "what nobody is bound to is free"
        wait_for_condition(api, "default", "SlackSatisfied", "False")
        assert {pod["metadata"]["uid"] for pod in placeholders(api)} == uids
        assert operator.metric("slack_displaced_total") == 0


def _untell(api: Api, pod: Json) -> None:
    """Take the condition away that tells autoscalers of a placeholder, as somebody might by hand."""
    path = f"{PODS}/{pod['metadata']['name']}/status"
    gone = {"status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]}}
    api.request("PATCH", path, gone, "application/strategic-merge-patch+json")
    assert not is_told(api.get(path))
