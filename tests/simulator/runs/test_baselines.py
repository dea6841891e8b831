from typing import Any

import pytest

from slack.cluster.hold import Hold
from slack.planner.policy.spec import CoverMode
from slack.simulator.model.forms import planned
from slack.simulator.runs.baselines import (
    CORE_HOURS,
    NODE_HOURS,
    InvalidVariant,
    Variant,
    default_reference,
    equal_cost,
    rate_of,
    reference_of,
    slack_word,
    variant,
    variants,
    with_hold,
    with_known_prices,
    with_rate,
)
from slack.simulator.scenario.slack_kinds import Policies, Proportional, Static
from tests.cases import run_for_each
from tests.simulator.toys import scenario


def test_each_word_is_the_scenario_with_another_slack() -> None:
    toy = scenario()
    found = variants("none, rate=0.2,static=10x500m/1Gi,proportional=2x500m/1Gi/16cores,own", toy)
    kinds = [variant.scenario.slack.kind for variant in found]
    assert kinds == ["none", "policies", "static", "proportional", "policies"]
    assert all(variant.scenario.workloads == toy.workloads for variant in found)
    static, proportional = found[2].scenario.slack, found[3].scenario.slack
    assert isinstance(static, Static)
    assert (static.count, static.requests) == (10, {"cpu": 500, "memory": 1 << 30})
    assert isinstance(proportional, Proportional)
    assert proportional.cores_per_replica == 8.0


def test_rate_and_cover_combine() -> None:
    slack = variant("rate=0.3+cover=Everything", scenario()).scenario.slack
    assert isinstance(slack, Policies)
    (policy,) = slack.policies
    assert policy.spec.extra_capacity.min_rate == 0.3
    assert policy.spec.cover.mode is CoverMode.EVERYTHING


def test_rate_and_form_combine() -> None:
    slack = variant("rate=0.3+hold=Bound", scenario()).scenario.slack
    assert isinstance(slack, Policies)
    (policy,) = slack.policies
    assert policy.spec.extra_capacity.min_rate == 0.3
    assert policy.spec.hold is Hold.BOUND


def test_an_operator_with_another_default_leaves_a_policys_own_form() -> None:
    changed = with_hold(variant("hold=Bound", scenario()).scenario, Hold.UNBOUND)
    assert changed.operator.hold is Hold.UNBOUND
    assert [bool(policy.unbound_scheduler) for policy in planned(changed)] == [False]


def test_an_objective_takes_the_place_of_a_rate_and_a_rate_that_of_an_objective() -> None:
    aimed = variant("objective=0.99", scenario())
    assert isinstance(aimed.scenario.slack, Policies)
    spec = aimed.scenario.slack.policies[0].spec
    assert spec.objective is not None
    assert (spec.objective.instant_start, spec.extra_capacity.min_rate) == (0.99, None)
    assert slack_word(aimed.scenario) == "objective=0.99"
    rated = variant("rate=0.2", aimed.scenario).scenario.slack
    assert isinstance(rated, Policies)
    assert rated.policies[0].spec.objective is None


def test_a_rate_takes_the_place_of_ladder_replicas_and_schedule() -> None:
    spec = {"extraCapacity": {"replicas": 4, "floor": {"cpu": "1"}}, "granularity": 7}
    own = scenario(slack={"kind": "policies", "policies": [{"name": "web", "spec": spec}]})
    slack = with_rate(own, 0.25).slack
    assert isinstance(slack, Policies)
    extra = slack.policies[0].spec.extra_capacity
    assert (extra.min_rate, extra.replicas, extra.floor) == (0.25, None, {"cpu": 1000})
    assert slack.policies[0].spec.granularity == 7


