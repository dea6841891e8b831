"""Small traces for tests."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from slack.simulator.traces.format import NodeTraceRow, PodTraceRow, Trace

GIB = 1 << 30
BEGAN = datetime(2026, 1, 12, 8, tzinfo=UTC)


def pod(at: float = 60.0, **fields: Any) -> PodTraceRow:
    values: dict[str, Any] = {
        "namespace": "shop",
        "workload": "deploy/api",
        "cpu_millis": 500,
        "memory_bytes": GIB,
        "bound_seconds": 0.2,
    }
    return PodTraceRow(time_seconds=at, **{**values, **fields})


def node(name: str = "n-0", at: float = 0.0, **fields: Any) -> NodeTraceRow:
    values: dict[str, Any] = {
        "cpu_millis": 4000,
        "memory_bytes": 16 * GIB,
        "requests_json": json.dumps({"pods": 58}),
        "labels_json": json.dumps({"node.kubernetes.io/instance-type": "m7i.xlarge", "pool": "web"}),
        "initial": at == 0.0,
    }
    return NodeTraceRow(name=name, time_seconds=at, **{**values, **fields})


def trace(*rows: PodTraceRow | NodeTraceRow, minutes: float = 60) -> Trace:
    return Trace(
        BEGAN,
        BEGAN + timedelta(minutes=minutes),
        "watch",
        tuple(row for row in rows if isinstance(row, PodTraceRow)),
        tuple(row for row in rows if isinstance(row, NodeTraceRow)),
    )


def burst_trace() -> Trace:
    """Six pods run; twice four more come at once and wait for a node."""
    initial = [pod(0.0, initial=True) for _ in range(6)]
    waves = [
        pod(at + 0.1 * n, workload="job/crunch", bound_seconds=80.0, life_seconds=300.0, node="n-1")
        for at in (600.0, 2400.0)
        for n in range(4)
    ]
    return trace(*initial, *waves, node("n-0"), node("n-1", 640.0, ready_seconds=40.0))
