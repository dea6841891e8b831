"""What nodes cost: by labels, by instance type, by cpu and memory; and what is said to prices that cannot be used."""

import pytest

from slack.cluster.node_prices import InvalidPrices, NodePrices, parse_prices
from tests.cases import run_for_each

PRICES = parse_prices(
    {
        "currency": "EUR",
        "instanceTypes": {"m7i.xlarge": 0.2, "m7i.2xlarge": "0.40"},
        "labels": [
            {"match": {"pool": "gpu"}, "perHour": 3},
            {"match": {"pool": "gpu", "karpenter.sh/capacity-type": "spot"}, "perHour": 1},
            {"match": {"karpenter.sh/capacity-type": "spot"}, "perHour": 0.07},
        ],
        "cpu": 0.03,
        "memory": 0.004,
    }
)
TYPE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("labels", "price"),
    [
        ({TYPE: "m7i.xlarge"}, 0.2),
        ({TYPE: "m7i.2xlarge"}, 0.4),
        ({TYPE: "m7i.xlarge", "karpenter.sh/capacity-type": "spot"}, 0.07),
        ({"pool": "gpu", "karpenter.sh/capacity-type": "spot"}, 3),  # the first that fits
        ({TYPE: "unknown"}, 4 * 0.03 + 16 * 0.004),
        ({}, 4 * 0.03 + 16 * 0.004),
    ],
)
def test_the_first_of_the_labels_counts_then_the_instance_type_then_what_the_node_has(
    labels: dict[str, str], price: float
) -> None:
    assert PRICES.price_of(labels, 4000, 16 << 30) == pytest.approx(price)


def test_a_node_of_which_nothing_speaks_has_no_price() -> None:
    assert parse_prices({"instanceTypes": {"a": 1}}).price_of({TYPE: "b"}, 4000, 16 << 30) is None


def test_nodes_are_told_apart_by_the_labels_of_prices_only() -> None:
    assert PRICES.label_keys == {TYPE, "pool", "karpenter.sh/capacity-type"}
    assert parse_prices({"cpu": 1}).label_keys == frozenset()


def test_json_text_says_the_same_as_a_mapping() -> None:
    assert parse_prices('{"currency": "EUR", "instanceTypes": {"a": 1}}') == NodePrices("EUR", (("a", 1.0),))


def test_the_charts_empty_prices_are_none() -> None:
    assert not parse_prices({"currency": "", "instanceTypes": {}, "labels": [], "cpu": 0, "memory": 0})
    assert not parse_prices({"currency": None, "instanceTypes": None, "labels": None, "cpu": None})


@run_for_each(
    ("given", "complaint"),
    [
        ("EUR", "expected JSON such as"),
        ([], "expected a mapping such as {currency: EUR"),
        ({"instancetypes": {}}, "instancetypes: unknown field; known are currency, instanceTypes, labels, cpu, memory"),
        ({"currency": "a currency of many words"}, "currency: 'a currency of many words' is no currency"),
        ({"currency": 3}, "currency: 3 is no currency"),
        ({"instanceTypes": ["a"]}, "instanceTypes: expected a mapping such as {m7i.2xlarge: 0.40}, found list"),
        ({"instanceTypes": {"a": -1}}, "instanceTypes.a: expected a price for an hour from 0 to 1000000, such as 0.40"),
        ({"instanceTypes": {"a": float("nan")}}, "instanceTypes.a: expected a price"),
        ({"instanceTypes": {"a": "nan"}}, "instanceTypes.a: expected a price"),
        ({"instanceTypes": {"a": "1e400"}}, "instanceTypes.a: expected a price"),
        ({"instanceTypes": {"a": True}}, "instanceTypes.a: expected a price"),
        ({"labels": {"a": 1}}, "labels: expected a list such as [{match: {pool: gpu}, perHour: 3.1}]"),
        ({"labels": [{"perHour": 1}]}, "labels[0]: needs match, with a label at least, and perHour, and nothing else"),
        ({"labels": [{"match": {}, "perHour": 1}]}, "labels[0]: needs match"),
        ({"labels": [{"match": {"a": "b"}, "perHour": 1, "per": 1}]}, "labels[0]: needs match"),
        ({"labels": [{"match": {"a": 1}, "perHour": 1}]}, "labels[0].match.a: 1 is no text; write it in quotes"),
        ({"labels": [3]}, "labels[0]: expected a mapping"),
        ({"cpu": "much"}, "cpu: expected a price"),
    ],
)
def test_a_complaint_names_the_path_and_what_would_be_right(given: object, complaint: str) -> None:
    with pytest.raises(InvalidPrices) as caught:
        parse_prices(given)
    assert complaint in str(caught.value)
