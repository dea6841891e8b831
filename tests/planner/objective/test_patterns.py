"""Patterns: what stands beside a row that has seen little, and when one is used."""

import numpy as np
import pytest

from slack.planner.objective.contest import PatternSelector
from slack.planner.objective.needs import Needs
from slack.planner.objective.patterns import COARSER, FIRST_ROW, PATTERNS, ROWS, rows_at

START = 1_767_571_200.0
"""Monday, 5 January 2026, 0:00 UTC."""
NAMES = [pattern.name for pattern in PATTERNS]


def test_beside_minutes_of_the_day_stand_these_of_each_hour_and_beside_an_hour_of_the_week_that_of_the_day() -> None:
    at = START + 86_400 + 7 * 3600 + 15 * 60
    rows = dict(zip(NAMES, rows_at(at).tolist(), strict=True))
    minutes = FIRST_ROW[NAMES.index("minute of hour")]
    assert COARSER[rows["minute of day"]].tolist() == [minutes + minute for minute in range(15, 20)]
    assert set(COARSER[rows["hour of week"]].tolist()) == {rows["hour of day"]}
    assert not COARSER[rows["hour of day"]].any(), "beside that stands the whole"


def hourly(hours: int) -> Needs:
    """Ten pods at each full hour."""
    needs = Needs()
    for minute in range(hours * 60):
        rows = rows_at(START + minute * 60)
        needs.watched(rows, 60.0)
        if minute % 60 == 0:
            needs.came([np.array([row]) for row in rows], np.zeros(2), np.array([10_000.0, 10.0 * 2**30]), 10)
    return needs


def test_a_wave_of_every_hour_is_known_at_an_hour_of_the_day_that_was_not_seen_yet() -> None:
    needs = hourly(6)
    rates = needs.rates(rows_at(START + 20 * 3600)).sum(axis=2)[:, 0]
    by_name = dict(zip(NAMES, rates.tolist(), strict=True))
    assert by_name["minute of day"] > 60, "of 120, ten pods in five minutes; what is known of the whole is beside it"
    assert by_name["none"] == pytest.approx(10.0, rel=0.1)


def test_all_rows_at_once_come_to_the_same_as_each_alone() -> None:
    needs = hourly(30)
    whole = needs.rates(slice(None))
    some = np.array([0, 3, 40, 200, 260, ROWS - 1])
    assert needs.rates(some) == pytest.approx(whole[some])


KNEW = np.ones(6, dtype=bool)


def judged(contest: PatternSelector, hours: int, losses: list[list[float]], knew: np.ndarray = KNEW) -> None:
    for hour in range(hours):
        contest.judged(np.array(losses[hour % len(losses)]), 3600.0, knew)


def test_a_pattern_that_is_better_only_by_chance_is_not_used_and_one_that_was_gives_way_to_the_plainest() -> None:
    random = np.random.default_rng(7)
    chance = [random.normal(10.0, 3.0, len(PATTERNS)).tolist() for _ in range(500)]
    used = []
    for start in range(0, 500, 50):
        contest = PatternSelector()
        judged(contest, 50, chance[start:] + chance[:start])
        used.append(contest.best)
    assert used.count(0) >= 9
    contest = PatternSelector()
    judged(contest, 24, [[10.0, 10.0, 10.0, 10.0, 4.0, 10.0], [10.0, 11.0, 9.5, 10.0, 5.0, 10.0]])
    assert NAMES[contest.best] == "minute of hour"
    judged(contest, 96, chance)
    assert contest.best == 0


def test_how_a_pattern_fared_before_it_knew_anything_does_not_count() -> None:
    contest, day = PatternSelector(), NAMES.index("minute of day")
    knew = np.arange(6) != day
    judged(contest, 24, [[10.0, 10.0, 10.0, 10.0, 10.0, 500.0]], knew)
    assert contest.weight[day, 0] == 0
    judged(contest, 24, [[10.0, 10.0, 10.0, 10.0, 9.0, 1.0], [10.0, 11.0, 9.5, 10.0, 9.0, 2.0]])
    assert NAMES[contest.best] == "minute of day"
