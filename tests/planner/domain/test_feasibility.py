"""S3: every placeholder fits some empty node, and the reason why one does not names the resource or constraint."""

from typing import Any

import numpy as np
import pytest

from slack.planner.model.result import ConditionType
from tests.cluster.build import node, pod
from tests.planner.scenes import plan_of, replicas

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "asks", "reason"),
    [
        ([node("n")], {"cpu": "8"}, "cpu 8 is more than any empty eligible node has (4)"),
        (
            [node("n")],
            {"cpu": "8", "memory": "99Gi"},
            "cpu 8 is more than any empty eligible node has (4) and memory 99Gi",
        ),
        (
            [node("n")],
            {"extended": {"nvidia.com/gpu": "1"}},
            "nvidia.com/gpu 1 is more than any empty eligible node has (0)",
        ),
        (
            [node("n", "8", "4Gi"), node("m", "2", "64Gi")],
            {"cpu": "6", "memory": "32Gi"},
            "no one eligible node has enough",
        ),
        ([node("n", pods="0")], {}, "no eligible node has a pod slot left by its DaemonSets"),
    ],
)
def test_the_reason_names_the_resource(nodes: list[Any], asks: dict[str, Any], reason: str) -> None:
    item = plan_of(*nodes, pod("big", owner=("ReplicaSet", "big"), **asks))
    found = item.condition(ConditionType.FEASIBLE)
    assert not found.status
    assert found.message.startswith("shop/rs/big: ")
    assert reason in found.message
    assert reason in {u.pod: u.reason for u in item.uncovered}["shop/rs/big"]
    assert not item.shapes


def test_daemonsets_take_their_part_of_an_empty_node() -> None:
    agent = pod("agent", cpu="1", node="n", owner=("DaemonSet", "agent"))
    assert plan_of(node("n"), *replicas(1, "api", "3", "1Gi", node="n")).feasible
    item = plan_of(node("n"), agent, *replicas(1, "api", "3500m", "1Gi"))
    assert "cpu 3500m is more than any empty eligible node has (3)" in item.condition(ConditionType.FEASIBLE).message


def test_pods_that_may_go_to_no_node_of_the_domain_are_not_its_business() -> None:
    item = plan_of(node("n"), node("t", taints=[TAINT]), *replicas(2, "x", "1", "1Gi", nodeSelector={"pool": "y"}))
    assert item.feasible
    assert item.base.tolist() == [0, 0]


def test_no_node_at_all_and_no_request_at_all() -> None:
    from slack.cluster.classes import Constraints
    from slack.planner.domain.feasibility import allowed, fit_matrix, node_rows, pinned_share, room_of, why_not
    from slack.planner.domain.membership import divide
    from slack.planner.model.plan_cache import PlanCache
    from tests.planner.scenes import policy_of, snapshot_of

    snapshot = snapshot_of()
    room = room_of(node_rows(snapshot, divide(snapshot, [policy_of()])[0].eligible, (), PlanCache()))
    vector = np.array([1, 1])
    rows = allowed(room, Constraints())
    assert (
        why_not(room, vector, Constraints(), snapshot.resources)
        == "the policy has no eligible node and no node template"
    )
    assert fit_matrix(room, vector[None, :], rows).tolist() == [False]
    assert pinned_share(room, vector, rows) == 0.0


def test_many_infeasible_kinds_are_all_named_but_few_explained() -> None:
    pods = [pod(f"p{i:02d}", cpu=f"{10 + i}", owner=("ReplicaSet", f"p{i:02d}")) for i in range(60)]
    item = plan_of(node("n"), *pods)
    assert len(item.uncovered) == 60
    assert item.condition(ConditionType.FEASIBLE).message.endswith("; and 47 more")
    assert item.uncovered[-1].reason == "it fits no empty node"
