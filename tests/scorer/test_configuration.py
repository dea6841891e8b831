"""The configuration: upstream's and the proposal's names, defaults, and what is refused with which words."""

from pathlib import Path
from typing import Any

import pytest

from slack.process.settings import load
from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.peaks import Peaks, PowerModel
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.ceiling import WhenAllAbove
from slack.scorer.configuration.arguments import ScorerConfig, parse_config
from slack.scorer.configuration.fields import InvalidScorerConfig
from slack.scorer.model import Algorithm
from slack.scorer.rules import Formula, MetricRules, PodUse, Prediction, WithoutLoad
from slack_operator.scorer.process import ceiling_of, rules_of
from slack_operator.scorer.settings import ScorerSettings
from tests.cases import run_for_each

ROOT = Path(__file__).parents[2]


def algorithm(name: str, **args: Any) -> Algorithm:
    return parse_config({"algorithms": [{"name": name, "args": args}]}).algorithms[0].algorithm


def test_an_empty_configuration_is_a_good_one() -> None:
    assert parse_config(None) == parse_config({}) == ScorerConfig()
    assert algorithm("TargetLoadPacking") == TargetLoadPacking()


def test_the_example_has_the_defaults_and_is_read() -> None:
    settings = load(ScorerSettings, {}, {}, file=ROOT / "examples/scorer.yaml")
    config = parse_config({"algorithms": list(settings.algorithms)}, rules_of(settings))
    assert [own.weight for own in config.algorithms] == [3, 1]
    assert config.algorithms[0].algorithm == TargetLoadPacking()
    assert rules_of(settings) == MetricRules()
    assert settings.scale == ScorerConfig().scale


def test_each_rule_is_a_setting_of_its_own() -> None:
    given = {
        "window": "10m", "max_age": "4m", "max_ahead": "2s", "recent": "3m", "reporting": "30s", "new_node": "1h",
        "request_multiplier": "2", "best_effort_millis": "5", "pod_use": "Limits", "min_measured_nodes": "20%",
        "without_load": "Pack",
    }  # fmt: skip
    assert rules_of(load(ScorerSettings, given, {}, files={})) == MetricRules(
        window_seconds=600.0,
        most_age_seconds=240.0,
        most_ahead_seconds=2.0,
        recent_seconds=180.0,
        reporting_seconds=30.0,
        new_node_seconds=3600.0,
        prediction=Prediction(PodUse.LIMITS, 2.0, 5),
        min_measured_share=0.2,
        without_load=WithoutLoad.PACK,
    )


def test_the_words_of_settings_are_those_of_the_rules() -> None:
    def settings(**given: str) -> ScorerSettings:
        return load(ScorerSettings, given, {}, files={})

    assert [rules_of(settings(without_load=word)).without_load for word in WithoutLoad] == list(WithoutLoad)
    assert [rules_of(settings(pod_use=word)).prediction.use for word in PodUse] == list(PodUse)
    assert [ceiling_of(settings(when_all_above=word)).when_all_above for word in WhenAllAbove] == list(WhenAllAbove)


def test_arguments_have_upstreams_names_or_the_proposals() -> None:
    upstream = algorithm(
        "TargetLoadPacking", targetUtilization=60, defaultRequests={"cpu": "2"}, defaultRequestsMultiplier="1.8"
    )
    assert upstream == TargetLoadPacking(60, prediction=Prediction(multiplier=1.8, default_cpu_millis=2000))
    proposal = algorithm("TargetLoadPacking", TargetCPUUtilisation=60, DefaultCPURequests={"cpu": "2"})
    assert proposal == TargetLoadPacking(60, prediction=Prediction(default_cpu_millis=2000))
    assert algorithm("TargetLoadPacking", DefaultCPURequests="5m", podUse="Requests") == TargetLoadPacking(
        prediction=Prediction(PodUse.REQUESTS, default_cpu_millis=5)
    )
    assert algorithm("LoadVariationRiskBalancing", SafeVarianceMargin=2) == LoadVariationRiskBalancing(2)
    own = algorithm("Peaks", NodePowerModel={"a": {"k0": 1, "K1": "2", "k2": 0.5}})
    assert own == Peaks({"a": PowerModel(1, 2, 0.5)})


def test_the_proposals_formula_has_the_proposals_defaults() -> None:
    packing = algorithm("TargetLoadPacking", formula="Proposal")
    assert packing == TargetLoadPacking(50, Formula.PROPOSAL, Prediction(PodUse.REQUESTS))
    balancing = algorithm("LoadVariationRiskBalancing", formula="Proposal", safeVarianceMargin=3)
    assert balancing == LoadVariationRiskBalancing(3, 1, Formula.PROPOSAL)


