"""A slip of the pen is seen in the plan: a large rate, and a plan that would more than double the cluster."""

from typing import Any

import pytest

from slack.planner.model.result import ConditionType, PolicyPlan
from slack.schema.conditions import StatusCondition
from tests.cluster.build import node
from tests.planner.scenes import plan_of, replicas

BOUNDED = {"cpu": "100", "memory": "400Gi"}
NODES = [node(f"n{i}", "4", "16Gi") for i in range(3)]
PODS = [pod for i in range(3) for pod in replicas(6, f"api{i}", "500m", "2Gi", node=f"n{i}")]


def large(item: PolicyPlan) -> StatusCondition | None:
    return next((found for found in item.conditions if found.type is ConditionType.LARGE_SLACK), None)


def test_up_to_a_half_nothing_is_said() -> None:
    assert large(plan_of(*NODES, *PODS, extraCapacity={"minRate": 0.5})) is None
    assert large(plan_of(*NODES, *PODS, objective={"instantStart": 0.99})) is None


def test_above_a_half_the_rate_is_named_and_what_ten_percent_is() -> None:
    found = large(plan_of(*NODES, *PODS, extraCapacity={"minRate": 0.6}))
    assert found == StatusCondition(
        "LargeSlack", True, "RateAboveHalf", "the rate is 0.6, 60 % of what runs; ten percent is 0.1"
    )


def test_a_fixed_number_is_no_rate_that_is_too_large() -> None:
    assert large(plan_of(*NODES, *PODS, extraCapacity={"minRate": 0.9, "replicas": 1})) is None


def test_a_plan_that_more_than_doubles_the_cluster_names_the_nodes() -> None:
    item = plan_of(*NODES, *PODS, extraCapacity={"minRate": 10, "ceiling": BOUNDED})
    found = large(item)
    assert found is not None
    assert found.reason == "MoreThanDoubles"
    # 90 cores are planned for, 3 are free, and a node has 4
    assert item.new_nodes == 22
    assert found.message == (
        "at least 22 nodes would come to the 3 of the cluster; the rate is 10, 1000 % of what runs"
    )


ALWAYS = {"cron": "* * * * *", "duration": "1h"}


@pytest.mark.parametrize(
    ("size", "cause"),
    [
        ({"minRate": 0, "floor": {"cpu": "60", "memory": "60Gi"}}, "floor is cpu 60, memory 60Gi"),
        ({"minRate": 0.1, "floor": {"cpu": "60"}}, "floor is cpu 60"),
        ({"replicas": 500}, "replicas is 500"),
        ({"replicas": 1, "schedule": [{**ALWAYS, "replicas": 500}]}, "schedule[].replicas is 500"),
        ({"floor": {"cpu": "1"}, "schedule": [{**ALWAYS, "floor": {"cpu": "60"}}]}, "schedule[].floor is cpu 60"),
    ],
)
def test_what_else_more_than_doubles_the_cluster_is_named_by_its_field_with_what_it_takes(
    size: dict[str, Any], cause: str
) -> None:
    item = plan_of(*NODES, *PODS, extraCapacity=size)
    found = large(item)
    assert found is not None
    assert found.reason == "MoreThanDoubles"
    nodes, field = found.message.split("; ")
    assert nodes == f"at least {item.new_nodes} nodes would come to the 3 of the cluster"
    assert field == f"spec.extraCapacity.{cause}"
    assert item.set_by == field


def test_room_that_is_free_already_brings_no_node() -> None:
    item = plan_of(*NODES, *PODS, extraCapacity={"minRate": 0.2})
    assert (item.new_nodes, large(item)) == (0, None)
