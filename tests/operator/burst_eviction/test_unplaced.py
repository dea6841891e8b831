"""Pods without a node, as events show them: which of them are left to the scheduler."""

from typing import Any

import pytest

from slack.planner.burst_eviction.burst import LeftAlone
from slack_operator.placeholders.view import unplaced
from slack_operator.placeholders.view.unplaced import UnplacedPods
from tests.cluster.build import as_pod, columns_of, node, pod


def seen(**spec: Any) -> LeftAlone | None:
    item = pod("a", **spec)
    waiting = UnplacedPods()
    waiting.seen(as_pod(item), columns_of(node("n0"), item), 1.0)
    (found,) = waiting.pods.values()
    return found.asked.left_alone


def test_a_queue_of_gated_pods_keeps_no_pod_out_that_the_scheduler_considers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unplaced, "MOST", 4)
    monkeypatch.setattr(unplaced, "_MOST_GATED", 2)
    queue = [pod(f"q{i}", schedulingGates=[{"name": "queue"}]) for i in range(9)]
    real = [pod(f"a{i}") for i in range(2)]
    columns, waiting = columns_of(node("n0"), *queue, *real), UnplacedPods()
    for item in (*queue, *real):
        waiting.seen(as_pod(item), columns, 1.0)
    reasons = [known.asked.left_alone for known in waiting.pods.values()]
    assert reasons == [LeftAlone.GATED, LeftAlone.GATED, None, None]


@pytest.mark.parametrize(
    ("ports", "reason"), [([{"containerPort": 80}], None), ([{"containerPort": 80, "hostPort": 80}], "host-ports")]
)
def test_a_pod_that_takes_ports_of_its_node_is_left_to_the_scheduler(ports: Any, reason: str | None) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert seen(containers=[{"name": "main", "ports": ports, "resources": resources}]) == reason
