"""A simulated day at several sizes: events a second, CPU seconds, peak memory. `--full` adds 5,000 nodes.

Then days in which little happens, with loops that rest while nothing can change and with loops that never do: the
results must be the same, and the ratio is what resting saves.
"""

import resource
import subprocess
import sys
import time
from dataclasses import replace
from unittest.mock import patch

from slack.simulator.model.periodic_timer import PeriodicTimer
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import Scenario, parse_scenario

SIZES = (100, 500)
FULL = (*SIZES, 5_000)
IDLE_DAYS = 3
PODS_PER_NODE = 400
"""Arrivals a day and node: 200,000 on 500 nodes."""
_SIZES = (("250m", "256Mi"), ("250m", "512Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("2", "4Gi"), ("500m", "4Gi"))


def day(nodes: int, *, hours: int = 24, slack: dict[str, object] | None = None) -> Scenario:
    """Return a day's load that fills about so many nodes: a diurnal curve, bursts, an HPA, job waves."""
    per_minute = nodes * PODS_PER_NODE / 24 / 60
    workloads: list[dict[str, object]] = []
    for i, (cpu, memory) in enumerate(_SIZES):
        # at the peak a pod of each size stands for its share of the nodes' 16 cores
        cores = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
        rate = per_minute * 0.9 / len(_SIZES)
        life = nodes * 16 * 0.55 / len(_SIZES) / cores / rate * 60
        workloads.append(
            {
                "name": f"web-{i}",
                "requests": {"cpu": cpu, "memory": memory},
                "arrivals": {"kind": "diurnal", "meanPerMinute": rate, "amplitude": 0.6},
                "life": {"kind": "exponential", "meanSeconds": life},
            }
        )
    workloads += [
        {
            "name": "burst",
            "requests": {"cpu": "1", "memory": "2Gi"},
            "arrivals": {"kind": "bursts", "size": max(nodes // 5, 1), "every": "20m", "withinSeconds": 30},
            "life": {"kind": "lognormal", "medianSeconds": 600},
        },
        {
            "name": "api",
            "requests": {"cpu": "1", "memory": "1Gi"},
            "arrivals": {
                "kind": "deployment",
                "replicas": nodes,
                "hpa": {
                    "minReplicas": max(nodes // 4, 1),
                    "maxReplicas": nodes * 3,
                    "targetPerPod": 1,
                    "load": {"kind": "sine", "mean": nodes, "amplitude": 0.5},
                },
            },
        },
        {
            "name": "report",
            "requests": {"cpu": "2", "memory": "2Gi"},
            "arrivals": {"kind": "jobs", "parallelism": max(nodes // 25, 1), "every": "1h"},
            "life": {"kind": "constant", "seconds": 900},
        },
    ]
    document = {
        "name": f"{nodes} nodes",
        "duration": f"{hours}h",
        "scheduler": {"podsPerSecond": 200},
        "nodeGroups": [
            {
                "name": "general",
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "initial": nodes // 2,
                "max": nodes * 2,
                "pricePerHour": 0.8,
                "startUp": {"kind": "lognormal", "medianSeconds": 90, "sigma": 0.3},
            },
            {
                "name": "large",
                "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"},
                "max": nodes,
                "pricePerHour": 1.6,
                "startUp": {"kind": "constant", "seconds": 120},
            },
        ],
        "workloads": workloads,
        "slack": slack or {"kind": "policies"},
    }
    return parse_scenario(document, source="benchmark")


def run(nodes: int) -> None:
    """Run one size and print a line."""
    scenario = day(nodes)
    began = time.process_time()
    result = simulate(scenario)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    most = max(row.nodes for row in result.timeline)
    print(
        f"{nodes:>6} {most:>6} {result.total.pods:>9} {result.placeholders_displaced:>9} {result.plans:>7} "
        f"{result.events:>9} {seconds:>8.1f} {result.events / seconds:>9.0f} {peak:>7.0f} "
        f"{result.instant_start_ratio:>8.3f} {result.waste:>6.2f}",
        flush=True,
    )


def quiet(nodes: int) -> Scenario:
    """Return days in which ten pods come every six hours, and nothing else."""
    document = {
        "name": "quiet",
        "duration": f"{IDLE_DAYS * 24}h",
        "timelineRows": 2,
        "nodeGroups": [
            {"name": "general", "allocatable": {"cpu": "16", "memory": "64Gi"}, "initial": nodes, "max": 2 * nodes}
        ],
        "workloads": [
            {
                "name": "api",
                "requests": {"cpu": "3", "memory": "8Gi"},
                "arrivals": {"kind": "deployment", "replicas": 4 * nodes},
            },
            {
                "name": "report",
                "requests": {"cpu": "2", "memory": "4Gi"},
                "arrivals": {"kind": "jobs", "parallelism": 10, "every": "6h"},
                "life": {"kind": "constant", "seconds": 900},
            },
        ],
    }
    return parse_scenario(document, source="benchmark")


def idle(nodes: int) -> None:
    """Run quiet days with rests and without, and print a line."""
    scenario = quiet(nodes)

    def run() -> tuple[float, Result]:
        began = time.process_time()
        result = simulate(scenario)
        return time.process_time() - began, replace(result, events=0, plans=0)

    resting, result = run()
    with patch.object(PeriodicTimer, "rest", _never):  # as the loops were before they could rest
        restless, same = run()
    if result != same:
        raise SystemExit("a run with rests has come to something else than one without")
    print(f"{nodes:>6} {resting:>8.2f} {restless:>8.2f} {restless / resting:>6.1f}x  results equal", flush=True)


def _never(rhythm: PeriodicTimer, until: float) -> None:
    rhythm.follow(rhythm.last + rhythm.seconds)


def main(arguments: tuple[str, ...] = ()) -> None:
    """Print a table; each size runs in a process of its own, so that peak memory is its own."""
    print("a simulated day, CPU seconds of one core")
    head = ("nodes", "most", "pods", "displaced", "plans", "events", "CPU s", "events/s", "MiB", "instant", "waste")
    widths = (6, 6, 9, 9, 7, 9, 8, 9, 7, 8, 6)
    print(" ".join(f"{name:>{width}}" for name, width in zip(head, widths, strict=True)), flush=True)
    for nodes in FULL if "--full" in arguments else SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.simulator", "--only", str(nodes)], check=True)
    print(f"\n{IDLE_DAYS} quiet days, CPU seconds of one core\n nodes  resting restless   ratio", flush=True)
    idle(SIZES[0])


if __name__ == "__main__":
    if "--only" in sys.argv:
        run(int(sys.argv[-1]))
    else:
        main(tuple(sys.argv[1:]))
