"""Scenarios short enough for the real components: minutes of clock, the autoscalers' constants as their flags are set.

One document says both what the simulator plays and with which flags the real components start, so that the two cannot
drift apart. Load is replayed: rows of (second, life), so that both sides see the very same pods.
"""

import os
from collections.abc import Sequence
from typing import Any

from slack.cluster.hold import Hold
from slack.simulator.scenario.load import Replay
from slack.simulator.scenario.scenario import Scenario, parse_scenario

Burst = tuple[int, int, int]
"""Second of the measured time, pods, life in seconds."""

WARM_UP_SECONDS = 120
INSTANCE_TYPE = "e2e-4x-amd64-linux"
# Small bursts fit the slack of a quarter, the others are larger; one comes while it is refilled. No pod's end falls
# into the instant in which others come: kwok ends pods up to a second early, which would decide who starts at once.
BURSTS: tuple[Burst, ...] = ((5, 6, 20), (35, 16, 20), (60, 8, 18), (78, 26, 22), (88, 8, 14), (112, 12, 20))

KARPENTER: dict[str, Any] = {
    "kind": "karpenter",
    "batchIdleSeconds": 0.2,
    "batchMaxSeconds": 2.0,
    "consolidationPolicy": "WhenEmpty",
    "consolidateAfterSeconds": 5.0,
    "budgetShare": 1.0,
}
KARPENTER_DEFAULTS: dict[str, Any] = {"kind": "karpenter"}
"""What a trace is played with: a recording does not tell flags."""
CLUSTER_AUTOSCALER: dict[str, Any] = {
    "kind": "clusterAutoscaler",
    "scanIntervalSeconds": 2.0,
    "scaleDownUnneededTime": "20s",
    "scaleDownDelayAfterAdd": "10s",
    "scaleDownDelayAfterDeleteSeconds": 2.0,
    "unremovableNodeRecheckTimeout": "10s",
}
NO_SLACK: dict[str, Any] = {"kind": "none"}


def keep(rate: float, shrink_delay: str = "5s", hold: Hold = Hold.AUTO) -> dict[str, Any]:
    """Return the slack of one policy with this rate; its form is on both sides what `hold` comes to."""
    spec = {"hold": hold, "extraCapacity": {"minRate": rate}, "stabilization": {"shrinkDelay": shrink_delay}}
    return {"kind": "policies", "policies": [{"name": "default", "spec": spec}]}


def scene(
    autoscaler: dict[str, Any],
    slack: dict[str, Any],
    *,
    bursts: Sequence[Burst] = BURSTS,
    seconds: int = 135,
    base: int = 15,
    boot_seconds: int = 8,
    interval: str = "2s",
    start_up_seconds: float | None = None,
) -> Scenario:
    """Return one scenario: a Deployment of `base` pods, bursts of equal pods beside it, nodes of 4 CPU and 16 GiB.

    Args:
        autoscaler: KARPENTER, CLUSTER_AUTOSCALER or their like.
        slack: NO_SLACK or `keep(rate)`.
        bursts: the load that comes and goes.
        seconds: of measured time.
        base: replicas of the Deployment.
        boot_seconds: what the real nodes are told to take.
        interval: the operator's.
        start_up_seconds: what the modelled nodes take; `boot_seconds` when absent.
    """
    rows = [[WARM_UP_SECONDS + at, life] for at, pods, life in bursts for _ in range(pods)]
    pod = {"requests": {"cpu": "700m", "memory": "1Gi"}}
    group = {
        "name": "general",
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "zone": "zone-a",
        "max": 60,
        "pricePerHour": 0.2,
        "startUp": {"kind": "constant", "seconds": boot_seconds if start_up_seconds is None else start_up_seconds},
    }
    document = {
        "name": f"fidelity-{autoscaler['kind'].lower()}",
        "duration": f"{WARM_UP_SECONDS + seconds}s",
        "warmUp": f"{WARM_UP_SECONDS}s",
        "nodeGroups": [group],
        # The harness's scheduler runs with SchedulerAsyncPreemption=false; what a victim takes there was measured.
        "scheduler": {"asyncPreemption": False, "preemptionSeconds": 0.04},
        "workloads": [
            {"name": "base", **pod, "arrivals": {"kind": "deployment", "replicas": base}},
            {"name": "burst", **pod, "arrivals": {"kind": "replay", "rows": rows}},
        ],
        "autoscaler": autoscaler,
        "operator": {"interval": interval},
        "slack": slack,
        "timelineRows": 2 * (WARM_UP_SECONDS + seconds) + 1,
    }
    return parse_scenario(document, source="e2e/scenes.py")


def autoscalers() -> dict[str, dict[str, Any]]:
    """Return the autoscalers that are here: Karpenter always, the stock Cluster Autoscaler where it is given."""
    found = {"karpenter": KARPENTER}
    if os.environ.get("CLUSTER_AUTOSCALER"):
        found["cluster-autoscaler"] = CLUSTER_AUTOSCALER
    return found


def waves(scenario: Scenario) -> list[tuple[float, str, int, int]]:
    """Return the replayed load as (second of measured time, workload, pods, life), in order of time."""
    warm_up = scenario.warm_up.total_seconds()
    alike: dict[tuple[float, str, int], int] = {}
    for workload in scenario.workloads:
        if isinstance(workload.arrivals, Replay):
            for at, life in workload.arrivals.rows:
                key = at - warm_up, workload.name, round(life or 0)
                alike[key] = alike.get(key, 0) + 1
    return [(at, name, pods, life) for (at, name, life), pods in sorted(alike.items())]
