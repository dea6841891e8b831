"""Peaks: the watts that a pod adds, normalized over the nodes that are asked for."""

import math

import numpy as np
import pytest

from slack.scorer.algorithms.peaks import Peaks, PowerModel, normalize
from slack.scorer.model import PodDemand, Weighted
from slack.scorer.scoring import prepare, score, score_nodes
from tests.scorer.clusters import NOW, load, nodes, window

MODELS = {f"n{row}": PowerModel(k0=100.0, k1=10.0, k2=0.02) for row in range(4)}
PEAKS = (Weighted(Peaks(MODELS)),)
POD = PodDemand(requests=(400.0, 0.0))


def test_the_jump_is_that_of_the_power_curve() -> None:
    scores = score_nodes(PEAKS, POD, nodes(1), load(window([30])), NOW)
    assert scores.terms["Peaks.utilization_percent"].tolist() == [40.0]
    assert scores.terms["Peaks.power_jump_watts"] == pytest.approx([10 * (math.exp(0.8) - math.exp(0.6))])


def test_the_least_jump_has_100_and_the_largest_0() -> None:
    scores = score_nodes(PEAKS, POD, nodes(3), load(window([10, 50, 80])), NOW)
    assert scores.total.tolist()[0] == 100
    assert scores.total.tolist()[2] == 0
    assert 0 < scores.total.tolist()[1] < 100


def test_equal_jumps_are_equally_good() -> None:
    assert normalize(np.array([3.0, 3.0])).tolist() == [100.0, 100.0]
    assert normalize(np.array([np.nan])).tolist() == [0.0]


def test_a_node_without_metrics_is_not_the_cheapest() -> None:
    scores = score_nodes(PEAKS, POD, nodes(3), load(window([10, 50, np.nan])), NOW)
    assert scores.total.tolist() == [100, 0, 0]


def test_a_node_without_a_model_is_not_the_cheapest() -> None:
    models = {name: MODELS[name] for name in ("n0", "n1")}
    scores = score_nodes((Weighted(Peaks(models)),), POD, nodes(3), load(window([10, 50, 1])), NOW)
    assert scores.total.tolist() == [100, 0, 0]


def test_a_node_that_the_pod_would_take_beyond_its_capacity_is_not_the_cheapest() -> None:
    scores = score_nodes(PEAKS, POD, nodes(3), load(window([10, 50, 90.1])), NOW)
    assert scores.total.tolist() == [100, 0, 0]
    at_all = score_nodes(PEAKS, POD, nodes(3), load(window([10, 50, 90])), NOW)
    assert at_all.total.tolist() == [100, pytest.approx(70, abs=9), 0]


def test_a_jump_of_more_watts_than_an_integer_of_upstream_holds_is_still_the_largest() -> None:
    models = {"n0": PowerModel(0.0, 1.0, 0.01), "n1": PowerModel(0.0, 1e6, 0.1), "n2": PowerModel(0.0, 1.0, 1e9)}
    scores = score_nodes((Weighted(Peaks(models)),), POD, nodes(3), load(window([50, 50, 50])), NOW)
    assert scores.total.tolist()[0] == 100
    assert scores.total.tolist()[2] == 0


def test_scores_are_normalized_over_the_nodes_that_are_asked_for() -> None:
    basis = prepare(PEAKS, nodes(4), load(window([10, 50, 80, 20])), NOW)
    asked = score(basis, POD, np.array([2, 1]))
    assert asked.total.tolist() == [0, 100]
    assert asked.rows.tolist() == [2, 1]


def test_models_are_looked_up_once_for_the_same_nodes() -> None:
    own, used = nodes(2), load(window([10, 50]))
    first = prepare(PEAKS, own, used, NOW)
    second = prepare(PEAKS, own, used, NOW, before=first)
    assert score(second, POD).total.tolist() == score(first, POD).total.tolist() == [100, 0]
