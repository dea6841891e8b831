"""Where bursts are played: a control plane as it comes, machines that are full but for the room of one burst.

What runs beside the room is one pod a machine, put there by name. The room is either free or held by placeholders of
one size, so that a burst finds nothing else.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bursts import floor
from benchmarks.bursts.case import Burst, Case, Kind, Owner, in_vain
from benchmarks.usage import usage
from e2e.harness.api import Json
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import create_all, pod, pods, scale, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.full_machines import REQUESTS, FullMachines, burst
from e2e.harness.product.operator import NAMESPACE, Operator, placeholders, policy, replica_sets, wait_until_placed

MACHINES, MACHINE_CORES = 40, 8
BOUND_SECONDS = 240.0
SETTLE_SECONDS = 4.0
"""From the last binding on: the room is asked for again, at the latest two seconds after the burst."""
_BINDING = re.compile(rb'/namespaces/default/pods/[^/"]+/binding"')
FLAGS: Mapping[Kind, Sequence[str]] = {Kind.ALONE: ("--no-make-way",), Kind.WAY: ()}


class Stage:
    """One control plane for all bursts.

    Usage:

        with Stage(folder) as stage, stage.set_up(case) as operator:
            burst = stage.play(case, operator)
    """

    def __init__(self, folder: Path) -> None:
        # As they come: the scheduler with asynchronous preemption.
        self.cluster = ControlPlane(folder, Options(scheduler_gates={}, audit_rules=[burst_log.RULE]))
        self._bursts = 0
        self._floor: floor.Floor | None = None

    def __enter__(self) -> "Stage":
        self.cluster.start()
        _machines(0).create(self.cluster.api)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    @contextmanager
    def set_up(self, case: Case) -> Iterator[Operator | None]:
        """Fill the machines for a case; what is made goes again."""
        api, machines = self.cluster.api, _machines(case.room, case.chunk)
        with cleaned(api):
            machines.fill(api)
            api.create(burst())
            if case.kind is Kind.FREE:
                time.sleep(2)
                yield None
                return
            if case.kind is Kind.FLOOR:
                self._floor = floor.hold(self.cluster, machines)
                time.sleep(2)
                yield None
                self._floor.close()
                return
            with Operator(self.cluster, "--log-level=info", "--interval=10s", *FLAGS[case.kind]) as operator:
                operator.wait_until_ready()
                api.create(policy("default", **machines.spec()))
                wait_until_placed(api, "default", 180)
                if (held := len(placeholders(api, bound=True))) != machines.placeholders:
                    raise HarnessError(f"{case}: {held} placeholders, and not {machines.placeholders}")
                time.sleep(3)  # what it does after a change is done
                yield operator

    def play(self, case: Case, operator: Operator | None) -> Burst:
        """Let the burst come, and tell what was seen until the room was asked for again."""
        mark = self.cluster.audit_mark()
        wanted, before = self._wanted(operator), _cpu_seconds(operator)
        held = {found["metadata"]["name"] for found in pods(self.cluster.api, NAMESPACE)}
        self._come(case)
        self._wait_until_bound(case, mark)
        time.sleep(SETTLE_SECONDS)
        cpu_seconds = _cpu_seconds(operator) - before
        seen = burst_log.read(self.cluster.audit_entries(since=mark))
        deleted = {name: user for name, user in seen.deleted.items() if name in held}
        if case.kind is Kind.FLOOR:
            preempted = sum(user == burst_log.SCHEDULER for user in deleted.values())
            made_way, lowered = len(deleted) - preempted, 0
        else:
            preempted, made_way, lowered = burst_log.by_whom(deleted)
        return Burst(
            waits=tuple(seen.waits),
            unbound=case.pods - len(seen.waits),
            preempted=preempted,
            made_way=made_way,
            lowered=lowered,
            in_vain=in_vain(preempted + made_way + lowered, case.pods, case.chunk),
            made_anew=seen.made_anew,
            short=wanted - self._wanted(operator),
            cpu_seconds=cpu_seconds,
        )

    def go_away(self, case: Case, operator: Operator | None) -> None:
        """Let the pods of the burst go, and wait until the room is as before."""
        api = self.cluster.api
        scale(api, "burst", 0)
        bare = [entry["metadata"]["name"] for entry in self._burst() if "ownerReferences" not in entry["metadata"]]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: api.delete(f"/api/v1/namespaces/default/pods/{name}", 0), bare))
        wait_until(lambda: not self._burst(), 60, "the burst to be gone")
        if operator is not None:
            whole = _machines(case.room, case.chunk).placeholders
            wait_until(lambda: len(placeholders(api, bound=True)) == whole, 60, "the room to be held again")
            time.sleep(1)

    def _burst(self) -> list[Json]:
        return pods(self.cluster.api, "default", labelSelector="app=burst")

    def _come(self, case: Case) -> None:
        self._bursts += 1
        if case.owner is Owner.DEPLOYMENT:
            scale(self.cluster.api, "burst", case.pods)
            if case.kind is Kind.FLOOR and self._floor is not None and (refused := self._floor.let_go(case.pods)):
                raise HarnessError(f"{case}: {len(refused)} deletions were refused: {refused[0]}")
            return
        names = [f"burst-{self._bursts}-{number}" for number in range(case.pods)]
        create_all(self.cluster.api, [pod(name, **REQUESTS, labels={"app": "burst"}) for name in names])

    def _wait_until_bound(self, case: Case, mark: int) -> None:
        """Count bindings in the log, which costs nobody anything, until all are there or time is over."""
        deadline = time.monotonic() + BOUND_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.3)
            with self.cluster.audit_log.open("rb") as log:
                log.seek(mark)
                if len(_BINDING.findall(log.read())) >= case.pods:
                    return

    def _wanted(self, operator: Operator | None) -> int:
        return 0 if operator is None else sum(found["spec"]["replicas"] for found in replica_sets(self.cluster.api))


def steady_cpu(operator: Operator, seconds: float) -> float:
    """Return the share of a core that an operator takes while nothing happens."""
    before, began = _cpu_seconds(operator), time.monotonic()
    time.sleep(seconds)
    return (_cpu_seconds(operator) - before) / (time.monotonic() - began)


def _cpu_seconds(operator: Operator | None) -> float:
    return 0.0 if operator is None else usage(operator.program.pid).cpu_seconds


def _machines(room: int, chunk: int = 1) -> FullMachines:
    return FullMachines(MACHINES, room, chunk, MACHINE_CORES)
