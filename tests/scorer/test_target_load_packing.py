"""TargetLoadPacking, by the proposal's example and the bounds of its curve."""

import numpy as np

from slack.scorer.algorithms.figures import round_scores
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking, curve, utilization_percent
from slack.scorer.model import PodDemand, Weighted
from slack.scorer.scoring import score_nodes
from tests.cases import run_for_each
from tests.scorer.clusters import NOW, load, nodes, window

TLP = (Weighted(TargetLoadPacking()),)


def test_the_proposals_example_of_three_nodes() -> None:
    algorithms = (Weighted(TargetLoadPacking(target_percent=50)),)
    scores = score_nodes(algorithms, PodDemand(), nodes(3), load(window([25, 50, 75])), NOW)
    assert scores.total.tolist() == [75, 100, 25]
    assert scores.best == 1


@run_for_each(
    ("target", "utilization", "score"),
    [
        (40, 0, 40), (40, 20, 70), (40, 40, 100), (40, 40.0001, 40), (40, 70, 20), (40, 100, 0), (40, 100.1, 0),
        (50, 50.5, 50), (1, 0, 1), (1, 100, 0), (100, 0, 100), (100, 100, 100), (100, 101, 0), (40, np.nan, 0),
    ],
)  # fmt: skip
def test_each_bound_of_the_curve(target: float, utilization: float, score: int) -> None:
    assert round_scores(curve(np.array([utilization], dtype=np.float64), target)).tolist() == [score]


def test_the_pods_predicted_use_is_added_to_what_is_used() -> None:
    pod = PodDemand(requests=(4000.0, 0.0), predicted=(400.0, 0.0))
    scores = score_nodes(TLP, pod, nodes(2), load(window([30, 60])), NOW)
    assert scores.terms["TargetLoadPacking.utilization_percent"].tolist() == [40.0, 70.0]
    assert scores.total.tolist() == [100, 20]


def test_utilization_is_of_the_capacity_and_not_of_what_is_allocatable() -> None:
    own = nodes(1, allocatable=np.array([[1000.0], [1e9]]))
    scores = score_nodes(TLP, PodDemand(predicted=(400.0, 0.0)), own, load(window([30])), NOW)
    assert scores.terms["TargetLoadPacking.utilization_percent"].tolist() == [40.0]


def test_a_node_without_capacity_has_the_minimum_and_not_the_score_of_the_target() -> None:
    none = np.zeros(1)
    assert np.isnan(utilization_percent(np.array([10.0]), none, 100.0, none)).all()
    assert score_nodes(TLP, PodDemand(), nodes(1, cpu_millis=0.0), load(window([10])), NOW).total.tolist() == [0]


def test_two_configurations_do_not_overwrite_each_other() -> None:
    own, used = nodes(1), load(window([50]))
    first, second = Weighted(TargetLoadPacking(target_percent=50)), Weighted(TargetLoadPacking(target_percent=60))
    assert score_nodes((first,), PodDemand(), own, used, NOW).total.tolist() == [100]
    assert score_nodes((second,), PodDemand(), own, used, NOW).total.tolist() == [93]
    assert score_nodes((first,), PodDemand(), own, used, NOW).total.tolist() == [100]


def test_rounding_is_half_up_and_not_to_even() -> None:
    halves = np.array([0.5, 1.5, 2.5, 42.49999999999999, 0.4])
    assert round_scores(halves).tolist() == [1, 2, 3, 43, 0]
