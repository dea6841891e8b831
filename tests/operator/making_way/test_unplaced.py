"""Pods without a node, as events show them: which of them are left to the scheduler."""

from typing import Any

import pytest

from slack.planner.way.burst import LeftAlone
from slack_operator.placeholders.unplaced import UnplacedPods
from tests.cluster.build import as_pod, columns_of, node, pod


def seen(**spec: Any) -> LeftAlone | None:
    item = pod("a", **spec)
    waiting = UnplacedPods()
    waiting.seen(as_pod(item), columns_of(node("n0"), item), 1.0)
    (found,) = waiting.pods.values()
    return found.asked.left_alone


@pytest.mark.parametrize(
    ("ports", "reason"), [([{"containerPort": 80}], None), ([{"containerPort": 80, "hostPort": 80}], "host-ports")]
)
def test_a_pod_that_takes_ports_of_its_node_is_left_to_the_scheduler(ports: Any, reason: str | None) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert seen(containers=[{"name": "main", "ports": ports, "resources": resources}]) == reason
