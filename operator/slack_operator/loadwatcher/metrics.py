"""The load watcher's metrics: the loop sets gauges, any thread counts."""

from collections.abc import Mapping

from slack.loadwatcher.analysis import Fault
from slack.loadwatcher.payload import LoadReport, MetricType, Window
from slack.process.metric_family import Family
from slack_operator.loadwatcher import families
from slack_operator.runtime.metrics import ProcessMetrics

FETCHED, FAILED = "fetched", "failed"
READ, WRITE, PUT_ASIDE = "read", "write", "put_aside"


class LoadWatcherMetrics(ProcessMetrics):
    """All of one process."""

    def __init__(self) -> None:
        super().__init__(families.BUILD_INFO)
        self._fetches = self._counter(families.FETCHES)
        self._query_errors = self._counter(families.QUERY_ERRORS)
        self._fetch_seconds = self._gauge(families.FETCH_SECONDS)
        self._window_end = self._gauge(families.WINDOW_END)
        self._nodes = self._gauge(families.NODES)
        self._oldest = self._gauge(families.OLDEST)
        self._dropped = self._gauge(families.DROPPED)
        self._unmatched = self._gauge(families.UNMATCHED)
        self._state_errors = self._counter(families.STATE_ERRORS)
        self._requests = self._counter(families.REQUESTS)
        self._api_requests = self._counter(families.API_REQUESTS)
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
        reports: Mapping[Window, LoadReport],
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
    def families() -> tuple[Family, ...]:
        """Return all families."""
        return families.LOAD_WATCHER_FAMILIES
