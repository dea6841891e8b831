"""What Prometheus is told of placeholders. Made by `app`.

Any thread may count; the planning loop sets the gauges. A policy's series begin with its first plan, counters at 0 so
that rates see the first event, and go with it. A standby has none of them: figures that nobody keeps up would look as
if it led.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from slack.cluster.snapshot import CPU, MEMORY, IntArray
from slack.health.states import slack_state
from slack.planner.model.cost import PlanCost
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.objective.amount import SizingReason
from slack.planner.objects.drift import OwnedField
from slack.process.metric_definition import BUILD_INFO, MetricDefinition
from slack.schema.conditions import StatusCondition, is_trouble
from slack_operator.learning.history_store import HISTORY_LOST
from slack_operator.placeholders.conditions import (
    OWNERSHIP_CONTESTED,
    PLACEHOLDERS_CHANGED,
    PREEMPTION_STUCK,
    VIEW_STALE,
)
from slack_operator.placeholders.report import metric_definitions
from slack_operator.placeholders.view.displaced import DELETED, MADE_WAY, OVERCOMMITTED, PREEMPTED, RESIZED, UNSEEN
from slack_operator.placeholders.view.failures import CAUSES, ENDED_BY_KUBELET
from slack_operator.placeholders.view.ready_starts import ReadyStart
from slack_operator.runtime.metrics import ProcessMetrics

_STAGES = ("bound", "image", "started", "ready")
_WARM_RESULTS = frozenset(
    {
        "Pulled",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "DeadlineExceeded",
        "WarmRefused",
    }
)
_WAY_CAUSES = ("pods", "promise", "growth")
_STATUSES = {True: "true", False: "false"}
KNOWN_CAUSES = frozenset(
    {
        PREEMPTED,
        RESIZED,
        DELETED,
        MADE_WAY,
        OVERCOMMITTED,
        UNSEEN,
        "EvictionByEvictionAPI",
        "DeletionByTaintManager",
        "DeletionByPodGC",
        ENDED_BY_KUBELET,
        *CAUSES,
    }
)
"""Ours, and the reasons that Kubernetes gives for a disruption; any other counts as `Other`: labels stay finite."""
OTHER_CAUSE = "Other"
_PARTS_OF_A_POLICY = tuple(part for part in OwnedField if part is not OwnedField.GLOBAL_DEFAULT)
_USUAL_FAILURES = ("Evicted", ENDED_BY_KUBELET, "NodeShutdown", "OutOfcpu", "OutOfmemory", "OutOfpods")


def described() -> list[MetricDefinition]:
    """Return name, type, labels, unit and help of every metric of the operator's own."""
    return list(metric_definitions.FAMILIES)


