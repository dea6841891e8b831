"""Suspends ReplicaSets while their placeholders are evicted: stops them, deletes placeholders, lowers the count.

`BurstEvictor` uses it. While a ReplicaSet is suspended, the planning loop sees it as it was before and writes nothing
to it. After it is resumed, the next plan finds the count too low and raises it. Owned by the evictor's thread.
"""

import logging
from collections.abc import Callable, Collection, Sequence, Set

from slack.cluster.labels import PRIORITY_CLASS
from slack.cluster.wire import OwnReplicaSet, Pod
from slack.kube.retry import RetryBackoff
from slack.planner.burst_eviction.capacity import BoundPlaceholders
from slack_operator.burst_eviction.eviction_writer import EvictionWriter, PlaceholderToEvict
from slack_operator.burst_eviction.suspensions import (
    GIVE_UP_SECONDS,
    LONGEST_SECONDS,
    TRY_SECONDS,
    Suspension,
    Suspensions,
)
from slack_operator.placeholders.view.cluster_view import ClusterView

log = logging.getLogger(__name__)

TURN_SECONDS = 0.25
"""No deletion of a turn begins later: on a slow server the scheduler helps itself meanwhile, so we look again."""
FIRST_REST_SECONDS = 0.5
"""After a write that the API server, or a webhook of it, did not take; each next is twice as long."""
LONGEST_REST_SECONDS = 60.0
SEEN_SECONDS = 10.0
"""A deletion that our watch has not shown by then was none."""
UNBOUND_SECONDS = 2.0
"""As long is remembered of what had no node, whose deletion is not waited for."""


