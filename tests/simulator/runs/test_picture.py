from dataclasses import replace
from pathlib import PurePath

import pytest

from slack.simulator.runs.curve import curve
from slack.simulator.runs.picture import format_of, rate_curve, timeline
from slack.simulator.runs.tune import tune
from tests.examples import by_profile
from tests.simulator.runs.test_tune import Model
from tests.simulator.toys import result

RUNS = [("none", result()), ("rate=0.1", result(ratio=1.0, slack="policies"))]


@pytest.mark.parametrize(
    ("picture_format", "first"), [("svg", b"<?xml"), pytest.param("png", b"\x89PNG", marks=pytest.mark.thorough)]
)
def test_a_timeline_is_drawn_and_the_same_runs_give_the_same_bytes(picture_format: str, first: bytes) -> None:
    drawn = timeline(RUNS, picture_format)
    assert drawn.startswith(first)
    assert drawn == timeline(RUNS, picture_format)


def test_a_rate_curve_is_drawn_also_where_nothing_was_chosen() -> None:
    for largest in by_profile((1.0,), (1.0, 0.1)):
        found = tune(0.9, (1, 2), Model(0.5), largest=largest)
        drawn = [rate_curve(found.curve, "svg", currency="core hours", tuned=found) for _ in range(2)]
        assert drawn[0] == drawn[1]
        assert b"<!-- goal 90 % -->" in drawn[0]
        assert (b"<!-- rate 0.45 -->" in drawn[0]) is (found.chosen is not None)


def test_a_curve_without_a_goal_has_no_line_for_one() -> None:
    drawn = rate_curve(curve((0.0, 0.1), (1, 2), Model(0.5)), "svg")
    assert b"<!-- instant starts -->" in drawn
    assert b"goal" not in drawn


def test_where_no_pod_came_the_picture_says_so() -> None:
    empty = result()
    total = replace(empty.total, pods=0, instant=0)
    assert b"no pods, 2.0 node hours" in timeline([("none", replace(empty, total=total))], "svg")


def test_a_tenth_of_a_second_is_not_drawn_as_none() -> None:
    total = replace(result().total, p99_seconds=0.1)
    assert b"p99 0.1 s" in timeline([("none", replace(result(), total=total))], "svg")


def test_the_warm_up_is_marked() -> None:
    run = result()
    rows = (replace(row, time_seconds=second) for row, second in ((run.timeline[0], 0.0), (run.timeline[0], 900.0)))
    played = replace(run, timeline=tuple(rows))
    marked = timeline([("none", replace(played, measured_seconds=600.0))], "svg")
    assert b"warm-up, not measured" in marked
    assert b"warm-up" not in timeline([("none", replace(played, measured_seconds=900.0))], "svg")


@pytest.mark.parametrize(("name", "expected"), [("a.png", "png"), ("a.SVG", "svg"), ("a.jpg", None), ("a", None)])
def test_the_format_is_in_the_name(name: str, expected: str | None) -> None:
    assert format_of(PurePath(name)) == expected
