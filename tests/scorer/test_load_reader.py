"""Reports of a load watcher as columns."""

from types import SimpleNamespace as Value
from typing import Any

import numpy as np

from slack.scorer.inputs.load_reader import window_load


def report(**nodes: Any) -> Any:
    return Value(window=Value(duration=Value(seconds=600), end=1000), nodes=nodes)


def node(*metrics: tuple[str, str, float], observed_at: int | None = None) -> Any:
    return Value(
        metrics=[Value(type=kind, rollup=rollup, value=value) for kind, rollup, value in metrics],
        observed_at=observed_at,
    )


def test_figures_stand_in_the_row_of_their_node() -> None:
    own = report(
        a=node(("cpu", "AVG", 20.0), ("cpu", "STD", 3.0), ("memory", "AVG", 40.0), ("network", "AVG", 9.0)),
        c=node(("memory", "STD", 5.0), observed_at=900),
    )
    load, unmatched = window_load(own, {"a": 1, "b": 0, "c": 2}, 3)
    assert unmatched == ()
    assert load.window_seconds == 600
    np.testing.assert_array_equal(load.end_seconds, [np.nan, 1000, 900])
    np.testing.assert_array_equal(load.mean_percent, [[np.nan, 20, np.nan], [np.nan, 40, np.nan]])
    np.testing.assert_array_equal(load.deviation_percent, [[np.nan, 3, np.nan], [np.nan, np.nan, 5]])


def test_an_average_wins_over_the_latest_whichever_comes_first_and_of_several_the_last_counts() -> None:
    own = report(
        a=node(("cpu", "AVG", 20.0), ("cpu", "Latest", 90.0), ("cpu", "AVG", 25.0)), b=node(("cpu", "Latest", 70.0))
    )
    load, _ = window_load(own, {"a": 0, "b": 1}, 2)
    assert load.mean_percent[0].tolist() == [25, 70]


def test_names_that_are_no_nodes_are_told() -> None:
    _, unmatched = window_load(report(x=node(), a=node()), {"a": 0}, 1)
    assert unmatched == ("x",)


def test_a_sample_is_not_newer_than_its_window() -> None:
    load, _ = window_load(report(a=node(observed_at=5000)), {"a": 0}, 1)
    assert load.end_seconds.tolist() == [1000]
