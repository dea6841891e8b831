"""The bound on rules of refusals: exact, and below what a rule does that is tried at random."""

import random
from itertools import pairwise

import pytest

from benchmarks.demand.best_refusal import Best, least_refused, probability, tail
from benchmarks.demand.refusing import TICK_SECONDS, main


def test_the_probabilities_are_those_of_poisson() -> None:
    assert sum(probability(48.0, messages) for messages in range(200)) == pytest.approx(1.0)
    assert tail(2.0, 0) == 1.0
    assert tail(2.0, 2) == pytest.approx(1.0 - 3.0 * 2.718281828459045**-2)


def test_what_cannot_be_told_apart_costs_as_many_false_alarms_as_it_finds() -> None:
    assert least_refused(50.0, 50.0) == pytest.approx(0.5)


@pytest.mark.parametrize(("capacity", "least", "ticks"), [(1000.0, 0.0, 1), (100.0, 0.0006, 2), (10.0, 0.15, 19)])
def test_the_fewer_messages_come_the_later_an_overload_is_told_from_chance(
    capacity: float, least: float, ticks: int
) -> None:
    best = Best(capacity, TICK_SECONDS)
    assert least <= best.refused(0.8, 2) <= least + 0.01
    assert best.ticks(0.8) == ticks
    assert best.ticks(0.95) >= ticks
    assert all(earlier >= later for earlier, later in pairwise(best.refused(0.8, ticks) for ticks in range(1, 9)))


def test_no_threshold_that_is_tried_does_better() -> None:
    """Counts of two ticks at 10 messages a second, with each threshold that finds half of the overloads."""
    rng = random.Random(1)

    def counted(mean: float) -> int:
        left, messages = mean, -1
        while left > 0:
            left -= rng.expovariate(1.0)
            messages += 1
        return messages

    calm, overload = [counted(4.8) for _ in range(20_000)], [counted(7.2) for _ in range(20_000)]
    found = [
        sum(count >= least for count in calm) / len(calm)
        for least in range(20)
        if sum(count >= least for count in overload) / len(overload) >= 0.5
    ]
    assert min(found) >= least_refused(4.8, 7.2) - 0.01


def test_the_bounds_alone_are_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bounds"]) == 0
    assert "10 containers, runs of 100 ms" in capsys.readouterr().out
