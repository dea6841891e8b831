"""Recent pods as columns agree with a dictionary of them, whatever comes in whatever order."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.scorer.inputs.recent_table import RecentTable

NODES = 4


class Bound(NamedTuple):
    node: int
    bound_seconds: float
    use: tuple[float, float]


keys = st.sampled_from([f"shop/p{number}" for number in range(6)])
uses = st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float))
bounds = st.builds(Bound, st.integers(0, NODES - 1), st.integers(0, 20).map(float), uses)
events = st.one_of(
    st.tuples(st.just("put"), keys, bounds),
    st.tuples(st.just("resize"), keys, uses),
    st.tuples(st.just("remove"), keys, st.none()),
    st.tuples(st.just("forget"), st.just(""), st.integers(0, 20)),
)


@given(st.lists(events, max_size=40), st.permutations([0, 1, 2, -1]))
def test_columns_are_those_of_a_dictionary(happened: list[tuple[str, str, object]], places: list[int]) -> None:
    table, model = RecentTable(), dict[str, Bound]()
    for _, key, value in happened:
        if isinstance(value, Bound):
            table.put(key, *value)
            model[key] = value
        elif isinstance(value, tuple):
            table.resize(key, value)
            if key in model:
                model[key] = model[key]._replace(use=value)
        elif isinstance(value, int):
            table.forget_before(float(value))
            model = {name: bound for name, bound in model.items() if bound.bound_seconds >= value}
        else:
            table.remove(key)
            model.pop(key, None)
    found = table.columns(np.array(places))
    shown = sorted(zip(found.node.tolist(), found.bound_seconds.tolist(), *found.use.tolist(), strict=True))
    expected = sorted((places[node], at, *use) for node, at, use in model.values() if places[node] >= 0)
    assert shown == expected
    assert len(table) == len(model)


def test_rows_of_pods_that_are_gone_are_used_again() -> None:
    table = RecentTable()
    for number in range(10_000):
        table.put(f"shop/{number}", 0, float(number), (1.0, 1.0))
        table.forget_before(number - 99.0)
    assert len(table) == 100
    assert table._bound.size <= 256, "columns are as long as the most pods at a time"
