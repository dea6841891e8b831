"""What holds when metrics are missing, late or wrong, and what recent pods and placeholders count for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.peaks import Peaks, PowerModel
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.model import DecisionRule, PodDemand, UsageState, Weighted
from slack.scorer.rules import MetricRules, WithoutLoad
from slack.scorer.scoring import prepare, scale_scores, score, score_nodes
from slack.scorer.usage import HOLDS_SECONDS, in_order, usage_of
from tests.scorer.clusters import GB, NOW, load, nodes, recent, window

TLP = (Weighted(TargetLoadPacking()),)
MODELS = {f"n{row}": PowerModel(100.0, 10.0, 0.02) for row in range(9)}
EVERY = tuple(
    Weighted(algorithm)
    for algorithm in (TargetLoadPacking(), LoadVariationRiskBalancing(), LowRiskOverCommitment(), Peaks(MODELS))
)
POD = PodDemand(requests=(100.0, 1 * GB), limits=(100.0, 1 * GB), predicted=(100.0, 1 * GB))
RULES = MetricRules()
nan = np.nan


def missing_cpu(pods: tuple[tuple[int, float, float], ...], *, age: float = 0.0, seconds: float = 300.0) -> list[float]:
    used = load(window([10, 10], age=age, seconds=seconds), recent=recent(*pods))
    found: list[float] = usage_of(nodes(2), used, RULES, NOW).missing[0].tolist()
    return found


def test_a_pod_that_was_just_bound_counts_with_all_that_is_predicted_of_it() -> None:
    assert missing_cpu(((0, 10, 500), (0, 59, 100), (1, 0, 7))) == [600, 7]


def test_a_pod_counts_until_a_window_covers_it_and_no_longer_than_that() -> None:
    assert missing_cpu(((0, 60, 500), (1, 210, 500))) == [500, 250]
    assert missing_cpu(((0, 360, 500), (1, 361, 500))) == [0, 0]


def test_pods_that_came_after_the_end_of_the_window_count_in_whole() -> None:
    assert missing_cpu(((0, 290, 500), (1, 299, 500)), age=299) == [500, 500]


def test_a_longer_window_takes_a_pod_in_within_five_minutes_too() -> None:
    assert missing_cpu(((0, 210, 500), (1, 360, 500)), seconds=900) == [250, 0]


def test_the_order_of_recent_pods_does_not_matter() -> None:
    assert missing_cpu(((0, 10, 1), (0, 400, 2), (0, 20, 4))) == missing_cpu(((0, 400, 2), (0, 20, 4), (0, 10, 1)))


def test_pods_of_a_node_without_any_window_count_for_as_long_as_they_are_recent() -> None:
    used = load(window([10, nan]), recent=recent((1, 10, 500), (1, 301, 700)))
    assert usage_of(nodes(2), used, RULES, NOW).missing[0].tolist() == [0, 500]


@pytest.mark.parametrize(
    "algorithm", [TargetLoadPacking(), LoadVariationRiskBalancing(), LowRiskOverCommitment(), Peaks(MODELS)]
)
def test_recent_pods_count_in_every_algorithm(algorithm: object) -> None:
    weighted = (Weighted(algorithm),)  # type: ignore[arg-type]
    own = nodes(2, requested=np.array([[2400.0] * 2, [0.0] * 2]), limited=np.array([[3500.0] * 2, [0.0] * 2]))
    steady = window([50, 50], [1, 1], cpu_deviation=[5, 5], memory_deviation=[0, 0])
    scores = score_nodes(weighted, POD, own, load(steady, recent=recent((1, 5, 600))), NOW)
    assert scores.total[0] > scores.total[1]


@pytest.mark.parametrize(
    ("age", "state"),
    [
        (0.0, UsageState.MEASURED), (300.0, UsageState.MEASURED), (300.1, UsageState.STALE), (1e9, UsageState.STALE),
        (-60.0, UsageState.MEASURED), (-60.1, UsageState.FUTURE),
    ],
)  # fmt: skip
def test_a_window_tells_for_five_minutes_and_one_from_the_future_tells_nothing(age: float, state: UsageState) -> None:
    used = load(window([10, 10], age=[age, 0.0]))
    scores = score_nodes(TLP, POD, nodes(2), used, NOW)
    assert scores.state.tolist() == [state, UsageState.MEASURED]
    assert (scores.total[0] == 0) == (state is not UsageState.MEASURED)
    assert scores.terms["age_seconds"][0] == pytest.approx(age, abs=1e-3)


def test_each_node_has_an_age_of_its_own() -> None:
    used = load(window([10, 10, 10], age=[0, 299, 301]))
    assert usage_of(nodes(3), used, RULES, NOW).state.tolist() == [0, 0, UsageState.STALE]


def test_windows_are_asked_in_order_and_the_next_one_tells_where_one_does_not() -> None:
    five, ten, fifteen = (window([value], seconds=seconds) for value, seconds in ((5, 300), (10, 600), (15, 900)))
    assert [own.window_seconds for own in in_order((fifteen, five, ten), 300)] == [300, 600, 900]
    assert [own.window_seconds for own in in_order((five, ten, fifteen), 900)] == [900, 600, 300]
    assert [own.window_seconds for own in in_order((five, ten, fifteen), 600)] == [600, 300, 900]


def test_fifteen_minutes_fall_back_to_ten_and_then_to_five_which_upstream_never_reaches() -> None:
    rules = MetricRules(window_seconds=900)
    used = load(
        window([15, nan, nan, 15], seconds=900, age=[0, 0, 0, 999]),
        window([10, 10, nan, 10], seconds=600, age=[0, 0, 0, 999]),
        window([5, 5, 5, 5]),
    )
    usage = usage_of(nodes(4), used, rules, NOW)
    assert usage.mean_percent[0].tolist() == [15, 10, 5, 5]
    assert usage.window_seconds[0].tolist() == [900, 600, 300, 300]


def test_cpu_is_known_although_memory_failed_and_the_other_way_round() -> None:
    usage = usage_of(nodes(2), load(window([10, nan], [nan, 10])), RULES, NOW)
    assert usage.known.tolist() == [[True, False], [False, True]]
    assert usage.state.tolist() == [UsageState.MEASURED, UsageState.NO_CPU]


PERCENTS = st.sampled_from([nan, 0.0, 10.0, 37.5, 99.0, 100.0, 130.0])


@pytest.mark.parametrize("algorithms", [*((one,) for one in EVERY), EVERY], ids=lambda own: own[-1].algorithm.name)
@given(st.lists(st.tuples(PERCENTS, PERCENTS, st.sampled_from([nan, 0.0, 5.0, 40.0])), min_size=2, max_size=5))
def test_a_node_whose_cpu_is_not_known_never_scores_above_one_whose_cpu_is(
    algorithms: tuple[Weighted, ...], figures: list[tuple[float, float, float]]
) -> None:
    """As a node at 100 % whose CPU figure was dropped, and whose memory is nearly free."""
    cpu, memory, deviation = zip(*figures, strict=True)
    used = load(window(cpu, memory, cpu_deviation=deviation, memory_deviation=deviation))
    own = nodes(len(figures), requested=np.full((2, len(figures)), 500.0))
    total = score_nodes(algorithms, POD, own, used, NOW, MetricRules(min_measured_share=0.0)).total
    known = np.isfinite(cpu)
    if known.any() and not known.all():
        assert total[~known].max() <= total[known].min()


@pytest.mark.parametrize("wrong", [nan, -1.0, np.inf, -np.inf])
def test_a_figure_that_is_none_is_not_zero_percent(wrong: float) -> None:
    assert score_nodes(TLP, POD, nodes(2), load(window([wrong, 10])), NOW).state[0] == UsageState.NO_METRICS


def test_a_deviation_alone_does_not_make_an_idle_node() -> None:
    used = load(window([nan, 10], cpu_deviation=[1.0, 1.0]))
    assert score_nodes(EVERY, POD, nodes(2), used, NOW).total[0] == 0


def test_a_new_node_without_older_pods_uses_nothing_but_by_its_recent_pods() -> None:
    created = np.array([NOW - 100, NOW - 100, NOW - 100, NOW - 901, nan])
    own = nodes(5, created_seconds=created, pod_count=np.array([0, 2, 2, 0, 0]))
    used = load(window([nan] * 4 + [39]), recent=recent((1, 10, 400), (1, 20, 400), (2, 10, 400)))
    scores = score_nodes(TLP, PodDemand(), own, used, NOW, MetricRules(min_measured_share=0.3))
    assert scores.state.tolist() == [1, 1, UsageState.NO_METRICS, UsageState.NO_METRICS, 0]
    assert scores.terms["TargetLoadPacking.utilization_percent"][:2].tolist() == [0, 20]
    assert scores.total[:4].tolist() == [40, 70, 0, 0]


@pytest.mark.parametrize("measured", [0.0, 10.0, 40.0, 75.0, 99.0])
def test_a_new_node_is_not_above_the_lowest_measured_one_and_new_ones_keep_their_order(measured: float) -> None:
    created = np.array([NOW - 100, NOW - 100, nan, nan])
    own = nodes(4, created_seconds=created, pod_count=np.array([0, 1, 9, 9]))
    used = load(window([nan, nan, measured, 30.0]), recent=recent((1, 10, 3200)))
    for algorithms in (TLP, EVERY):
        scores = score_nodes(algorithms, POD, own, used, NOW)
        assert scores.state.tolist() == [1, 1, 0, 0]
        assert scores.total[:2].max() <= scores.total[2:].min()
        alone = score(prepare(algorithms, own, used, NOW), POD, np.array([0, 1]))
        assert alone.total.max() > 0, "where none is measured, new nodes are told apart"


def test_a_node_whose_age_is_not_known_is_not_new() -> None:
    assert usage_of(nodes(2), load(window([nan, 1])), RULES, NOW).state.tolist() == [UsageState.NO_METRICS, 0]


@pytest.mark.parametrize(
    ("without_load", "rule", "totals"),
    [
        (WithoutLoad.PACK, DecisionRule.BEST_FIT_ON_ALLOCATIONS, [35, 60, 0, 35]),
        (WithoutLoad.SPREAD, DecisionRule.SPREAD_ON_ALLOCATIONS, [65, 40, 0, 65]),
        (WithoutLoad.NEUTRAL, DecisionRule.NO_LOAD, [0, 0, 0, 0]),
    ],
)
def test_without_any_metrics_the_configured_rule_decides(
    without_load: WithoutLoad, rule: DecisionRule, totals: list[int]
) -> None:
    own = nodes(
        4,
        requested=np.array([[1000.0, 2000.0, 3950.0, 0.0], [2 * GB, 4 * GB, 4 * GB, 0.0]]),
        placeholders=np.array([[0.0, 0.0, 0.0, 1000.0], [0.0, 0.0, 0.0, 2 * GB]]),
    )
    pod = PodDemand(requests=(400.0, 0.8 * GB))
    for used in (load(), load(window([1] * 4, age=301)), load(window([nan] * 4))):
        scores = score_nodes(TLP, pod, own, used, NOW, MetricRules(without_load=without_load))
        assert scores.rule is rule
        assert scores.total.tolist() == totals
        assert scores.by_algorithm == {}


@pytest.mark.parametrize(
    ("share", "rule"),
    [(0.34, DecisionRule.TOO_FEW_MEASURED), (1 / 3, DecisionRule.MEASURED), (0, DecisionRule.MEASURED)],
)
def test_load_decides_only_if_enough_nodes_are_measured(share: float, rule: DecisionRule) -> None:
    scores = score_nodes(TLP, POD, nodes(3), load(window([nan, nan, 30])), NOW, MetricRules(min_measured_share=share))
    assert scores.rule is rule
    assert scores.total.tolist() == ([0, 0, 0] if rule is DecisionRule.TOO_FEW_MEASURED else [0, 0, 89])


def test_new_nodes_are_not_expected_to_be_measured() -> None:
    own = nodes(10, created_seconds=np.array([NOW - 10] * 8 + [nan] * 2))
    used = load(window([nan] * 8 + [30, 30]))
    assert score_nodes(TLP, POD, own, used, NOW).rule is DecisionRule.MEASURED
    assert score_nodes(TLP, POD, nodes(10), used, NOW).rule is DecisionRule.TOO_FEW_MEASURED


def test_a_pending_placeholder_scores_the_same_everywhere() -> None:
    pod = PodDemand(requests=(1000.0, GB), predicted=(1000.0, GB), placeholder=True)
    for used in (load(window([10, 40, nan])), load()):
        scores = score_nodes(EVERY, pod, nodes(3), used, NOW)
        assert scores.rule is DecisionRule.PLACEHOLDER
        assert len(set(scores.total.tolist())) == 1


def test_placeholders_are_left_out_of_what_is_overcommitted() -> None:
    both = nodes(
        2,
        requested=np.array([[1000.0, 1000.0], [0.0, 0.0]]),
        placeholders=np.array([[0.0, 3000.0], [0.0, 8 * GB]]),
    )
    scores = score_nodes((EVERY[2],), POD, both, load(window([10, 10], [1, 1])), NOW)
    assert scores.total[0] == scores.total[1]


def test_algorithms_are_combined_by_their_weights() -> None:
    both = (Weighted(TargetLoadPacking(), 3.0), Weighted(LoadVariationRiskBalancing(), 1.0))
    scores = score_nodes(both, PodDemand(), nodes(2), load(window([20, 60])), NOW)
    assert scores.by_algorithm["TargetLoadPacking"].tolist() == [70, 27]
    assert scores.by_algorithm["LoadVariationRiskBalancing"].tolist() == [90, 70]
    assert scores.total.tolist() == [75, 38]


def test_scores_can_be_told_on_a_scale_of_ten() -> None:
    total = np.array([0, 4, 5, 44, 45, 100])
    assert scale_scores(total, 10).tolist() == [0, 0, 1, 4, 5, 10]
    assert scale_scores(total, 100) is total


def test_without_nodes_there_is_no_best() -> None:
    assert score_nodes(EVERY, POD, nodes(0), load(), NOW).best == -1


@pytest.mark.parametrize("means", [[10, 20, 30], [10, nan, 30], [nan, nan, nan]])
def test_what_windows_say_is_told_again_for_a_second_and_pods_are_counted_anew_each_time(means: list[float]) -> None:
    own, said = nodes(3), load(window(means, age=299.5))
    first = prepare(EVERY, own, said, NOW, RULES)
    later = replace(said, recent=recent((0, 5, 500), (1, 5, 700)))
    soon = prepare(EVERY, own, later, NOW + HOLDS_SECONDS / 4, RULES, first)
    anew = prepare(EVERY, own, later, NOW + HOLDS_SECONDS / 4, RULES)
    assert soon.said is first.said
    assert np.array_equal(soon.seen, anew.seen, equal_nan=True), "age too"
    assert score(soon, POD).total.tolist() == score(anew, POD).total.tolist()
    for others in (NOW + HOLDS_SECONDS, NOW - 1):  # the second: the clock was set back
        after = prepare(EVERY, own, later, others, RULES, soon)
        assert after.said is not first.said
        assert score(after, POD).total.tolist() == score_nodes(EVERY, POD, own, later, others, RULES).total.tolist()
    assert prepare(EVERY, own, replace(later, windows=(window(means),)), NOW, RULES, first).said is not first.said
    assert prepare(EVERY, nodes(3), later, NOW, RULES, first).said is not first.said, "other nodes"


def test_memory_alone_is_no_load_for_any_algorithm() -> None:
    """As where the query for CPU is wrong and the other is right: the hottest node may have the most memory."""
    used = load(window([nan, nan], [30, 60]))
    for one_algorithm in EVERY:
        found = score_nodes((one_algorithm,), POD, nodes(2), used, NOW)
        assert found.rule is DecisionRule.SPREAD_ON_ALLOCATIONS, one_algorithm.algorithm.name
    one = load(window([nan, 10], [30, 60]))
    assert score_nodes(TLP, POD, nodes(2), one, NOW).rule is DecisionRule.MEASURED


@pytest.mark.parametrize("algorithms", [TLP, EVERY], ids=["one", "all"])
def test_of_equal_scores_a_node_whose_cpu_is_measured_is_the_best(algorithms: tuple[Weighted, ...]) -> None:
    """Too few are measured, so all score the same: a node of which nothing is known is not called the best."""
    scores = score_nodes(algorithms, POD, nodes(5), load(window([nan, 30, nan, nan, 90])), NOW)
    assert scores.rule is DecisionRule.TOO_FEW_MEASURED
    assert scores.total.tolist() == [0] * 5
    assert scores.best == 1
    assert scores.order.tolist() == [1, 4, 0, 2, 3]