@run_for_each(
    ("words", "said"),
    [
        ("", "it names nothing"),
        ("some", "'some' is none of none, own, rate=0.1"),
        ("objective=99", "'99' is not a share of pods from 0.5 to 0.999"),
        ("objective=0.9+rate=0.1", "an objective is in place of a rate; name one of them"),
        ("rate=10%", "'10%' is not a rate from 0 to 10"),
        ("rate=-1", "'-1' is not a rate"),
        ("rate=nan", "'nan' is not a rate"),
        ("hold=Free", "'hold=Free' is none of rate=0.1, objective=0.99, cover="),
        ("cover=All", "'cover=All' is none of rate=0.1, objective=0.99, cover=Everything|"),
        ("static=500m/1Gi", "static=10x500m/1Gi"),
        ("static=3xmuch/1Gi", "'much' is not a quantity"),
        ("static=3x64/1Gi", "fit no node group"),
        ("proportional=1x500m/1Gi", "proportional=1x500m/1Gi/16cores"),
        ("proportional=0x500m/1Gi/16cores", "both numbers must be more than 0"),
        ("none,rate=0.1,none", "'none' is given twice"),
    ],
)
def test_a_word_that_cannot_be_read_says_what_would_be_right(words: str, said: str) -> None:
    with pytest.raises(InvalidVariant) as caught:
        variants(words, scenario())
    assert said in str(caught.value)


def test_without_prices_cost_is_in_node_hours_and_with_them_in_their_currency() -> None:
    changed, currency = with_known_prices(scenario())
    assert currency == NODE_HOURS
    assert changed.node_groups[0].price_per_hour == 1.0
    assert with_known_prices(changed) == (changed, "")
    assert with_known_prices(changed.model_copy(update={"currency": "EUR"}))[1] == "EUR"


def test_nodes_of_several_sizes_cost_core_hours_without_prices() -> None:
    played = scenario()
    first = played.node_groups[0]
    larger = first.model_copy(update={"name": "larger", "allocatable": {**first.allocatable, "cpu": 8000}})
    changed, currency = with_known_prices(played.model_copy(update={"node_groups": (first, larger)}))
    assert currency == CORE_HOURS
    assert [group.price_per_hour for group in changed.node_groups] == [4.0, 8.0]


@pytest.mark.parametrize(
    ("cost", "count"), [(0.0, 1), (100.0, 1), (104.0, 1), (105.0, 2), (131.0, 10), (134.9, 12), (1e9, 100_000)]
)
def test_the_static_overprovisioner_of_equal_cost_is_the_nearest_count_and_never_none(cost: float, count: int) -> None:
    asked: list[int] = []

    def cost_of(slack: Static | Proportional | Policies) -> float:
        assert isinstance(slack, Static)
        asked.append(slack.count)
        return 100.0 + 3.0 * slack.count

    made = equal_cost(variant("static=auto", scenario()).scenario, cost, cost_of)
    assert isinstance(made, Static)
    assert made.count == count
    assert made.requests == {"cpu": 1000, "memory": 1 << 30}
    assert len(set(asked)) == len(asked)


def test_the_proportional_overprovisioner_of_equal_cost_has_a_pod_for_the_cores_that_it_takes() -> None:
    def cost_of(slack: Static | Proportional | Policies) -> float:
        assert isinstance(slack, Proportional)
        assert slack.cores_per_replica is not None
        return 100.0 + 3000.0 / slack.cores_per_replica

    made = equal_cost(variant("proportional=auto", scenario()).scenario, 160.0, cost_of)
    assert isinstance(made, Proportional)
    assert (made.cores_per_replica, made.requests) == (50.0, {"cpu": 1000, "memory": 1 << 30})


@run_for_each(("cost", "rate"), [(90.0, 0.0), (100.0, 0.0), (101.0, 0.01), (120.0, 0.2), (160.0, 0.4)])
def test_the_rate_of_equal_cost_is_found_in_a_few_runs(cost: float, rate: float) -> None:
    asked: list[float] = []

    def cost_of(slack: Static | Proportional | Policies) -> float:
        asked.append(rate_of(slack))
        return 100.0 + 100.0 * min(asked[-1], 0.2) + 200.0 * max(asked[-1] - 0.2, 0.0)

    assert rate_of(equal_cost(variant("rate=auto", scenario()).scenario, cost, cost_of)) == pytest.approx(
        rate, rel=0.03
    )
    assert len(asked) == len(set(asked)) <= 7


