"""What the controller tells Prometheus. Series about the cluster exist while it leads; a standby has none of them."""

from collections import Counter as Counts
from collections.abc import Iterable

from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.sample import CgroupLevel
from slack_operator.auditor import metric_definitions
from slack_operator.auditor.controller.enforcement_state import OUTCOMES
from slack_operator.runtime.metrics import ProcessMetrics

_LEVELS = tuple(str(level) for level in CgroupLevel if level not in (CgroupLevel.NODE, CgroupLevel.OTHER))
_SEVERITIES = tuple(severity.name.lower() for severity in Severity if severity is not Severity.NONE)


class AuditControllerMetrics(ProcessMetrics):
    """The controller's metrics; any thread may count, the turn's sets the gauges."""

    def __init__(self) -> None:
        super().__init__(metric_definitions.AUDIT_BUILD_INFO)
        self._findings = self._gauge(metric_definitions.FINDINGS)
        self._nodes = self._gauge(metric_definitions.NODES)
        self._resizes = self._counter(metric_definitions.RESIZES)
        self.reports_written = self._counter(metric_definitions.REPORTS_WRITTEN)
        self.turns = self._counter(metric_definitions.TURNS)
        self._requests = self._counter(metric_definitions.AUDIT_REQUESTS)
        self.leader = self._gauge(metric_definitions.AUDIT_LEADER)
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
        counts = Counts((finding.severity.name.lower(), str(finding.window.target.level)) for finding in findings)
        for severity in _SEVERITIES:
            for level in _LEVELS:
                self._findings.labels(severity, level).set(counts[severity, level])
        self._nodes.labels("reporting").set(reporting)
        self._nodes.labels("silent").set(silent)
