"""At equal load, real load makes fewer hot nodes and fewer nodes used than requests alone."""

import numpy as np
import pytest

from benchmarks.scoring.placement import NODES, Outcome, Pods, play, pods
from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking


@pytest.fixture(scope="module")
def own() -> Pods:
    return pods(seed=1)


@pytest.fixture(scope="module")
def stock(own: Pods) -> Outcome:
    return play(None, own)


def test_balancing_makes_fewer_hot_nodes_than_the_stock_profile(own: Pods, stock: Outcome) -> None:
    balanced = play(LoadVariationRiskBalancing(), own)
    assert stock.hot_nodes > balanced.hot_nodes
    assert balanced.hottest_percent < stock.hottest_percent


def test_packing_uses_fewer_nodes_than_the_stock_profile(own: Pods, stock: Outcome) -> None:
    assert play(TargetLoadPacking(), own).used_nodes < stock.used_nodes


def test_pods_that_do_not_fit_are_told_and_not_left_out() -> None:
    many = pods(seed=0, count=NODES + 1)
    with pytest.raises(ValueError, match="do not fit"):
        play(None, many._replace(request=np.full_like(many.request, 5_000)))  # one takes a node
