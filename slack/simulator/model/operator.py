"""The operator: plans with the very planner, every interval and soon after a relevant change, and carries plans out.

As slack_operator.placeholders.loop, without the API between: what to write is the planner's to decide here too, but
victims get their deletion cost and `replicas` is lowered in one step. Autoscaler events are what the modelled
autoscaler said of the placeholders' kinds.
"""

import math
from collections.abc import Mapping
from statistics import median

from slack.cluster.snapshot import Snapshot
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import (
    Answer,
    AutoscalerEvent,
    ExistingShape,
    PlannerState,
    PolicyPlan,
    RememberedPolicy,
    ShapePlan,
)
from slack.planner.objects.adoption import once_written
from slack.planner.objects.autoscaler_events import AutoscalerEvents
from slack.planner.objects.decide import Step, step_of, victim_costs
from slack.planner.objects.manifests import PRIORITY, replica_set_name
from slack.planner.objects.priority_classes import PriorityClasses
from slack.planner.plan import plan
from slack.planner.rollout.waits import later, waits_until
from slack.planner.soft_taint import decide, holding_nodes
from slack.simulator.model.clock import Clock
from slack.simulator.model.forms import planned
from slack.simulator.model.kinds import PodKind, PodRole
from slack.simulator.model.meter import Meter
from slack.simulator.model.objectives import ModelledObjectives
from slack.simulator.model.periodic_timer import PeriodicTimer
from slack.simulator.model.pools import Announced
from slack.simulator.model.replicaset import ReplicaSets
from slack.simulator.model.snapshot_view import SnapshotView
from slack.simulator.model.state import GONE, ModelledCluster
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

_STILL_SECONDS = 60.0
"""Where nothing has changed at all, only waits can end: it is enough to plan so often (a model's saving)."""


