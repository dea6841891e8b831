"""The agent's metrics: its loop counts, a scrape looks at what is there."""

from collections.abc import Collection, Sequence

from slack.process.metric_definition import BUILD_INFO
from slack.process.reporting.posting import OUTCOMES
from slack_operator.runtime.metrics import ProcessMetrics
from slack_operator.throttler.agent import metric_definitions
from slack_operator.throttler.agent.grant_coordinator import TickOutcome
from slack_operator.throttler.agent.start_counts import CurrentStarts

FIGURES = ("load1", "cpu", "cpu_pressure", "io_pressure")


class AgentMetrics(ProcessMetrics):
    """All of one agent."""

    def __init__(self) -> None:
        super().__init__(BUILD_INFO)
        self._containers = self._gauge(metric_definitions.CONTAINERS)
        self._slots = self._gauge(metric_definitions.SLOTS)
        self._taken = self._gauge(metric_definitions.SLOTS_TAKEN)
        self._policy_known = self._gauge(metric_definitions.POLICY_KNOWN)
        self._blind = self._gauge(metric_definitions.BLIND)
        self._grants = self._counter(metric_definitions.GRANTS)
        self._timed_out = self._counter(metric_definitions.TIMED_OUT)
        self._opened = self._counter(metric_definitions.OPENED)
        self._wait = self._histogram(metric_definitions.WAIT)
        self._start = self._histogram(metric_definitions.START)
        self._gates = self._gauge(metric_definitions.GATES)
        self._refused = self._counter(metric_definitions.REFUSED)
        self._journal_errors = self._counter(metric_definitions.JOURNAL_ERRORS)
        self._unknown = self._gauge(metric_definitions.UNKNOWN)
        self._api_requests = self._counter(metric_definitions.API_REQUESTS)
        self._reports = self._counter(metric_definitions.REPORTS)
        for outcome in OUTCOMES:
            self._reports.labels(outcome)
        self._seen = {"refused": 0}
        for forced in ("true", "false"):  # so that rates see the first one
            self._grants.labels(forced)

    def on_api_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._api_requests.labels(verb, str(code)).inc()

    def on_report(self, outcome: str) -> None:
        """One report to the controller had an outcome."""
        self._reports.labels(outcome).inc()

    def on_turn(self, turn: TickOutcome, *, opened: int, waited: Sequence[float], started: Sequence[float]) -> None:
        """Count what came of a turn."""
        for grant in turn.grants:
            self._grants.labels(str(grant.forced).lower()).inc()
        self._timed_out.inc(len(turn.late))
        self._opened.inc(opened)
        self._journal_errors.inc(turn.unwritten is not None)
        for seconds in waited:
            self._wait.observe(seconds)
        for seconds in started:
            self._start.observe(seconds)

    def show(self, shown: CurrentStarts) -> None:
        """Set what is there now."""
        for state, count in shown.counts.items():
            self._containers.labels(state.value).set(count)
        self._slots.set(float("inf") if shown.slots is None else shown.slots)
        self._taken.set(shown.taken)
        self._gates.set(shown.gates)
        self._policy_known.set(shown.policy_known)
        self._blind.set(shown.blind)
        self._refused.inc(self._new("refused", shown.refused))

    def show_usage(self, unknown: Collection[str]) -> None:
        """Say which figures of the node are not known."""
        for figure in FIGURES:
            self._unknown.labels(figure).set(figure in unknown)

    def _new(self, what: str, total: int) -> int:
        before, self._seen[what] = self._seen[what], total
        return max(0, total - before)
