"""A run: the parts wired together, and time passing until the end.

    result = simulate(parse_scenario(document, source="scenario.yaml"))

Deterministic: the same scenario gives the same Result. Everything random is drawn from generators seeded by the
scenario's seed and by what they are for, so that two runs that differ in slack only see the same arrivals.
"""

import math
from collections.abc import Callable

import numpy as np

from slack.planner.model.result import Answer
from slack.simulator.autoscaling.cluster_autoscaler import ModelledClusterAutoscaler
from slack.simulator.autoscaling.consolidation import Disruption
from slack.simulator.autoscaling.karpenter import KarpenterProvisioner
from slack.simulator.autoscaling.scale_down import ScaleDown
from slack.simulator.model.clock import Clock
from slack.simulator.model.forms import ModelledForms
from slack.simulator.model.hpa import Scaler
from slack.simulator.model.kinds import PodKind, PodRole
from slack.simulator.model.making_way import ModelledBurstEviction
from slack.simulator.model.meter import Meter
from slack.simulator.model.node_choice import NodeScoring
from slack.simulator.model.operator import ModelledOperator
from slack.simulator.model.overprovisioner import Overprovisioner
from slack.simulator.model.periodic_timer import PeriodicTimer
from slack.simulator.model.pools import LOOK_SECONDS
from slack.simulator.model.replicaset import ReplicaSets
from slack.simulator.model.result import Result
from slack.simulator.model.scheduler import ModelledScheduler
from slack.simulator.model.snapshot_view import SnapshotView
from slack.simulator.model.state import LEAVING, ModelledCluster
from slack.simulator.runs.savings import OutOfReach, most_late
from slack.simulator.scenario.arrivals import draw_arrivals
from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler as ClusterAutoscalerSettings
from slack.simulator.scenario.autoscaler_settings import Karpenter as KarpenterSettings
from slack.simulator.scenario.distributions import FloatArray
from slack.simulator.scenario.load import DeploymentReplicas, Jobs
from slack.simulator.scenario.scenario import InvalidScenario, Scenario, problems_of
from slack.simulator.scenario.slack_kinds import NoSlack, Policies

OnProgress = Callable[[float, float], None]
"""Called with (simulated seconds so far, seconds in all), about a hundred times a run."""
_ARRIVALS, _START_UPS, _PREEMPTION, _EXPANDER, _LIVES = range(5)
"""What generators are for."""