class ReplicaSetSuspender:
    """See the module's docstring."""

    def __init__(self, view: ClusterView, writer: EvictionWriter, *, may_write: Callable[[], bool]) -> None:
        self._view = view
        self._writer = writer
        self._may_write = may_write
        self._clock = view.clock
        self._suspensions = Suspensions()
        self._deleted: dict[str, float] = {}
        """When, by uid."""
        self._backoff = RetryBackoff(first_seconds=FIRST_REST_SECONDS, max_seconds=LONGEST_REST_SECONDS)
        self._not_before = float("-inf")

    @property
    def deleted_uids(self) -> Set[str]:
        """uids of placeholders that were deleted and are still seen."""
        return self._deleted.keys()

    def close(self) -> None:
        """Begin nothing more."""
        self._writer.close()

    def is_backing_off(self, now: float) -> bool:
        """Whether what the API server does not take is left to the scheduler for a while."""
        return now < self._not_before

    def keep_ready(self, placeholders: int) -> bool:
        """Be quick when a burst comes; to be called from time to time. Returns whether it was of any use."""
        return self._writer.keep_ready(placeholders)

    def next_due(self) -> float | None:
        """Return when the next ReplicaSet is to be lowered."""
        return self._suspensions.next_due()

    def forget_gone(self, now: float) -> None:
        """Forget deletions that the watch has shown, some time later."""
        bound = self._view.followed_as_bound(self._deleted)
        self._deleted = {
            uid: at
            for uid, at in self._deleted.items()
            if now - at < (SEEN_SECONDS if uid in bound else UNBOUND_SECONDS)
        }

    def evict_placeholders(self, standing: BoundPlaceholders, rows: Sequence[int], *, growth: bool = False) -> set[int]:
        """Delete these placeholders, and let none be made anew; return the rows of those that went.

        Args:
            standing: the placeholders.
            rows: of it.
            growth: they go for a pod on their node that grows. Its kubelet takes its time, so ours is taken as well:
                nothing is deleted before the ReplicaSet is known to be stopped.
        """
        leaving = {
            standing.uid[row]: PlaceholderToEvict(
                standing.uid[row], standing.name[row], standing.replica_set[row], standing.policy[row]
            )
            for row in rows
        }
        claimed = self._view.claim_placeholders(leaving, self._clock(), growth=growth)
        leaving = {uid: pod for uid, pod in leaving.items() if uid in claimed}
        to_stop = self._suspend({pod.replica_set for pod in leaving.values()})
        alive = self._alive([own.metadata.name for own in to_stop])
        known = {name: frozenset(map(_uid, pods)) for name, pods in alive.items()}
        ready = [pod for pod in leaving.values() if self._view.is_suspended(pod.replica_set)]
        self._view.unclaim_placeholders(leaving.keys() - {pod.uid for pod in ready})
        until = self._clock() + TURN_SECONDS
        stopped, deleted = self._writer.evict(to_stop, ready, lambda: self._clock() < until, stop_first=growth)
        now = self._clock()
        if len(stopped) < len(to_stop) or (deleted.refused and not deleted.gone):
            self._not_before = now + self._backoff.next_seconds()
        elif deleted.gone:
            self._backoff.reset()
        for own in to_stop:
            name = own.metadata.name
            if name in stopped:
                self._suspensions.begin_suspension(self._view.suspended[name], known[name], now)
            elif name not in self._suspensions.by_name:
                self._resume(name)
        for pod in deleted.gone:
            self._deleted[pod.uid] = now
            self._suspensions.record_eviction(pod.replica_set, pod.uid, now)
        self._view.unclaim_placeholders(pod.uid for pod in deleted.missed)
        if deleted.refused:
            log.info("the rest is left to the scheduler: %s", deleted.refused)
        gone = {pod.uid for pod in deleted.gone}
        return {row for row in rows if standing.uid[row] in gone}

    def lower_suspended(self, now: float) -> None:
        """Have what was stopped ask for as many as there are."""
        for suspension in self._suspensions.to_lower(now):
            name = suspension.before.metadata.name
            own = self._view.sets.get(name)
            alive = self._alive([name])[name]
            if own is not None and (
                self._delete_recreated(suspension, alive, now)
                or self._waits_for_controller(suspension, own, len(alive), now)
            ):
                continue
            # No more than are there: what the scheduler has preempted meanwhile is not made anew yet either.
            if own is not None and self._writer.lower_replicas(
                suspension.before, max(min(suspension.replicas - suspension.gone, len(alive)), 0)
            ):
                suspension.stopped = False
            elif own is None or not self._may_write() or now - suspension.touched > GIVE_UP_SECONDS:
                self._resume(name)
            else:
                suspension.not_before = now + TRY_SECONDS

    def resume_unneeded(self, needed: Collection[str]) -> bool:
        """Let the loop write those again that no burst needs low; return whether there were any."""
        long_ago = self._clock() - LONGEST_SECONDS
        over = [
            name
            for name, suspension in self._suspensions.by_name.items()
            if not suspension.stopped and (name not in needed or suspension.since < long_ago)
        ]
        # A cycle that failed may leave a ReplicaSet suspended in the view only: the loop would never write it again.
        over += [name for name in list(self._view.suspended) if name not in self._suspensions.by_name]
        for name in over:
            self._resume(name)
        return bool(over)

    def _suspend(self, names: Collection[str]) -> list[OwnReplicaSet]:
        """Return the ReplicaSets that are to be stopped; the loop is told before the event could surprise it."""
        return self._view.suspend(
            names, lambda own: not self._suspensions.is_stopped(own.metadata.name) and _is_as_planned(own)
        )

    def _resume(self, name: str) -> None:
        self._suspensions.by_name.pop(name, None)
        self._view.resume(name)

    def _delete_recreated(self, suspension: Suspension, alive: Sequence[Pod], now: float) -> bool:
        """Delete what was made anew before the controller had seen the stop; whether there was any.

        It may have been given a node by now, in the burst's room. Then the controller, who is asked for fewer, would
        take others in its place.
        """
        surplus = len(alive) - max(suspension.replicas - suspension.gone, 0)
        if surplus <= 0 or now - suspension.since > LONGEST_SECONDS:
            return False
        name = suspension.before.metadata.name
        anew = [pod for pod in alive if _uid(pod) not in suspension.known]
        leaving = [PlaceholderToEvict(_uid(pod), pod.metadata.name, name, "") for pod in anew[:surplus]]
        if not leaving:
            return False
        for pod in leaving:
            self._view.let_go(pod.uid)
        until = self._clock() + TURN_SECONDS
        _, deleted = self._writer.evict((), leaving, lambda: self._clock() < until)
        now = self._clock()
        for pod in deleted.gone:
            self._deleted[pod.uid] = now
            self._suspensions.record_eviction(name, pod.uid, now)
        return bool(deleted.gone)

    def _waits_for_controller(self, suspension: Suspension, own: OwnReplicaSet, alive: int, now: float) -> bool:
        seen = own.status.replicas if own.status is not None else None
        return self._suspensions.waits_to_be_seen(suspension, seen, alive, now)

    def _alive(self, replica_sets: Collection[str]) -> dict[str, list[Pod]]:
        """Return the placeholders of ReplicaSets that neither anybody nor we have deleted."""
        return {
            name: [pod for pod in pods if pod.metadata.uid not in self._deleted]
            for name, pods in self._view.placeholders_of(replica_sets).items()
        }


def _is_as_planned(own: OwnReplicaSet) -> bool:
    """Whether its template is one to come back to, and no hand's: until the loop has mended that, its placeholders are
    left to the scheduler.
    """
    return (own.template.get("spec") or {}).get("priorityClassName") == PRIORITY_CLASS


def _uid(pod: Pod) -> str:
    return pod.metadata.uid or ""