def test_overcommitments_arguments() -> None:
    own = algorithm("LowRiskOverCommitment", smoothingWindowSize=10, riskLimitWeights={"cpu": 0.8})
    assert own == LowRiskOverCommitment(10, (0.8, 0.5))


def test_an_algorithm_may_be_named_alone() -> None:
    assert parse_config({"algorithms": ["LowRiskOverCommitment"]}).algorithms[0].algorithm == LowRiskOverCommitment()


@pytest.mark.parametrize("use", list(PodUse))
def test_a_pod_is_predicted_by_the_same_rule_before_it_is_bound_and_after(use: PodUse) -> None:
    of_packing = parse_config(of("TargetLoadPacking", podUse=str(use), defaultRequestsMultiplier=3))
    assert of_packing.prediction == of_packing.rules.prediction == Prediction(use, 3.0)
    base = MetricRules(prediction=Prediction(use, 2.0))
    for name in ("TargetLoadPacking", "LoadVariationRiskBalancing"):
        config = parse_config({"algorithms": [name]}, base)
        assert config.prediction == config.rules.prediction == base.prediction
    assert parse_config({}, base).algorithms[0].algorithm == TargetLoadPacking(prediction=base.prediction)


def of(name: str, **args: Any) -> dict[str, Any]:
    return {"algorithms": [{"name": name, "args": args}]}


@run_for_each(
    ("document", "words"),
    [
        ([], "expected fields with values, got []"),
        ({"scales": 10}, "scales: is not known here; there are algorithms"),
        ({"algorithms": []}, "algorithms: expected a list with at least one of TargetLoadPacking, LoadVar"),
        ({"algorithms": [{"name": "Best"}]}, "algorithms[0].name: 'Best' is none of TargetLoadPacking, LoadVar"),
        ({"algorithms": ["TargetLoadPacking"] * 2}, "algorithms[1].name: TargetLoadPacking is there already"),
        ({"algorithms": [{"name": "TargetLoadPacking", "weight": 0}]}, "algorithms[0].weight: 0 is no weight"),
        (of("TargetLoadPacking", targetUtilization=101), "args.targetUtilization: 101 is not from 1 to 100"),
        (of("TargetLoadPacking", TargetCPUUtilisation=0), "args.targetUtilization: 0 is not from 1 to 100"),
        (of("TargetLoadPacking", targetUtilization="half"), "args.targetUtilization: 'half' is not a number"),
        (of("TargetLoadPacking", targetUtilization=True), "args.targetUtilization: True is not a number"),
        (of("TargetLoadPacking", targetUtilization=4, TargetCPUUtilisation=4), "is targetUtilization by another name"),
        (of("TargetLoadPacking", defaultRequests={"cpu": "-1"}), "args.defaultRequests.cpu: '-1' is less than nothing"),
        (of("TargetLoadPacking", defaultRequests={"cpu": "lots"}), "args.defaultRequests.cpu: 'lots' is not a quan"),
        (of("TargetLoadPacking", podUse="All"), "args.podUse: 'All' is none of Limits, RequestsTimesMultiplier, Req"),
        (of("TargetLoadPacking", defaultRequestsMultiplier=float("nan")), "nan is not a number"),
        (of("TargetLoadPacking", watcherAddress="http://w"), "one load watcher: give its address as --load-watcher"),
        ({"algorithms": [{"name": 7}]}, "algorithms[0].name: expected text, got 7"),
        ({"algorithms": ["x" * 99]}, "..."),
        (of("TargetLoadPacking", metricProvider={}), "args.metricProvider: the scorer reads a load watcher only"),
        (of("LoadVariationRiskBalancing", safeVarianceMargin=-1), "args.safeVarianceMargin: -1 is not from 0 to 1000"),
        (
            of("LoadVariationRiskBalancing", formula="Proposal", safeVarianceSensitivity=2),
            "args.safeVarianceSensitivity: means nothing with formula: Proposal",
        ),
        (of("LowRiskOverCommitment", smoothingWindowSize=0), "args.smoothingWindowSize: 0 is not from 1 to 1000"),
        (of("LowRiskOverCommitment", riskLimitWeights={"cpu": 2}), "args.riskLimitWeights.cpu: 2 is not from 0 to 1"),
        (of("LowRiskOverCommitment", riskLimitWeights={"gpu": 1}), "args.riskLimitWeights.gpu: is not known here"),
        (of("Peaks"), "args.nodePowerModel: Peaks needs the power curve of at least one node, and a name alone"),
        (of("Peaks", nodePowerModel=[1]), "args.nodePowerModel: expected curves by node's name, got [1]"),
        (of("Peaks", nodePowerModel={"a": {"k0": 1}}), "args.nodePowerModel.a: expected k0, k1 and k2"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_field(document: object, words: str) -> None:
    with pytest.raises(InvalidScorerConfig) as refused:
        parse_config(document)
    assert words in str(refused.value)
