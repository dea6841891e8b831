"""The load watcher's metrics: the loop sets gauges, any thread counts."""

from collections.abc import Mapping

from slack.loadwatcher.analysis import Fault
from slack.loadwatcher.payload import LoadReport, MetricType, RollupWindow
from slack.process.metric_definition import MetricDefinition
from slack_operator.loadwatcher import metric_definitions
from slack_operator.runtime.metrics import ProcessMetrics

FETCHED, FAILED = "fetched", "failed"
READ, WRITE, PUT_ASIDE = "read", "write", "put_aside"


class LoadWatcherMetrics(ProcessMetrics):
    """All of one process."""

    def __init__(self) -> None:
        super().__init__(metric_definitions.BUILD_INFO)
        self._fetches = self._counter(metric_definitions.FETCHES)
        self._query_errors = self._counter(metric_definitions.QUERY_ERRORS)
        self._fetch_seconds = self._gauge(metric_definitions.FETCH_SECONDS)
        self._window_end = self._gauge(metric_definitions.WINDOW_END)
        self._nodes = self._gauge(metric_definitions.NODES)
        self._oldest = self._gauge(metric_definitions.OLDEST)
        self._dropped = self._gauge(metric_definitions.DROPPED)
        self._unmatched = self._gauge(metric_definitions.UNMATCHED)
        self._state_errors = self._counter(metric_definitions.STATE_ERRORS)
        self._requests = self._counter(metric_definitions.REQUESTS)
        self._api_requests = self._counter(metric_definitions.API_REQUESTS)
        for outcome in (FETCHED, FAILED):  # so that rates see the first one
            self._fetches.labels(outcome)
        for kind in MetricType:
            self._query_errors.labels(kind.value)
        for operation in (READ, WRITE, PUT_ASIDE):
            self._state_errors.labels(operation)
        for fault in Fault:
            self._dropped.labels(fault.value)

    def on_fetch(self, outcome: str, seconds: float) -> None:
        """One fetch ended."""
        self._fetches.labels(outcome).inc()
        self._fetch_seconds.set(seconds)

    def on_query_error(self, kind: str) -> None:
        """One question got no answer."""
        self._query_errors.labels(kind).inc()

    def on_state_error(self, operation: str) -> None:
        """The state file made trouble."""
        self._state_errors.labels(operation).inc()

    def on_reply(self, status: int) -> None:
        """One request was answered."""
        self._requests.labels(str(status)).inc()

    def on_api_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._api_requests.labels(verb, str(code)).inc()

    def show(
        self,
        reports: Mapping[RollupWindow, LoadReport],
        *,
        dropped: Mapping[Fault, int],
        nodes: Mapping[str, int],
        unmatched: int,
        oldest_seconds: float,
    ) -> None:
        """Set what the last fetch came to."""
        for window, report in reports.items():
            self._window_end.labels(window.value).set(report.window.end)
        for fault, count in dropped.items():
            self._dropped.labels(fault.value).set(count)
        for state, count in nodes.items():
            self._nodes.labels(state).set(count)
        self._unmatched.set(unmatched)
        self._oldest.set(oldest_seconds)

    @staticmethod
    def families() -> tuple[MetricDefinition, ...]:
        """Return all families."""
        return tuple(metric_definitions.LOAD_WATCHER_FAMILIES)
