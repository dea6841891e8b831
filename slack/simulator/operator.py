"""The operator: plans with the very planner, every interval and soon after a relevant change, and carries plans out.

As slack_operator.loop and .decide, without the API between: victims get a deletion cost and `replicas` is lowered in
one step; lowering comes before raising. Words are what the modelled autoscaler said of the placeholders' kinds.
"""

from slack.planner.kept import Kept
from slack.planner.manifests import PRIORITY, replica_set_name
from slack.planner.outcome import Answer, AutoscalerWord, ExistingShape, Memory, PolicyPlan, ShapePlan
from slack.planner.plan import plan
from slack.planner.shape import Role as ShapeRole
from slack.simulator.clock import Clock
from slack.simulator.kinds import Kind, Role
from slack.simulator.meter import Meter
from slack.simulator.replicaset import ReplicaSets
from slack.simulator.scenario import Policies, Scenario
from slack.simulator.state import Cluster
from slack.simulator.view import View

_KEEP_SECONDS = 3600.0
"""slack_operator.words.KEEP_SECONDS: as long as Events are kept."""
_LOWEST_COST = -1000
"""slack_operator.decide.LOWEST_COST"""
_STILL_SECONDS = 60.0
"""Where nothing has changed at all, only waits can end: it is enough to plan so often (a model's saving)."""


class Operator:
    """The loop and its memory."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        clock: Clock,
        view: View,
        sets: ReplicaSets,
        meter: Meter,
        epoch: float,
    ) -> None:
        assert isinstance(scenario.slack, Policies)
        self._settings = scenario.operator
        self._policies = scenario.slack.planned()
        self._priorities = scenario.slack.priorities
        self._class_of = {p.name: p.spec.priority_class_name for p in self._policies}
        self._cluster = cluster
        self._clock = clock
        self._view = view
        self._sets = sets
        self._meter = meter
        self._epoch = epoch
        self._existing: dict[int, ExistingShape] = {}
        self._words: dict[int, AutoscalerWord] = {}
        self._memory: Memory = {}
        self._kept = Kept()
        self._planned_at = (0, 0)
        self._last = -1.0
        self._seen: tuple[int, ...] = ()
        self._looked = 0.0
        self._due = float("inf")

    def start(self) -> None:
        """Plan at once, and every interval from then on."""
        self._tick(None)

    def hear(self, kind: Kind, answer: Answer, message: str) -> None:
        """Take what the autoscaler says of a kind."""
        if kind.role is Role.PLACEHOLDER and kind.shape is not None:
            name = replica_set_name(kind.policy, kind.shape)
            self._words[kind.index] = AutoscalerWord(name, answer, message, self._epoch + self._clock.now)

    def touch(self) -> None:
        """Real pods have come or gone: plan soon when that is enough to matter."""
        asked = self._cluster.asked_total[Role.REAL]
        for column in (0, 1):
            before = self._planned_at[column]
            if abs(asked[column] - before) > self._settings.relevant_change * before:
                at = max(self._clock.now, self._last) + self._settings.debounce_seconds
                if at < self._due:
                    self._due = at
                    self._clock.at(at, self._debounced, at)
                return

    def _debounced(self, at: float) -> None:
        if at == self._due:
            self._due = float("inf")
            self._turn()

    def _tick(self, _: object) -> None:
        self._turn()
        self._clock.after(self._settings.interval.total_seconds(), self._tick)

    def _turn(self) -> None:
        cluster = self._cluster
        now = self._clock.now
        self._last = now
        seen = (cluster.created_total, cluster.room_version, cluster.placeholder_version, cluster.node_version)
        if seen == self._seen and now - self._looked < _STILL_SECONDS:
            return
        self._seen, self._looked = seen, now
        self._planned_at = (cluster.asked_total[Role.REAL][0], cluster.asked_total[Role.REAL][1])
        result = plan(
            self._view.snapshot(now),
            self._policies,
            now=self._epoch + now,
            existing=list(self._existing.values()),
            words=self._heard(now),
            memory=self._memory,
            default_rate=self._settings.default_rate,
            priorities=self._priorities,
            kept=self._kept,
        )
        self._memory = result.memory
        self._meter.count("plans", now)
        for item in result.items:
            if item.act:
                self._carry_out(item, now)

    def _heard(self, now: float) -> list[AutoscalerWord]:
        oldest = self._epoch + now - _KEEP_SECONDS
        self._words = {
            k: word for k, word in self._words.items() if k in self._existing and word.seen_seconds >= oldest
        }
        return [self._words[k] for k in sorted(self._words)]

    def _carry_out(self, item: PolicyPlan, now: float) -> None:
        name = self._class_of[item.policy]
        priority = self._priorities.get(name, PRIORITY)
        kinds = [(self._cluster.kinds.of_shape(item.policy, shape.shape, priority), shape) for shape in item.shapes]
        for lowering in (True, False):
            for kind, shape in kinds:
                there = self._existing.get(kind.index)
                before = there.replicas if there is not None else 0
                if (shape.replicas < before) is lowering:
                    self._write(kind, shape, item.policy, shape.role, now)
        for kind, shape in kinds:
            if not shape.replicas and not shape.count and not self._cluster.pods_of.get(kind.index):
                self._existing.pop(kind.index, None)

    def _write(self, kind: Kind, shape: ShapePlan, policy: str, role: ShapeRole, now: float) -> None:
        wanted = ExistingShape(policy, shape.shape, role, shape.replicas, shape.retiring)
        there = self._existing.get(kind.index)
        if there == wanted or (there is None and not shape.replicas):
            return
        self._existing[kind.index] = wanted
        if there is not None and shape.replicas < there.replicas:
            victims = {int(name.rpartition("-")[2]): rank for rank, name in enumerate(shape.victims)}
            for pod in self._cluster.pods_of.get(kind.index, {}):
                rank = victims.get(self._cluster.number[pod])
                if rank is not None:
                    self._cluster.cost[pod] = _LOWEST_COST + rank
        self._sets.scale(kind, shape.replicas, now)
