"""The thread that evicts placeholders for bursts. Pods without a node wake it, and owners about to create pods.

Each cycle decides from the current state, for as many placeholders as it can delete in a few milliseconds. Then it
looks again, because the scheduler may have placed some of the pods meanwhile. Nothing waits for a cycle but the next
one. A standby runs cycles too, and writes nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from slack.planner.burst_eviction.capacity import ClusterCapacity
from slack.planner.burst_eviction.capacity_builder import ClusterCapacityBuilder
from slack.planner.burst_eviction.choice import EvictionChoice, choose_evictions
from slack.planner.burst_eviction.growth import GrowingPod, choose_for_growth
from slack.planner.model.result import PolicyPlan
from slack.process.logs import fields
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.burst_eviction.burst_reporter import BurstReporter
from slack_operator.burst_eviction.burst_tracker import BOUND_SECONDS, PROMISED_SECONDS, BurstTracker, EvictionCause
from slack_operator.burst_eviction.bursts import (
    AdmissionLimits,
    OwnedBurst,
    gather_bursts,
    has_several_pods,
    keys_with_anti_affinity,
)
from slack_operator.burst_eviction.eviction_writer import NO_CLASS
from slack_operator.burst_eviction.policy_scopes import PolicyScopes, policy_scopes_of
from slack_operator.burst_eviction.replica_set_suspender import ReplicaSetSuspender
from slack_operator.placeholders.planned_policies import PlannedPolicy
from slack_operator.placeholders.view.cluster_view import ClusterView, Observation

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.003
"""What comes so shortly after the first pod is decided with it."""
AT_ONCE = 500
"""Placeholders a turn."""
REST = 4.0
"""Between two turns, so many times what the last one computed: at most a fifth of a core."""
IDLE_SECONDS = 30.0
"""Between two looks at whether everything is ready for a burst."""
TURN_SECONDS = 120.0
"""Without a turn that ended as it should the thread counts as stuck."""
FAILED_SECONDS = 1.0
"""After a turn that failed."""


class BurstEvictor:
    """See the module's docstring. `start` and `stop` belong to the main thread, `look` to the loop's."""

    def __init__(
        self,
        view: ClusterView,
        suspender: ReplicaSetSuspender,
        reporter: BurstReporter,
        *,
        may_write: Callable[[], bool],
        stale: Callable[[], str | None],
        wake: Callable[[], None],
    ) -> None:
        """A thread that is not started yet.

        Args:
            view: is watched from here on for owners, too.
            suspender: deletes placeholders and suspends their ReplicaSets.
            reporter: tells of bursts that are over.
            may_write: whether this process leads.
            stale: says what of the view is missing.
            wake: has the loop plan soon.
        """
        self._view = view
        self._suspender = suspender
        self._reporter = reporter
        self._may_write = may_write
        self._stale = stale
        self._wake = wake
        self._clock = view.clock
        self._builder = ClusterCapacityBuilder()
        self._before: EvictionChoice | None = None
        self._warm = -1
        """The nodes' version for which the builder has read them: the first time takes a while."""
        self._ready_at = float("-inf")
        """When the connections were looked after."""
        self._ready_for = 0
        """For how many placeholders they were."""
        self._scopes: PolicyScopes | None = None
        self._tracker = BurstTracker()
        self._outages = Outages(self._clock)
        self._touched = threading.Event()
        self._stopping = threading.Event()
        heart = Heartbeat("the thread that makes way", TURN_SECONDS)
        self._thread = SupervisedThread(self._run, name="making-way", heart=heart)
        view.follow_owners(self._see_unplaced)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the next plan resumes suspended ReplicaSets."""
        self._thread.dismiss()
        self._stopping.set()
        self._touched.set()
        self._thread.join(timeout=2.0)
        self._suspender.close()

    def unhealthy(self) -> str | None:
        """Return why no way is made any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def take_plan(
        self, observation: Observation, planned_policies: Sequence[PlannedPolicy], plans: Sequence[PolicyPlan]
    ) -> None:
        """Take what the last plan knew of policies."""
        self._scopes = policy_scopes_of(planned_policies, plans, observation.priority_classes, observation.snapshot)
        if NO_CLASS in observation.priority_classes and self._outages.is_new(NO_CLASS):
            log.warning("no way is made while there is a PriorityClass %s: delete it", NO_CLASS)
        if self._view.nodes_version != self._warm or self._evictable_count() > self._ready_for:
            self._see_unplaced()

    def _see_unplaced(self) -> None:
        """Look at pods without a node, unless way can be made for nobody: no turn is worth its time then."""
        if self._scopes is None or self._scopes.by_policy or self._tracker.open or self._view.suspended:
            self._touched.set()

    def _run(self) -> None:
        wait: float | None = 0.0
        while not self._stopping.is_set():
            if self._rest(wait) and not self._stopping.wait(GATHER_SECONDS):
                self._touched.clear()
            began = time.thread_time()
            try:
                wait = self.run_cycle()
                if wait is None:
                    self._keep_ready()
                self._thread.heart.beat()
            except Exception as error:
                # a bug here must not end the process: the scheduler preempts as it does without us
                if self._outages.is_new(type(error).__name__):
                    log.exception("making way failed")
                wait = 0.0
                self._stopping.wait(FAILED_SECONDS)  # what wakes us may be what we fail at, again and again
            if wait != 0.0:
                self._stopping.wait(REST * (time.thread_time() - began))

    def _rest(self, seconds: float | None) -> bool:
        """Wait for something to do. After a turn that failed there is no wait: it must not write the stamp."""
        if seconds == 0.0:
            return self._touched.is_set()
        return self._thread.heart.rest(self._touched, IDLE_SECONDS if seconds is None else seconds)

    def _keep_ready(self) -> None:
        """Keep as many connections open as a burst into all placeholders would use."""
        now, standing = self._clock(), self._evictable_count()
        is_due = standing > self._ready_for or now - self._ready_at > IDLE_SECONDS / 2
        if is_due and self._suspender.keep_ready(standing):
            self._ready_at, self._ready_for = now, standing

    def _evictable_count(self) -> int:
        """Return how many placeholders may have to leave: none where all are unbound."""
        if self._scopes is None or not self._scopes.by_policy:
            return 0
        return self._view.bound_placeholder_count()

    def run_cycle(self) -> float | None:
        """Do what is due; return the seconds until something is due again, None when nothing is."""
        again = False
        try:
            self._follow(self._clock())
            again = self._evict_for_bursts(self._clock())
        finally:
            self._end(self._clock())  # whatever fails above, nothing stays lowered
        if again:
            return 0.0
        due = [when for when in (self._suspender.next_due(), self._tracker.next_due()) if when is not None]
        return max(min(due) - self._clock(), 0.0) if due else None

    def _end(self, now: float) -> None:
        """Lower stopped ReplicaSets, and resume those that no burst needs any more."""
        self._suspender.lower_suspended(now)
        for burst in self._tracker.take_finished(now):
            self._reporter.report_finished(burst, self._scopes.by_policy if self._scopes is not None else {})
        if self._suspender.resume_unneeded(self._tracker.sets):
            self._wake()
        self._view.await_bursts(self._tracker.open)

    def _follow(self, now: float) -> None:
        """See what has come of earlier bursts."""
        self._suspender.forget_gone(now)
        progress = self._view.take_burst_progress(now, with_waiting=bool(self._tracker.open))
        growing = {_GROWTH + uid for uid in progress.growing}
        grown = [key for key in self._tracker.open if key.startswith(_GROWTH) and key not in growing]
        for pod in progress.placed:
            if pod.node:
                self._tracker.record_first_pod(pod.key, now - pod.waited)
                self._tracker.record_placed(pod.key, now, nominated=pod.nominated)
        for key in grown:
            self._tracker.record_placed(key, now, nominated=False)
        for key, since in progress.waiting.items():
            self._tracker.record_first_pod(key, since)
        self._tracker.update_waiting(progress.waiting, growing | progress.promised, now)

    def _evict_for_bursts(self, now: float) -> bool:
        """Let placeholders leave for the pods that lack room; whether there may be more to do."""
        scopes = self._scopes
        if (
            scopes is None
            or not scopes.by_policy
            or not self._may_write()
            or self._stale()
            or self._suspender.is_backing_off(now)
        ):
            return False
        demand = self._view.unplaced_demand(now, keys_with_anti_affinity)
        pods, promised, where = demand.pods, demand.promised, demand.nodes_of
        admitting = AdmissionLimits(demand.quotas, demand.limit_ranges)
        growing = [own for own in demand.growing if self._tracker.is_allowed(_GROWTH + own.uid, own.namespace, now)]
        if len(pods) + sum(known.left for known in promised) < 2 and not growing:
            if self._view.nodes_version != self._warm:
                self._capacity((), scopes)
            return False
        wanted = gather_bursts(pods, promised, scopes, partial(self._tracker.is_allowed, now=now), admitting, where)
        for own in wanted:
            self._tracker.record_first_pod(own.key, own.since)
        if not has_several_pods(wanted) and not growing:
            return False
        capacity = self._capacity(wanted, scopes)
        again = False
        for one in growing:
            again |= self._serve_growth(capacity, one, now)
        if again or not has_several_pods(wanted):
            return again
        return self._serve_bursts(capacity, wanted, now)

    def _capacity(self, wanted: Sequence[OwnedBurst], scopes: PolicyScopes) -> ClusterCapacity:
        copy, self._warm = self._view.capacity_copy()
        asked = [own.burst.constraints for own in wanted]
        capacity = self._builder.room(copy, asked, scopes.priorities, self._view.wall())
        return capacity.without(self._suspender.deleted_uids)

    def _serve_bursts(self, capacity: ClusterCapacity, wanted: Sequence[OwnedBurst], now: float) -> bool:
        choice = choose_evictions(capacity, [own.burst for own in wanted], before=self._before)
        self._before = choice
        rows = choice.leaving
        if not rows:
            return False
        granted = self._tracker.take_budget(min(len(rows), AT_ONCE), now)
        chosen = set(rows[:granted])
        log.debug("making way", extra=fields(bursts=len(wanted), leaving=len(rows), now=granted))
        gone = self._suspender.evict_placeholders(capacity.standing, rows[:granted])
        self._tracker.return_budget(granted - len(gone))
        for served, own in zip(choice.served, wanted, strict=True):
            leaving = [row for row in served.leaving if row in chosen and row in gone]
            if leaving:
                cause = EvictionCause.PROMISE if own.promised else EvictionCause.PODS
                self._record_evictions(
                    own, cause, capacity, leaving, served.let_in * len(leaving) / len(served.leaving)
                )
        return len(gone) > 0 and len(rows) > len(gone)

    def _serve_growth(self, capacity: ClusterCapacity, growing: GrowingPod, now: float) -> bool:
        """Let placeholders leave for a pod's resize, once: what does not help is not tried again soon."""
        key = _GROWTH + growing.uid
        rows = choose_for_growth(capacity, growing) if key not in self._tracker.open else ()
        if not rows or self._tracker.take_budget(len(rows), now) < len(rows):
            return False
        gone = self._suspender.evict_placeholders(capacity.standing, rows, growth=True)
        self._tracker.return_budget(len(rows) - len(gone))
        if gone:
            own = self._tracker.track_burst(key, growing.namespace, self._clock(), PROMISED_SECONDS)
            own.cause, own.first_pod, own.called = EvictionCause.GROWTH, now, _GROWTH + growing.key
            own.add_evictions(capacity.standing, sorted(gone), 1.0, self._clock())
        return bool(gone)

    def _record_evictions(
        self, wanted: OwnedBurst, cause: EvictionCause, capacity: ClusterCapacity, leaving: Sequence[int], pods: float
    ) -> None:
        now = self._clock()
        seconds = PROMISED_SECONDS if cause is EvictionCause.PROMISE else BOUND_SECONDS
        burst = self._tracker.track_burst(wanted.key, wanted.namespace, now, seconds)
        if cause is EvictionCause.PROMISE:
            burst.cause = cause
        if burst.first_pod is None:
            burst.first_pod = wanted.since
        burst.add_evictions(capacity.standing, leaving, pods, now)


_GROWTH = "resize of "
"""Before the uid of a pod that grows."""
