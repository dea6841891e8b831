"""What the table of sizes says, worked by hand; and that every case can be played."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.sizing.cases import CASES, Case, load, longer, recordings
from benchmarks.sizing.runs import Kept, Point, Runs
from benchmarks.sizing.search import boxes_of, cheapest, searched, smallest
from benchmarks.sizing.table import constant_share, costs, extra_cost, objective_ratio, objectives, regrets, verdicts
from slack.simulator.scenario.load import Bursts, DeploymentReplicas
from tests.cases import run_for_each
from tests.simulator.build import at, replicas, scenario, workload

LOAD = Case("load", True, Path("load.yaml"))


def point(word: str, share: float, cost: float, **churn: float) -> Point:
    none = dict.fromkeys(("created", "displaced", "drained", "grown", "other"), 0.0)
    return Point(word, word.partition("=")[0], share, cost, **{**none, **churn})


def case(points: Iterable[Point]) -> dict[str, Point]:
    return {found.word: found for found in points}


POINTS = case(
    [
        point("none", 0.5, 100),
        point("static=4x1/1Gi", 0.96, 120),
        point("static=9x1/1Gi", 1.0, 150),
        point("rate=0.1", 0.97, 130, created=12, displaced=5, drained=1, grown=4, other=2),
        point("rate=0.3", 0.9, 110),
        point("objective=0.95", 0.955, 114, created=5, displaced=5),
        point("objective=0.99", 0.96, 116),
    ]
)


def test_the_regret_is_against_the_better_constant_of_the_same_cost() -> None:
    objective = POINTS["objective=0.95"]  # at 114 pause pods have 0.5 + 0.46 x 14 / 20, and a rate 0.9 + 0.07 x 4 / 20
    assert constant_share(POINTS, objective) == pytest.approx(0.914)
    rows = {row["slack"]: row for row in regrets([(LOAD, POINTS)]).rows}
    assert (rows["objective=0.95"]["regret"], rows["static=4x1/1Gi"]["regret"]) == ("-4.1", "+0.0")
    assert constant_share(case([POINTS["none"], objective]), objective) is None


@run_for_each("wanted", CASES, ids=lambda wanted: wanted.name)
def test_every_case_can_be_played_and_measures_nothing_while_an_objective_learns(wanted: Case) -> None:
    loaded = load(wanted)
    assert loaded.warm_up.total_seconds() >= 48 * 3600
    assert loaded.duration.total_seconds() >= loaded.warm_up.total_seconds() + 24 * 3600
    assert all(group.price_per_hour for group in loaded.node_groups if group.allocatable)
    assert boxes_of(loaded)


@run_for_each("wanted", CASES[:1], ids=lambda wanted: wanted.name)
def test_from_the_start_only_the_time_in_which_nodes_settle_is_left_out(wanted: Case) -> None:
    loaded, learnt = load(wanted, from_start=True), load(wanted)
    assert loaded.warm_up.total_seconds() == 1800
    assert loaded.model_copy(update={"warm_up": learnt.warm_up}) == learnt


def test_the_bursts_and_curves_of_an_example_come_again() -> None:
    bursts = {"arrivals": {"kind": "bursts", "size": 3, "at": ["10m"]}}
    points = {"arrivals": replicas(3, load={"kind": "points", "points": [[0, 5], [7200, 9]]}, targetPerPod=1)}
    found = longer(
        {"duration": "12h", "warmUp": "1h", "workloads": [{**workload("a"), **bursts}, {**workload("b"), **points}]}
    )
    again, curve = (played.arrivals for played in scenario(**found).workloads)
    assert isinstance(again, Bursts)
    assert [at.total_seconds() / 60 for at in again.at] == [10, 730, 1450, 2170, 2890, 3610]
    assert isinstance(curve, DeploymentReplicas)
    assert curve.hpa is not None
    assert curve.hpa.load.at(86_400 + 7200) == 9


def test_pause_pods_are_tried_in_the_sizes_of_pods_that_come() -> None:
    sizes = {"large": "3", "small": "500m", "middle": "1", "fixed": "4"}
    arrivals = {"fixed": replicas(2)}
    loads = [workload(name, cpu, arrivals=arrivals.get(name, at(0))) for name, cpu in sizes.items()]
    assert [box["cpu"] for box in boxes_of(scenario(workloads=loads))] == [3000, 500, 1000]


@pytest.mark.parametrize("answer", [1, 2, 7, 64, 100])
def test_the_smallest_size_that_reaches_is_found(answer: int) -> None:
    asked: list[int] = []

    def share_of(size: int, *, may_give_up: bool) -> float:
        asked.append(size)
        share = min(size / answer, 1.0)
        return 0.0 if may_give_up and share < 1.0 else share

    assert smallest(share_of, 1.0, 1, 100, within=0.0) == answer
    assert len(set(asked)) == len(asked)
    assert answer == 1 or answer - 1 in asked


def test_where_more_is_less_the_search_ends_beside_the_best() -> None:
    asked: set[int] = set()

    def share_of(size: int, *, may_give_up: bool) -> float:
        asked.add(size)
        return 1 - abs(size - 14) / 100 - 0.5 * may_give_up

    assert smallest(share_of, 1.0, 1, 4096, within=0.0) is None
    assert asked == {1, 2, 4, 8, 12, 16, 24, 32, 64}


def test_what_was_run_is_kept_and_not_run_again(tmp_path: Path) -> None:
    kept, told = Kept(tmp_path / "runs.jsonl"), list[str]()
    jobs = workload("jobs", arrivals=at(0, 600, 1200, 1800, size=3))
    load_ = scenario(workloads=[jobs], duration="40m", warmUp="5m")
    played = Runs(load_, (1, 2), told.append, kept, "toy")
    searched(played, coarse=True, kinds=("static",))
    assert len(told) == len(set(told)) >= 4
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"case": "toy", "se')  # interrupted while it wrote
    again = Runs(load_, (1, 2), told.append, kept, "toy")
    before = len(told)
    searched(again, coarse=True, kinds=("static",))
    assert again.made == played.made
    assert len(told) == before
    assert kept.of("another") == {}
    assert Kept(None).of("toy") == {}


def test_the_recordings_of_a_folder_are_loads(tmp_path: Path) -> None:
    for name in ("week.parquet", "day.parquet", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [(case.name, case.has_pattern) for case in recordings(tmp_path)] == [("day", False), ("week", False)]


def test_the_cheapest_size_that_reaches_a_goal_counts_and_not_the_smallest() -> None:
    best = cheapest(POINTS.values(), "static", 0.95)
    assert best is not None
    assert best.word == "static=4x1/1Gi"
    assert extra_cost(POINTS, "rate", 0.95) == 30
    assert extra_cost(POINTS, "rate", 0.99) is None


def test_an_objective_is_compared_with_the_better_of_static_and_rate() -> None:
    assert objective_ratio(POINTS, 0.95) == pytest.approx(14 / 20)
    assert objective_ratio(POINTS, 0.99) is None  # it has not reached it
    assert objective_ratio({**POINTS, "none": point("none", 0.96, 100)}, 0.95) is None  # nothing is to be paid for


def test_the_tables_say_what_is_missed_and_by_what() -> None:
    made = [(LOAD, POINTS)]
    first = costs(made).rows[0]
    assert (first["static"], first["rate"], first["objective"]) == ("20.0%", "30.0%", "14.0%")
    assert [row["points"] for row in objectives(made).rows] == ["+0.5", "-3.0"]
    with_pattern, without, behind, reached, churn = verdicts(made).rows
    assert (behind["verdict"], behind["found"]) == ("ok", "0 above")
    assert (with_pattern["verdict"], with_pattern["found"]) == ("ok", "mean 0.70")
    assert without["verdict"] == "unknown"
    assert (reached["verdict"], reached["missed by"]) == ("missed", "load -3.0 at 99.0%")
    assert (churn["verdict"], churn["found"]) == ("missed", "13.3% in all")


def test_all_pods_at_once_are_within_a_point_of_99_in_a_hundred() -> None:
    points = case([point("none", 0.5, 100), point("static=1", 1.0, 120), point("objective=0.99", 1.0, 110)])
    reached = verdicts([(LOAD, points)]).rows[3]
    assert (reached["verdict"], reached["missed by"]) == ("ok", None)
