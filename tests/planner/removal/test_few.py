"""As few placeholders as hold what a node lacks."""

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.removal.few import as_few_as_suffice, without_spare

CPU = 0


def cpu(row: int, left: IntArray) -> float:
    return float(REQUESTS[row, CPU]) if left[CPU] > 0 else 0.0


REQUESTS = np.array([[2, 0], [3, 1], [5, 0], [0, 4]])


def test_the_first_that_suffices_alone_goes() -> None:
    assert as_few_as_suffice(REQUESTS, np.array([3, 0]), [0, 1, 2, 3], cpu) == [1]
    assert as_few_as_suffice(REQUESTS, np.array([3, 0]), [0, 2, 1, 3], cpu) == [2]


def test_where_none_suffices_alone_the_one_that_helps_most_goes_and_then_the_first_that_suffices() -> None:
    assert as_few_as_suffice(REQUESTS, np.array([7, 0]), [0, 1, 2, 3], cpu) == [2, 0]


def test_it_ends_where_nothing_is_lacking_or_none_helps() -> None:
    assert as_few_as_suffice(REQUESTS, np.array([0, -5]), [0, 1], cpu) == []
    assert as_few_as_suffice(REQUESTS, np.array([0, 2]), [0, 1, 2], cpu) == []
    assert as_few_as_suffice(REQUESTS, np.array([20, 0]), [0, 1, 2, 3], cpu) == [2, 1, 0]


def test_what_the_others_suffice_without_stays_the_dearest_first() -> None:
    cost = np.array([2, 4, 5, 4])
    assert without_spare(REQUESTS, np.array([5, 0]), [0, 1, 2], cost) == [0, 1]
