"""What becomes of placeholders where the load moves: ten minutes in which it moves by a fifth, and a day."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.holding.loads import Json, bursts, cluster, moving, random_pods, scaled
from slack.cluster.hold import Hold
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import Scenario, parse_scenario


@dataclass(frozen=True, slots=True)
class Churn:
    """One load with one form, all seeds together."""

    load: str
    hold: str
    pods: int
    created: int
    """Placeholders, whatever for."""
    recreated: int
    """In the place of others."""
    preempted: int
    made_way: int


def _day(unit: float) -> list[Json]:
    curve = {"kind": "sine", "mean": 36.0, "amplitude": 0.4}
    return [scaled(unit, curve), random_pods("worker", unit, 8), bursts(unit, 12, "45m")]


LOADS: Mapping[str, tuple[float, Callable[[float], list[Json]]]] = {
    "ten minutes of load that moves by 20 %": (40 / 60, moving),
    "a simulated day": (24.5, _day),
}
"""By name: hours, the first half of one for the start, and the workloads by the size of a pod in cores."""
_UNIT = 0.5


def churn(name: str, hold: Hold, seeds: Sequence[int]) -> Churn:
    """Play a load with a form."""
    results = [simulate(scenario(name, hold, seed)) for seed in seeds]
    return Churn(
        load=name,
        hold=str(hold),
        pods=sum(result.total.pods for result in results),
        created=sum(result.placeholders_created for result in results),
        recreated=sum(r.placeholders_created - r.placeholders_grown - r.placeholders_other for r in results),
        preempted=sum(result.placeholders_displaced - result.placeholders_made_way for result in results),
        made_way=sum(result.placeholders_made_way for result in results),
    )


def scenario(name: str, hold: Hold, seed: int) -> Scenario:
    """Return a load with a form."""
    hours, load = LOADS[name]
    document = cluster(name, "leastAllocated", "clusterAutoscaler", hours=hours)
    document["operator"] = {**document["operator"], "hold": str(hold)}
    return parse_scenario({**document, "seed": seed, "workloads": load(_UNIT)}, source=name)
