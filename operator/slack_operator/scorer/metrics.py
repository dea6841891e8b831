"""What the scorer tells Prometheus: counted by whoever knows, from any thread."""

import math
import time
from collections.abc import Callable

import numpy as np

from slack.scorer.model import CPU, Coverage, DecisionRule, UsageState
from slack_operator.runtime.metrics import ProcessMetrics
from slack_operator.scorer import metric_definitions
from slack_operator.scorer.score_cache import ScoreBasis

_TOLD_SECONDS = 0.5
"""Between two looks at what stands: refreshes may be a hundred a second, and Prometheus asks four times a minute."""
_NOT_READY = "NotReady"
VERBS = ("prioritize", "filter", "preempt", "explain", "other")


class ScorerMetrics(ProcessMetrics):
    """The scorer's metrics."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._told_at = clock, -math.inf
        self._falls_back: bool | None = None
        super().__init__(metric_definitions.SCORER_BUILD_INFO)
        self._calls = self._counter(metric_definitions.CALLS)
        self._handler = self._histogram(metric_definitions.HANDLER_SECONDS)
        self._decisions = self._counter(metric_definitions.DECISIONS)
        self._unknown = self._counter(metric_definitions.UNKNOWN_NODES)
        self._all_above = self._counter(metric_definitions.ALL_ABOVE)
        self._nodes = self._gauge(metric_definitions.NODES)
        self._falling_back = self._gauge(metric_definitions.FALLING_BACK)
        self._unmatched = self._gauge(metric_definitions.UNMATCHED)
        self._age = self._gauge(metric_definitions.LOAD_AGE)
        self._predicted = self._gauge(metric_definitions.RECENT_PODS)
        self._fetch_errors = self._counter(metric_definitions.FETCH_ERRORS)
        self._ignored = self._counter(metric_definitions.IGNORED)
        self._refresh = self._histogram(metric_definitions.REFRESH_SECONDS)
        self._requests = self._counter(metric_definitions.REQUESTS)
        self._rules = {
            rule: self._decisions.labels(str(rule)) for rule in DecisionRule
        }  # so that rates see the first one
        for verb in VERBS:
            self._handler.labels(verb)
        self._not_ready = self._decisions.labels(_NOT_READY)
        for why in ("unreachable", "status", "payload"):
            self._fetch_errors.labels(why)
        self._age.set(math.nan)

    def on_call(self, verb: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._calls.labels(verb, str(status)).inc()
        self._handler.labels(verb).observe(seconds)

    def decided(self, rule: DecisionRule | None, nodes: int, unknown: int) -> None:
        """One answer to /prioritize; None for a rule when the cluster is not seen whole yet."""
        (self._not_ready if rule is None else self._rules[rule]).inc()
        if unknown:
            self._unknown.inc(unknown)

    def all_above(self) -> None:
        """Every node that the scheduler asked about is above the ceiling."""
        self._all_above.inc()

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_fetch_error(self, why: str) -> None:
        """The load watcher did not give a window."""
        self._fetch_errors.labels(why).inc()

    def on_ignored(self, why: str, count: int) -> None:
        """Some of its figures are none."""
        self._ignored.labels(why).inc(count)

    def on_refresh(self, standing: ScoreBasis, seconds: float) -> None:
        """Something new stands."""
        self._refresh.observe(seconds)
        now, usage = self._clock(), standing.basis.usage
        falls_back = standing.basis.coverage is not Coverage.ENOUGH
        if falls_back is self._falls_back and now - self._told_at < _TOLD_SECONDS:
            return
        self._told_at, self._falls_back = now, falls_back
        counts = np.bincount(usage.state, minlength=len(UsageState))
        for state in UsageState:
            self._nodes.labels(state_word(state)).set(int(counts[state]))
        self._falling_back.set(falls_back)
        self._unmatched.set(len(standing.unmatched))
        known = usage.age_seconds[np.isfinite(usage.age_seconds)]
        self._age.set(float(known.min()) if known.size else math.nan)
        self._predicted.set(float(usage.missing[CPU].sum()) / 1000.0)


def state_word(state: UsageState) -> str:
    """Return a state as metrics and `explain` have it: `NoMetrics`."""
    return state.name.title().replace("_", "")
