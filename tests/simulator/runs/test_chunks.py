"""Chunks for bursts in a simulated cluster: fewer placeholders leave for the same pods, which start sooner."""

from typing import Any

import pytest

from slack.planner.wanted.fill_bursts import Burst
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import parse_scenario

# Bursts of pods that have placeholders of their own, from when no pod was larger; in docs/decisions.md it lasts longer.
GROWING: dict[str, Any] = {
    "duration": "130m",
    "warmUp": "60m",
    "nodeGroups": [
        {
            "name": "general",
            "allocatable": {"cpu": "7910m", "memory": "29Gi", "pods": 58},
            "initial": 9,
            "max": 60,
            "pricePerHour": 0.4,
            "startUp": {"kind": "lognormal", "medianSeconds": 80, "sigma": 0.3, "maxSeconds": 300},
            "daemonRequests": {"cpu": "300m", "memory": "600Mi"},
            "daemonPods": 5,
        }
    ],
    "workloads": [
        {
            "name": "api",
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "arrivals": {"kind": "deployment", "replicas": 100},
        },
        {
            "name": "search",
            "requests": {"cpu": "2", "memory": "4Gi"},
            "life": {"kind": "uniform", "minSeconds": 1800, "maxSeconds": 3000},
            "arrivals": {"kind": "poisson", "perMinute": 0.2},
        },
        {
            "name": "report",
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "life": {"kind": "uniform", "minSeconds": 300, "maxSeconds": 500},
            "arrivals": {"kind": "bursts", "size": 36, "at": ["45m", "85m", "125m"], "withinSeconds": 1},
        },
    ],
    "operator": {"hold": "Bound"},
    "slack": {"kind": "policies", "policies": [{"name": "default", "spec": {"extraCapacity": {"minRate": 0.3}}}]},
}


def played() -> Result:
    return simulate(parse_scenario(GROWING, source="test"))


@pytest.mark.thorough
def test_with_chunks_for_bursts_fewer_placeholders_leave_and_nobody_waits_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_chunks = played()

    def nothing_came(requests: object, together: object, average: object) -> tuple[Burst, ...]:
        return ()

    monkeypatch.setattr("slack.planner.wanted.fill_stable.bursts_of", nothing_came)
    without = played()
    assert with_chunks.total.pods == without.total.pods > 60
    assert with_chunks.placeholders_displaced <= 0.8 * without.placeholders_displaced
    assert with_chunks.total.p95_seconds <= without.total.p95_seconds
    assert with_chunks.cost <= 1.05 * without.cost
