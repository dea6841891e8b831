import pytest

from slack.planner.policy import CoverMode
from slack.simulator.baselines import (
    CORE_HOURS,
    BadVariant,
    described,
    equal_cost_static,
    priced,
    variant,
    variants,
    with_rate,
)
from slack.simulator.result import Result
from slack.simulator.scenario import Policies, Proportional, Scenario, Static
from tests.simulator.toys import result, scenario


def test_each_word_is_the_scenario_with_another_slack() -> None:
    toy = scenario()
    found = variants("none, rate=0.2,static=10x500m/1Gi,proportional=2x500m/1Gi/16cores,own", toy)
    kinds = [one.scenario.slack.kind for one in found]
    assert kinds == ["none", "policies", "static", "proportional", "policies"]
    assert all(one.scenario.workloads == toy.workloads for one in found)
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


def test_a_rate_takes_the_place_of_ladder_replicas_and_schedule() -> None:
    spec = {"extraCapacity": {"replicas": 4, "floor": {"cpu": "1"}}, "granularity": 7}
    own = scenario(slack={"kind": "policies", "policies": [{"name": "web", "spec": spec}]})
    slack = with_rate(own, 0.25).slack
    assert isinstance(slack, Policies)
    extra = slack.policies[0].spec.extra_capacity
    assert (extra.min_rate, extra.replicas, extra.floor) == (0.25, None, {"cpu": 1000})
    assert slack.policies[0].spec.granularity == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "it names nothing"),
        ("some", "'some' is none of none, own, rate=0.1"),
        ("rate=10%", "'10%' is not a rate from 0 to 10"),
        ("rate=-1", "'-1' is not a rate"),
        ("rate=nan", "'nan' is not a rate"),
        ("cover=All", "'cover=All' is neither rate=0.1 nor cover=Everything|"),
        ("static=500m/1Gi", "static=10x500m/1Gi"),
        ("static=3xmuch/1Gi", "'much' is not a quantity"),
        ("static=3x64/1Gi", "fit no node group"),
        ("proportional=1x500m/1Gi", "proportional=1x500m/1Gi/16cores"),
        ("proportional=0x500m/1Gi/16cores", "both numbers must be more than 0"),
        ("none,rate=0.1,none", "'none' is given twice"),
    ],
)
def test_a_word_that_cannot_be_read_says_what_would_be_right(words: str, said: str) -> None:
    with pytest.raises(BadVariant) as caught:
        variants(words, scenario())
    assert said in str(caught.value)


def test_without_prices_cost_is_in_core_hours() -> None:
    changed, currency = priced(scenario())
    assert currency == CORE_HOURS
    assert changed.node_groups[0].price_per_hour == 4.0
    assert priced(changed) == (changed, "")


@pytest.mark.parametrize(("cost", "count"), [(0.0, 0), (100.0, 0), (131.0, 10), (134.9, 12), (1e9, 100_000)])
def test_the_static_overprovisioner_of_equal_cost_is_the_nearest_count(cost: float, count: int) -> None:
    def run(changed: Scenario) -> Result:
        assert isinstance(changed.slack, Static)
        return result(cost=100.0 + 3.0 * changed.slack.count)

    made, _ = equal_cost_static(variant("static=auto", scenario()).scenario, cost, run)
    assert isinstance(made.slack, Static)
    assert made.slack.count == count
    assert made.slack.requests == {"cpu": 1000, "memory": 1 << 30}


def test_a_slack_is_described_by_the_word_that_makes_it() -> None:
    for word in ("none", "rate=0.1", "static=10x500m/1Gi"):
        assert described(variant(word, scenario()).scenario.slack) == word
