"""Where bursts are played: a control plane as it comes, machines that are full but for the capacity for one burst.

What runs beside that capacity is one pod per machine, put there by name. The capacity is either free or held by
placeholders of one size, so that a burst finds nothing else. There is no autoscaler: no node comes during a burst.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.bursts import floor
from benchmarks.bursts.case import Burst, Case, Kind, Owner, in_vain
from benchmarks.bursts.cost import Cost, writes_of_placeholders
from benchmarks.bursts.owners import APP, create_idle, owners, remove
from benchmarks.usage import usage
from e2e.harness.cluster import audit_log
from e2e.harness.cluster.audit_log import AuditEntry
from e2e.harness.cluster.cleanup import cleaned
from e2e.harness.cluster.control_plane import ControlPlane, Options
from e2e.harness.errors import HarnessError
from e2e.harness.objects import create_all, pods, scale, wait_until
from e2e.harness.product import burst_log
from e2e.harness.product.capacity_buffers import (
    FITS,
    OWN_STRATEGY,
    capacity_buffer,
    install_kind,
    pod_template,
    serving,
    wait_for_provisioning,
)
from e2e.harness.product.full_machines import REQUESTS, FullMachines
from e2e.harness.product.operator import NAMESPACE, Operator, placeholders, policy, replica_sets, wait_until_placed

MACHINES, MACHINE_CORES = 40, 8
BOUND_SECONDS = 240.0
IDLE_SECONDS = 20.0
"""An idle operator is looked at for as long before its bursts: two plans."""
SETTLE_SECONDS = 4.0
"""From the last binding on: the capacity is asked for again, at the latest two seconds after the burst."""
REFILL_SECONDS = 5.0
"""The controllers may send 200 requests at once, and 100 more each second. A burst that begins with fewer creates its
pods more slowly, and waits less for the scheduler."""
LEASES = "coordination.k8s.io/leases"
_BINDING = re.compile(rb'/namespaces/default/pods/[^/"]+/binding"')
FLAGS: Mapping[Kind, Sequence[str]] = {Kind.BOUND: ("--no-make-way",), Kind.WAY: (), Kind.UNBOUND: ()}
OWN = {"provisioningStrategy": OWN_STRATEGY}
HOLD = {Kind.BOUND: "Bound", Kind.WAY: "Bound", Kind.UNBOUND: "Unbound"}


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
        self._creation: list[AuditEntry] = []
        self._idle_share = 0.0
        """Of a core, what the operator takes while nothing happens."""

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
            create_idle(api)
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
            with self._operator(case) as operator:
                operator.wait_until_ready()
                mark = self.cluster.audit_mark()
                if case.kind is Kind.BUFFER:
                    api.create(capacity_buffer(APP, podTemplateRef={"name": APP}, replicas=case.room, **OWN))
                else:
                    api.create(policy("default", hold=HOLD[case.kind], **machines.spec()))
                self._wait_until_held(case, 180)
                time.sleep(3)  # what it does after a change is done
                self._creation = self.cluster.audit_entries(verbs=audit_log.WRITES, since=mark)
                self._idle_share, _ = steady_cpu(operator, IDLE_SECONDS)
                yield operator

    def play(self, case: Case, operator: Operator | None) -> Burst:
        """Create the burst, and return what was seen until the capacity was asked for again."""
        mark = self.cluster.audit_mark()
        wanted, before, began = self._wanted(operator), _cpu_seconds(operator), time.monotonic()
        held = {found["metadata"]["name"] for found in pods(self.cluster.api, NAMESPACE)}
        self._come(case)
        self._wait_until_bound(case, mark)
        if case.kind is not Kind.FREE:
            time.sleep(SETTLE_SECONDS)
        cpu_seconds, past = _cpu_seconds(operator) - before, time.monotonic() - began
        entries = self.cluster.audit_entries(since=mark)
        seen = burst_log.read(entries)
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
            steady_seconds=0.0 if operator is None else self._idle_share * past,
            recreated=len(seen.made),
            writes={} if operator is None else _writes_of(operator, entries),
        )

    def go_away(self, case: Case, operator: Operator | None) -> None:
        """Remove the pods of the burst, and wait until the capacity is held as before."""
        remove(self.cluster.api)
        if operator is not None:
            self._wait_until_held(case, 90)
        time.sleep(REFILL_SECONDS)

    def cost(self, case: Case, operator: Operator, idle_seconds: float) -> tuple[Cost, float]:
        """Count what placeholders cost the API server; return that, and the idle operator's share of a core.

        The burst of the case is played and removed once.
        """
        api = self.cluster.api
        there = pods(api, NAMESPACE, labelSelector="resource-slack.io/placeholder=true")
        objects = len(there) + len(replica_sets(api)) + len(api.items(f"/api/v1/namespaces/{NAMESPACE}/events"))
        mark = self.cluster.audit_mark()
        share, seconds = steady_cpu(operator, idle_seconds)
        idle = self.cluster.audit_entries(verbs=audit_log.WRITES, since=mark)
        mark = self.cluster.audit_mark()
        self.play(case, operator)
        self.go_away(case, operator)
        round_trip = self.cluster.audit_entries(verbs=audit_log.WRITES, since=mark)
        found = Cost(
            placeholders=len(there),
            objects=objects,
            slots=sum(bool(entry["spec"].get("nodeName")) for entry in there),
            addresses=sum(bool(entry["status"].get("podIP")) for entry in there),
            creation_writes=writes_of_placeholders(self._creation),
            idle_writes_per_hour=writes_of_placeholders(idle) / seconds * 3600,
            burst_pods=case.pods,
            burst_writes=writes_of_placeholders(round_trip),
        )
        return found, share

    def _operator(self, case: Case) -> AbstractContextManager[Operator]:
        """Return the operator that the case is played beside."""
        flags = ("--log-level=info", "--interval=10s")
        if case.kind is not Kind.BUFFER:
            return Operator(self.cluster, *flags, *FLAGS[case.kind])
        install_kind(self.cluster.api)
        self.cluster.api.create(pod_template(APP, **REQUESTS))
        return serving(self.cluster, *flags, serve="Own")

    def _wait_until_held(self, case: Case, seconds: float) -> None:
        """Wait until the operator says that all capacity is kept, and until it is."""
        if case.kind is Kind.BUFFER:
            wait_for_provisioning(self.cluster.api, APP, FITS, seconds)
        else:
            wait_until_placed(self.cluster.api, "default", seconds)
        self._require_held(case)

    def _require_held(self, case: Case) -> None:
        """Wait until placeholders hold the capacity, in the case's form; without that another thing is measured.

        Raises:
            HarnessError: they do not.
        """
        bound, wanted = case.kind in (Kind.BOUND, Kind.WAY), _machines(case.room, case.chunk).placeholders

        def held() -> int:
            found = placeholders(self.cluster.api, bound=bound)
            return sum(bound or _is_told(entry["status"].get("conditions") or []) for entry in found)

        wait_until(lambda: held() == wanted, 60, f"{case}: {wanted} placeholders that hold capacity", state=held)
        if (there := len(placeholders(self.cluster.api))) != wanted:
            raise HarnessError(f"{case}: {there} placeholders, and not {wanted}")

    def _come(self, case: Case) -> None:
        self._bursts += 1
        if case.owner is Owner.DEPLOYMENT:
            scale(self.cluster.api, APP, case.pods)
            if case.kind is Kind.FLOOR and self._floor is not None and (refused := self._floor.let_go(case.pods)):
                raise HarnessError(f"{case}: {len(refused)} deletions were refused: {refused[0]}")
            return
        create_all(self.cluster.api, owners(case.owner, case.pods, f"{APP}-{self._bursts}"))

    def _wait_until_bound(self, case: Case, mark: int) -> None:
        """Count bindings in the log, which costs the cluster nothing, until all are there or time is over."""
        deadline = time.monotonic() + BOUND_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.3)
            with self.cluster.audit_log.open("rb") as log:
                log.seek(mark)
                if len(_BINDING.findall(log.read())) >= case.pods:
                    return

    def _wanted(self, operator: Operator | None) -> int:
        return 0 if operator is None else sum(found["spec"]["replicas"] for found in replica_sets(self.cluster.api))


def steady_cpu(operator: Operator, seconds: float) -> tuple[float, float]:
    """Return the share of a core that an operator takes while nothing happens, and the seconds of the look."""
    before, began = _cpu_seconds(operator), time.monotonic()
    time.sleep(seconds)
    past = time.monotonic() - began
    return (_cpu_seconds(operator) - before) / past, past


def _writes_of(operator: Operator, entries: Sequence[AuditEntry]) -> dict[str, int]:
    return dict(
        Counter(
            f"{entry.verb} {entry.resource}"
            for entry in entries
            if entry.user == operator.user and entry.verb in audit_log.WRITES and entry.resource != LEASES
        )
    )


def _is_told(conditions: Sequence[Mapping[str, str]]) -> bool:
    return any(entry["type"] == "PodScheduled" and entry.get("reason") == "Unschedulable" for entry in conditions)


def _cpu_seconds(operator: Operator | None) -> float:
    return 0.0 if operator is None else usage(operator.program.pid).cpu_seconds


def _machines(room: int, chunk: int = 1) -> FullMachines:
    return FullMachines(MACHINES, room, chunk, MACHINE_CORES)
