"""What Prometheus is told. One registry a process, made by `app`, so that two operators in a test do not meet.

prometheus-client's objects may be used from any thread; the planning loop sets the gauges.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from slack.planner.outcome import PolicyPlan

_INSTANT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
_PLAN_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class Metrics:
    """The operator's metrics."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        by_resource = ["policy", "resource"]
        self._desired = Gauge("slack_desired", "Extra capacity wanted.", by_resource, registry=registry)
        self._reserved = Gauge("slack_reserved", "Requests of bound placeholders.", by_resource, registry=registry)
        self._pending = Gauge(
            "slack_pending_placeholders", "Placeholders that are on no node.", ["policy"], registry=registry
        )
        self.displaced = Counter(
            "slack_displaced", "Placeholders that left without our doing.", ["policy", "cause"], registry=registry
        )
        self.rescues = Counter("slack_preemption_rescues", "Hanging preemptors that were freed.", registry=registry)
        self.stuck = Counter("slack_preemptions_stuck", "Preemptors that were found hanging.", registry=registry)
        self.plan_duration = Histogram(
            "slack_plan_duration_seconds", "Time of one plan.", buckets=_PLAN_BUCKETS, registry=registry
        )
        self.api_requests = Counter(
            "slack_api_requests", "Requests to the API server.", ["verb", "code"], registry=registry
        )
        self.leader = Gauge("slack_leader", "1 while this process acts.", registry=registry)
        self.instant_start = Histogram(
            "slack_instant_start_seconds",
            "From when a real pod was seen to when it had a node.",
            ["policy", "in_slack"],
            buckets=_INSTANT_BUCKETS,
            registry=registry,
        )
        self._shown: dict[str, tuple[str, ...]] = {}
        self._displaced_shown: dict[tuple[str, str], int] = {}

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self.api_requests.labels(verb, str(code)).inc()

    def show_displaced(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Bring the counter up to what the view has counted."""
        for (policy, cause), count in counts.items():
            more = count - self._displaced_shown.get((policy, cause), 0)
            if more > 0:
                self.displaced.labels(policy, cause).inc(more)
                self._displaced_shown[policy, cause] = count

    def show(self, plans: Sequence[PolicyPlan]) -> None:
        """Set the gauges of all policies; those of policies that are no more go."""
        for plan in plans:
            for gauge, vector in ((self._desired, plan.desired), (self._reserved, plan.reserved)):
                for resource, value in zip(plan.resources, vector, strict=True):
                    # cpu in cores, as everybody else's dashboards have it
                    gauge.labels(plan.policy, resource).set(value / 1000 if resource == "cpu" else int(value))
            self._pending.labels(plan.policy).set(plan.pending)
        shown = {plan.policy: plan.resources for plan in plans}
        for policy, resources in self._shown.items():
            for resource in resources:
                if resource not in shown.get(policy, ()):
                    self._desired.remove(policy, resource)
                    self._reserved.remove(policy, resource)
            if policy not in shown:
                self._pending.remove(policy)
        self._shown = shown


class WatchRestarts(Collector):
    """slack_watch_restarts_total, read from the reflectors' own counters when somebody asks."""

    def __init__(self, restarts: Callable[[], Mapping[str, int]]) -> None:
        self._restarts = restarts

    def collect(self) -> Iterable[Metric]:
        """Give one family."""
        family = CounterMetricFamily("slack_watch_restarts", "Watches that were opened anew.", labels=["path"])
        for path, count in sorted(self._restarts().items()):
            family.add_metric([path], count)
        yield family
