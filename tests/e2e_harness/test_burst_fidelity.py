"""The single bursts of `make fidelity`: both sides play the same machines, and the model tells making way from none."""

import pytest

from e2e.burst_fidelity import BurstComparison, Seen, machines_for, scenario, simulated


@pytest.mark.parametrize("pods", [10, 30, 100])
def test_the_simulated_machines_have_the_real_ones_room(pods: int) -> None:
    slots = machines_for(pods).slots()
    assert len(set(slots)) == 1
    filler = scenario(pods, make_way=True).workloads[0]
    assert filler.requests["cpu"] == 8000 - 500 * slots[0]
    assert sum(slots) >= 1.25 * pods


def test_preemptions_in_a_row_are_slow_and_making_way_is_not() -> None:
    preempted, way = simulated(30, make_way=False), simulated(30, make_way=True)
    assert way.at_once == 1.0
    assert preempted.p50_seconds > 2 * way.p50_seconds
    assert preempted.p95_seconds > 2 * way.p95_seconds
    assert 30 <= preempted.gone <= 33
    assert 30 <= way.gone <= 33


def test_each_figure_stands_beside_the_mean_of_the_real_runs() -> None:
    real = (Seen(1.0, 0.25, 0.5, 10), Seen(0.5, 0.75, 1.5, 12))
    document = BurstComparison(10, True, Seen(1.0, 0.125, 0.25, 10), real).document()
    assert document["figures"]["gone"] == {"simulated": 10, "measured": 11.0}
    assert document["figures"]["p50_seconds"] == {"simulated": 0.125, "measured": 0.5}
