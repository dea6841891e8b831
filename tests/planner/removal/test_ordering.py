"""In which order placeholders leave: criteria are compared by their numbers, whatever the order of the keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.planner.removal.ordering import Criterion, marked_first, order_of_leaving
from tests.examples import examples

_ROWS = st.integers(0, 6).flatmap(
    lambda count: st.dictionaries(
        st.sampled_from(Criterion), st.lists(st.integers(0, 2), min_size=count, max_size=count), min_size=1
    )
)


@examples(100)
@given(keys=_ROWS)
def test_the_first_criterion_that_tells_two_apart_decides(keys: dict[Criterion, list[int]]) -> None:
    count = len(next(iter(keys.values())))
    expected = sorted(range(count), key=lambda row: [keys[criterion][row] for criterion in sorted(keys)])
    arrays = {criterion: np.array(values, dtype=np.int64) for criterion, values in keys.items()}
    assert order_of_leaving(arrays).tolist() == expected


def test_groups_stay_together() -> None:
    cost = np.array([3, 1, 2, 0])
    assert order_of_leaving({Criterion.COST: cost}, within=np.array([0, 1, 0, 1])).tolist() == [2, 0, 3, 1]


def test_what_is_marked_leaves_first() -> None:
    assert marked_first({"c": -999, "b": -1000}, ["a", "b"]) == ["b", "c", "a"]
