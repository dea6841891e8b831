"""The thread that serves CapacityBuffers: who else does is asked, buffers are planned for, chunks held, statuses told.

The planning loop hands its observation over (`look`), so chunks fit by the same packing as all unbound placeholders.
While it is not known who serves, or a watch is not whole, nothing is written and what is there stays. A buffer whose
status somebody else writes is let go until the next probe: nobody is fought with.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slack.capacity_buffers.api import (
    CONFLICT,
    KIND,
    NO_CONFLICT,
    CapacityBuffer,
    PodTemplateObject,
    Serve,
)
from slack.capacity_buffers.ceiling import NO_CEILING, BufferCeiling, CeilingLedger, chunk_prices
from slack.capacity_buffers.objects import buffer_set_name
from slack.capacity_buffers.plan import MISSING_SECONDS, BufferInputs, BufferPlan, plan_buffers
from slack.capacity_buffers.plan_memory import PlanMemory
from slack.capacity_buffers.probing import PROBE_NAME, BufferServer, ServerFinding, rivals, serves, status_managers
from slack.cluster.hold import UNBOUND_SCHEDULER
from slack.cluster.labels import FIELD_MANAGER, KARPENTER_NODE_POOL, PRIORITY_CLASS
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.cluster.wire import OwnReplicaSet
from slack.kube.connection import Connection
from slack.kube.errors import KubeError
from slack.kube.events import EventKind, EventRecorder, ObjectRef
from slack.planner.model.result import PolicyPlan
from slack.planner.model.shape import Shape
from slack.planner.objects.adoption import replicas_of
from slack.planner.objects.manifests import DEFAULT_IMAGE, NO_EXTRAS, PLACEHOLDER_USER
from slack.planner.policy.placeholders import Placeholders
from slack.process.outages import Outages
from slack.schema.conditions import StatusCondition
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.capacity_buffers.buffer_sets import BufferSets
from slack_operator.capacity_buffers.buffer_telling import BufferTelling
from slack_operator.capacity_buffers.buffer_watches import BufferWatches
from slack_operator.capacity_buffers.buffer_writer import BufferSet, BufferWriter
from slack_operator.capacity_buffers.object_store import ObjectStore
from slack_operator.capacity_buffers.reasons import SERVED_BY
from slack_operator.capacity_buffers.runtime_classes import RuntimeClasses
from slack_operator.capacity_buffers.served_api import BufferApi, discover
from slack_operator.capacity_buffers.server_probe import ServerProbe
from slack_operator.capacity_buffers.targets import Targets
from slack_operator.placeholders.planned_policies import PlannedPolicy, owner_reference
from slack_operator.placeholders.view.autoscalers import Recognition
from slack_operator.placeholders.view.cluster_view import ClusterView, Observation
from slack_operator.runtime.conditions import rfc3339, with_times

log = logging.getLogger(__name__)

DISCOVERY_SECONDS = 30.0
GONE_LOOKS = 2
"""So often in a row the kind must be absent until its buffers count as gone."""
REST_SECONDS = 10.0
GATHER_SECONDS = 0.1
LIMIT_SECONDS = 180.0
"""Without a turn that ended the thread counts as stuck."""
MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """What a user has set."""

    serve: Serve
    namespace: str
    image: str = DEFAULT_IMAGE
    user: int | None = PLACEHOLDER_USER
    extras: Placeholders = NO_EXTRAS
    ceiling: BufferCeiling = NO_CEILING
    prices: Callable[[], NodePrices] = lambda: NO_PRICES
    unbound_scheduler: str = UNBOUND_SCHEDULER
    yields_to_markers: bool = False
    tolerates_soft_taint: bool = False


@dataclass(frozen=True, slots=True)
class ServingReport:
    """What the last turn has come to, for metrics and the page."""

    finding: ServerFinding
    states: Mapping[str, int] = field(default_factory=dict)
    """How many buffers have each reason of `Provisioning`, and how many are left to others (`Conflict`)."""
    wanted: int = 0
    """Chunks."""
    fitting: int = 0
    buffers: tuple[Mapping[str, Any], ...] = ()
    """Of each that is served: name, replicas, what fits, reason and message."""
    writes: int = 0
    """Of ReplicaSets and statuses, so far."""


class ChunkTelling(Protocol):
    """Tells autoscalers of chunks, see `UnboundTelling`."""

    def look_at_buffers(self, replicas: Mapping[str, int]) -> None:
        """Take how many pods of each ReplicaSet may be told of."""


class BufferServing:
    """See the module's docstring. `start` and `stop` belong to the main thread, `look` to the loop's."""

    def __init__(
        self,
        options: ServingOptions,
        connection: Connection,
        view: ClusterView,
        writer: BufferWriter,
        probe: ServerProbe,
        targets: Targets,
        telling: ChunkTelling,
        recorder: EventRecorder,
        *,
        recognised: Callable[[], Recognition | None],
        may_write: Callable[[], bool],
        wall: Callable[[], float],
        on_report: Callable[[ServingReport], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._connection = connection
        self._view = view
        self._writer = writer
        self._probe = probe
        self._targets = targets
        self._runtime_classes = RuntimeClasses(connection)
        self._telling = telling
        self._recorder = recorder
        self._recognised = recognised
        self._may_write = may_write
        self._clock = view.clock
        self._wall = wall
        self._on_report = on_report
        self._touched = threading.Event()
        self._stopping = threading.Event()
        self.buffers: ObjectStore[CapacityBuffer] = ObjectStore(self._touched.set)
        self.templates: ObjectStore[PodTemplateObject] = ObjectStore(self._touched.set)
        self._watches = BufferWatches(connection, self.buffers, self.templates)
        self._observation: Observation | None = None
        self._api: BufferApi | None = None
        self._absent_looks = 0
        self._next_discovery = 0.0
        self._begin_memory()
        self._outages = Outages(self._clock)
        self.report = ServingReport(probe.finding)
        heart = Heartbeat("the thread that serves CapacityBuffers", LIMIT_SECONDS)
        self._thread = SupervisedThread(self._run, name="capacity-buffers", heart=heart)
        view.on_workload = self._workload_changed

    def _begin_memory(self) -> None:
        """Begin with no memory of earlier turns."""
        options = self._options
        self._made = BufferSets(
            namespace=options.namespace, image=options.image, user=options.user, extras=options.extras
        )
        self._told = BufferTelling(self._writer, recognised=self._recognised, wall=self._wall)
        self._missing_since: dict[str, float] = {}
        """By uid: since when its reference has not been found."""
        self._unrivalled: dict[str, CapacityBuffer] = {}
        """By uid: buffers whose status nobody else has written since we have."""
        self._conflicts: dict[str, str] = {}
        """By uid of buffers that are left to others: who they are."""
        self._told_finding: ServerFinding | None = None
        self._told_conflicts: frozenset[str] = frozenset()
        self._answers, self._forgiven_at = 0, 0.0
        """How many answers of the probe were seen, and when the last was, Unix seconds: conflicts before are past."""
        self._memory = PlanMemory()

    @property
    def keeps_buffers(self) -> bool:
        """Whether chunks need our PriorityClass."""
        return self._options.serve is not Serve.OFF and bool(self.report.buffers or self._view.buffer_sets)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._thread.dismiss()
        self._stopping.set()
        self._touched.set()
        self._thread.join(timeout=2.0)
        self._watches.stop()

    def unhealthy(self) -> str | None:
        """Return why nobody is served any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy() or self._watches.unhealthy()

    def look(self, observation: Observation, _: Sequence[PlannedPolicy], __: Sequence[PolicyPlan]) -> None:
        """Take what the loop has seen."""
        self._observation = observation
        self._touched.set()

    def _workload_changed(self, kind: str, namespace: str, name: str) -> None:
        if self._targets.mark_changed(kind, namespace, name):
            self._touched.set()

    def _run(self) -> None:
        wait: float | None = 0.0
        while not self._stopping.is_set():
            if self._thread.heart.rest(self._touched, wait) and not self._stopping.wait(GATHER_SECONDS):
                self._touched.clear()
            if self._stopping.is_set():
                return
            try:
                wait = self.serve_due()
                self._thread.heart.worked()
            except KubeError as error:
                if self._outages.is_new(type(error).__name__):
                    log.warning("CapacityBuffers are not served: %s", error)
                self._thread.heart.worked()
                wait = REST_SECONDS
            except Exception as error:
                if self._outages.is_new(type(error).__name__):
                    log.exception("serving CapacityBuffers failed")
                self._thread.heart.failed(error)
                wait = REST_SECONDS

    def serve_due(self) -> float:
        """Do what is due; return the seconds until something is due again.

        Raises:
            KubeError: when the API server did not answer.
        """
        seen = self._observation
        if not self._may_write() or seen is None:
            return 1.0
        self._writer.begin_turn()
        if self._options.serve is Serve.OFF:  # what an operator that served has left behind
            self._writer.carry_out(self._sets(), {})
            return REST_SECONDS
        now = self._clock()
        self._discover(now)
        if self._api is None:
            return self._without_kind(now)
        unready = self._watches.unready()
        if unready is not None:
            self._hold()
            return 1.0
        due = self._probe.run_step(self._api, self._owner(seen))
        if self._probe.finding != self._told_finding and self._probe.finding.server is not BufferServer.UNKNOWN_YET:
            self._tell_finding()
        if self._probe.finding.server is BufferServer.UNKNOWN_YET:
            self._hold()
            self._report(())
            return min(due, 1.0)
        return min(due, self._serve(seen, self._api, now), REST_SECONDS)

    def _discover(self, now: float) -> None:
        if now < self._next_discovery:
            return
        found = discover(self._connection)
        self._next_discovery = now + DISCOVERY_SECONDS
        if isinstance(found, BufferApi):
            self._absent_looks = 0
            self._api = found
            self._watches.follow(found)
            return
        self._absent_looks += 1
        if self._api is None or self._absent_looks >= GONE_LOOKS:
            self._api = None
            self._watches.follow(None)
            self._probe.without_kind(found)

    def _without_kind(self, now: float) -> float:
        if self._probe.finding != self._told_finding:
            self._tell_finding()
        if self._absent_looks >= GONE_LOOKS:
            self._writer.carry_out(self._sets(), {})
            self._telling.look_at_buffers({})
        else:
            self._hold()
        self._report(())
        return min(max(self._next_discovery - now, 0.0), REST_SECONDS)

    def _sets(self) -> Mapping[str, Any]:
        with self._view.lock:
            return dict(self._view.buffer_sets)

    def _hold(self) -> None:
        """Leave everything as it is; autoscalers go on to be told of the chunks that are there."""
        self._telling.look_at_buffers({name: replicas_of(found) for name, found in self._sets().items()})

    @staticmethod
    def _owner(seen: Observation) -> Mapping[str, Any] | None:
        found = seen.priority_classes.get(PRIORITY_CLASS)
        if found is None:
            return None
        return owner_reference("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS, found.metadata.uid or "")

    def _serve(self, seen: Observation, api: BufferApi, now: float) -> float:
        """Plan for all buffers that are ours, and write what differs; return the seconds until something is due."""
        mine = self._mine()
        again = [self._targets.refresh(mine, now), self._runtime_classes.refresh(now)]
        present, owner = self._sets(), self._owner(seen)
        plans = plan_buffers(seen.snapshot, mine, self._inputs(seen, mine, present, now))
        self._view.buffer_labels = _labels_of(plans)
        wanted = self._made.list_wanted(plans, present, owner)
        self._forget({plan.buffer.uid for plan in plans}, wanted, present)
        self._telling.look_at_buffers({name: own.replicas for name, own in wanted.items()})
        self._writer.carry_out(present, wanted)
        held = Counter(pod.replica_set for pod in seen.snapshot.placeholders if pod.is_held)
        rows = [
            self._told.report_buffer(plan, self._made.sets_of(plan, owner) if plan.parts else (), seen, held, api, now)
            for plan in plans
            if not plan.is_waiting
        ]
        self._tell_conflicts(api)
        self._report(rows)
        if self._probe.notice(self.buffers.get(self._options.namespace, PROBE_NAME)):
            return 0.0
        absent = [MISSING_SECONDS - (now - at) for at in self._missing_since.values() if now - at < MISSING_SECONDS]
        waits = [*again, self._told.due_in(now), min(absent, default=None), 1.0 if self._writer.is_behind else None]
        return max(min((wait for wait in waits if wait is not None), default=REST_SECONDS), GATHER_SECONDS)

    def _mine(self) -> list[CapacityBuffer]:
        """Return the buffers that are ours to serve; those that others serve after all are let go."""
        found = []
        uids = set()
        for own in self.buffers.all():
            is_probe = own.namespace == self._options.namespace and own.metadata.name == PROBE_NAME
            if is_probe or own.metadata.deletion_timestamp is not None:
                continue
            uids.add(own.uid)
            if not serves(self._options.serve, self._probe.finding.server, own.strategy):
                continue
            if self._unrivalled.get(own.uid) is own:  # whoever writes makes it another object
                found.append(own)
                continue
            if own.uid not in self._conflicts and (others := self._rivals(own)):
                self._conflicts[own.uid] = others
                self._tell_conflict(own, others)
            if own.uid not in self._conflicts:
                self._unrivalled[own.uid] = own
                found.append(own)
        self._conflicts = {uid: who for uid, who in self._conflicts.items() if uid in uids}
        return found

    def _rivals(self, own: CapacityBuffer) -> str:
        """Name those who have written a status since we have; '' where nobody has, or we never have."""
        written = status_managers(own).get(FIELD_MANAGER) or self._told.told_at.get(own.uid)
        return "" if written is None else ", ".join(rivals(own, max(written, self._forgiven_at)))

    def _forget(self, uids: Collection[str], wanted: Mapping[str, BufferSet], present: Mapping[str, Any]) -> None:
        """Forget buffers that are no more, or not ours any more."""
        self._told.keep_only(uids, self._conflicts)
        self._made.keep_only(uids)
        self._unrivalled = {uid: own for uid, own in self._unrivalled.items() if uid in uids}
        self._writer.keep_only({*uids, *present, *wanted})

    def _inputs(
        self, seen: Observation, mine: Sequence[CapacityBuffer], present: Mapping[str, OwnReplicaSet], now: float
    ) -> BufferInputs:
        options, namespaces = self._options, sorted({own.namespace for own in mine})
        with self._view.lock:
            quotas = self._view.quotas.in_namespaces(namespaces)
            ranges = {name: tuple(self._view.limit_ranges.in_namespaces([name])) for name in namespaces}
        before, self._missing_since = self._missing_since, {}
        still = self._missing_since

        def missing_seconds(own: CapacityBuffer) -> float:
            still[own.uid] = before.get(own.uid, now)
            return now - still[own.uid]

        def standing(own: CapacityBuffer, shape: Shape) -> int:
            there = present.get(buffer_set_name(own.namespace, own.metadata.name, own.uid, shape))
            return 0 if there is None else replicas_of(there)

        prices = chunk_prices(seen.snapshot, options.prices()) if options.ceiling.per_hour is not None else None
        ledger = CeilingLedger(options.ceiling) if prices is None else CeilingLedger(options.ceiling, prices)
        return BufferInputs(
            templates=self.templates.get,
            targets=self._targets.target_of,
            ranges=lambda namespace: ranges.get(namespace, ()),
            quotas=quotas,
            ceiling=ledger,
            unbound_scheduler=options.unbound_scheduler,
            yields_to_markers=options.yields_to_markers,
            tolerates_soft_taint=options.tolerates_soft_taint,
            default_class=_default_class(seen),
            overhead_of=self._runtime_classes.overhead_of,
            missing_seconds=missing_seconds,
            standing=standing,
            memory=self._memory,
        )

    def _tell_finding(self) -> None:
        """Say in one Event, on the probe, who serves."""
        self._told_finding = found = self._probe.finding
        if self._api is None:
            log.warning("%s", found)
        elif self._probe.uid:
            self._recorder.record(self._about_probe(self._api), EventKind.NORMAL, SERVED_BY, str(found))

    def _about_probe(self, api: BufferApi) -> ObjectRef:
        return ObjectRef(api.api_version, KIND, PROBE_NAME, self._probe.uid, self._options.namespace)

    def _tell_conflict(self, own: CapacityBuffer, others: str) -> None:
        """Say in an Event, on the buffer, that it is left to others."""
        text = f"{others} writes the status of this buffer too: resource-slack has let it go until the next probe"
        log.warning("CapacityBuffer %s is left to others: %s writes its status", own.name, others)
        if self._api is not None:
            about = ObjectRef(self._api.api_version, KIND, own.metadata.name, own.uid, own.namespace)
            self._recorder.record(about, EventKind.WARNING, CONFLICT, text)

    def _tell_conflicts(self, api: BufferApi) -> None:
        """Say in a condition of the probe which buffers are left to others; none while there never were any."""
        if self._probe.answers != self._answers:
            self._answers, self._forgiven_at = self._probe.answers, self._wall()
            self._conflicts = {}
        names = {own.uid: own.name for own in self.buffers.all() if own.uid in self._conflicts}
        now_left = frozenset(names.values())
        probe = self.buffers.get(self._options.namespace, PROBE_NAME)
        if now_left == self._told_conflicts or probe is None:
            return
        who = sorted(set(self._conflicts.values()))
        shown = sorted(now_left)
        more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
        text = f"left to {', '.join(who)}: {', '.join(shown[:MOST_NAMED])}{more}" if shown else "no buffer is contested"
        condition = StatusCondition(CONFLICT, bool(shown), CONFLICT if shown else NO_CONFLICT, text)
        generation = probe.metadata.generation or 0
        stamped = with_times([condition], probe.status or {}, rfc3339(self._wall()), generation)
        if self._writer.write_status(probe, api.api_version, {"conditions": stamped}):
            self._told_conflicts = now_left

    def _report(self, rows: Sequence[Mapping[str, Any]]) -> None:
        states = Counter(str(row["reason"]) for row in rows)
        if self._conflicts:
            states[CONFLICT] = len(self._conflicts)
        wanted, fitting = (sum(row[name] for row in rows) for name in ("replicas", "fitting"))
        self.report = ServingReport(self._probe.finding, states, wanted, fitting, tuple(rows), self._writer.writes)
        self._on_report(self.report)


def _labels_of(plans: Sequence[BufferPlan]) -> frozenset[str]:
    """Return the labels of nodes that plans look at: Karpenter's, and those over which chunks spread."""
    spread = [each for plan in plans if plan.chunk is not None for each in plan.chunk.zone_spread]
    return frozenset({KARPENTER_NODE_POOL, *(str(each.get("topologyKey")) for each in spread)})


def _default_class(seen: Observation) -> str:
    """Name the PriorityClass of pods that name none; '' where there is none."""
    names = [own.metadata.name for own in seen.priority_classes.values() if own.global_default]
    return min(names, default="")
