"""The controller's metrics; any thread may count."""

from prometheus_client import Histogram

from slack_operator.runtime.metrics import ProcessMetrics
from slack_operator.throttler.controller import families
from slack_operator.throttler.controller.admission import Outcome

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)


class ControllerMetrics(ProcessMetrics):
    """All of one controller."""

    def __init__(self) -> None:
        super().__init__(families.CONTROLLER_BUILD_INFO)
        self._admissions = self._counter(families.ADMISSIONS)
        seconds = families.ADMISSION_SECONDS
        self._seconds = Histogram(seconds.name, seconds.help, registry=self.registry, buckets=_BUCKETS)
        self._unsupported = self._gauge(families.UNSUPPORTED)
        self._requests = self._counter(families.CONTROLLER_REQUESTS)
        for outcome in Outcome:  # so that rates see the first one
            self._admissions.labels(outcome)

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_admission(self, outcome: Outcome, seconds: float) -> None:
        """One pod was seen."""
        self._admissions.labels(outcome).inc()
        self._seconds.observe(seconds)

    def show_unsupported(self, unsupported: bool) -> None:
        """Say whether pods cannot be gated."""
        self._unsupported.set(unsupported)
