"""Recorded decisions: what was written is read back, and can be decided again, otherwise too."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.requests import RequestError
from slack.cluster.wire import Pod
from slack.scorer.algorithms.load_variation import LoadVariationRiskBalancing
from slack.scorer.algorithms.low_risk_overcommitment import LowRiskOverCommitment
from slack.scorer.algorithms.target_load_packing import TargetLoadPacking
from slack.scorer.inputs.prediction import demand_of
from slack.scorer.model import Weighted
from slack.scorer.record import InvalidRecord, line_of, read_line
from slack.scorer.rules import PodUse, Prediction
from slack.scorer.scoring import prepare, score
from tests.cases import run_for_each
from tests.scorer.clusters import NOW, load, nodes, recent, window

EVERY = tuple(Weighted(own) for own in (TargetLoadPacking(), LoadVariationRiskBalancing(), LowRiskOverCommitment()))
POD = msgspec.json.decode(
    b'{"metadata":{"name":"api","namespace":"shop"},"spec":{"containers":[{"name":"c","resources":{"requests":'
    b'{"cpu":"400m"},"limits":{"cpu":"1"}}}],"initContainers":[{"name":"s","restartPolicy":"Always","resources":'
    b'{"requests":{"cpu":"100m"}}}],"overhead":{"cpu":"10m"}}}',
    type=Pod,
)
PREDICTION = Prediction(use=PodUse.LIMITS)
USED = load(window([20, 60, np.nan, 30], cpu_deviation=[5, 9, 1, np.nan]), recent=recent((0, 10, 300)))


def recorded(rows: list[int]) -> tuple[bytes, list[int]]:
    basis = prepare(EVERY, nodes(4, requested=np.full((2, 4), 500.0)), USED, NOW)
    scores = score(basis, demand_of(POD.spec, PREDICTION), np.array(rows))
    return line_of(NOW, POD, False, basis, scores), scores.total.tolist()


def test_a_decision_that_is_read_back_is_made_again() -> None:
    line, total = recorded([3, 0, 2])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    again = read_line(line)
    assert (again.at, again.namespace, again.name) == (NOW, "shop", "api")
    assert again.nodes.names == ("n3", "n0", "n2")
    assert again.total.tolist() == total
    assert again.demand(PREDICTION) == demand_of(POD.spec, PREDICTION)
    assert score(again.basis(EVERY), again.demand(PREDICTION)).total.tolist() == total


def test_it_can_be_made_again_otherwise() -> None:
    line, _ = recorded([0, 1])
    again = read_line(line)
    fifty = (Weighted(TargetLoadPacking(target_percent=50)),)
    basis = prepare(fifty, nodes(4), USED, NOW)
    requests = Prediction(use=PodUse.REQUESTS)
    expected = score(basis, demand_of(POD.spec, requests), np.array([0, 1])).total.tolist()
    assert score(again.basis(fifty), again.demand(requests)).total.tolist() == expected


def test_that_no_node_of_the_cluster_was_known_is_recorded_too() -> None:
    blind = prepare(EVERY, nodes(2), load(), NOW)
    line = line_of(NOW, POD, False, blind, score(blind, demand_of(POD.spec, PREDICTION)))
    again = read_line(line)
    assert score(again.basis(EVERY), again.demand(PREDICTION)).rule == again.rule == "SpreadOnAllocations"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "no recorded decision"),
        (b"{}", "missing required field"),
        (b"\xff", "no recorded decision"),
        (b"[" * 100_000, "no recorded decision"),
    ],
)
def test_a_line_that_is_none_is_refused(line: bytes, words: str) -> None:
    with pytest.raises(InvalidRecord, match=words):
        read_line(line)


def test_columns_of_different_lengths_and_other_versions_are_refused() -> None:
    line, _ = recorded([0, 1])
    document = msgspec.json.decode(line)
    with pytest.raises(InvalidRecord, match="not every column"):
        read_line(msgspec.json.encode(document | {"scores": [1]}))
    with pytest.raises(InvalidRecord, match="version 1 of recorded decisions"):
        read_line(msgspec.json.encode(document | {"version": 1}))


@given(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=6))
def test_a_damaged_line_is_read_or_refused_and_nothing_else(place: int, damage: bytes) -> None:
    line = LINE
    start = place % len(line)
    try:
        again = read_line(line[:start] + damage + line[start + len(damage) :])
        score(again.basis(EVERY), again.demand(PREDICTION))
    except (InvalidRecord, RequestError):
        pass


@pytest.mark.parametrize(("field", "value"), [("at", 1e300), ("at", -1), ("scores", [101, 0]), ("scores", [-1, 0])])
def test_numbers_that_nothing_real_has_are_refused(field: str, value: object) -> None:
    document = msgspec.json.decode(recorded([0, 1])[0])
    with pytest.raises(InvalidRecord):
        read_line(msgspec.json.encode(document | {field: value}))


LINE = recorded([0, 1, 2])[0]


@run_for_each("value", [-1, 1e308])
@run_for_each("column", ["capacity", "requested", "mean_percent", "deviation_percent", "missing"])
def test_columns_with_figures_that_no_node_has_are_refused_and_not_scored_below_zero(column: str, value: float) -> None:
    document = msgspec.json.decode(recorded([0, 1])[0])
    document["nodes"][column][0][1] = value
    with pytest.raises(InvalidRecord):
        read_line(msgspec.json.encode(document))
