"""The controller's metrics. Counters count as things happen, in any thread; gauges are set at most once a second.

Labels are namespace and pool, and few fixed words; those of a pool that is gone go with it.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from prometheus_client import Gauge, Histogram

from slack.demand.model import ContainerState, Decision, QueueKey
from slack.process.metric_family import Family
from slack_operator.demand import families
from slack_operator.demand.book import Book
from slack_operator.demand.loop import Turn
from slack_operator.runtime.metrics import ProcessMetrics

SHOWN_SECONDS: Final = 1.0
"""Thousands of pools at three ticks a second would cost more than deciding does."""
_TICKS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_RUNS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
_CREATIONS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0)


class DemandMetrics(ProcessMetrics):
    """All of one controller."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(families.BUILD_INFO)
        self._clock = clock
        self._requests = self._counter(families.REQUESTS)
        self._leader = self._gauge(families.LEADER)
        self._reachable = self._gauge(families.BROKER_REACHABLE)
        self._ticks = self._histogram(families.TICK_SECONDS, _TICKS)
        self._messages = self._gauge(families.QUEUE_MESSAGES)
        self._oldest = self._gauge(families.OLDEST_SECONDS)
        self._containers = self._gauge(families.CONTAINERS)
        self._creations = self._counter(families.CREATIONS)
        self._creation_seconds = self._histogram(families.CREATION_SECONDS, _CREATIONS)
        self._waits = self._histogram(families.WAIT_SECONDS, _RUNS)
        self._runs = self._histogram(families.RUN_SECONDS, _RUNS)
        self._decisions = self._counter(families.DECISIONS)
        self._throttled = self._gauge(families.THROTTLED)
        self._rejected = self._counter(families.REJECTED)
        self._evictions = self._counter(families.EVICTIONS)
        self._wanted = self._gauge(families.WANTED)
        self._unmet = self._gauge(families.UNMET)
        self._slack = self._gauge(families.SLACK_PODS)
        self._shown_at = float("-inf")
        self._known: set[QueueKey] = set()
        self._ready: set[str] | None = None

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_done(self, key: QueueKey, what: str, reason: str) -> None:
        """A container was created or ended, or could not be."""
        if what == "ended":
            self._evictions.labels(*_of(key), reason).inc()
        else:
            self._creations.labels(*_of(key), what, reason).inc()

    def on_rejected(self, key: QueueKey) -> None:
        """A request was answered 429."""
        self._rejected.labels(*_of(key)).inc()

    def show_leader(self, leads: bool) -> None:
        """Say whether this replica decides."""
        self._leader.set(leads)
        if not leads:
            self._ready = None
            self._forget(self._known)

    def on_turn(self, turn: Turn, book: Book) -> None:
        """Take a tick. Called by the loop's thread."""
        self._ticks.observe(turn.took_seconds)
        self._reachable.set(turn.lags is not None)
        subjects = {pool.subject: pool.key for pool in book.wanted.pools}
        for key, decision in turn.result.decisions.items():
            for action in _actions(decision):
                self._decisions.labels(*_of(key), action).inc()
        for subject, runs in turn.reported.items():
            if (of := subjects.get(subject)) is not None:
                for milliseconds in runs:
                    self._runs.labels(*_of(of)).observe(milliseconds / 1000)
        self._see_ready(turn)
        if self._clock() - self._shown_at >= SHOWN_SECONDS:
            self._shown_at = self._clock()
            self._show(turn, book)

    def _see_ready(self, turn: Turn) -> None:
        ready = {c.id: c for c in turn.containers if c.state is ContainerState.READY}
        if self._ready is not None:
            for name in ready.keys() - self._ready:
                found = ready[name]
                took = (found.ready_at_seconds or found.created_at_seconds) - found.created_at_seconds
                self._creation_seconds.labels(*_of(found.key)).observe(max(0.0, took))
        self._ready = set(ready)

    def _show(self, turn: Turn, book: Book) -> None:
        states: Counter[tuple[QueueKey, str]] = Counter()
        for container in turn.containers:
            states[container.key, container.state.value.lower()] += 1
            states[container.key, "unschedulable"] += container.unschedulable_since_seconds is not None
        present = set()
        for pool in book.wanted.pools:
            key, of = pool.key, _of(pool.key)
            present.add(key)
            for state in ("ready", "creating", "unschedulable", "draining"):
                self._containers.labels(*of, state).set(states[key, state])
            verdict, target = turn.result.verdicts.get(key), turn.targets.get(key)
            self._throttled.labels(*of).set(verdict is not None and verdict.reject)
            self._wanted.labels(*of).set(0 if target is None else target.wanted)
            self._unmet.labels(*of).set(0 if target is None else target.unmet)
            self._slack.labels(*of).set(0 if target is None else target.slack_pods)
            if turn.lags is None:
                continue
            lag, figures = turn.lags.get(pool.subject), turn.result.figures.get(key)
            oldest = 0.0 if lag is None else lag.oldest_age_seconds or 0.0
            self._messages.labels(*of, "queued").set(0 if lag is None else lag.backlog)
            self._messages.labels(*of, "in_flight").set(0 if lag is None else lag.in_flight)
            self._messages.labels(*of, "stale").set(0 if figures is None else figures.stale)
            self._oldest.labels(*of).set(oldest)
            if lag is not None and lag.backlog and lag.oldest_age_seconds is not None:
                self._waits.labels(*of).observe(oldest)
        self._forget(self._known - present)
        self._known = present

    def _forget(self, keys: set[QueueKey]) -> None:
        for key in list(keys):
            of = _of(key)
            for gauge, words in (
                (self._containers, ("ready", "creating", "unschedulable", "draining")),
                (self._messages, ("queued", "in_flight", "stale")),
            ):
                for word in words:
                    _remove(gauge, *of, word)
            for gauge in (self._throttled, self._wanted, self._unmet, self._slack, self._oldest):
                _remove(gauge, *of)
        self._known = self._known - keys

    def _histogram(self, family: Family, buckets: Sequence[float]) -> Any:
        return Histogram(family.name, family.help, family.labels, registry=self.registry, buckets=buckets)


def _of(key: QueueKey) -> tuple[str, str]:
    return key.namespace, key.action


def _remove(gauge: Gauge, *labels: str) -> None:
    try:
        gauge.remove(*labels)
    except KeyError:  # it was never set
        return


def _actions(decision: Decision) -> list[str]:
    found = ["add"] if decision.add else []
    if decision.throttle is not None:
        found.append("throttle" if decision.throttle else "unthrottle")
    if decision.clipped_by is not None:
        found.append("clipped")
    return found
