"""The loads: six that are made here, with small and with large pods, and recordings where they are.

A cluster of about ten nodes with 8 cores. The operator looks every ten minutes, and at once when requests have changed
by a quarter: a saving, the same for both forms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from slack.cluster.hold import Hold
from slack.simulator.runs.baselines import with_rate
from slack.simulator.scenario.scenario import Scenario, parse_scenario
from slack.simulator.scenario.slack_kinds import NoSlack
from slack.simulator.traces.parquet import read_trace
from slack.simulator.traces.replay import scenario_of

Json = dict[str, Any]
UNITS = {"small": 0.5, "large": 2.2}
"""Cores of a pod: 15 and 3 of them fit a node; of three large ones a seventh of the node is left over."""
SCORES = ("leastAllocated", "mostAllocated")
AUTOSCALERS = ("clusterAutoscaler", "karpenter")
HOURS, WARM_UP = 2.0, "30m"
_OPERATOR = {"interval": "10m", "relevantChange": 0.25}
_MINUTES = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """One load with one size of pods and one way of scoring."""

    load: str
    pods: str
    """small, large, or recorded."""
    scores: str
    autoscaler: str
    file: Path | None = None
    """A recording."""
    soft_taint: bool = False
    """Whether nodes that hold unbound placeholders get the taint."""

    @property
    def name(self) -> str:
        """For progress and for the file of runs."""
        return f"{self.load}, {self.pods} pods, {self.scores}, {self.autoscaler}"


def cases(autoscaler: str, recordings: Path | None, *, soft_taint: bool = False) -> tuple[Case, ...]:
    """Return all cases: those made here, and one for each recording and way of scoring."""
    made = [Case(load, pods, scores, autoscaler) for load in LOADS for pods in UNITS for scores in SCORES]
    files = sorted(recordings.glob("*.parquet")) if recordings is not None else []
    recorded = [Case(file.stem, "recorded", scores, autoscaler, file) for file in files for scores in SCORES]
    return tuple(replace(case, soft_taint=soft_taint) for case in (*made, *recorded))


def scenario(case: Case, *, seed: int, rate: float | None, hold: Hold) -> Scenario:
    """Return a case with a rate, or without slack.

    Args:
        case: what is played.
        seed: of arrivals, lives and start-up times; of a recording's start-up times alone.
        rate: of the built-in policy; None for no slack.
        hold: the form of its placeholders.
    """
    base = _recorded(case, case.file) if case.file is not None else _made(case)
    operator = base.operator.model_copy(update={"hold": hold, "soft_taint": case.soft_taint})
    base = base.model_copy(update={"seed": seed, "operator": operator})
    return base.model_copy(update={"slack": NoSlack(kind="none")}) if rate is None else with_rate(base, rate)


def _made(case: Case) -> Scenario:
    document = cluster(case.name, case.scores, case.autoscaler)
    return parse_scenario({**document, "workloads": LOADS[case.load](UNITS[case.pods])}, source=case.name)


def _recorded(case: Case, file: Path) -> Scenario:
    """Return a recording with what its first day has shown as the start."""
    found = scenario_of(read_trace(file.read_bytes(), source=case.load), source=case.load).scenario
    settings = {
        "operator": found.operator.model_copy(update={"interval": timedelta(minutes=10), "relevant_change": 0.25}),
        "scheduler": found.scheduler.model_copy(update={"scoring": case.scores}),
        "warm_up": max(found.warm_up, found.duration / 12),
        "timeline_rows": 2,
    }
    return found.model_copy(update=settings)


def cluster(name: str, scores: str, autoscaler: str, *, hours: float = HOURS) -> Json:
    """Return the document of a scenario without its workloads."""
    return {
        "name": name,
        "duration": f"{hours * 3600:.0f}s",
        "warmUp": WARM_UP,
        "timelineRows": 2,
        "operator": _OPERATOR,
        "scheduler": {"scoring": scores},
        "autoscaler": {"kind": autoscaler},
        "nodeGroups": [
            {
                "name": "general",
                "allocatable": {"cpu": "8", "memory": "32Gi"},
                "initial": 2,
                "max": 60,
                "pricePerHour": 0.4,
                "daemonRequests": {"cpu": "300m", "memory": "600Mi"},
                "daemonPods": 4,
                "startUp": {"kind": "lognormal", "medianSeconds": 80, "sigma": 0.3, "maxSeconds": 300},
            }
        ],
    }


def workload(name: str, cores: float, arrivals: Json, **fields: Any) -> Json:
    """Return a workload whose pods have two GiB a core."""
    requests = {"cpu": f"{cores * 1000:.0f}m", "memory": f"{cores * 2048:.0f}Mi"}
    return {"name": name, "requests": requests, "arrivals": arrivals, **fields}


def standing(unit: float, cores: float) -> Json:
    """Return a Deployment that stands throughout."""
    return workload("api", unit, {"kind": "deployment", "replicas": round(cores / unit)})


def random_pods(name: str, unit: float, cores: float, minutes: float = 8.0) -> Json:
    """Return pods that come at random and request so many cores together, on average."""
    life = {"kind": "exponential", "meanSeconds": minutes * _MINUTES}
    return workload(name, unit, {"kind": "poisson", "perMinute": cores / unit / minutes}, life=life)


def bursts(unit: float, pods: int, every: str) -> Json:
    """Return pods that come together."""
    life = {"kind": "uniform", "minSeconds": 300, "maxSeconds": 900}
    return workload("burst", unit, {"kind": "bursts", "size": pods, "every": every, "withinSeconds": 5}, life=life)


def scaled(unit: float, curve: Mapping[str, Any]) -> Json:
    """Return a Deployment with an HPA that follows a curve of cores."""
    hpa = {"minReplicas": 1, "maxReplicas": 1000, "targetPerPod": unit, "load": curve}
    first = round(curve.get("mean", 24.0) / unit)
    return workload("api", unit, {"kind": "deployment", "replicas": first, "hpa": hpa})


def _poisson(unit: float) -> list[Json]:
    return [standing(unit, 24), random_pods("worker", unit, 14)]


def _bursts(unit: float) -> list[Json]:
    return [standing(unit, 30), bursts(unit, round(9 / unit), "25m")]


def _mixed(unit: float) -> list[Json]:
    """Small pods at random, and bursts of six that are three times as large."""
    return [standing(unit / 2, 20), random_pods("worker", unit / 2, 12), bursts(1.5 * unit, 6, "25m")]


def _jobs(unit: float) -> list[Json]:
    wave = {"kind": "jobs", "parallelism": round(8 / unit), "every": "20m", "firstAt": "7m"}
    life = {"kind": "lognormal", "medianSeconds": 400, "sigma": 0.5, "maxSeconds": 1800}
    return [standing(unit, 24), random_pods("worker", unit, 6), workload("report", unit, wave, life=life)]


def _sizes(unit: float) -> list[Json]:
    """Three sizes at random: what one leaves may hold no other."""
    random = [random_pods(name, size * unit, 5) for name, size in (("half", 0.5), ("one", 1.0), ("more", 1.5))]
    return [standing(unit, 24), *random]


def moving(unit: float) -> list[Json]:
    """Return a load that moves by a fifth either way within ten minutes."""
    return [scaled(unit, {"kind": "sine", "mean": 40.0, "amplitude": 0.2, "periodSeconds": 600})]


def _rising(unit: float) -> list[Json]:
    points = [[0, 24], [1800, 24], [5400, 48], [7200, 36]]
    return [scaled(unit, {"kind": "points", "points": points}), random_pods("worker", unit, 6)]


LOADS: Mapping[str, Callable[[float], list[Json]]] = {
    "poisson": _poisson,
    "bursts": _bursts,
    "mixed": _mixed,
    "jobs": _jobs,
    "rising": _rising,
    "sizes": _sizes,
}