class Metrics(ProcessMetrics):
    """The operator's metrics."""

    def __init__(self) -> None:
        super().__init__(BUILD_INFO)
        self._desired = (self._gauge(metric_definitions.DESIRED_CPU), self._gauge(metric_definitions.DESIRED_MEMORY))
        self._reserved = (self._gauge(metric_definitions.RESERVED_CPU), self._gauge(metric_definitions.RESERVED_MEMORY))
        self._extended = (
            self._gauge(metric_definitions.DESIRED_EXTENDED),
            self._gauge(metric_definitions.RESERVED_EXTENDED),
        )
        self._bound = self._gauge(metric_definitions.BOUND)
        self._pending = self._gauge(metric_definitions.PENDING)
        self._low_priority = (
            self._gauge(metric_definitions.LOW_PRIORITY_CPU),
            self._gauge(metric_definitions.LOW_PRIORITY_MEMORY),
        )
        self._buffered = (
            self._gauge(metric_definitions.BUFFERED_CPU),
            self._gauge(metric_definitions.BUFFERED_MEMORY),
        )
        self._add_policy_gauges()
        self._add_buffer_gauges()
        self._add_events()
        self._add_objective_gauges()
        self._add_process_metrics()
        self._by_policy = self._metrics_by_policy()
        self._extended_shown: dict[str, set[str]] = {}
        self._shown: set[str] = set()
        self._begun: set[str] = set()
        self._displaced_shown: dict[tuple[str, str], int] = {}
        self._failed_shown: dict[tuple[str, str], int] = {}

    def _add_policy_gauges(self) -> None:
        self._coverage = self._gauge(metric_definitions.COVERAGE)
        self._condition = self._gauge(metric_definitions.CONDITION)
        self._hold = self._gauge(metric_definitions.HOLD)
        self._cost = self._gauge(metric_definitions.COST_PER_HOUR)
        self._cost_nodes = self._gauge(metric_definitions.COST_NODES)
        self._spared = self._gauge(metric_definitions.SPARED_SECONDS)
        self._dry_run = self._gauge(metric_definitions.DRY_RUN)
        self._ceiling_reached = self._gauge(metric_definitions.CEILING_REACHED)
        self._more_than_doubles = self._gauge(metric_definitions.MORE_THAN_DOUBLES)

    def _add_buffer_gauges(self) -> None:
        self._buffers = self._gauge(metric_definitions.BUFFERS)
        self._chunks = self._gauge(metric_definitions.BUFFER_CHUNKS)
        self._buffer_server = self._gauge(metric_definitions.BUFFER_SERVER)

    def show_buffers(self, server: str, states: Mapping[str, int], wanted: int, fitting: int) -> None:
        """Show what serving CapacityBuffers has come to.

        Args:
            server: who else serves.
            states: how many buffers there are, by reason.
            wanted: chunks.
            fitting: of these.
        """
        self._buffer_server.clear()
        self._buffer_server.labels(server).set(1)
        self._buffers.clear()
        for reason, count in states.items():
            self._buffers.labels(reason).set(count)
        self._chunks.labels("wanted").set(wanted)
        self._chunks.labels("fitting").set(fitting)

    def _add_events(self) -> None:
        """Declare what is counted or timed for a policy."""
        self._displaced = self._counter(metric_definitions.DISPLACED)
        self._made_way = self._counter(metric_definitions.MADE_WAY)
        self._in_vain = self._counter(metric_definitions.MADE_WAY_IN_VAIN)
        self._making_way = self._histogram(metric_definitions.MAKING_WAY)
        self._failed = self._counter(metric_definitions.FAILED)

    def _add_objective_gauges(self) -> None:
        self._objective = self._gauge(metric_definitions.OBJECTIVE)
        self._objective_reached = self._gauge(metric_definitions.OBJECTIVE_REACHED)
        self._objective_late = self._gauge(metric_definitions.OBJECTIVE_LATE)
        self._objective_window = self._gauge(metric_definitions.OBJECTIVE_WINDOW)
        self._objective_price = self._gauge(metric_definitions.OBJECTIVE_PRICE)
        self._of_objectives = (
            self._objective,
            self._objective_reached,
            self._objective_late,
            self._objective_window,
            self._objective_price,
        )

    def _add_process_metrics(self) -> None:
        """Declare what is measured for all policies together, and starts and rescues."""
        self._instant_start = self._histogram(metric_definitions.INSTANT_START)
        self._time_to_ready = self._histogram(metric_definitions.TIME_TO_READY)
        self._image_pull = self._histogram(metric_definitions.IMAGE_PULL)
        self._pulled_bytes = self._counter(metric_definitions.IMAGE_PULLED_BYTES)
        self._warm_pulls = self._counter(metric_definitions.WARM_PULLS)
        self._warm_bytes = self._counter(metric_definitions.WARM_PULLED_BYTES)
        self.stuck = self._counter(metric_definitions.STUCK)
        self.rescues = self._counter(metric_definitions.RESCUES)
        self._taken_back = self._counter(metric_definitions.TAKEN_BACK)
        self.plan_duration = self._histogram(metric_definitions.PLAN_DURATION)
        self.plan_timestamp = self._gauge(metric_definitions.PLAN_TIMESTAMP)
        self.plan_interval = self._gauge(metric_definitions.PLAN_INTERVAL)
        self.loop_lag = self._histogram(metric_definitions.LOOP_LAG)
        self.api_requests = self._counter(metric_definitions.API_REQUESTS)
        self.leader = self._gauge(metric_definitions.LEADER)

    def _metrics_by_policy(self) -> tuple[Gauge | Counter | Histogram, ...]:
        """List all metrics with a series per policy: these series go with the policy."""
        return (
            *self._desired,
            *self._reserved,
            *self._extended,
            self._bound,
            self._pending,
            *self._low_priority,
            *self._buffered,
            self._coverage,
            self._condition,
            self._hold,
            self._cost,
            self._cost_nodes,
            self._spared,
            self._dry_run,
            self._ceiling_reached,
            self._more_than_doubles,
            self._displaced,
            self._made_way,
            self._in_vain,
            self._making_way,
            self._failed,
            self._taken_back,
            self._instant_start,
            self._time_to_ready,
            self._image_pull,
            self._pulled_bytes,
            self._warm_pulls,
            self._warm_bytes,
            *self._of_objectives,
        )

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self.api_requests.labels(verb, str(code)).inc()

    def image_pulled_ahead(self, policy: str, result: str, size_bytes: int) -> None:
        """A pull of spec.warm has ended; one whose policy is no more counts for nobody."""
        if policy in self._begun:
            self._warm_pulls.labels(policy, result if result in _WARM_RESULTS else OTHER_CAUSE).inc()
            self._warm_bytes.labels(policy).inc(size_bytes)

    def started(self, policy: str, seconds: float, *, in_slack: bool) -> None:
        """A real pod got its node."""
        self._begin(policy)
        self._instant_start.labels(policy, _STATUSES[in_slack]).observe(seconds)

    def became_ready(self, policy: str, found: ReadyStart) -> None:
        """A real pod became Ready."""
        self._begin(policy)
        stages = (found.start.waited_seconds, found.image_seconds, found.started_seconds, found.ready_seconds)
        for stage, seconds in zip(_STAGES, stages, strict=True):
            if seconds is not None:
                self._time_to_ready.labels(policy, stage).observe(seconds)
        if found.pull_seconds > 0:
            self._image_pull.labels(policy).observe(found.pull_seconds)
            self._pulled_bytes.labels(policy).inc(found.pulled_bytes)

    def took_back(self, policy: str, part: str) -> None:
        """Count what was taken back from somebody else; '' for what belongs to no policy."""
        if policy:
            self._shown.add(policy)  # of a policy that is gone the series goes with the next `keep_only`
        self._taken_back.labels(policy, part).inc()

    def made_way(self, policy: str, cause: str, count: int, *, in_vain: int, seconds: float) -> None:
        """A burst is over for which placeholders of a policy made way."""
        if policy in self._shown:
            self._made_way.labels(policy, cause).inc(count)
            self._in_vain.labels(policy).inc(in_vain)
            self._making_way.labels(policy).observe(seconds)

    def show_displaced(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Bring the counter up to what the view has counted."""
        for (policy, cause), count in counts.items():
            more = count - self._displaced_shown.get((policy, cause), 0)
            if more > 0 and policy in self._shown:
                self._displaced.labels(policy, cause if cause in KNOWN_CAUSES else OTHER_CAUSE).inc(more)
                self._displaced_shown[policy, cause] = count

    def show_failed(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Bring the counter of failed placeholders up to what the view has counted."""
        for (policy, cause), count in counts.items():
            more = count - self._failed_shown.get((policy, cause), 0)
            if more > 0 and policy in self._shown:
                self._failed.labels(policy, cause).inc(more)
                self._failed_shown[policy, cause] = count

    def show(self, plans: Sequence[PolicyPlan]) -> None:
        """Set the figures of the policies that were planned."""
        for plan in plans:
            name = plan.policy
            self._begin(name)
            for (cpu, memory), vector in ((self._desired, plan.desired), (self._reserved, plan.reserved)):
                cpu.labels(name).set(int(vector[CPU]) / 1000)
                memory.labels(name).set(int(vector[MEMORY]))
            _show_amount(self._low_priority, name, plan.low_priority)
            _show_amount(self._buffered, name, plan.buffered)
            self._show_extended(plan)
            self._show_objective(name, plan.why)
            self._show_cost(name, plan.reserved_cost)
            self._bound.labels(name).set(sum(shape.bound for shape in plan.shapes))
            self._pending.labels(name).set(plan.pending)
            self._coverage.labels(name).set(plan.covered_share)
            self._dry_run.labels(name).set(plan.dry_run)
            said = ((str(c.type), c.reason, is_trouble(str(c.type), str(c.status))) for c in plan.conditions)
            self._ceiling_reached.labels(name).set(slack_state(said).name == "CeilingReached")
            self._more_than_doubles.labels(name).set(any(c.reason == "MoreThanDoubles" for c in plan.conditions))

    def show_conditions(self, policy: str, conditions: Iterable[StatusCondition]) -> None:
        """Set a policy's conditions; of two with one type the later holds.

        Those that stand in status only once they have been true (ViewStale and those of the operator) are
        false otherwise.
        """
        self._shown.add(policy)
        for kind, status in {
            VIEW_STALE: False,
            PREEMPTION_STUCK: False,
            OWNERSHIP_CONTESTED: False,
            PLACEHOLDERS_CHANGED: False,
            HISTORY_LOST: False,
            str(ConditionType.LARGE_SLACK): False,
            **{str(condition.type): condition.status for condition in conditions},
        }.items():
            self._set_condition(policy, kind, status)

    def show_stale(self) -> None:
        """The view is not whole: say so of every policy that is shown; its other figures are those of the last plan."""
        for policy in self._shown:
            self._set_condition(policy, VIEW_STALE, True)

    def keep_only(self, policies: Iterable[str]) -> None:
        """Take away what is shown of policies that are no more; of all, on a standby."""
        for policy in self._shown.difference(policies):
            for metric in self._by_policy:
                metric.remove_by_labels({"policy": policy})
            self._extended_shown.pop(policy, None)
            for shown in (self._displaced_shown, self._failed_shown):
                for key in [key for key in shown if key[0] == policy]:
                    del shown[key]
            self._shown.discard(policy)
            self._begun.discard(policy)

    def _begin(self, policy: str) -> None:
        """Counters begin at 0: a series whose first sample is 1 has a rate of nothing."""
        self._shown.add(policy)
        if policy in self._begun:
            return
        self._begun.add(policy)
        self._displaced.labels(policy, PREEMPTED)
        self._displaced.labels(policy, MADE_WAY)
        for cause in _WAY_CAUSES:
            self._made_way.labels(policy, cause)
        self._in_vain.labels(policy)
        for part in _PARTS_OF_A_POLICY:
            self._taken_back.labels(policy, part)
        for cause in _USUAL_FAILURES:
            self._failed.labels(policy, cause)
        for in_slack in _STATUSES.values():
            self._instant_start.labels(policy, in_slack)
        for stage in _STAGES:
            self._time_to_ready.labels(policy, stage)
        self._image_pull.labels(policy)
        self._pulled_bytes.labels(policy)
        for result in ("Pulled", "ErrImagePull"):
            self._warm_pulls.labels(policy, result)
        self._warm_bytes.labels(policy)

    def _show_objective(self, policy: str, why: SizingReason | None) -> None:
        if why is None:
            for metric in self._of_objectives:
                metric.remove_by_labels({"policy": policy})
            return
        figures = (why.objective, why.share_today, why.late_today, why.window_seconds, why.price_per_hour)
        for metric, figure in zip(self._of_objectives, figures, strict=True):
            if figure is None:
                metric.remove_by_labels({"policy": policy})
            else:
                metric.labels(policy).set(figure)

    def _show_cost(self, name: str, cost: PlanCost | None) -> None:
        if cost is None or cost.per_hour is None:
            self._cost.remove_by_labels({"policy": name})
        else:
            self._cost.labels(name, cost.currency).set(cost.per_hour)
        if cost is None:
            self._cost_nodes.remove_by_labels({"policy": name})
        else:
            self._cost_nodes.labels(name).set(cost.nodes)

    def show_hold(self, policy: str, form: str, reason: str) -> None:
        """Set the form of a policy's placeholders."""
        self._hold.remove_by_labels({"policy": policy})
        self._hold.labels(policy, form, reason).set(1)

    def show_spared(self, policy: str, seconds: float) -> None:
        """Set what a policy's slack spared on its last day."""
        self._spared.labels(policy).set(seconds)

    def _show_extended(self, plan: PolicyPlan) -> None:
        amounts = {
            resource: (int(desired), int(reserved))
            for resource, desired, reserved in zip(plan.resources, plan.desired, plan.reserved, strict=True)
            if resource not in ("cpu", "memory") and (desired or reserved)
        }
        for resource, values in amounts.items():
            for gauge, value in zip(self._extended, values, strict=True):
                gauge.labels(plan.policy, resource).set(value)
        for resource in self._extended_shown.get(plan.policy, set()).difference(amounts):
            for gauge in self._extended:
                gauge.remove(plan.policy, resource)
        self._extended_shown[plan.policy] = set(amounts)

    def _set_condition(self, policy: str, kind: str, status: bool) -> None:
        for value, text in _STATUSES.items():
            self._condition.labels(policy, kind, text).set(value is status)


class WatchRestarts(Collector):
    """slack_watch_restarts_total, read from the reflectors' own counters when somebody asks."""

    def __init__(self, restarts: Callable[[], Mapping[str, int]]) -> None:
        self._restarts = restarts

    def collect(self) -> Iterable[Metric]:
        """Give one family."""
        declared = metric_definitions.WATCH_RESTARTS
        family = CounterMetricFamily(declared.name, declared.help, labels=declared.labels)
        for path, count in sorted(self._restarts().items()):
            family.add_metric([path], count)
        yield family


def _show_amount(metrics: tuple[Gauge, Gauge], policy: str, amount: IntArray | None) -> None:
    """Set a policy's cpu and memory; without an amount there is no series."""
    if amount is None:
        for metric in metrics:
            metric.remove_by_labels({"policy": policy})
        return
    cpu, memory = metrics
    cpu.labels(policy).set(int(amount[CPU]) / 1000)
    memory.labels(policy).set(int(amount[MEMORY]))
