"""What a process tells Prometheus with: a registry of its own, so that two in a test do not meet, and its metrics.

prometheus-client's objects may be used from any thread.
"""

from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from slack.process.metric_definition import MetricDefinition
from slack_operator.runtime.unreadable_metric import UnreadableMetric


class ProcessMetrics:
    """Metrics of one process, made of their declarations; it begins with the process's own and its version."""

    def __init__(self, build_info: MetricDefinition, *, watches: bool = True) -> None:
        # A second series beside every counter, which nobody here reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client has left its types out
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.unreadable = UnreadableMetric()
        if watches:
            self.registry.register(self.unreadable)
        self._gauge(build_info).labels(metadata.version("resource-slack")).set(1)

    def _gauge(self, definition: MetricDefinition) -> Gauge:
        return Gauge(*self._describe(definition, "gauge"), registry=self.registry)

    def _counter(self, definition: MetricDefinition) -> Counter:
        return Counter(*self._describe(definition, "counter"), registry=self.registry)

    def _histogram(self, definition: MetricDefinition) -> Histogram:
        described = self._describe(definition, "histogram")
        return Histogram(*described, registry=self.registry, buckets=definition.buckets)

    def _describe(self, definition: MetricDefinition, kind: str) -> tuple[str, str, tuple[str, ...]]:
        """Return name, help and labels; a metric is of the kind that its definition, and so its page, says."""
        assert definition.type == kind, f"{definition.name} is declared as a {definition.type}, not as a {kind}"
        return definition.name, definition.help, definition.labels
