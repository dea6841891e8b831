"""Faults around a burst beside Karpenter, in both forms of placeholders: slack comes back without help."""

from collections.abc import Iterator

import pytest

from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import deployment, nodes, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    Operator,
    binding_seconds,
    held,
    placeholders,
    policy,
    status,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold

pytestmark = pytest.mark.autoscaler
PODS = 10
BURST = 3


@pytest.fixture
def karpenter(cluster: Backend) -> Iterator[Karpenter]:
    """Karpenter with a pool."""
    with Karpenter(cluster) as found:
        found.add_pool("default")
        yield found


def place(cluster: Backend, hold: Hold) -> None:
    """Let pods run, and wait until the slack of a quarter of them is there."""
    cluster.api.create(deployment("api", PODS, cpu="700m", memory="1Gi"))
    cluster.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.25}))
    wait_for_running(cluster.api, PODS, 90)
    wait_until_placed(cluster.api, "default", 90)


def test_while_the_operator_is_dead_the_autoscaler_refills_alone(
    cluster: Backend, karpenter: Karpenter, hold: Hold
) -> None:
    """The next operator finds all in place: it moves nothing, and adds only what the larger load asks for."""
    api = cluster.api
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, hold)
        there = len(placeholders(api))
        operator.kill()
        before = {node["metadata"]["name"] for node in nodes(api)}
        times = binding_seconds(api, lambda: scale(api, "api", PODS + BURST), BURST, 20, "api")
        print("\nseconds from creation to binding without an operator:", [round(t, 3) for t in times])
        wait_until(lambda: {node["metadata"]["name"] for node in nodes(api)} > before, 90, "a node for what was taken")
        wait_until(lambda: len(held(api, hold)) == there, 90, "all placeholders to hold capacity again")
        uids = {pod["metadata"]["uid"] for pod in placeholders(api)}
        operator.start()
        operator.wait_until_ready()
        operator.wait_for_plans(2)
        wait_until_placed(api, "default", 90)
        assert uids <= {pod["metadata"]["uid"] for pod in placeholders(api)}


def test_slack_that_was_taken_while_the_autoscaler_was_away_comes_back_with_it(
    cluster: Backend, karpenter: Karpenter, hold: Hold
) -> None:
    api = cluster.api
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        place(cluster, hold)
        karpenter.stop()
        before = {node["metadata"]["name"] for node in nodes(api)}
        times = binding_seconds(api, lambda: scale(api, "api", PODS + BURST), BURST, 20, "api")
        assert len(times) == BURST, "the burst starts in what was held for it"
        waiting = wait_for_condition(api, "default", "SlackSatisfied", "False")
        assert waiting["reason"] == "Refilling"
        operator.wait_for_plans(3)
        assert {node["metadata"]["name"] for node in nodes(api)} == before, "nobody brings one"
        karpenter.start()
        wait_until_placed(api, "default", 120)
        assert {node["metadata"]["name"] for node in nodes(api)} > before, status(api, "default")