class Simulation:
    """One run; `clock.step` is one event. Tests look inside, everybody else calls `simulate`."""

    def __init__(self, scenario: Scenario, *, node_scoring: NodeScoring | None = None) -> None:
        self.scenario = scenario
        self.cluster = ModelledCluster(scenario)
        self.clock = Clock(scenario.duration.total_seconds())
        self.meter = Meter(scenario, self.cluster)
        self.sets = ReplicaSets(self.cluster, self._create_replica, self.delete)
        self.scheduler = ModelledScheduler(
            self.cluster, self.clock, scenario.scheduler, self, self._seed(_PREEMPTION), node_scoring
        )
        self._forms = ModelledForms(self.cluster, self.scheduler, self.clock)
        epoch = scenario.starts_at.timestamp()
        self._start_ups = [self._rng(_START_UPS, i) for i in range(len(scenario.node_groups))]
        self._lives = [self._rng(_LIVES, i) for i in range(len(scenario.workloads))]
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._evicting = False
        self._gone: Callable[[int, float], None] = lambda node, now: None
        self._notice: Callable[[], None] = lambda: None
        self._rhythms: list[PeriodicTimer] = []
        self._changes = 0
        self._autoscale()
        self.operator: ModelledOperator | None = None
        self.way: ModelledBurstEviction | None = None
        self._view: SnapshotView | None = None
        if isinstance(scenario.slack, Policies):
            self._view = SnapshotView(scenario, self.cluster, self.scheduler, epoch)
            self.operator = ModelledOperator(
                scenario, self.cluster, self.clock, self._view, self.sets, self.meter, epoch
            )
            self._rhythms.append(self.operator.rhythm)
            if self.operator.pools:
                self._every(LOOK_SECONDS, self.operator.look_at_pools)
            if scenario.operator.make_way and self.operator.any_preempted:
                seconds = scenario.operator.make_way_seconds
                self.way = ModelledBurstEviction(self.cluster, self.clock, self.sets, seconds, self._make_way)
                self.way.refill = self._refill
        elif not isinstance(scenario.slack, NoSlack):
            self.overprovisioner = Overprovisioner(scenario.slack, self.cluster, self.clock, self.sets)
        self._arrivals: list[tuple[FloatArray, FloatArray]] = []
        self._next: list[int] = []
        self._begin()

    # -- the start ---------------------------------------------------------------------------------------------------

    def _seed(self, purpose: int, index: int = 0) -> int:
        return int(np.random.SeedSequence([self.scenario.seed, purpose, index]).generate_state(1, np.uint64)[0])

    def _rng(self, purpose: int, index: int) -> np.random.Generator:
        return np.random.default_rng([self.scenario.seed, purpose, index])

    def _autoscale(self) -> None:
        settings = self.scenario.autoscaler
        if isinstance(settings, ClusterAutoscalerSettings):
            down = ScaleDown(self.cluster, settings, self.remove_node)
            self._gone = down.gone
            self.autoscaler = ModelledClusterAutoscaler(
                self.cluster,
                self.scheduler,
                self.clock,
                settings,
                down,
                self.add_nodes,
                self._on_answer,
                self._seed(_EXPANDER),
            )
            self._notice = self.autoscaler.notice
            self._rhythms.append(self.autoscaler.rhythm)
            self.autoscaler.start()
        elif isinstance(settings, KarpenterSettings):
            provisioner = KarpenterProvisioner(
                self.cluster, self.scheduler, self.clock, settings, self.add_nodes, self._on_answer
            )
            self._notice = provisioner.notice
            self.disruption = Disruption(
                self.cluster, self.scheduler, self.clock, settings, self._launch, self.remove_node
            )
            self._gone = self.disruption.gone
            self._every(settings.poll_seconds, self.disruption.poll)

    def _every(self, seconds: float, action: Callable[[float], None]) -> None:
        def again(_: object) -> None:
            action(self.clock.now)
            self.clock.after(seconds, again)

        self.clock.after(seconds, again)

    def _begin(self) -> None:
        scenario, cluster = self.scenario, self.cluster
        for group, spec in enumerate(scenario.node_groups):
            for _ in range(spec.first):
                cluster.make_ready(cluster.add_node(group, 0.0), 0.0)
        cluster.started.clear()
        for row, workload in enumerate(scenario.workloads):
            arrivals = workload.arrivals
            self._arrivals.append(draw_arrivals(workload, self.clock.end, self._rng(_ARRIVALS, row)))
            self._next.append(0)
            kind = cluster.kinds[row]
            if isinstance(arrivals, DeploymentReplicas):
                replicas = arrivals.replicas
                if arrivals.hpa is not None:
                    replicas = min(max(replicas, arrivals.hpa.min_replicas), arrivals.hpa.max_replicas)
                    self._scale_by(kind, Scaler(arrivals.hpa))
                self.sets.scale(kind, replicas, 0.0)
            elif len(self._arrivals[row][0]):
                self.clock.at(float(self._arrivals[row][0][0]), self._arrive, row)
        total = sum(len(times) for times, _ in self._arrivals)
        if total > scenario.max_pods:
            problem = f"maxPods: {total} pods would arrive, the limit is {scenario.max_pods}"
            raise InvalidScenario((problem,), scenario.name)
        if self.operator is not None:
            self.operator.start()
        elif not isinstance(scenario.slack, NoSlack):
            self.overprovisioner.start()
        self._sample_every = self.clock.end / (scenario.timeline_rows - 1)
        self._samples = 0
        self._sample(None)

    def _scale_by(self, kind: PodKind, scaler: Scaler) -> None:
        def sync(now: float) -> None:
            current = self.sets.replicas[kind.index]
            wanted = scaler.sync(now, current=current, ready=self.cluster.running[kind.index])
            if wanted != current:
                self.sets.scale(kind, wanted, now)

        self._every(scaler.spec.sync_period_seconds, sync)

    def _sample(self, _: object) -> None:
        self.meter.sample(self.clock.now, self._view.fitting(self.clock.now) if self._view is not None else (0, 0))
        self._samples += 1
        at = self._samples * self._sample_every
        if self._samples < self.scenario.timeline_rows:
            self.clock.at(max(min(at, self.clock.end), self.clock.now), self._sample)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _arrive(self, row: int) -> None:
        times, lives = self._arrivals[row]
        kind, at, now = self.cluster.kinds[row], self._next[row], self.clock.now
        while at < len(times) and times[at] <= now:
            self.create(kind, float(lives[at]))
            at += 1
        self._next[row] = at
        if at < len(times):
            self.clock.at(float(times[at]), self._arrive, row)

    def create(self, kind: PodKind, life: float) -> int:
        """A pod is created and handed to the scheduler.

        Raises:
            InvalidScenario: when it is one more than maxPods.
        """
        row = self.cluster.create_pod(kind, life, self.clock.now, recreated=self._evicting)
        if self.cluster.created_total > self.scenario.max_pods:
            raise InvalidScenario(
                (f"maxPods: more than {self.scenario.max_pods} pods were created",), self.scenario.name
            )
        self._forms.create(row, kind)
        if kind.role is not PodRole.REAL:
            self._created(kind)
        elif self.operator is not None:
            self.operator.touch()
            if self.way is not None:
                self.way.touch()
        return row

    def _created(self, kind: PodKind) -> None:
        """Count a placeholder, and where it takes no other's place, why it is there."""
        self.meter.count("created", self.clock.now)
        if not self._evicting:
            grows = self.operator is None or self.operator.grows(kind)
            self.meter.count("grown" if grows else "other", self.clock.now)

    def _create_replica(self, kind: PodKind) -> int:
        life = math.inf
        if kind.role is PodRole.REAL:
            life = float(self.scenario.workloads[kind.workload].life.draw(self._lives[kind.workload], 1)[0])
        return self.create(kind, life)

    def bound(self, row: int, kind: PodKind) -> None:
        """The scheduler has bound a pod."""
        at = self.clock.now + self.scenario.scheduler.bind_seconds
        if kind.role is PodRole.REAL:
            self.meter.bound(row, kind, at)
            if self.way is not None:
                self.way.bound(kind)
            if self.operator is not None and not self.cluster.recreated[row]:
                self.operator.objectives.started(kind, self.cluster.node_of[row], at - self.cluster.created[row])
            if self.operator is not None:
                self.operator.bound()
            life = self.cluster.life[row]
            if life < math.inf:
                self.clock.at(at + life, self._finish, (row, self.cluster.number[row]))

    def _finish(self, pod: tuple[int, int]) -> None:
        row, number = pod
        if self.cluster.number[row] == number:
            kind = self.cluster.kinds[self.cluster.kind_of[row]]
            self._remove(row, kind)
            if kind.controlled:
                self.sets.sync(kind, self.clock.now)

    def refused(self, row: int) -> None:
        """The scheduler has said of a pod that it fits nowhere."""
        if self.cluster.kinds[self.cluster.kind_of[row]].role is PodRole.PLACEHOLDER:
            self.cluster.placeholder_version += 1
        self._notice()

    def preempt(self, row: int) -> None:
        """A victim goes at once; who owns it makes another."""
        role = self.cluster.kinds[self.cluster.kind_of[row]].role
        self.meter.count("preempted" if role is PodRole.REAL else "displaced", self.clock.now)
        self._evict(row)
        if role is not PodRole.REAL and self.operator is not None:
            self.operator.displaced()

    def _make_way(self, row: int) -> None:
        """A placeholder leaves for pods that come; another one is made when these are bound."""
        self.meter.count("displaced", self.clock.now)
        self.meter.count("made_way", self.clock.now)
        self.delete(row)
        if self.operator is not None:
            self.operator.displaced()

    def _refill(self, kind: PodKind) -> None:
        """What has made way is made anew."""
        self._evicting = True
        self.sets.sync(kind, self.clock.now)
        self._evicting = False

    def _evict(self, row: int) -> None:
        kind, life = self.cluster.kinds[self.cluster.kind_of[row]], self._life_left(row)
        self._remove(row, kind)
        self._evicting = True  # what is created from here on takes the evicted pod's place
        if kind.controlled:
            self.sets.sync(kind, self.clock.now)
        else:
            self.create(kind, life)
        self._evicting = False

    def _life_left(self, row: int) -> float:
        """How long the pod that takes an evicted one's place will run: a Job's work begins anew, all else goes on."""
        cluster = self.cluster
        workload = cluster.kinds[cluster.kind_of[row]].workload
        if workload >= 0 and isinstance(self.scenario.workloads[workload].arrivals, Jobs):
            return cluster.life[row]
        return max(cluster.life[row] - (self.clock.now - cluster.bound_at[row]), 1.0)

    def delete(self, row: int) -> None:
        """A ReplicaSet takes a pod away."""
        self._remove(row, self.cluster.kinds[self.cluster.kind_of[row]])

    def _remove(self, row: int, kind: PodKind) -> None:
        if kind.role is PodRole.REAL:
            self.meter.gone(row, kind, self.clock.now)
        self._forms.remove(row)
        self.cluster.remove_pod(row, self.clock.now)
        if kind.role is PodRole.REAL and self.operator is not None:
            self.operator.touch()

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add_nodes(self, group: int, count: int) -> None:
        """An autoscaler asks for nodes; each is ready after its own start-up time."""
        self.meter.count("decisions", self.clock.now)
        for _ in range(count):
            self._add_node(group)

    def _add_node(self, group: int) -> int:
        now = self.clock.now
        row = self.cluster.add_node(group, now)
        self.meter.node_added(group, now)
        took = float(self.scenario.node_groups[group].start_up.draw(self._start_ups[group], 1)[0])
        self.clock.after(took, self._ready, row)
        return row

    def _launch(self, group: int, on_ready: Callable[[], None]) -> None:
        """Karpenter's replacement: something is to happen when it is ready."""
        self.meter.count("decisions", self.clock.now)
        self._on_ready[self._add_node(group)] = on_ready

    def _ready(self, row: int) -> None:
        self.cluster.make_ready(row, self.clock.now)
        if self.operator is not None:
            group = self.scenario.node_groups[int(self.cluster.group_of[row])].name
            self.operator.objectives.node_started(self.clock.now - self.cluster.created_at[row], group)
        then = self._on_ready.pop(row, None)
        if then is not None:
            then()

    def remove_node(self, row: int, delay_seconds: float, drain_seconds: float = 0.0) -> None:
        """Taint a node; after a delay its pods are evicted, and after the time of the drain it is gone."""
        if self.cluster.state[row] != LEAVING:
            self.cluster.make_leaving(row)
        self.clock.after(delay_seconds, self._drain, (row, drain_seconds))

    def _drain(self, what: tuple[int, float]) -> None:
        row, drain_seconds = what
        now = self.clock.now
        for pod in sorted(self.cluster.pods_on[row], key=self.cluster.number.__getitem__):
            role = self.cluster.kinds[self.cluster.kind_of[pod]].role
            self.meter.count("drained" if role is PodRole.REAL else "placeholders_drained", now)
            self._evict(pod)
        if drain_seconds:
            self.clock.after(drain_seconds, self._take_away, row)
        else:
            self._take_away(row)

    def _take_away(self, row: int) -> None:
        now = self.clock.now
        self.meter.node_gone(row, now)
        self.cluster.remove_node(row)
        self._gone(row, now)

    def _on_answer(self, kind: PodKind, answer: Answer, message: str) -> None:
        if self.operator is not None:
            self.operator.observe(kind, answer, message)

    # -- time --------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let the next thing happen; False at the end."""
        more = self.clock.step()
        if self.cluster.freed:
            self.scheduler.wake()
        if self.cluster.changes != self._changes:
            self._changes = self.cluster.changes
            for rhythm in self._rhythms:
                rhythm.wake()
        return more

    def run(self, on_progress: OnProgress | None = None, *, goal: float | None = None) -> Result:
        """Run to the end, or until a goal is out of reach.

        Raises:
            OutOfReach: when fewer pods will have started at once than the goal says.
        """
        end = self.clock.end
        tell_at = 0.0
        most = None if goal is None else most_late(self.scenario, (times for times, _ in self._arrivals), goal)
        while self.step():
            if most is not None and self.meter.late > most:
                raise OutOfReach
            if on_progress is not None and self.clock.now >= tell_at:
                on_progress(self.clock.now, end)
                tell_at = self.clock.now + end / 100
        if on_progress is not None:
            on_progress(end, end)
        return self.meter.result(end, self.clock.events)


def simulate(scenario: Scenario, *, on_progress: OnProgress | None = None, goal: float | None = None) -> Result:
    """Run a scenario.

    Args:
        scenario: checked again here, for one that was not parsed from a file.
        on_progress: called with (simulated seconds, seconds in all) about a hundred times.
        goal: the run is given up once its share of pods that start at once cannot reach this any more.

    Raises:
        InvalidScenario: when the scenario cannot be run, or creates more pods than maxPods.
        OutOfReach: when it was given up.
    """
    problems = problems_of(scenario)
    if problems:
        raise InvalidScenario(problems, scenario.name)
    return Simulation(scenario).run(on_progress, goal=goal)
