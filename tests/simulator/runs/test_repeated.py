from dataclasses import replace

import pytest

from slack.simulator.model.result import Result, WorkloadResult
from slack.simulator.runs.repeated import Repeated
from tests.simulator.toys import result


def run(seed: int, ratio: float, cost: float, pods: int = 100) -> Result:
    run = result(ratio=ratio, cost=cost)
    total = replace(run.total, pods=pods, instant=round(ratio * pods), p99_seconds=10.0 * seed)
    other = WorkloadResult("b", 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return replace(run, seed=seed, total=total, workloads=(replace(total, workload="a"), other))


def test_means_and_intervals_by_hand() -> None:
    found = Repeated((run(1, 0.9, 10.0), run(2, 0.92, 12.0), run(3, 0.94, 14.0)))
    started = found.total.instant_starts
    assert started is not None
    # Student's t of two degrees of freedom, the standard deviations are 0.02 and 2
    assert (started.mean, started.high - started.mean) == pytest.approx((0.92, 4.303 * 0.02 / 3**0.5))
    assert (found.cost.mean, found.cost.high - found.cost.mean) == pytest.approx((12.0, 4.303 * 2 / 3**0.5))
    data = found.to_dict(timeline=False)
    assert data["seeds"] == [1, 2, 3]
    assert (data["cost"], data["total"]["p99_seconds"]) == pytest.approx((12.0, 20.0))
    assert data["instant_start_interval"] == [started.low, started.high]
    assert [run["cost"] for run in data["runs"]] == [10.0, 12.0, 14.0]


def test_one_run_has_no_interval_and_its_counts_stay_whole() -> None:
    data = Repeated((run(1, 0.9, 10.0),)).to_dict(timeline=False)
    assert (data["instant_start_interval"], data["cost_interval"]) == (None, None)
    assert isinstance(data["scale_ups"], int)
    assert data["instant_start_ratio"] == 0.9


def test_a_share_stays_one_and_a_cost_is_never_negative() -> None:
    found = Repeated((run(1, 1.0, 1.0), run(2, 0.9, 9.0)))
    started = found.total.instant_starts
    assert started is not None
    assert started.low == pytest.approx(0.95 - 12.706 * 0.05)
    assert (started.high, found.cost.low) == (1.0, 0.0)


def test_a_run_in_which_no_pod_came_has_no_say() -> None:
    found = Repeated((run(1, 0.8, 10.0), run(2, 1.0, 12.0, pods=0)))
    started = found.total.instant_starts
    assert started is not None
    assert (started.mean, found.total.pods, found.cost.mean) == (0.8, 50.0, 11.0)
    assert found.total.mean(lambda run: run.p99_seconds) == 10.0
    nothing = found.workloads[1]
    assert (nothing.instant_starts, nothing.to_dict()["instant_start_ratio"], nothing.to_dict()["p99_seconds"]) == (
        None,
    ) * 3
