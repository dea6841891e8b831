"""LoadVariationRiskBalancing, by the proposal's example of three nodes and the bounds of its terms."""

import numpy as np
import pytest

from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing, proposed_risk, risk_of, weighed_sigma
from slack.scorer.algorithms.moments import mu_of, sigma_of
from slack.scorer.model import PodDemand, Weighted
from slack.scorer.rules import Formula
from slack.scorer.scoring import score_nodes
from tests.scorer.clusters import GB, NOW, load, nodes, window

POD = PodDemand(requests=(500.0, 1 * GB))
# Capacity 4 cores and 8 GB; used and deviation of N1, N2, N3 as in the proposal's pictures, in percent of it.
EXAMPLE = load(
    window(
        [20, 50, 30], [20, 80, 40],
        cpu_deviation=[80, 1, 10], memory_deviation=[60, 0.05, 5],
    )
)  # fmt: skip


@pytest.mark.parametrize(("formula", "expected"), [(Formula.PROPOSAL, [0, 7, 43]), (Formula.IMPLEMENTED, [44, 54, 71])])
def test_the_proposals_example_of_three_nodes_chooses_n3(formula: Formula, expected: list[int]) -> None:
    algorithms = (Weighted(LoadVariationRiskBalancing(formula=formula)),)
    scores = score_nodes(algorithms, POD, nodes(3), EXAMPLE, NOW)
    assert scores.total.tolist() == expected
    assert scores.best == 2


def test_the_worse_of_cpu_and_memory_counts_and_cpu_alone_but_never_memory_alone() -> None:
    algorithms = (Weighted(LoadVariationRiskBalancing()),)
    used = load(window([20, 20, np.nan], [60, np.nan, 60], cpu_deviation=[0] * 3, memory_deviation=[0] * 3))
    assert score_nodes(algorithms, PodDemand(), nodes(3), used, NOW).total.tolist() == [70, 90, 0]


def test_mu_and_sigma_stay_within_nothing_and_all() -> None:
    size = np.array([4000.0, 4000.0, 4000.0, 0.0])
    mean = np.array([120.0, 90.0, -5.0, 10.0])
    assert mu_of(mean, 800.0, size).tolist() == [1.0, 1.0, 0.2, 0.0]
    assert mu_of(mean, -800.0, size).tolist() == [1.0, 0.9, 0.0, 0.0]
    assert sigma_of(np.array([150.0, 50.0, -1.0, 10.0]), size).tolist() == [1.0, 0.5, 0.0, 0.0]


def test_sensitivity_takes_a_root_and_margin_multiplies_what_comes_of_it() -> None:
    sigma = np.array([0.0, 0.25, 1.0])
    assert weighed_sigma(sigma, 1.0, 1.0).tolist() == [0.0, 0.25, 1.0]
    assert weighed_sigma(sigma, 1.0, 2.0).tolist() == [0.0, 0.5, 1.0]
    assert weighed_sigma(sigma, 3.0, 2.0).tolist() == [0.0, 1.0, 1.0]
    assert weighed_sigma(sigma, 0.0, 1.0).tolist() == [0.0, 0.0, 0.0]


def test_a_sensitivity_of_zero_leaves_only_a_sigma_of_one() -> None:
    assert weighed_sigma(np.array([0.0, 0.99, 1.0]), 1.0, 0.0).tolist() == [0.0, 0.0, 1.0]


def test_the_risk_is_half_of_mu_and_sigma_as_implemented_and_their_sum_as_proposed() -> None:
    mu, sigma = np.array([0.6]), np.array([0.2])
    assert risk_of(mu, sigma).tolist() == [0.4]
    assert proposed_risk(np.array([0.5]), np.array([0.1]), sigma, 1.0) == pytest.approx([0.8])
    assert proposed_risk(np.array([0.5]), np.array([0.1]), sigma, 3.0).tolist() == [1.0]


def test_ita_counts_in_the_proposals_formula() -> None:
    doubled = (Weighted(LoadVariationRiskBalancing(margin=2.0, formula=Formula.PROPOSAL)),)
    assert score_nodes(doubled, POD, nodes(3), EXAMPLE, NOW).total.tolist() == [0, 7, 38]


def test_a_node_without_capacity_has_the_minimum() -> None:
    algorithms = (Weighted(LoadVariationRiskBalancing()),)
    own = nodes(1, cpu_millis=0.0, memory_bytes=0.0)
    assert score_nodes(algorithms, POD, own, load(window([0], [0])), NOW).total.tolist() == [0]


def test_a_node_without_a_deviation_is_taken_for_as_unsteady_as_the_least_steady() -> None:
    algorithms = (Weighted(LoadVariationRiskBalancing()),)
    used = load(window([20, 20, 20], cpu_deviation=[10, 40, np.nan]))
    assert score_nodes(algorithms, PodDemand(), nodes(3), used, NOW).total.tolist() == [85, 70, 70]
    calm = load(window([20, 20, 20]))
    assert score_nodes(algorithms, PodDemand(), nodes(3), calm, NOW).total.tolist() == [90, 90, 90]
