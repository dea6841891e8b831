"""One burst into slack, simulated and on the real control plane: with what is preempted, and where slack makes way.

Machines are full but for the room, nobody adds any, and a Deployment asks for all pods at once. The scheduler is stock,
with asynchronous preemption, unlike in the scenes of `e2e/scenes.py`; seconds are from the API server's audit log.
"""

import math
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.objects import scale, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.full_machines import POD_MILLIS, REQUESTS, FullMachines, burst
from e2e.harness.product.operator import Operator, policy, wait_until_placed
from e2e.replay import at_share
from slack.simulator.runs.engine import simulate
from slack.simulator.scenario.scenario import Scenario, parse_scenario

MACHINES = 10
SPARE = 1.25
WARM_UP_SECONDS, SECONDS = 120, 120
INSTANT_SECONDS = 2.0
MAKE_WAY_SECONDS = 0.06
"""Where a Deployment is scaled, by the reference of scenarios."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One burst, simulated or real."""

    at_once: float
    p50_seconds: float
    p95_seconds: float
    gone: float
    """Placeholders, whoever deleted them."""


@dataclass(frozen=True, slots=True)
class BurstComparison:
    """One size, with slack making way or not."""

    pods: int
    make_way: bool
    simulated: Seen
    measured: tuple[Seen, ...]

    def rows(self) -> list[tuple[str, float, float]]:
        """Return each figure: its name, simulated, the mean of the real runs."""
        return [
            (name, getattr(self.simulated, name), fmean(getattr(run, name) for run in self.measured))
            for name in Seen.__slots__
        ]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        figures = {name: {"simulated": own, "measured": real} for name, own, real in self.rows()}
        return {"pods": self.pods, "make_way": self.make_way, "figures": figures}


def machines_for(pods: int) -> FullMachines:
    """Return machines with the same room on each."""
    return FullMachines(MACHINES, room=MACHINES * math.ceil(pods * SPARE / MACHINES))


def scenario(pods: int, make_way: bool) -> Scenario:
    """Return what the simulator plays of such a burst."""
    machines = machines_for(pods)
    taken = (machines.pods_a_machine - machines.room // MACHINES) * POD_MILLIS
    group = {
        "name": "general",
        "allocatable": {"cpu": str(machines.cores), "memory": f"{machines.gibibytes}Gi", "pods": "110"},
        **dict.fromkeys(("min", "max", "initial"), MACHINES),
    }
    filler = {"requests": {"cpu": f"{taken}m", "memory": "64Mi"}}
    rows = [[WARM_UP_SECONDS + 1, 10 * SECONDS]] * pods
    document = {
        "name": f"burst-of-{pods}",
        "duration": f"{WARM_UP_SECONDS + SECONDS}s",
        "warmUp": f"{WARM_UP_SECONDS}s",
        "nodeGroups": [group],
        "workloads": [
            {"name": "filler", **filler, "arrivals": {"kind": "deployment", "replicas": MACHINES}},
            {"name": "burst", "requests": dict(REQUESTS), "arrivals": {"kind": "replay", "rows": rows}},
        ],
        "autoscaler": {"kind": "none"},
        "operator": {"makeWay": make_way, "makeWaySeconds": MAKE_WAY_SECONDS},
        "instantSeconds": INSTANT_SECONDS,
        "slack": {"kind": "policies", "policies": [{"name": "default", "spec": machines.spec(hold="Bound")}]},
    }
    return parse_scenario(document, source="e2e/burst_fidelity.py")


def simulated(pods: int, make_way: bool) -> Seen:
    """Simulate a burst."""
    result = simulate(scenario(pods, make_way))
    total = result.total
    return Seen(total.instant_start_ratio, total.p50_seconds, total.p95_seconds, result.placeholders_displaced)


def measured(cluster: ControlPlane, pods: int, make_way: bool) -> Seen:
    """Play a burst on a cluster with `burst_log.RULE`; what it made goes again."""
    api, machines = cluster.api, machines_for(pods)
    with cleaned(api):
        machines.create(api)
        machines.fill(api)
        api.create(burst())
        flags = () if make_way else ("--no-make-way",)
        with Operator(cluster, "--log-level=info", *flags) as operator:
            operator.wait_until_ready()
            api.create(policy("default", **machines.spec(hold="Bound")))  # no unbound one makes way
            wait_until_placed(api, "default", 120)
            time.sleep(3)  # what it does after a change is done
            mark = cluster.audit_mark()
            scale(api, "burst", pods)

            def waits() -> list[float]:
                return burst_log.read(cluster.audit_entries(since=mark)).waits

            wait_until(lambda: len(waits()) >= pods, 180, f"{pods} pods to be bound", lambda: len(waits()), every=1)
            seen = burst_log.read(cluster.audit_entries(since=mark))
            at_once = sum(wait <= INSTANT_SECONDS for wait in seen.waits) / pods
            return Seen(at_once, at_share(seen.waits, 0.5), at_share(seen.waits, 0.95), len(seen.deleted))


def compare_bursts(sizes: Sequence[int], runs: int) -> Iterable[BurstComparison]:
    """Yield each size, preempted and with slack making way, on a control plane of their own."""
    options = Options(scheduler_gates={}, audit_rules=[burst_log.RULE])
    with (
        tempfile.TemporaryDirectory(prefix="resource-slack-fidelity-") as folder,
        ControlPlane(Path(folder), options) as cluster,
    ):
        for pods in sizes:
            for make_way in (False, True):
                real = tuple(measured(cluster, pods, make_way) for _ in range(runs))
                yield BurstComparison(pods, make_way, simulated(pods, make_way), real)
