"""What a plan costs: the share of the policy's nodes that its placeholders take, at what those nodes cost."""

from typing import Any

import pytest

from slack.cluster.node_prices import NO_PRICES, NodePrices, parse_prices
from slack.planner.model.cost import PlanCost, figure
from slack.planner.model.result import PolicyPlan
from slack.planner.plan import plan
from tests.cluster.build import Json, node
from tests.planner.scenes import policy_of, replicas, snapshot_of

TYPE = "node.kubernetes.io/instance-type"
BY_TYPE = parse_prices({"currency": "EUR", "instanceTypes": {"large": 0.4, "small": 0.2}})


def planned(*objects: Json, prices: NodePrices = NO_PRICES, **spec: Any) -> PolicyPlan:
    snapshot = snapshot_of(*objects, labels=(*prices.label_keys, "pool"))
    return plan(snapshot, [policy_of(**spec)], now=0, prices=prices).items[0]


def cluster(kind: str = "large") -> list[Json]:
    nodes = [node(f"n{i}", "8", "32Gi", labels={TYPE: kind}) for i in range(4)]
    return [*nodes, *(pod for i in range(4) for pod in replicas(6, f"api{i}", "1", "2Gi", node=f"n{i}"))]


FLOOR = {"minRate": 0, "floor": {"cpu": "8", "memory": "8Gi"}}


def test_without_prices_slack_costs_node_hours() -> None:
    item = planned(*cluster(), extraCapacity=FLOOR, cover={"mode": "None"})
    assert item.cost is not None
    assert item.cost.per_hour is None
    # 8 of 32 cores are one node of four; memory is less
    assert item.cost.nodes == pytest.approx(int(item.planned[0]) / 32000 * 4)
    assert str(item.cost) == "1 node"


def test_with_prices_it_costs_its_share_of_the_nodes() -> None:
    item = planned(*cluster(), prices=BY_TYPE, extraCapacity=FLOOR, cover={"mode": "None"})
    assert item.cost is not None
    assert item.cost.per_hour == pytest.approx(0.4)
    assert str(item.cost) == "0.4 EUR per hour, 292 EUR per month (1 node)"
    assert item.reserved_cost is not None
    assert item.reserved_cost.per_hour == 0


def test_nodes_without_a_price_are_counted_and_cost_what_the_others_do() -> None:
    other = node("n9", "8", "32Gi", labels={TYPE: "unheard of"})
    item = planned(*cluster(), other, prices=BY_TYPE, extraCapacity=FLOOR, cover={"mode": "None"})
    assert item.cost is not None
    assert (item.cost.unpriced_nodes, item.cost.node_per_hour) == (1, 0.4)
    assert str(item.cost).endswith("(1 node; 1 node of the policy has no price)")


def test_prices_of_cpu_and_memory_are_those_of_the_room_itself() -> None:
    prices = parse_prices({"cpu": 0.03, "memory": 0.004})
    item = planned(*cluster(), prices=prices, extraCapacity=FLOOR, cover={"mode": "None"})
    assert item.cost is not None
    cpu, memory = item.planned[:2].tolist()
    assert item.cost.per_hour == pytest.approx(cpu / 1000 * 0.03 + memory / (1 << 30) * 0.004)


def test_the_prices_of_an_objective_win_for_its_policy() -> None:
    objective = {"instantStart": 0.99, "prices": {"cpu": 1}}
    item = planned(*cluster(), prices=BY_TYPE, objective=objective, cover={"mode": "None"})
    assert item.cost is not None
    assert item.cost.per_hour == pytest.approx(int(item.planned[0]) / 1000)
    assert item.cost.currency == ""


def test_a_group_at_zero_costs_what_its_template_does() -> None:
    template = {"name": "web", "labels": {TYPE: "small", "pool": "web"}, "allocatable": {"cpu": "4", "memory": "16Gi"}}
    pod = replicas(1, "api", "1", "2Gi")
    item = planned(
        *pod,
        prices=BY_TYPE,
        nodeSelector={"pool": "web"},
        nodeTemplates=[template],
        extraCapacity={"minRate": 0, "floor": {"cpu": "8", "memory": "4Gi"}},
        cover={"mode": "None"},
    )
    assert item.cost is not None
    assert item.cost.per_hour == pytest.approx(item.cost.nodes * 0.2)


def test_where_there_is_no_node_there_is_no_cost() -> None:
    assert planned(extraCapacity=FLOOR).cost is None


def test_a_plan_that_doubles_the_cluster_names_the_money() -> None:
    size = {"minRate": 0, "floor": {"cpu": "100", "memory": "8Gi"}}
    item = planned(*cluster(), prices=BY_TYPE, extraCapacity=size, cover={"mode": "None"})
    said = [found.message for found in item.conditions if found.reason == "MoreThanDoubles"]
    assert said == [
        "at least 12 nodes would come to the 4 of the cluster, which cost 4.8 EUR per hour, 3504 EUR per month; "
        "spec.extraCapacity.floor is cpu 100, memory 8Gi"
    ]


def test_prices_change_nothing_of_a_plan_but_its_cost() -> None:
    mixed = [*cluster(), node("s", "4", "16Gi", labels={TYPE: "small"})]
    with_prices, without = planned(*mixed, prices=BY_TYPE), planned(*mixed)
    assert with_prices.planned.tolist() == without.planned.tolist()
    assert with_prices.shapes == without.shapes


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0004, "0.0004"), (0.4812, "0.481"), (12.345, "12.3"), (3504.4, "3504")]
)
def test_a_figure_has_three_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_nodes_without_a_price_are_counted() -> None:
    assert (PlanCost(1.0).of_nodes(3), str(PlanCost(1.0)), str(PlanCost(1.2))) == (None, "1 node", "1.2 nodes")
    assert PlanCost(1.0, 0.4, "EUR", 0.4).of_nodes(3) == "cost 1.2 EUR per hour, 876 EUR per month"
