"""The controller's metrics; any thread may count."""

from slack_operator.runtime.metrics import ProcessMetrics
from slack_operator.throttler.controller import metric_definitions
from slack_operator.throttler.controller.admission import Outcome

GRANTED, OPENED, REFUSED, FAILED = PERMIT_OUTCOMES = ("granted", "opened", "refused", "failed")
EVICTED, EVICTION_NOT_NEEDED, EVICTION_BLOCKED, EVICTION_REFUSED, EVICTION_FAILED = LATE_OUTCOMES = (
    "evicted",
    "not_needed",
    "blocked",
    "refused",
    "failed",
)


class ThrottlerControllerMetrics(ProcessMetrics):
    """All of one controller."""

    def __init__(self) -> None:
        super().__init__(metric_definitions.CONTROLLER_BUILD_INFO)
        self._admissions = self._counter(metric_definitions.ADMISSIONS)
        self._seconds = self._histogram(metric_definitions.ADMISSION_SECONDS)
        self._unsupported = self._gauge(metric_definitions.UNSUPPORTED)
        self._requests = self._counter(metric_definitions.CONTROLLER_REQUESTS)
        self._leader = self._gauge(metric_definitions.CONTROLLER_LEADER)
        self._nodes = self._gauge(metric_definitions.NODES)
        self._reports = self._counter(metric_definitions.CONTROLLER_REPORTS)
        self._counted = {"taken": 0, "refused": 0}
        for outcome in self._counted:
            self._reports.labels(outcome)
        self._permits = self._counter(metric_definitions.PERMITS)
        for outcome in PERMIT_OUTCOMES:
            self._permits.labels(outcome)
        self._late_pods = self._counter(metric_definitions.LATE_PODS)
        for outcome in LATE_OUTCOMES:
            self._late_pods.labels(outcome)
        for outcome in Outcome:  # so that rates see the first one
            self._admissions.labels(outcome)

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_admission(self, outcome: Outcome, seconds: float) -> None:
        """One pod was seen."""
        self._admissions.labels(outcome).inc()
        self._seconds.observe(seconds)

    def on_permits(self, outcome: str, containers: int) -> None:
        """So many were let in, or could not be."""
        self._permits.labels(outcome).inc(containers)

    def on_late_pod(self, outcome: str) -> None:
        """One late pod was looked at."""
        self._late_pods.labels(outcome).inc()

    def show_unsupported(self, unsupported: bool) -> None:
        """Say whether pods cannot be gated."""
        self._unsupported.set(unsupported)

    def show_leader(self, leads: bool) -> None:
        """Say whether this replica leads."""
        self._leader.set(leads)

    def show_nodes(self, reporting: int, silent: int) -> None:
        """Say how many nodes have agents that report, and that do not any more."""
        self._nodes.labels("reporting").set(reporting)
        self._nodes.labels("silent").set(silent)

    def show_reports(self, taken: int, refused: int) -> None:
        """Say how many reports there were so far."""
        for outcome, count in (("taken", taken), ("refused", refused)):
            self._reports.labels(outcome).inc(max(0, count - self._counted[outcome]))
            self._counted[outcome] = count
