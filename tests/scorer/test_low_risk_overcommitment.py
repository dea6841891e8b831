"""LowRiskOverCommitment: the risk of limits, the risk of the load, and what they come to."""

from dataclasses import replace

import numpy as np
import pytest

from slack.scorer.algorithms.low_risk_overcommitment import (
    LowRiskOverCommitment,
    limit_risk,
    load_risk,
    load_within,
    smoothed_sigma,
)
from slack.scorer.model import FloatArray, PodDemand, ScoredNodes, Weighted
from slack.scorer.scoring import prepare, score, score_nodes
from tests.scorer.clusters import GB, NOW, load, nodes, window

LROC = (Weighted(LowRiskOverCommitment()),)
POD = PodDemand(requests=(1000.0, 1 * GB), limits=(2000.0, 2 * GB))


def of(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def cluster(requested: list[float], limited: list[float]) -> ScoredNodes:
    size = len(requested)
    return nodes(
        size,
        requested=np.array([requested, [0.0] * size]),
        limited=np.array([limited, [0.0] * size]),
    )


def test_limits_within_the_node_are_no_risk_and_beyond_it_their_excess_over_the_span_is() -> None:
    size = of(4000, 4000, 4000, 4000)
    requests, limits = of(2000, 2000, 2000, 4000), of(4000, 4001, 6000, 8000)
    assert limit_risk(requests, limits, size) == pytest.approx([0.0, 1 / 2001, 0.5, 1.0])


def test_requests_beyond_the_node_count_as_the_node() -> None:
    assert limit_risk(of(5000), of(8000), of(4000)).tolist() == [1.0]


def test_the_deviation_is_scaled_by_the_root_of_the_window_and_held_below_what_a_mean_allows() -> None:
    assert smoothed_sigma(of(0.5, 0.5), of(0.1, 0.4), 4.0) == pytest.approx([0.2, 0.5 * 0.99**0.5])
    assert smoothed_sigma(of(0.0, 1.0), of(0.1, 0.1), 5.0).tolist() == [0.0, 0.0]


def test_a_load_without_deviation_is_below_a_threshold_or_it_is_not() -> None:
    assert load_within(of(0.3, 0.5, 0.5, 0.0), np.zeros(4), of(0.5, 0.5, 0.4, 0.0)).tolist() == [1.0, 1.0, 0.0, 1.0]


def test_a_load_that_varies_is_below_a_threshold_with_the_beta_distributions_probability() -> None:
    # mean 1/2 and variance 1/12 are the uniform distribution's
    assert load_within(of(0.5), of((1 / 12) ** 0.5), of(0.8)) == pytest.approx([0.8])


def test_the_risk_of_the_load_is_conditional_on_limits_below_the_node() -> None:
    uniform = of(0.5), of((1 / 12) ** 0.5)
    assert load_risk(*uniform, of(2000), of(4000), of(4000)) == pytest.approx([0.5])
    assert load_risk(*uniform, of(1000), of(2000), of(4000)) == pytest.approx([0.5])  # 1/4 of 1/2
    assert load_risk(*uniform, of(0), of(0), of(4000)).tolist() == [0.0]


@pytest.mark.parametrize("sigma", [0.0, 0.001])
def test_a_load_that_is_never_within_the_limits_there_is_all_risk(sigma: float) -> None:
    # What no pod's limit explains: the hottest node would be the best one else.
    assert load_risk(of(0.9), of(sigma), of(1000), of(2000), of(4000)).tolist() == [1.0]
    assert load_risk(of(0.4), of(sigma), of(1000), of(2000), of(4000)).tolist() == [1.0]
    assert load_risk(of(0.2), of(sigma), of(1000), of(2000), of(4000)).tolist() == [0.0]


def test_a_best_effort_pod_has_the_minimum_everywhere() -> None:
    used = load(window([10, 20], [10, 20]))
    assert score_nodes(LROC, PodDemand(), cluster([0, 0], [0, 0]), used, NOW).total.tolist() == [0, 0]


def test_a_node_whose_limits_exceed_it_comes_after_one_whose_limits_do_not() -> None:
    used = load(window([10, 10], [10, 10]))
    scores = score_nodes(LROC, POD, cluster([1000, 1000], [2000, 9000]), used, NOW)
    # limits of 11 of 4 cores, requests of 2: (11 - 4) / (11 - 2), half of which counts
    assert scores.total.tolist() == [100, round(100 * (1 - 0.5 * 7 / 9))]


def test_a_load_beyond_what_is_requested_is_a_risk() -> None:
    used = load(window([10, 90], cpu_deviation=[1, 1]))
    small = PodDemand(requests=(100.0, 0.0), limits=(100.0, 0.0))
    scores = score_nodes(LROC, small, cluster([2000, 2000], [3900, 3900]), used, NOW)
    assert scores.total.tolist() == [100, 50]


def test_weights_say_how_much_limits_count() -> None:
    used = load(window([90, 90], [0, 0], cpu_deviation=[1, 1], memory_deviation=[0, 0]))
    only_limits = (Weighted(LowRiskOverCommitment(limit_weights=(1.0, 1.0))),)
    assert score_nodes(only_limits, POD, cluster([2000] * 2, [2000, 4000]), used, NOW).total.tolist() == [100, 33]


def test_a_resource_without_metrics_does_not_halve_the_risk_of_its_limits() -> None:
    # memory has no metrics; its limits are twice what the node has
    own = replace(cluster([0], [0]), limited=np.array([[0.0], [14 * GB]]), requested=np.zeros((2, 1)))
    scores = score_nodes(LROC, POD, own, load(window([0])), NOW)
    assert scores.terms["LowRiskOverCommitment.memory_risk"] == pytest.approx([8 / 15])


def test_a_node_without_capacity_has_the_minimum() -> None:
    own = nodes(1, cpu_millis=0.0, memory_bytes=0.0)
    assert score_nodes(LROC, POD, own, load(window([0], [0])), NOW).total.tolist() == [0]


def test_what_was_prepared_before_saves_work_and_changes_nothing() -> None:
    own = cluster([1000] * 3, [3000] * 3)
    first = prepare(LROC, own, load(window([50, 60, 70], cpu_deviation=[9, 9, 9])), NOW)
    later = load(window([50, 65, np.nan], cpu_deviation=[9, 9, 9]))
    again = prepare(LROC, own, later, NOW, before=first)
    fresh = prepare(LROC, own, later, NOW)
    assert score(again, POD).total.tolist() == score(fresh, POD).total.tolist()
    other = nodes(2)
    assert score(prepare(LROC, other, load(window([1, 1])), NOW, before=first), POD).total.tolist() == [100, 100]
