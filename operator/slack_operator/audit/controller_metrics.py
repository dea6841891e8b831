"""What the controller tells Prometheus. Series about the cluster exist while it leads; a standby has none of them."""

from collections import Counter as Counts
from collections.abc import Iterable
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, disable_created_metrics

from slack.cfs.finding import Finding, Severity
from slack.cfs.sample import Level
from slack_operator.audit import families
from slack_operator.audit.memory import OUTCOMES
from slack_operator.families import Family

_LEVELS = tuple(str(one) for one in Level if one not in (Level.NODE, Level.OTHER))
_SEVERITIES = tuple(one.name.lower() for one in Severity if one is not Severity.NONE)


class ControllerMetrics:
    """The controller's metrics; any thread may count, the turn's sets the gauges."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client has left its types out
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._findings = self._gauge(families.FINDINGS)
        self._nodes = self._gauge(families.NODES)
        self._resizes = self._counter(families.RESIZES)
        self.reports_written = self._counter(families.REPORTS_WRITTEN)
        self.turns = self._counter(families.TURNS)
        self._requests = self._counter(families.AUDIT_REQUESTS)
        self.leader = self._gauge(families.AUDIT_LEADER)
        self._gauge(families.AUDIT_BUILD_INFO).labels(metadata.version("resource-slack")).set(1)
        for outcome in OUTCOMES:  # so that rates see the first one
            self._resizes.labels(outcome)

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_resize(self, outcome: str) -> None:
        """One resize had an outcome."""
        self._resizes.labels(outcome).inc()

    def show(self, findings: Iterable[Finding], *, reporting: int, silent: int) -> None:
        """Set what the cluster is like now."""
        counts = Counts((one.severity.name.lower(), str(one.window.target.level)) for one in findings)
        for severity in _SEVERITIES:
            for level in _LEVELS:
                self._findings.labels(severity, level).set(counts[severity, level])
        self._nodes.labels("reporting").set(reporting)
        self._nodes.labels("silent").set(silent)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def _counter(self, family: Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)
