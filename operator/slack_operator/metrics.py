"""What Prometheus is told. One registry a process, made by `app`, so that two operators in a test do not meet.

prometheus-client's objects may be used from any thread; the planning loop sets the gauges. A policy's series begin with
its first plan, counters at 0 so that rates see the first event, and go with it. A standby has none of them: figures
that nobody keeps up would look as if it led.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from slack.cluster.snapshot import CPU, MEMORY
from slack.planner.outcome import Condition, PolicyPlan
from slack_operator import families
from slack_operator.displaced import DELETED, OVERCOMMITTED, PREEMPTED, UNSEEN
from slack_operator.families import Family
from slack_operator.status import PREEMPTION_STUCK, VIEW_STALE

_INSTANT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
_PLAN_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_LAG_BUCKETS = (0.25, 0.5, 1, 2, 5, 10, 30, 60)
_STATUSES = {True: "true", False: "false"}
KNOWN_CAUSES = frozenset(
    {
        PREEMPTED,
        DELETED,
        OVERCOMMITTED,
        UNSEEN,
        "EvictionByEvictionAPI",
        "DeletionByTaintManager",
        "DeletionByPodGC",
        "TerminationByKubelet",
    }
)
"""Ours, and the reasons that Kubernetes gives for a disruption; any other counts as `Other`: labels stay finite."""
OTHER_CAUSE = "Other"


def described() -> list[Family]:
    """Return name, type, labels, unit and help of every metric of the operator's own."""
    return list(families.FAMILIES)


class Metrics:
    """The operator's metrics."""

    def __init__(self) -> None:
        # A second series beside every counter, which nobody here reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client has left its types out
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._desired = (self._gauge(families.DESIRED_CPU), self._gauge(families.DESIRED_MEMORY))
        self._reserved = (self._gauge(families.RESERVED_CPU), self._gauge(families.RESERVED_MEMORY))
        self._extended = (self._gauge(families.DESIRED_EXTENDED), self._gauge(families.RESERVED_EXTENDED))
        self._bound = self._gauge(families.BOUND)
        self._pending = self._gauge(families.PENDING)
        self._coverage = self._gauge(families.COVERAGE)
        self._condition = self._gauge(families.CONDITION)
        self._dry_run = self._gauge(families.DRY_RUN)
        self._displaced = self._counter(families.DISPLACED)
        self._instant_start = self._histogram(families.INSTANT_START, _INSTANT_BUCKETS)
        self.stuck = self._counter(families.STUCK)
        self.rescues = self._counter(families.RESCUES)
        self.plan_duration = self._histogram(families.PLAN_DURATION, _PLAN_BUCKETS)
        self.plan_timestamp = self._gauge(families.PLAN_TIMESTAMP)
        self.plan_interval = self._gauge(families.PLAN_INTERVAL)
        self.loop_lag = self._histogram(families.LOOP_LAG, _LAG_BUCKETS)
        self.api_requests = self._counter(families.API_REQUESTS)
        self.leader = self._gauge(families.LEADER)
        self._gauge(families.BUILD_INFO).labels(metadata.version("resource-slack")).set(1)
        self._by_policy = (
            *self._desired,
            *self._reserved,
            *self._extended,
            self._bound,
            self._pending,
            self._coverage,
            self._condition,
            self._dry_run,
            self._displaced,
            self._instant_start,
        )
        self._extended_shown: dict[str, set[str]] = {}
        self._shown: set[str] = set()
        self._displaced_shown: dict[tuple[str, str], int] = {}

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self.api_requests.labels(verb, str(code)).inc()

    def started(self, policy: str, seconds: float, *, in_slack: bool) -> None:
        """A real pod got its node."""
        self._begin(policy)
        self._instant_start.labels(policy, _STATUSES[in_slack]).observe(seconds)

    def show_displaced(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Bring the counter up to what the view has counted."""
        for (policy, cause), count in counts.items():
            more = count - self._displaced_shown.get((policy, cause), 0)
            if more > 0 and policy in self._shown:
                self._displaced.labels(policy, cause if cause in KNOWN_CAUSES else OTHER_CAUSE).inc(more)
                self._displaced_shown[policy, cause] = count

    def show(self, plans: Sequence[PolicyPlan]) -> None:
        """Set the figures of the policies that were planned."""
        for plan in plans:
            name = plan.policy
            self._begin(name)
            for (cpu, memory), vector in ((self._desired, plan.desired), (self._reserved, plan.reserved)):
                cpu.labels(name).set(int(vector[CPU]) / 1000)
                memory.labels(name).set(int(vector[MEMORY]))
            self._show_extended(plan)
            self._bound.labels(name).set(sum(shape.bound for shape in plan.shapes))
            self._pending.labels(name).set(plan.pending)
            self._coverage.labels(name).set(plan.covered_share)
            self._dry_run.labels(name).set(plan.dry_run)

    def show_conditions(self, policy: str, conditions: Iterable[Condition]) -> None:
        """Set a policy's conditions; of two with one type the later holds.

        Those that stand in status only once they have been true, ViewStale and PreemptionStuck, are false otherwise.
        """
        self._shown.add(policy)
        for kind, status in {
            VIEW_STALE: False,
            PREEMPTION_STUCK: False,
            **{str(one.type): one.status for one in conditions},
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
            for key in [key for key in self._displaced_shown if key[0] == policy]:
                del self._displaced_shown[key]
            self._shown.discard(policy)

    def _begin(self, policy: str) -> None:
        """Counters begin at 0: a series whose first sample is 1 has a rate of nothing."""
        self._shown.add(policy)
        self._displaced.labels(policy, PREEMPTED)
        for in_slack in _STATUSES.values():
            self._instant_start.labels(policy, in_slack)

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

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _histogram(self, family: Family, buckets: Sequence[float]) -> Histogram:
        return Histogram(family.name, family.help, family.labels, registry=self.registry, buckets=buckets)


class WatchRestarts(Collector):
    """slack_watch_restarts_total, read from the reflectors' own counters when somebody asks."""

    def __init__(self, restarts: Callable[[], Mapping[str, int]]) -> None:
        self._restarts = restarts

    def collect(self) -> Iterable[Metric]:
        """Give one family."""
        declared = families.WATCH_RESTARTS
        family = CounterMetricFamily(declared.name, declared.help, labels=declared.labels)
        for path, count in sorted(self._restarts().items()):
            family.add_metric([path], count)
        yield family
