"""What the table of the two forms says, worked by hand; and that every load can be played."""

import json
from pathlib import Path

import pytest

from benchmarks.holding.churn import LOADS as CHURN_LOADS
from benchmarks.holding.churn import Churn, churn
from benchmarks.holding.churn import scenario as churn_scenario
from benchmarks.holding.loads import LOADS, SCORES, UNITS, Case, cases, scenario
from benchmarks.holding.runs import Figures, Kept, Point, Runs
from benchmarks.holding.search import RATE, Compared, compare, crossing
from benchmarks.holding.table import movements, nodes, verdicts
from slack.cluster.hold import Hold
from slack.simulator.scenario.slack_kinds import NoSlack, Policies

CASE = Case("bursts", "small", "leastAllocated", "clusterAutoscaler")


def point(rate: float, share: float, *nodes_of_seeds: float, preempted: int = 0) -> Point:
    return Point(rate, tuple(Figures(share, nodes, preempted, preempted) for nodes in nodes_of_seeds))


NONE = point(0.0, 0.5, 8, 8)
BOUND = point(0.2, 0.9, 10, 10, preempted=3)


def compared(unbound: Point, tolerance: float = 0.01) -> Compared:
    return Compared(NONE, BOUND, unbound, tolerance)


def test_every_load_with_every_size_and_score_can_be_played() -> None:
    found = cases("karpenter", None)

    assert len(found) == len(LOADS) * len(UNITS) * len(SCORES) == 24
    for case in found:
        played = scenario(case, seed=3, rate=0.3, hold=Hold.UNBOUND)
        assert (played.seed, played.operator.hold, played.autoscaler.kind) == (3, Hold.UNBOUND, "karpenter")
        assert played.scheduler.scoring == case.scores
        assert isinstance(played.slack, Policies)
        assert played.slack.policies[0].spec.extra_capacity.min_rate == 0.3
    assert isinstance(scenario(CASE, seed=1, rate=None, hold=Hold.BOUND).slack, NoSlack)


@pytest.mark.parametrize(
    ("goal", "rate"),
    [(0.5, 0.0), (0.6, 0.05), (0.7, 0.1), (0.75, 0.125), (0.9, 0.2)],
)
def test_a_rate_lies_where_the_line_through_the_points_crosses_the_goal(goal: float, rate: float) -> None:
    assert crossing([NONE, point(0.1, 0.7, 9), point(0.2, 0.9, 10)], goal) == rate


def test_nodes_are_compared_at_an_equal_share() -> None:
    (row,) = nodes([(CASE, compared(point(0.15, 0.895, 10.2, 10.0)))]).rows
    assert row["unbound to bound"] == "1.010"
    assert row["verdict"] == "ok"


@pytest.mark.parametrize("unbound", [point(0.2, 0.9, 10.4, 10.4), point(0.2, 0.85, 9.0, 9.0)])
def test_more_nodes_and_a_smaller_share_are_both_missed(unbound: Point) -> None:
    found = [(CASE, compared(unbound))]
    assert nodes(found).rows[0]["verdict"] == "missed"
    assert "missed" in [row["verdict"] for row in verdicts(found, []).rows]


def test_what_was_preempted_and_recreated_stands_beside_it() -> None:
    (row,) = movements([(CASE, compared(point(0.2, 0.9, 10, 10)))]).rows
    assert (row["preempted bound"], row["preempted unbound"], row["recreated bound"]) == ("3.0", "0.0", "3.0")


def test_an_unbound_placeholder_that_was_recreated_is_a_figure_that_was_missed() -> None:
    def moved(hold: Hold, recreated: int) -> Churn:
        return Churn("a day", str(hold), pods=9, created=5, recreated=recreated, preempted=0, made_way=0)

    assert [row["verdict"] for row in verdicts([], [moved(Hold.BOUND, 4), moved(Hold.UNBOUND, 0)]).rows] == ["ok"]
    assert [row["verdict"] for row in verdicts([], [moved(Hold.UNBOUND, 1)]).rows] == ["missed"]


def test_runs_are_made_once_and_kept(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    told: list[str] = []
    found = compare(Runs(CASE, (1,), Kept(keep), told.append))
    lines = keep.read_text().splitlines()
    first = json.loads(lines[0])

    assert first["hold"] == "none"
    assert found.unbound.preempted == found.unbound.recreated == 0
    assert found.unbound.share >= found.bound.share - found.tolerance
    assert found.none.share < found.bound.share
    assert RATE in {json.loads(line)["rate"] for line in lines}

    again = compare(Runs(CASE, (1,), Kept(keep), told.append))
    assert again == found
    assert keep.read_text().splitlines() == lines


def test_every_moving_load_can_be_played() -> None:
    for name in CHURN_LOADS:
        assert churn_scenario(name, Hold.UNBOUND, 2).operator.hold is Hold.UNBOUND


def test_unbound_placeholders_stay_where_the_load_moves() -> None:
    name = next(iter(CHURN_LOADS))
    found = churn(name, Hold.UNBOUND, (1,))
    assert found.pods > 0
    assert (found.recreated, found.preempted, found.made_way) == (0, 0, 0)
