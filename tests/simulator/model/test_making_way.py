"""Bursts in a modelled cluster: one preemption after the other, and with way made for them."""

from typing import Any

import pytest

from slack.simulator.model.result import Result, WorkloadResult
from slack.simulator.runs.engine import simulate
from tests.simulator import toys


def _run(pods: int, *, requests: str = "500m", size: int = 50, **operator: Any) -> Result:
    """Play one burst into 120 placeholders of 500m on nodes that have no room beside them."""
    extra = {"floor": {"cpu": "60", "memory": "1Gi"}, "minRate": 0}
    spec = {"extraCapacity": extra, "cover": {"mode": "None"}, "granularity": 16}
    scenario = toys.scenario(
        duration="20m",
        warmUp="5m",
        nodeGroups=[
            {
                "name": "general",
                "allocatable": {"cpu": "8", "memory": "32Gi"},
                "initial": 40,
                "startUp": {"kind": "constant", "seconds": 60},
            }
        ],
        workloads=[
            {
                "name": "api",
                "requests": {"cpu": "500m", "memory": "16Mi"},
                "arrivals": {"kind": "deployment", "replicas": 520},
            },
            {
                "name": "burst",
                "requests": {"cpu": requests, "memory": "16Mi"},
                "life": {"kind": "constant", "seconds": 600},
                "arrivals": {"kind": "bursts", "size": pods, "at": ["10m"]},
            },
        ],
        operator={"hold": "Bound", **operator},
        slack={"kind": "policies", "policies": [{"name": "default", "spec": spec}]},
    )
    return simulate(scenario)


def _burst(result: Result) -> WorkloadResult:
    return next(own for own in result.workloads if own.workload.endswith("/burst"))


def test_preemptions_of_a_burst_come_one_after_the_other() -> None:
    few, many = _burst(_run(10, makeWay=False)), _burst(_run(100, makeWay=False))

    # measured on two cores: p99 of 1.1 s; of 8.5 s, half of them after 4.8 s, and 6 % at once
    assert few.p99_seconds == pytest.approx(1.1, abs=0.4)
    assert many.p50_seconds == pytest.approx(4.8, abs=1.5)
    assert many.p99_seconds == pytest.approx(8.5, abs=1.5)
    assert many.instant < 20


def test_a_burst_for_which_way_is_made_starts_at_once() -> None:
    own = _burst(_run(100))

    assert own.instant == 100
    assert own.p99_seconds < 1.7  # measured without an owner that counts the pods: 1.8 s; with one, 0.3 s


def test_each_placeholder_that_made_way_is_made_anew_and_no_other() -> None:
    result = _run(100)

    assert 100 <= result.placeholders_displaced <= 105  # some were being preempted already: at most 5 % in vain
    assert result.placeholders_created == result.placeholders_displaced
    assert result.timeline[-1].placeholders == 120


def test_a_lone_pod_is_left_to_the_scheduler() -> None:
    with_way, without = _run(1), _run(1, makeWay=False)

    assert _burst(with_way) == _burst(without)
    assert with_way.placeholders_displaced == 1


def test_nothing_makes_way_for_pods_that_fit_nowhere_afterwards() -> None:
    result = _run(5, requests="7900m")

    assert _burst(result).instant == 0
    assert result.placeholders_displaced == 0


def test_unbound_placeholders_are_neither_preempted_nor_made_anew_and_the_burst_starts_at_once() -> None:
    result = _run(100, hold="Unbound")

    assert _burst(result).instant == 100
    assert _burst(result).p99_seconds < 1.1  # the scheduler's own hundred pods a second
    assert result.placeholders_displaced == 0
    assert result.placeholders_created == 0
    assert result.timeline[-1].placeholders == 120
