"""What the benchmark of refusals judges: every row, and the promises of docs/demand.md."""

import pytest

from benchmarks.demand import refusing
from benchmarks.demand.refusing import Case, Crowd, Found

GOOD = Found(refused=0.0009, ticks=2, most_ticks=3)
FORMER = Found(refused=0.2, ticks=1, most_ticks=2)


@pytest.mark.parametrize(
    ("containers", "run_seconds", "ticks"),
    [(10, 0.0025, 2), (10, 0.01, 2), (50, 0.1, 2), (10, 0.1, 15), (10, 1.0, 131), (1, 0.1, 128)],
)
def test_an_overload_is_refused_in_two_ticks_or_once_enough_messages_have_come(
    containers: int, run_seconds: float, ticks: int
) -> None:
    late = Found(0.0, ticks + 1, ticks + 1)
    assert Case(containers, run_seconds, FORMER, GOOD).promised_ticks == ticks
    assert not Case(containers, run_seconds, FORMER, GOOD).misses()
    (miss,) = Case(containers, run_seconds, FORMER, late).misses()
    assert f"promised {ticks} at most" in miss


def test_more_than_a_thousandth_refused_is_a_miss_in_any_row() -> None:
    (miss,) = Case(50, 0.1, FORMER, Found(0.0011, 2, 2)).misses()
    assert "0.110% refused at 80 %" in miss


def test_a_refusal_beside_an_idle_container_is_a_miss() -> None:
    assert not Crowd("after", 0.0, 0, 0).misses()
    assert len(Crowd("after", 0.002, 9, 1).misses()) == 2


def test_the_exit_code_is_of_all_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Case(10, 0.0025, FORMER, GOOD), Case(10, 0.1, FORMER, Found(0.01, 5, 11))]
    monkeypatch.setattr(refusing, "crowd", lambda rule, seeds, formerly: Crowd(rule, 0.0, 0, 0))
    monkeypatch.setattr(refusing, "nearly_full", lambda seeds: refusing.bounds())
    monkeypatch.setattr(refusing, "cases", lambda seeds: iter(rows))
    assert refusing.main([]) == 1
    assert "MISSED: 10 containers, runs of 100 ms: 1.000% refused" in capsys.readouterr().out
    monkeypatch.setattr(refusing, "cases", lambda seeds: iter(rows[:1]))
    assert refusing.main([]) == 0
