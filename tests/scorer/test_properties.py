"""What must hold whatever the metrics say."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.peaks import Peaks, PowerModel
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking, curve
from slack.scorer.model import (
    FloatArray,
    LoadColumns,
    PodDemand,
    RecentPods,
    ScoredNodes,
    UsageState,
    Weighted,
    WindowLoad,
)
from slack.scorer.rules import Formula
from slack.scorer.scoring import prepare, score, score_nodes
from tests.scorer.clusters import NOW

FIGURES = (np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 17.0, 40.0, 63.7, 99.9, 100.0, 1e12)
SIZES = (0.0, 1.0, 1000.0, 4000.0, 1e9, 64e9)
AMOUNTS = (0.0, 0.0, 1.0, 250.0, 1000.0, 3999.0, 1e9, 1e15)
AGES = (0.0, 0.0, 30.0, 299.0, 301.0, -100.0, 1e9, np.nan)
amounts = st.sampled_from(AMOUNTS)


def cluster_of(seed: int) -> tuple[ScoredNodes, LoadColumns]:
    """A cluster drawn by its seed: whole columns at once, for hypothesis is slow at drawing many figures."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(1, 7)), int(rng.integers(0, 5))

    def columns(values: tuple[float, ...], width: int = size) -> FloatArray:
        return rng.choice(np.array(values), (2, width))

    nodes = ScoredNodes.from_columns(
        tuple(f"n{row}" for row in range(size)),
        columns(SIZES),
        allocatable=columns(SIZES),
        requested=columns(AMOUNTS),
        limited=columns(AMOUNTS),
        placeholders=columns(AMOUNTS),
        pod_count=rng.integers(0, 4, size),
        created_seconds=NOW - rng.choice(np.array([0.0, 800.0, 1e6, np.nan]), size),
    )
    windows = tuple(
        WindowLoad(seconds, NOW - rng.choice(np.array(AGES), size), columns(FIGURES), columns(FIGURES))
        for seconds in rng.choice(np.array([300.0, 600.0, 900.0]), rng.integers(0, 4))
    )
    recent = RecentPods(rng.integers(0, size, count), NOW - rng.uniform(-100, 1000, count), columns(AMOUNTS, count))
    return nodes, LoadColumns(windows, recent)


def clusters() -> st.SearchStrategy[tuple[ScoredNodes, LoadColumns]]:
    return st.integers(0, 1 << 32).map(cluster_of)


MODEL = PowerModel(100.0, 5.0, 0.03)
EVERY = tuple(
    Weighted(algorithm, weight)
    for algorithm, weight in (
        (TargetLoadPacking(), 1.0),
        (LoadVariationRiskBalancing(), 2.0),
        (LowRiskOverCommitment(), 0.5),
        (Peaks({f"n{row}": MODEL for row in range(0, 6, 2)}), 1.0),
    )
)
PROPOSED = (Weighted(LoadVariationRiskBalancing(formula=Formula.PROPOSAL)),)
pods = st.builds(
    PodDemand,
    requests=st.tuples(amounts, amounts),
    limits=st.tuples(amounts, amounts),
    predicted=st.tuples(amounts, amounts),
)


@given(clusters(), pods, st.sampled_from([EVERY, PROPOSED, *((one,) for one in EVERY)]))
def test_scores_are_whole_numbers_from_0_to_100_whatever_the_metrics_say(
    cluster: tuple[ScoredNodes, LoadColumns], pod: PodDemand, algorithms: tuple[Weighted, ...]
) -> None:
    nodes, load = cluster
    scores = score_nodes(algorithms, pod, nodes, load, NOW)
    assert scores.total.dtype == np.int64
    assert ((scores.total >= 0) & (scores.total <= 100)).all()
    for own in scores.by_algorithm.values():
        assert ((own >= 0) & (own <= 100)).all()


@given(clusters(), pods, st.sampled_from([EVERY, PROPOSED, *((one,) for one in EVERY)]))
def test_no_data_is_never_better_than_data(
    cluster: tuple[ScoredNodes, LoadColumns], pod: PodDemand, algorithms: tuple[Weighted, ...]
) -> None:
    nodes, load = cluster
    scores = score_nodes(algorithms, pod, nodes, load, NOW)
    if scores.by_algorithm:
        assert (scores.total[scores.state > UsageState.NEW] == 0).all()
    measured = scores.state == UsageState.MEASURED
    if measured.any():
        for own in (scores.total, *scores.by_algorithm.values()):
            assert own[~measured].max(initial=0) <= own[measured].min()


def with_a_new_node(nodes: ScoredNodes, load: LoadColumns) -> tuple[ScoredNodes, LoadColumns]:
    """Return the cluster with a first node that was just made and is not measured."""
    nothing = np.full((2, len(nodes)), np.nan)
    nothing[:, 1:] = 0.0
    windows = tuple(replace(window, mean_percent=window.mean_percent + nothing) for window in load.windows)
    created, count = nodes.created_seconds.copy(), nodes.pod_count.copy()
    created[0], count[0] = NOW - 10.0, 0
    return replace(nodes, created_seconds=created, pod_count=count), replace(load, windows=windows)


@given(clusters(), pods, st.sampled_from([EVERY, PROPOSED, *((one,) for one in EVERY)]))
def test_a_new_node_is_never_above_a_measured_one(
    cluster: tuple[ScoredNodes, LoadColumns], pod: PodDemand, algorithms: tuple[Weighted, ...]
) -> None:
    nodes, load = with_a_new_node(*cluster)
    scores = score_nodes(algorithms, pod, nodes, load, NOW)
    measured = scores.state == UsageState.MEASURED
    if measured.any():
        assert scores.state[0] == UsageState.NEW
        assert scores.total[0] <= scores.total[measured].min()


@given(clusters(), pods, st.data())
def test_a_node_scores_the_same_whichever_others_are_asked_for(
    cluster: tuple[ScoredNodes, LoadColumns], pod: PodDemand, data: st.DataObject
) -> None:
    nodes, load = cluster
    without_peaks = EVERY[:3]  # which is normalized over those that are asked for
    basis = prepare(without_peaks, nodes, load, NOW)
    rows = np.array(data.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=8)), dtype=np.int64)
    some, every = score(basis, pod, rows), score(basis, pod)
    is_new = every.state[rows] == UsageState.NEW  # is held to the measured nodes beside it
    assert some.total[~is_new].tolist() == every.total[rows][~is_new].tolist()


@given(clusters(), clusters(), pods)
def test_what_was_prepared_before_changes_no_score(
    first: tuple[ScoredNodes, LoadColumns], second: tuple[ScoredNodes, LoadColumns], pod: PodDemand
) -> None:
    before = prepare(EVERY, *first, NOW)
    after = prepare(EVERY, *second, NOW, before=before)
    assert score(after, pod).total.tolist() == score(prepare(EVERY, *second, NOW), pod).total.tolist()


@given(st.floats(1, 100), st.floats(0, 100), st.floats(0, 100))
def test_up_to_the_target_fuller_is_better_and_above_it_worse(target: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    at_low, at_high = curve(np.array([low, high]), target)
    if high <= target:
        assert at_low <= at_high + 1e-9
    elif low > target:
        assert at_low >= at_high - 1e-9


@given(clusters(), pods)
def test_the_same_question_has_the_same_answer(cluster: tuple[ScoredNodes, LoadColumns], pod: PodDemand) -> None:
    answers = [score_nodes(EVERY, pod, *cluster, NOW) for _ in range(2)]
    assert answers[0].total.tolist() == answers[1].total.tolist()
    assert list(answers[0].terms) == list(answers[1].terms)
