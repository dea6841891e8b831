"""While little is known the largest burst so far is kept: what is late for it, in any order and in an adversary's."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.objective.needs import Needs
from slack.planner.objective.patterns import rows_at, rows_between

START = 1_767_571_200.0
POD = np.array([1000.0, float(1 << 30)])
bursts_of_pods = st.lists(st.integers(1, 60), min_size=1, max_size=40)


def late_of(bursts: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return how many pods of each burst are late, and what was kept for it, in pods."""
    needs, late, kept = Needs(), [], []
    for turn, size in enumerate(bursts):
        kept.append(float(needs.largest_so_far()[0]) / POD[0])
        late.append(max(size - int(kept[-1] + 1e-6), 0))
        at = START + 1000.0 * turn
        needs.came(rows_between(at - 120, at), 0 * POD, size * POD, size)
        needs.watched(rows_at(at), 0.0)
    return late, kept


@given(bursts_of_pods)
def test_whatever_comes_no_more_are_late_than_the_largest_burst_has(bursts: list[int]) -> None:
    late, kept = late_of(bursts)
    assert sum(late) == max(bursts)
    assert kept == [float(size) for size in np.maximum.accumulate([0, *bursts])[:-1]]


@given(bursts_of_pods)
def test_bursts_that_only_grow_are_late_by_what_they_have_grown(bursts: list[int]) -> None:
    late, _ = late_of(sorted(bursts))
    assert late == np.diff([0, *sorted(bursts)]).tolist()


def test_in_random_order_few_bursts_are_larger_than_all_before() -> None:
    chance, count = np.random.default_rng(1), 30
    records = [np.count_nonzero(late_of(chance.permutation(np.arange(1, count + 1)).tolist())[0]) for _ in range(5)]
    assert np.mean(records) <= 1 + math.log(count)
