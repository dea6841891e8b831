"""What an objective may cost: by its own prices, else by the operator's; and where nobody knows a price, by neither."""

from typing import Any

import pytest

from slack.cluster.node_prices import NO_PRICES, NodePrices, parse_prices
from slack.health.reasons import reason
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.objective.amount import Amount, SizingReason
from slack.planner.plan import plan
from tests.cluster.build import Json, node
from tests.planner.scenes import policy_of, replicas, snapshot_of

GI = 1 << 30
TYPE = "node.kubernetes.io/instance-type"
WHY = SizingReason(0.99, known=True, quantile=0.99, window_seconds=60.0)
AMOUNT = Amount(8000, 8 * GI, WHY, (((1000, GI), 1.0),), (16000, 16 * GI))
BY_TYPE = parse_prices({"currency": "EUR", "instanceTypes": {"large": 0.4}})
BY_AMOUNT = parse_prices({"cpu": 0.04, "memory": 0.01})


def nodes(kind: str = "large") -> list[Json]:
    made = [node(f"n{i}", "8", "32Gi", labels={TYPE: kind}) for i in range(4)]
    return [*made, *(pod for i in range(4) for pod in replicas(3, f"api{i}", "1", "2Gi", node=f"n{i}"))]


def planned(*objects: Json, by: NodePrices = NO_PRICES, **objective: Any) -> PolicyPlan:
    """The plan by the operator's prices."""
    policy = policy_of(objective={"instantStart": 0.99, **objective}, cover={"mode": "None"})
    snapshot = snapshot_of(*objects, labels=(*by.label_keys, "pool"))
    return plan(snapshot, [policy], now=0, prices=by, objectives={"default": AMOUNT}).items[0]


def ready(item: PolicyPlan) -> tuple[bool, str, str]:
    (found,) = [found for found in item.conditions if found.type is ConditionType.READY]
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("prices", "per_hour"),
    [(BY_TYPE, 0.4), (BY_AMOUNT, 0.4)],  # 8 of 32 cores are one node of four; 8 cores and 8 GiB
)
def test_without_prices_of_its_own_a_policy_is_bounded_by_the_operators(prices: NodePrices, per_hour: float) -> None:
    free = planned(*nodes(), by=prices, maxCostPerHour=per_hour)
    half = planned(*nodes(), by=prices, maxCostPerHour=per_hour / 2)
    assert (free.desired[0], half.desired[0]) == (8000, 4000)
    assert half.desired[1] == 4 * GI
    assert half.why is not None
    assert (half.why.bounded_by, half.why.known) == ("maxCostPerHour", True)
    assert half.why.price_per_hour == pytest.approx(per_hour / 2)
    assert free.why is not None
    assert free.why.bounded_by is None
    assert ready(half)[:2] == (True, "Accepted")


def test_prices_of_its_own_win_for_the_learner_has_kept_the_bound_by_them() -> None:
    own: Json = {"prices": {"cpu": 0.001, "memory": 0}}
    item = planned(*nodes(), by=BY_TYPE, maxCostPerHour=0.01, **own)
    assert int(item.desired[0]) == 8000
    assert ready(item)[0]


def test_a_bound_of_nothing_keeps_nothing() -> None:
    item = planned(*nodes(), by=BY_TYPE, maxCostPerHour=0)
    assert int(item.desired[0]) == 0


@pytest.mark.parametrize(
    ("prices", "kind", "words"),
    [
        (NO_PRICES, "large", "nobody says what nodes cost"),
        (BY_TYPE, "unheard of", "no node of the policy has a price"),
    ],
)
def test_where_nobody_knows_a_price_the_rate_holds_and_ready_says_what_to_give(
    prices: NodePrices, kind: str, words: str
) -> None:
    item = planned(*nodes(kind), by=prices, maxCostPerHour=2.5)
    status, name, message = ready(item)
    assert (status, name) == (False, "NoPrices")
    assert message == (
        f"spec.objective.maxCostPerHour is 2.5, and {words}: give spec.objective.prices, or the operator's --prices "
        "(the chart's prices; for plan a file, --prices FILE); until then the rate holds"
    )
    known = reason(name)
    assert known is not None
    assert "--prices" in known.advice
    assert int(item.desired[0]) == 1200, "a tenth of what runs"
    assert item.why is not None
    assert (item.why.known, item.why.lacking) == (False, f"for maxCostPerHour {words}")
    assert item.act


def test_without_a_bound_nobody_needs_prices() -> None:
    item = planned(*nodes())
    assert (int(item.desired[0]), ready(item)[0]) == (8000, True)


def test_where_a_policy_has_no_node_nothing_costs_anything() -> None:
    assert ready(planned(by=BY_TYPE, maxCostPerHour=1))[1] != "NoPrices"
