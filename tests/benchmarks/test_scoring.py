"""The benchmark of scores: its formulas in Go and ours agree, score by score."""

import shutil

import pytest

from benchmarks.scoring.handler import report


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_every_score_is_that_of_the_formulas_in_go() -> None:
    rows = report(runs=20).rows  # which refuses a score that differs
    assert [row["what"] for row in rows[:2]] == ["500 nodes", "5,000 nodes"]
    assert all(row["Go p50 us"] for row in rows[:2])
