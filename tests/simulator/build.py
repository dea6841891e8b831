"""Small scenarios for worked examples: 4-core nodes, no autoscaler and no slack unless a test names them."""

from typing import Any

from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import Scenario, parse_scenario

Json = dict[str, Any]


def group(name: str = "a", **changes: Any) -> Json:
    allocatable = {"cpu": "4", "memory": "16Gi"}
    start_up = {"kind": "constant", "seconds": 60}
    return {"name": name, "allocatable": allocatable, "startUp": start_up, "initial": 1, **changes}


def workload(name: str = "w", cpu: str = "1", memory: str = "1Gi", **changes: Any) -> Json:
    return {"name": name, "requests": {"cpu": cpu, "memory": memory}, "arrivals": at(0), **changes}


def at(*seconds: float, size: int = 1) -> Json:
    return {"kind": "replay", "rows": [[second, None] for second in seconds for _ in range(size)]}


def replicas(count: int, **hpa: Any) -> Json:
    return {"kind": "deployment", "replicas": count, **({"hpa": hpa} if hpa else {})}


def static(count: int, cpu: str = "1", memory: str = "1Gi", **changes: Any) -> Json:
    return {"kind": "static", "count": count, "requests": {"cpu": cpu, "memory": memory}, **changes}


def scenario(**changes: Any) -> Scenario:
    document: Json = {
        "nodeGroups": [group()],
        "workloads": [workload()],
        "autoscaler": {"kind": "none"},
        "slack": {"kind": "none"},
        "duration": "1h",
        "timelineRows": 10,
        **changes,
    }
    return parse_scenario(document, source="test")


def simulation(**changes: Any) -> Simulation:
    return Simulation(scenario(**changes))


def advance(sim: Simulation, until: float) -> None:
    """Let everything up to a moment happen."""
    due = sim.clock._heap
    while due and due[0][0] <= until:
        sim.step()


def pods(sim: Simulation, name: str) -> list[int]:
    """Rows of a workload's pods, the oldest first; `overprovisioner` for the fillers."""
    cluster = sim.cluster
    kinds = {k.index for k in cluster.kinds.table if k.name.split("/")[-1] == name}
    return sorted((p for p in cluster.alive() if cluster.kind_of[p] in kinds), key=cluster.number.__getitem__)


def places(sim: Simulation, name: str) -> list[int]:
    """Node rows of a workload's pods, -1 for pending ones, the oldest pod first."""
    return [sim.cluster.node_of[pod] for pod in pods(sim, name)]
