"""R10: a cluster of the largest size. How long a plan of it takes is for `benchmarks/` to say (`make bench`)."""

import numpy as np
import pytest

from slack.planner.model import vectors
from slack.planner.plan import plan
from tests.planner.large import carried_out, large, policies


def test_five_thousand_nodes_are_planned_and_the_plan_holds_once_carried_out() -> None:
    snapshot, wanted = large(), policies()
    assert int((snapshot.kinds.running).sum()) > 140_000
    first = plan(snapshot, wanted, now=1000.0)
    existing, pods = carried_out(first, snapshot)
    result = plan(large(placeholders=pods), wanted, now=1010.0, existing=existing, state=first.state)
    assert all(s.change.add == s.change.remove == 0 for item in result.items for s in item.shapes)
    assert all(item.planned[r] >= item.desired[r] for item in result.items for r in range(3))


def test_ten_times_the_pods_of_the_same_kinds_are_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons are counted, in the one place where vectors are compared with each other."""
    compared = [0]

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(np, name)

        def ones(self, shape: int | tuple[int, int], dtype: type) -> object:
            compared[0] += shape[0] * shape[1] if isinstance(shape, tuple) else shape
            return np.ones(shape, dtype=dtype)

    monkeypatch.setattr(vectors, "np", Counting())
    counts = []
    for times, nodes in ((1, 1000), (10, 1000)):
        compared[0] = 0
        plan(large(nodes=nodes, kinds=500, times=times), policies(), now=1000.0)
        counts.append(compared[0])
    assert counts[0] == counts[1] > 0
