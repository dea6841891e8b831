"""`python -m benchmarks.demand.late_starts`: late pods at equal idle capacity: what pools tell, beside a rate.

The simulator, with nodes of ten pods that take 180 s, the stock Cluster Autoscaler's model, and the operator's planner.
One pool of containers has bursts, a ramp, or both. Four ways to keep room for it: none; a rate of what runs; the lag
alone (as many more as wait now); and what pools tell (`slack.demand.targets`). A size of each of the first two is
searched that costs at least as much idle capacity as the third, so that what it keeps is no excuse. Same arrivals on
all sides; means over the seeds.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import fmean
from typing import Any

from benchmarks.report import Report, Row, parser, say, show
from slack.demand.model import PoolTarget
from slack.planner.model.pool import MOST_PODS
from slack.simulator.model.pools import Announced
from slack.simulator.model.result import Result
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import Scenario, parse_scenario

HOURS, LEARNING_HOURS = 10, 4
"""Of a run, and of these the first, in which nothing is measured: the window of the default settings, twice."""
NODE_PODS = 10
_BURSTS = {"kind": "bursts", "size": 40, "every": "40m", "withinSeconds": 10}
_LIFE = {"kind": "constant", "seconds": 600}
LOADS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "bursts": ({"arrivals": _BURSTS, "life": _LIFE},),
    "ramp": (
        {
            "arrivals": {"kind": "diurnal", "meanPerMinute": 6, "amplitude": 1, "period": "2h", "peakAt": "1h"},
            "life": _LIFE,
        },
    ),
    "mixed": (
        {"arrivals": _BURSTS, "life": _LIFE},
        {
            "arrivals": {"kind": "diurnal", "meanPerMinute": 6, "amplitude": 1, "period": "2h", "peakAt": "1h"},
            "life": _LIFE,
        },
        {"arrivals": {"kind": "poisson", "perMinute": 2}, "life": {"kind": "exponential", "meanSeconds": 300}},
    ),
}
"""What comes to pools, each of a workload of its own; a deployment that stands beside them is no pool."""
LEAST_RATE, MOST_RATE, RATE_STEPS = 0.02, 1.0, 8
LAGS = (1, 2, 3, 4, 6, 8, 12, 16)
"""So many pods are kept for each that waits."""


class Lag(Announced):
    """Pools that tell of what waits now, and of nothing that was."""

    times = 1

    def _target(self, pool: Any, wanted: int, unmet: int) -> PoolTarget:
        room = max(pool.spec.max_containers - wanted, 0)
        return PoolTarget(wanted=wanted, unmet=unmet, slack_pods=min(unmet * self.times, room))


@dataclass(frozen=True, slots=True)
class Point:
    """One way on one load: means over the seeds."""

    late: float
    """Share of the pools' pods that were not bound within 2 s."""
    idle: float
    """Share of what was paid that no real pod requested."""


def scenario(load: str, seed: int, *, rate: float, pools: bool) -> Scenario:
    """Return a run: a fixed deployment of forty pods, and the pools of a load."""
    pod = {"requests": {"cpu": "1", "memory": "1Gi"}}
    workloads: list[dict[str, Any]] = [{"name": "base", **pod, "arrivals": {"kind": "deployment", "replicas": 40}}]
    for number, part in enumerate(LOADS[load]):
        told = {"activationPool": {"maxContainers": MOST_PODS}} if pools else {}
        workloads.append({"name": f"pool-{number}", **pod, **part, **told})
    group = {
        "name": "general",
        "allocatable": {"cpu": str(NODE_PODS), "memory": "40Gi"},
        "pricePerHour": 1.0,
        "startUp": {"kind": "constant", "seconds": 180},
        "max": 1000,
        "initial": 5,
    }
    policy = {"name": "default", "spec": {"extraCapacity": {"minRate": rate}}}
    document = {
        "name": load,
        "seed": seed,
        "duration": f"{HOURS}h",
        "warmUp": f"{LEARNING_HOURS}h",
        "nodeGroups": [group],
        "workloads": workloads,
        "slack": {"kind": "policies", "policies": [policy]} if rate or pools else {"kind": "none"},
    }
    return parse_scenario(document, source=load)


