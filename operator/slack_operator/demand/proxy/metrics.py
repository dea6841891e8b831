"""The proxy's metrics: counted as messages go by."""

from slack.process.metric_definition import BUILD_INFO
from slack_operator.demand.proxy import metric_definitions
from slack_operator.demand.proxy.counts import ProxyCounts
from slack_operator.runtime.metrics import ProcessMetrics


class ProxyMetrics(ProcessMetrics):
    """All of one proxy."""

    def __init__(self, slots: int) -> None:
        super().__init__(BUILD_INFO, watches=False)
        self._wait = self._histogram(metric_definitions.WAIT)
        self._run = self._histogram(metric_definitions.RUN)
        runs = self._counter(metric_definitions.RUNS)
        self._acked, self._given_back = runs.labels("acked"), runs.labels("given_back")
        self._busy = self._gauge(metric_definitions.BUSY)
        self._gauge(metric_definitions.SLOTS).set(slots)

    def follow(self, counts: ProxyCounts) -> None:
        """Have a scrape ask for what is busy."""
        self._busy.set_function(lambda: float(counts.busy))

    def on_wait(self, seconds: float) -> None:
        """A message waited so long."""
        self._wait.observe(seconds)

    def on_run(self, seconds: float, done: bool) -> None:
        """A run took so long."""
        self._run.observe(seconds)
        (self._acked if done else self._given_back).inc()
