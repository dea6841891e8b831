"""The controller's metrics. Counters count as things happen, in any thread; gauges are set at most once a second.

Labels are namespace and pool, and few fixed words. All series of a pool that is gone go with it, in every family: a
controller whose pools have ever new names must not fill its memory, nor Prometheus'.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from slack.demand.model import ContainerState, QueueDecision, QueueKey
from slack_operator.demand import metric_definitions
from slack_operator.demand.loop import TickReport
from slack_operator.demand.pool_registry import DesiredPools
from slack_operator.runtime.metrics import ProcessMetrics

SHOWN_SECONDS: Final = 1.0
"""Thousands of pools at three ticks a second would cost more than deciding does."""


class DemandMetrics(ProcessMetrics):
    """All of one controller."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(metric_definitions.BUILD_INFO)
        self._clock = clock
        self._requests = self._counter(metric_definitions.REQUESTS)
        self._leader = self._gauge(metric_definitions.LEADER)
        self._reachable = self._gauge(metric_definitions.BROKER_REACHABLE)
        self._ticks = self._histogram(metric_definitions.TICK_SECONDS)
        self._messages = self._gauge(metric_definitions.QUEUE_MESSAGES)
        self._oldest = self._gauge(metric_definitions.OLDEST_SECONDS)
        self._containers = self._gauge(metric_definitions.CONTAINERS)
        self._creations = self._counter(metric_definitions.CREATIONS)
        self._creation_seconds = self._histogram(metric_definitions.CREATION_SECONDS)
        self._waits = self._histogram(metric_definitions.WAIT_SECONDS)
        self._runs = self._histogram(metric_definitions.RUN_SECONDS)
        self._decisions = self._counter(metric_definitions.DECISIONS)
        self._throttled = self._gauge(metric_definitions.THROTTLED)
        self._rejected = self._counter(metric_definitions.REJECTED)
        self._evictions = self._counter(metric_definitions.EVICTIONS)
        self._wanted = self._gauge(metric_definitions.WANTED)
        self._unmet = self._gauge(metric_definitions.UNMET)
        self._slack = self._gauge(metric_definitions.SLACK_PODS)
        self._unread = self._gauge(metric_definitions.QUEUE_UNREAD)
        self._while_leading = (
            *(self._messages, self._oldest, self._containers, self._throttled),
            *(self._wanted, self._unmet, self._slack, self._unread),
        )
        """Gauges that only the replica that decides has."""
        self._always = (
            *(self._creations, self._creation_seconds, self._waits, self._runs),
            *(self._decisions, self._rejected, self._evictions),
        )
        """What counts on, whoever decides."""
        self._shown_at = float("-inf")
        self._lock = threading.Lock()
        self._counted: set[QueueKey] = set()
        """Pools of which any family has a series."""
        self._silent: set[QueueKey] = set()
        self._ready: set[tuple[QueueKey, str]] | None = None

    def on_request(self, verb: str, code: int) -> None:
        """One request to the API server ended."""
        self._requests.labels(verb, str(code)).inc()

    def on_done(self, key: QueueKey, what: str, reason: str) -> None:
        """A container was created or ended, or could not be."""
        if what == "ended":
            self._evictions.labels(*self._of(key), reason).inc()
        else:
            self._creations.labels(*self._of(key), what, reason).inc()

    def on_rejected(self, key: QueueKey) -> None:
        """A request was answered 429."""
        self._rejected.labels(*self._of(key)).inc()

    def show_leader(self, leads: bool, pools: Collection[QueueKey]) -> None:
        """Say whether this replica decides; forget pools that are not among those that there are."""
        self._leader.set(leads)
        self._forget(pools)
        if not leads:
            self._ready = None
            self._silent.clear()
            for gauge in self._while_leading:
                gauge.clear()

    def on_turn(self, turn: TickReport, book: DesiredPools) -> None:
        """Take a tick. Called by the loop's thread."""
        self._ticks.observe(turn.took_seconds)
        self._reachable.set(turn.lags is not None)
        subjects = {pool.subject: pool.key for pool in book.wanted.pools}
        for key, decision in turn.result.decisions.items():
            for action in _actions(decision):
                self._decisions.labels(*self._of(key), action).inc()
        for subject, runs in turn.reported.items():
            if (of := subjects.get(subject)) is not None:
                for milliseconds in runs:
                    self._runs.labels(*self._of(of)).observe(milliseconds / 1000)
        self._see_ready(turn)
        if self._clock() - self._shown_at >= SHOWN_SECONDS:
            self._shown_at = self._clock()
            self._show(turn, book)

    def _see_ready(self, turn: TickReport) -> None:
        # By pool and id: an id is what the container's own object says, and two namespaces may say the same.
        ready = {(c.key, c.id): c for c in turn.containers if c.state is ContainerState.READY}
        if self._ready is not None:
            for identity in ready.keys() - self._ready:
                found = ready[identity]
                took = (found.ready_at_seconds or found.created_at_seconds) - found.created_at_seconds
                self._creation_seconds.labels(*self._of(found.key)).observe(max(0.0, took))
        self._ready = set(ready)

    def _show(self, turn: TickReport, book: DesiredPools) -> None:
        states: Counter[tuple[QueueKey, str]] = Counter()
        for container in turn.containers:
            states[container.key, container.state.value.lower()] += 1
            states[container.key, "unschedulable"] += container.unschedulable_since_seconds is not None
        silent = {pool.key for pool in book.wanted.pools if pool.subject in turn.unread}
        for key in self._silent - silent:
            self._unread.remove_by_labels(_labels(key))
        for key in silent:
            self._unread.labels(*self._of(key)).set(1)
        self._silent = silent
        for pool in book.wanted.pools:
            key, of = pool.key, self._of(pool.key)
            for state in ("ready", "creating", "unschedulable", "draining"):
                self._containers.labels(*of, state).set(states[key, state])
            verdict, target = turn.result.verdicts.get(key), turn.targets.get(key)
            self._throttled.labels(*of).set(verdict is not None and verdict.reject)
            self._wanted.labels(*of).set(0 if target is None else target.wanted)
            self._unmet.labels(*of).set(0 if target is None else target.unmet)
            self._slack.labels(*of).set(0 if target is None else target.slack_pods)
            if turn.lags is None or pool.subject in turn.unread:
                continue
            lag, figures = turn.lags.get(pool.subject), turn.result.figures.get(key)
            oldest = 0.0 if lag is None else lag.oldest_age_seconds or 0.0
            self._messages.labels(*of, "queued").set(0 if lag is None else lag.backlog)
            self._messages.labels(*of, "in_flight").set(0 if lag is None else lag.in_flight)
            self._messages.labels(*of, "stale").set(0 if figures is None else figures.stale)
            self._oldest.labels(*of).set(oldest)
            if lag is not None and lag.backlog and lag.oldest_age_seconds is not None:
                self._waits.labels(*of).observe(oldest)
        self._forget({*book.pools, *(pool.key for pool in book.wanted.pools)})

    def _of(self, key: QueueKey) -> tuple[str, str]:
        """Return a pool's labels, for a series that counts from now on; any thread may ask."""
        with self._lock:
            self._counted.add(key)
        return key.namespace, key.action

    def _forget(self, pools: Collection[QueueKey]) -> None:
        """Take away all series of pools that are gone."""
        with self._lock:
            gone = [key for key in self._counted if key not in pools]
            self._counted.difference_update(gone)
        for key in gone:
            for family in (*self._while_leading, *self._always):
                family.remove_by_labels(_labels(key))


def _labels(key: QueueKey) -> dict[str, str]:
    return {"namespace": key.namespace, "pool": key.action}


def _actions(decision: QueueDecision) -> list[str]:
    found = ["add"] if decision.add else []
    if decision.throttle is not None:
        found.append("throttle" if decision.throttle else "unthrottle")
    if decision.clipped_by is not None:
        found.append("clipped")
    return found