class ModelledOperator:
    """The loop and its state."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: ModelledCluster,
        clock: Clock,
        view: SnapshotView,
        sets: ReplicaSets,
        meter: Meter,
        epoch: float,
    ) -> None:
        assert isinstance(scenario.slack, Policies)
        self._settings = scenario.operator
        self._policies = planned(scenario)
        self._priorities = scenario.slack.priorities
        self._priority_classes = PriorityClasses.of_values(self._priorities)
        self._class_of = {p.name: p.spec.priority_class_name for p in self._policies}
        self._cluster = cluster
        self._clock = clock
        self._view = view
        self._sets = sets
        self._meter = meter
        self._epoch = epoch
        self._existing: dict[int, ExistingShape] = {}
        self._events = AutoscalerEvents()
        self._state: PlannerState = {}
        self._before: PlannerState = {}
        """The state before the last plan."""
        self.rhythm = PeriodicTimer(
            clock, self._settings.interval.total_seconds(), self._tick, self._passed, first=False
        )
        self._cache = PlanCache()
        self.objectives = ModelledObjectives(
            self._policies,
            cluster,
            scenario.instant_seconds,
            max(self._priorities.values(), default=PRIORITY),
            frozenset(row for row, workload in enumerate(scenario.workloads) if workload.exclude),
        )
        self.pools = Announced(scenario, cluster, epoch)
        self._planned_at = (0, 0)
        self._last = -1.0
        self._seen: tuple[int, ...] = ()
        self._known = -1
        """What the cluster's changes were at the last plan."""
        self._still = False
        """Whether the last plan has changed nothing."""
        self._looked = 0.0
        """When the last plan was made, or would have been, had the loop not rested."""
        self._rested = False
        self._due = float("inf")
        self.any_preempted = any(policy.form.occupies_nodes for policy in self._policies)
        self._any_free = any(not policy.form.occupies_nodes for policy in self._policies)
        """Whether some capacity is kept free, so that a real pod takes it without any write."""
        self._any_pending = False
        """Whether the last plan has seen a placeholder without a node, or an unbound one that fits nowhere."""
        self._unneeded_since: Mapping[str, float] = {}
        """By tainted node: since when it holds no placeholder."""
        self._lacking: dict[str, dict[str, int]] = {}
        """By policy and resource: how much more slack the last plan heads for than there was."""

    def start(self) -> None:
        """Plan at once, and every interval from then on."""
        self.rhythm.begin()

    def observe(self, kind: PodKind, answer: Answer, message: str) -> None:
        """Take what the autoscaler says of a kind."""
        if kind.role is PodRole.PLACEHOLDER and kind.shape is not None:
            name = replica_set_name(kind.policy, kind.shape)
            self._events.add_event(AutoscalerEvent(name, answer, message, self._epoch + self._clock.now))
            self._still = False
            self.rhythm.wake()

    def grows(self, kind: PodKind) -> bool:
        """Whether a new placeholder is needed by how much its policy wants, and not only by its shape. Counts it."""
        assert kind.shape is not None
        lacking = self._lacking.get(kind.policy, {})
        grows = any(amount > 0 and lacking.get(name, 0) > 0 for name, amount in kind.shape.requests)
        for name, amount in kind.shape.requests:
            lacking[name] = lacking.get(name, 0) - amount
        return grows

    def touch(self) -> None:
        """Real pods have come or gone: plan soon when that is enough to matter."""
        asked = self._cluster.asked_total[PodRole.REAL]
        for column in (0, 1):
            before = self._planned_at[column]
            if abs(asked[column] - before) > self._settings.relevant_change * before:
                self._plan_soon()
                return

    def look_at_pools(self, now: float) -> None:
        """Let the pools see how many containers they have, and tell of it."""
        started = self._cluster.started
        self.pools.look(now, median(took for _, took in started) if started else None)

    def displaced(self) -> None:
        """A placeholder has left for a real pod: with an objective a plan says whether another one is to be had."""
        if self.objectives:
            self._plan_soon()

    def bound(self) -> None:
        """A real pod is bound: it may have taken what an unbound placeholder kept free, which is no write at all."""
        if self._any_free:
            self.displaced()

    def _plan_soon(self) -> None:
        at = max(self._clock.now, self._last) + self._settings.debounce_seconds
        if at < self._due:
            self._due = at
            self._clock.at(at, self._debounced, at)

    def _debounced(self, at: float) -> None:
        if at == self._due:
            self._due = float("inf")
            self._reconcile()

    def _tick(self, now: float) -> None:
        self._reconcile()
        following = now + self._settings.interval.total_seconds()
        until = self._next_look(now) if self._versions() == self._seen else now
        if until > following:
            self.rhythm.rest(until)
        else:
            self.rhythm.follow(following)

    def _next_look(self, now: float) -> float:
        """Return the moment at which a plan is made although nothing has changed that it would be made for at once."""
        due = self._waits_until() if self._still and self._cluster.changes == self._known else now
        moment, looked, seconds = now, self._looked, self._settings.interval.total_seconds()
        if due == math.inf:
            return due
        while looked <= self._looked or looked < due:
            moment += seconds
            if moment - looked >= _STILL_SECONDS:
                looked = moment
        return looked

    def _waits_until(self) -> float:
        """Return until when the passing of time changes no plan: -inf where that is not known."""
        if self._any_pending:
            return -math.inf
        empty = RememberedPolicy()
        states = [(p, self._before.get(p.name, empty), self._state.get(p.name, empty)) for p in self._policies]
        waits = min((waits_until(*known) for known in states), default=math.inf)
        return min(waits - self._epoch, self._cluster.arrivals_until(self._clock.now))

    def _passed(self, moment: float) -> None:
        if moment - self._looked >= _STILL_SECONDS:
            self._looked, self._rested = moment, True

    def _versions(self) -> tuple[int, ...]:
        cluster = self._cluster
        # Where unbound placeholders fit changes also when real pods are bound.
        taken = cluster.bound_total[PodRole.REAL] if self._any_free else ()
        return (cluster.created_total, cluster.room_version, cluster.placeholder_version, cluster.node_version, *taken)

    def _reconcile(self) -> None:
        cluster = self._cluster
        now = self._clock.now
        self._last = now
        seen = self._versions()
        if seen == self._seen and now - self._looked < _STILL_SECONDS:
            return
        if self._rested:
            at = self._epoch + self._looked
            self._state, self._rested = {name: later(state, at) for name, state in self._state.items()}, False
        self._seen, self._known, self._looked = seen, cluster.changes, now
        self._before = self._state
        self._planned_at = (cluster.asked_total[PodRole.REAL][0], cluster.asked_total[PodRole.REAL][1])
        snapshot = self._view.snapshot(now)
        self._any_pending = any(pod.node < 0 for pod in snapshot.placeholders)
        result = plan(
            snapshot,
            self._policies,
            now=self._epoch + now,
            existing=list(self._existing.values()),
            events=self._events.about(self._names(), self._epoch + now),
            state=self._state,
            default_rate=self._settings.default_rate,
            priority_classes=self._priority_classes,
            cache=self._cache,
            objectives=self.objectives.amounts(self._epoch + now) if self.objectives else {},
            pools=self.pools.told(now),
        )
        if self.objectives:
            self.objectives.observe(self._epoch + now, snapshot, result.items)
        self._state, existing = result.state, dict(self._existing)
        self._meter.count("plans", now)
        for item in result.items:
            if item.act:
                self._carry_out(item, now)
        if self._settings.soft_taint:
            self._taint(snapshot, now)
        self._still = self._existing == existing and not self.pools  # what pools tell changes with time alone

    def _taint(self, snapshot: Snapshot, now: float) -> None:
        """Write and take away the soft taint of nodes."""
        cluster = self._cluster
        rows = {name: row for row, name in enumerate(cluster.names) if cluster.state[row] != GONE}
        tainted = [name for name, row in rows.items() if cluster.softly_tainted[row]]
        decision = decide(holding_nodes(snapshot, tainted), tainted, self._unneeded_since, now)
        self._unneeded_since = decision.unneeded_since
        for names, value in ((decision.remove, False), (decision.add, True)):
            for name in names:
                cluster.softly_tainted[rows[name]] = value
            self._meter.count("taint_writes", now, len(names))
        if decision.add or decision.remove:
            cluster.changes += 1

    def _names(self) -> list[str]:
        return [replica_set_name(there.policy, there.shape) for there in self._existing.values()]

    def _carry_out(self, item: PolicyPlan, now: float) -> None:
        name = self._class_of[item.policy]
        lacking = dict(zip(item.resources, item.planned.tolist(), strict=True))
        for there in self._existing.values():
            for resource, amount in there.shape.requests if there.policy == item.policy else ():
                lacking[resource] = lacking.get(resource, 0) - there.replicas * amount
        self._lacking[item.policy] = lacking
        priority = self._priorities.get(name, PRIORITY)
        kinds = [(self._cluster.kinds.of_shape(item.policy, shape.shape, priority), shape) for shape in item.shapes]
        for kind, shape in sorted(kinds, key=lambda pair: self._step(*pair).order):
            self._write(kind, shape, item.policy, now)
        for kind, shape in kinds:
            if self._step(kind, shape) is Step.RETIRED and not self._cluster.pods_of.get(kind.index):
                del self._existing[kind.index]

    def _step(self, kind: PodKind, shape: ShapePlan) -> Step:
        there = self._existing.get(kind.index)
        return step_of(shape, there.replicas if there is not None else None)

    def _write(self, kind: PodKind, shape: ShapePlan, policy: str, now: float) -> None:
        wanted, there, step = once_written(policy, shape), self._existing.get(kind.index), self._step(kind, shape)
        if there == wanted or (there is None and step is not Step.RAISE):
            return
        self._existing[kind.index] = wanted
        if step is Step.LOWER:
            costs = {int(name.rpartition("-")[2]): cost for name, cost in victim_costs(shape.victims).items()}
            for pod in self._cluster.pods_of.get(kind.index, {}):
                self._cluster.cost[pod] = costs.get(self._cluster.number[pod], self._cluster.cost[pod])
        self._sets.scale(kind, shape.replicas, now)