def played(load: str, seed: int, way: str, size: float) -> tuple[float, float]:
    """Play one way; returns the share that starts late, and the idle share."""
    run = Simulation(scenario(load, seed, rate=size if way == "rate" else 0.0, pools=way in ("lag", "pools")))
    if way == "lag" and run.operator is not None:
        lag = Lag(run.scenario, run.cluster, run.scenario.starts_at.timestamp())
        lag.times = int(size)
        run.operator.pools = lag
    result = run.run()
    return _late(result), result.waste


def _late(result: Result) -> float:
    pools = [workload for workload in result.workloads if "pool-" in workload.workload]
    pods = sum(workload.pods for workload in pools)
    return 1 - sum(workload.instant for workload in pools) / pods


class Ways:
    """Points of one load, each made once."""

    def __init__(self, load: str, seeds: Sequence[int], pool: ProcessPoolExecutor) -> None:
        self._load, self._seeds, self._pool = load, seeds, pool
        self._made: dict[tuple[str, float], Point] = {}

    def __call__(self, way: str, size: float = 0.0) -> Point:
        """Return what a way of a size comes to."""
        if (way, size) not in self._made:
            runs = list(self._pool.map(partial(played, self._load, way=way, size=size), self._seeds))
            found = Point(fmean(late for late, _ in runs), fmean(idle for _, idle in runs))
            say(f"{self._load}: {way} {size:g}: {found.late:.3f} late, {found.idle:.3f} idle")
            self._made[way, size] = found
        return self._made[way, size]

    def rate_as_idle(self, idle: float) -> tuple[float, Point]:
        """Return the rate that is as idle, by halving; of the tried ones the smallest that is no less idle."""
        low, high = LEAST_RATE, MOST_RATE
        for _ in range(RATE_STEPS):
            middle = float(f"{(low * high) ** 0.5:.3g}")
            low, high = (low, middle) if self("rate", middle).idle >= idle else (middle, high)
        return high, self("rate", high)

    def lag_as_idle(self, idle: float) -> tuple[int, Point]:
        """Return the smallest number for each that waits which is no less idle, or the largest there is."""
        times = next((times for times in LAGS if self("lag", times).idle >= idle), LAGS[-1])
        return times, self("lag", times)


def table(load: str, ways: Ways) -> list[Row]:
    """Return the rows of a load: pools, and the others at no less idle capacity."""
    ours, none = ways("pools"), ways("none")
    rate, by_rate = ways.rate_as_idle(ours.idle)
    times, by_lag = ways.lag_as_idle(ours.idle)
    named = (
        ("none", none),
        (f"rate {rate:g}", by_rate),
        (f"lag, {times:g} for each that waits", by_lag),
        ("what pools tell", ours),
    )
    return [
        {
            "load": load,
            "slack": name,
            "late %": f"{100 * point.late:.1f}",
            "idle %": f"{100 * point.idle:.1f}",
            "late of pools' ratio": point.late / ours.late if ours.late else None,
        }
        for name, point in named
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, and print the table."""
    options = parser("late starts at equal idle capacity: what pools tell, beside a rate and the lag alone")
    options.add_argument("--seeds", type=int, default=5, help="how many seeds; means are printed")
    options.add_argument("--only", default=",".join(LOADS), help="of the loads; all")
    asked = options.parse_args(arguments)
    names = asked.only.split(",")
    if unknown := sorted(set(names) - set(LOADS)):
        options.error(f"--only: {', '.join(unknown)}: there is only {', '.join(LOADS)}")
    began = time.monotonic()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        rows = [row for name in names for row in table(name, Ways(name, range(1, asked.seeds + 1), pool))]
    say(f"{time.monotonic() - began:.0f} s")
    title = f"pods of pools that start late, at no less idle capacity ({asked.seeds} seeds, nodes take 180 s)"
    notes = [
        "Rate and lag are the smallest that are no less idle than what pools tell, found by trying: an operator of a "
        "cluster does not have that. Wanted are fewer late starts than both, for bursts and ramps."
    ]
    show([Report(title, rows, notes)], asked.output)


if __name__ == "__main__":
    main()
