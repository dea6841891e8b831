"""A toy scenario and a toy result, so that tests of tables, pictures and choices need no run."""

from typing import Any

from slack.simulator.model.result import Churn, GroupResult, Result, TimelineRow, WorkloadResult
from slack.simulator.scenario.scenario import Scenario, parse_scenario


def scenario(**fields: Any) -> Scenario:
    document: dict[str, Any] = {
        "name": "toy",
        "duration": "40m",
        "warmUp": "15m",
        "nodeGroups": [
            {
                "name": "general",
                "allocatable": {"cpu": "4", "memory": "16Gi"},
                "initial": 3,
                "startUp": {"kind": "constant", "seconds": 60},
            }
        ],
        "workloads": [
            {
                "name": "api",
                "requests": {"cpu": "1", "memory": "1Gi"},
                "arrivals": {"kind": "deployment", "replicas": 9},
            },
            {
                "name": "burst",
                "requests": {"cpu": "1", "memory": "1Gi"},
                "life": {"kind": "constant", "seconds": 200},
                "arrivals": {"kind": "bursts", "size": 5, "at": ["20m", "30m"]},
            },
        ],
    }
    return parse_scenario({**document, **fields}, source="toy")


def result(*, ratio: float = 0.5, cost: float = 10.0, slack: str = "none") -> Result:
    total = WorkloadResult("*", 100, 100, round(100 * ratio), 0.1, 30.0, 60.0, 61.0, 600.0)
    row = TimelineRow(0.0, 5000, 1 << 33, 1000, 1 << 30, 0, 0, 8000, 1 << 34, 2, 0, 0, 0, 2, 0)
    later = TimelineRow(600.0, 7000, 1 << 33, 0, 0, 1000, 1 << 30, 8000, 1 << 34, 2, 1, 0, 3, 2, 1)
    return Result(
        scenario="toy",
        slack=slack,
        seed=1,
        measured_seconds=3600.0,
        total=total,
        workloads=(),
        groups=(GroupResult("general", 2.0, cost, 1, 0, 2, 2),),
        requested_cpu_hours=4.0,
        requested_memory_gib_hours=8.0,
        capacity_cpu_hours=8.0,
        capacity_memory_gib_hours=32.0,
        scale_ups=1,
        scale_up_decisions=1,
        scale_downs=0,
        placeholders_created=2,
        placeholders_displaced=1,
        placeholders_drained=0,
        placeholders_made_way=0,
        placeholders_grown=1,
        placeholders_other=0,
        churn_by_hour=(Churn(2, 1, 0, 1, 0),),
        pods_preempted=0,
        pods_drained=0,
        taint_writes=0,
        plans=3,
        events=100,
        timeline=(row, later),
    )
