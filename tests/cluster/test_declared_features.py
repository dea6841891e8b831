"""Nodes that declare features (Kubernetes 1.36, KEP-5328): who may go where, as the scheduler's plugin has it."""

from typing import Any

import pytest

from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy, PolicySpec
from tests.cluster.build import NOW, Json, columns_of, node, pod, workload

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"


def declaring(name: str, *features: str, **rest: Any) -> Json:
    found = node(name, **rest)
    found["status"]["declaredFeatures"] = list(features)
    return found


def restarting(name: str, **rest: Any) -> Json:
    found = pod(name, **rest)
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}
    found["spec"]["containers"][0]["restartPolicyRules"] = [rule]
    return found


def reached(*objects: Json) -> dict[str, list[str]]:
    """By example pod, the nodes that it may go to."""
    snapshot = columns_of(*objects).snapshot(NOW)
    nodes, kinds = snapshot.nodes, snapshot.kinds
    return {
        kinds.example[k]: [
            name for row, name in enumerate(nodes.names) if snapshot.reach[kinds.constraint_id[k], nodes.class_id[row]]
        ]
        for k in range(len(kinds))
    }


def test_a_pod_goes_only_to_nodes_that_declare_what_it_needs() -> None:
    old, new = declaring("old", "ExtendWebSocketsToKubelet"), declaring("new", RESTART, USERS)
    free = pod("host", hostNetwork=True, hostUsers=False)
    assert reached(old, new, restarting("restarts"), free, pod("plain")) == {
        "shop/restarts": ["new"],
        "shop/host": ["new"],
        "shop/plain": ["new", "old"],
    }


@pytest.mark.parametrize(
    "spec", [{"hostNetwork": True}, {"hostUsers": False}, {"hostNetwork": True, "hostUsers": True}]
)
def test_a_pod_that_does_less_needs_nothing(spec: Json) -> None:
    assert reached(declaring("old", "Other"), pod("a", **spec)) == {"shop/a": ["old"]}


def test_where_no_node_declares_anything_the_scheduler_does_not_ask() -> None:
    assert reached(node("a"), node("b"), restarting("r")) == {"shop/r": ["a", "b"]}


def test_a_node_that_begins_to_declare_makes_the_scheduler_ask() -> None:
    columns = columns_of(node("a"), node("b"), restarting("r"))
    assert columns.snapshot(NOW).reach.all()
    columns = columns_of(node("a"), declaring("b", RESTART), restarting("r"))
    snapshot = columns.snapshot(NOW)
    assert len(snapshot.node_classes) == 2
    assert snapshot.reach.sum() == 1


def test_features_that_no_pod_needs_make_no_classes() -> None:
    snapshot = columns_of(declaring("a", RESTART), declaring("b", USERS), node("c"), pod("p")).snapshot(NOW)
    assert len(snapshot.node_classes) == 1


def planned(*objects: Json, **spec: Any) -> PolicyPlan:
    policy = Policy(name="default", spec=PolicySpec.model_validate(spec))
    return plan(columns_of(*objects).snapshot(NOW), [policy], now=NOW).items[0]


def test_no_placeholder_is_kept_for_pods_that_only_some_nodes_can_run() -> None:
    nodes = [declaring("old", "Other", cpu="8"), declaring("new", RESTART, cpu="8")]
    item = planned(*nodes, restarting("r", cpu="1", node="new", owner=("ReplicaSet", "r")))
    (left,) = item.uncovered
    assert "only some of the nodes declare the feature" in left.reason
    assert RESTART in item.condition(ConditionType.FEASIBLE).message


def test_where_all_nodes_declare_it_such_pods_are_covered_like_others() -> None:
    nodes = [declaring("a", RESTART, cpu="8"), declaring("b", RESTART, cpu="8")]
    item = planned(*nodes, restarting("r", cpu="1", node="a", owner=("ReplicaSet", "r")))
    assert item.uncovered == ()
    assert item.covered_share == 1.0


def test_a_mirror_that_could_stand_where_its_workload_cannot_run_is_not_made() -> None:
    nodes = [declaring("old", "Other", cpu="8"), declaring("new", RESTART, cpu="8")]
    reserved = workload("Deployment", "r", annotations={"resource-slack.io/reserve": "1"}, cpu="1")
    rule = {"action": "RestartAllContainers"}
    reserved["spec"]["template"]["spec"]["containers"][0]["restartPolicyRules"] = [rule]
    item = planned(*nodes, reserved)
    assert not item.shapes
    assert any("only some of the nodes declare" in left.reason for left in item.uncovered)