@pytest.mark.parametrize(
    ("words", "costs_as_much_as"),
    [
        ("none,rate=0.1,static=auto", "rate=0.1"),
        ("rate=0.1,rate=0.3,static=auto", "rate=0.3"),
        ("static=auto,rate=0.3,own", "own"),
        ("static=auto,rate=0.3,rate=0.1", "rate=0.3"),
        ("none,static=auto", None),
        ("objective=0.9,rate=auto", "objective=0.9"),
        ("rate=auto,static=auto", None),
    ],
)
def test_static_auto_costs_as_much_as_the_operator_before_it(words: str, costs_as_much_as: str | None) -> None:
    asked = variants(words, scenario())
    row = next(i for i, variant in enumerate(asked) if variant.equal_cost)
    found = reference_of(row, asked)
    assert (asked[found].word if found is not None else None) == costs_as_much_as


def test_static_auto_may_stand_behind_each_of_several_rates() -> None:
    asked = variants("rate=0.1,static=auto,rate=0.3,static=auto", scenario())
    assert [reference_of(row, asked) for row in (1, 3)] == [0, 2]
    with pytest.raises(InvalidVariant, match="'static=auto' is given twice"):
        variants("rate=0.1,static=auto,static=auto", scenario())


def test_alone_static_auto_costs_as_much_as_the_scenarios_own_policies_or_the_built_in_one() -> None:
    own = scenario(slack=policies({"extraCapacity": {"minRate": 0.6}}))
    assert default_reference(own) == Variant("own", own)
    none = scenario(slack={"kind": "none"}, operator={"defaultRate": 0.2})
    assert default_reference(none).word == "rate=0.2"


def policies(*specs: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "policies", "policies": [{"name": f"p{i}", "spec": spec} for i, spec in enumerate(specs)]}


@run_for_each(
    ("slack", "word", "label"),
    [
        (policies({"extraCapacity": {"minRate": 0.6}}), "own", "own (rate=0.6)"),
        (policies({"extraCapacity": {"minRate": 0.6}}), "rate=0.1", "rate=0.1"),
        (policies({}), "cover=Everything", "cover=Everything (rate=0.1)"),
        (policies({}), "rate=0.2+cover=Largest", "rate=0.2+cover=Largest"),
        (policies({"cover": {"mode": "Largest"}}), "own", "own (rate=0.1+cover=Largest)"),
        (policies({"cover": {"mode": "Largest"}}), "rate=0.2", "rate=0.2 (cover=Largest)"),
        (policies({"extraCapacity": {"replicas": 4}}), "own", "own (policy p0)"),
        (policies({"extraCapacity": {"replicas": 4}}), "cover=Everything", "cover=Everything (policy p0)"),
        (policies({}, {"extraCapacity": {"minRate": 0.2}}), "own", "own (policies p0, p1)"),
        (policies({}, {"extraCapacity": {"minRate": 0.2}}, {}), "own", "own (policies p0, p1 and 1 more)"),
        ({"kind": "none"}, "own", "own (none)"),
        ({"kind": "none"}, "static=3x500m/1Gi", "static=3x500m/1Gi"),
    ],
)
def test_a_label_tells_what_the_word_leaves_open(slack: dict[str, Any], word: str, label: str) -> None:
    assert variant(word, scenario(slack=slack)).label == label


def test_a_slack_is_described_by_the_word_that_makes_it() -> None:
    for word in ("none", "rate=0.1", "rate=0.1+cover=Largest", "static=10x500m/1Gi", "proportional=1x500m/1Gi/4nodes"):
        assert slack_word(variant(word, scenario()).scenario) == word
