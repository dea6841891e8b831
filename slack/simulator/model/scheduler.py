"""kube-scheduler: queues, filter, score, preemption, back-off.

Upstream names are kept: activeQ, backoffQ, unschedulable pods, nominated pods. One pod a cycle, the highest priority
first. What fails waits until something that could help it happens (queueing hints), at least its back-off.
"""

import heapq
import math
from itertools import islice
from typing import Protocol

import numpy as np

from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.node_choice import NodeScoring, Placer
from slack.simulator.model.preemption import Preemption
from slack.simulator.model.state import ModelledCluster
from slack.simulator.scenario.scenario import Scheduler as Settings

_FLUSH_SECONDS = 30.0
"""flushUnschedulablePodsLeftover runs every 30 s (backend/queue/scheduling_queue.go)."""
ACTIVE, BACKOFF, WAITING = 1, 2, 3


class SchedulerHooks(Protocol):
    """Who carries out what the scheduler asks for; the engine is one."""

    def preempt(self, row: int) -> None:
        """Delete a victim at once (grace 0)."""

    def bound(self, row: int, kind: PodKind) -> None:
        """A pod has got its node."""

    def refused(self, row: int) -> None:
        """A pod fits nowhere, for the first time."""


class ModelledScheduler:
    """Owns the pending pods; `add_pod` hands it one, `forget` takes one back."""

    def __init__(
        self,
        cluster: ModelledCluster,
        clock: Clock,
        settings: Settings,
        around: SchedulerHooks,
        seed: int,
        node_scoring: NodeScoring | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self._around = around
        self._placer = Placer(cluster, settings.scoring, node_scoring)
        self._preemption = Preemption(cluster, np.random.default_rng(seed))
        self._active: list[tuple[int, float, int, int]] = []
        """(-priority, second in which it was tried or came, number, row): PrioritySort"""
        self._backoff: list[tuple[float, int, int]] = []
        """(expiry, number, row)"""
        self.waiting: dict[int, dict[int, float]] = {}
        """unschedulable pods by kind: row -> since when it waits, the longest first"""
        self.refused: dict[int, dict[int, None]] = {}
        """Pods by kind that have PodScheduled=False, Unschedulable: what autoscalers look at."""
        self._place: dict[int, int] = {}
        """Which queue a pending pod is in."""
        self.attempts: dict[int, int] = {}
        self._tried_at: dict[int, float] = {}
        self._hopeless: dict[int, int] = {}
        """By kind: room_version at which no node could take it, victims or not."""
        self._cycle_at = math.inf
        self._free_at = 0.0
        self._line_free_at = 0.0
        """When the preemptions that were decided are done: beside the cycles, one after the other."""
        self._in_line: dict[tuple[int, int], list[int]] = {}
        """By victim (row, number) that has not gone yet, the pods that wait for it."""
        self._awaited: dict[int, int] = {}
        """By pod, how many of its victims are in line; it is not tried before they have gone."""
        self._flushing = False

    def add_pod(self, row: int) -> None:
        """A pod has been created."""
        self._activate(row)

    def refuse(self, row: int) -> None:
        """A pod that is none of its own gets PodScheduled=False, Unschedulable: autoscalers look at that alone."""
        self.refused.setdefault(self._cluster.kind_of[row], {})[row] = None
        self._cluster.changes += 1
        self._around.refused(row)

    def forget(self, row: int) -> None:
        """A pending pod is deleted; it must still be in the cluster."""
        kind = self._cluster.kind_of[row]
        if self._place.pop(row, 0) == WAITING:
            self.waiting[kind].pop(row, None)
        self._awaited.pop(row, None)
        self._settled(row, kind)

    def wake(self) -> None:
        """Look at where room grew: pods that fit there now are tried again."""
        cluster = self._cluster
        nodes, cluster.freed = dict.fromkeys(cluster.freed), []
        for node in nodes:
            for row in list(cluster.nominations.get(node, ())):
                if self._place.get(row) == WAITING and row not in self._awaited:
                    self._requeue(row)
        if not self.waiting:
            return
        longest = {k: next(iter(pods.values())) for k, pods in self.waiting.items() if pods}
        kinds = sorted(longest, key=lambda k: (-cluster.kinds[k].priority, longest[k], k))
        for node in nodes:
            if cluster.state[node] == 0:
                continue
            used = np.zeros(len(cluster.kinds.resources), dtype=np.int64)
            for index in kinds:
                pods = self.waiting.get(index)
                if not pods:
                    continue
                kind = cluster.kinds[index]
                room = self._placer.room_for(kind, node, used)
                free = (row for row in list(pods) if row not in self._awaited)
                woken = list(islice(free, room)) if room else []
                used += len(woken) * kind.requests
                if not woken and self._preemption.could(kind, node):
                    woken = list(islice(free, 1))
                for row in woken:
                    self._requeue(row)

    # -- queues ------------------------------------------------------------------------------------------------------

    def _activate(self, row: int) -> None:
        self._push(row)
        self._want_cycle(self._clock.now)

    def _push(self, row: int) -> None:
        cluster = self._cluster
        self._place[row] = ACTIVE
        priority = cluster.kinds[cluster.kind_of[row]].priority
        since = self._tried_at.get(row, cluster.created[row])
        heapq.heappush(self._active, (-priority, since, cluster.number[row], row))

    def _requeue(self, row: int) -> None:
        """MoveAllToActiveOrBackoffQueue for one pod that an event could help."""
        kind = self._cluster.kind_of[row]
        self.waiting[kind].pop(row, None)
        expiry = self._tried_at[row] + self.backoff_seconds(self.attempts[row])
        if expiry <= self._clock.now:
            self._activate(row)
            return
        self._place[row] = BACKOFF
        heapq.heappush(self._backoff, (expiry, self._cluster.number[row], row))
        self._want_cycle(self._clock.now if self._settings.pop_from_backoff_q else expiry)

    def backoff_seconds(self, attempts: int) -> float:
        """Return 1, 2, 4, 8, 10, 10 ... s (calculateBackoffDuration)."""
        first, most = self._settings.pod_initial_backoff_seconds, self._settings.pod_max_backoff_seconds
        return min(first * 2.0 ** min(attempts - 1, 30), most)

    def _want_cycle(self, seconds: float) -> None:
        seconds = max(seconds, self._free_at, self._clock.now)
        if seconds < self._cycle_at:
            self._cycle_at = seconds
            self._clock.at(seconds, self._cycle, seconds)

    def _next(self) -> int:
        """Pop the pod that is tried next, -1 when there is none that may be tried."""
        now, numbers = self._clock.now, self._cluster.number
        while self._backoff and self._backoff[0][0] <= now:
            _, number, row = heapq.heappop(self._backoff)
            if numbers[row] == number and self._place.get(row) == BACKOFF:
                self._push(row)
        while self._active:
            _, _, number, row = heapq.heappop(self._active)
            if numbers[row] == number and self._place.get(row) == ACTIVE:
                return row
        while self._backoff and self._settings.pop_from_backoff_q:
            _, number, row = heapq.heappop(self._backoff)
            if numbers[row] == number and self._place.get(row) == BACKOFF:
                return row
        return -1

    def _cycle(self, planned: float) -> None:
        if planned != self._cycle_at:
            return
        self._cycle_at = math.inf
        row = self._next()
        if row >= 0:
            self._free_at = self._clock.now + 1.0 / self._settings.pods_per_second
            self._schedule_one(row)
        if self._active or (self._backoff and self._settings.pop_from_backoff_q):
            self._want_cycle(self._free_at)
        elif self._backoff:
            self._want_cycle(self._backoff[0][0])

    # -- one pod -----------------------------------------------------------------------------------------------------

    def _schedule_one(self, row: int) -> None:
        cluster, now = self._cluster, self._clock.now
        kind = cluster.kinds[cluster.kind_of[row]]
        del self._place[row]
        self.attempts[row] = self.attempts.get(row, 0) + 1
        self._tried_at[row] = now
        nominated = cluster.nominated[row] >= 0
        if self._hopeless.get(kind.index) == cluster.room_version and not nominated:
            self._fail(row, kind)
            return
        node = cluster.nominated[row] if nominated else -1  # evaluateNominatedNode comes first
        if node < 0 or not self._still_waits(row, kind):
            node = self._placer.choose(kind, row, now)
        if node >= 0:
            self._settled(row, kind.index)
            cluster.bind(row, node, now)
            self._around.bound(row, kind)
            return
        if not nominated and kind.preempts:
            chosen = self._preemption.choose(kind, row)
            if chosen is not None:
                cluster.nominate(row, chosen.node)
                self._fail(row, kind)
                self._preempt(row, chosen.victims)
                return
        if nominated and not self._still_waits(row, kind):
            cluster.unnominate(row)
        elif not nominated:
            self._hopeless[kind.index] = cluster.room_version
        self._fail(row, kind)

    def _preempt(self, row: int, victims: tuple[int, ...]) -> None:
        """Delete victims: within the cycle, or beside it, one after the other (SchedulerAsyncPreemption)."""
        seconds = self._settings.preemption_seconds
        if not self._settings.async_preemption or not seconds:
            self._free_at += seconds * len(victims)
            for victim in victims:
                self._around.preempt(victim)
            return
        for victim in victims:
            key = (victim, self._cluster.number[victim])
            if key not in self._in_line:
                self._line_free_at = max(self._line_free_at, self._clock.now) + seconds
                self._clock.at(self._line_free_at, self._preempted, key)
            self._in_line.setdefault(key, []).append(row)
            self._awaited[row] = self._awaited.get(row, 0) + 1

    def _preempted(self, key: tuple[int, int]) -> None:
        """A victim goes, unless it has gone by itself; who waits for no other may be tried."""
        victim, number = key
        done = []
        for row in self._in_line.pop(key):
            if row in self._awaited:
                self._awaited[row] -= 1
                if not self._awaited[row]:
                    del self._awaited[row]
                    done.append(row)
        if self._cluster.number[victim] == number:
            self._around.preempt(victim)
        else:
            for row in done:
                if self._place.get(row) == WAITING:
                    self._requeue(row)

    def _still_waits(self, row: int, kind: PodKind) -> bool:
        """Whether the nominated node still could take the pod; else it is free to preempt elsewhere next time."""
        return self._placer.room_for(kind, self._cluster.nominated[row], None, but=row) > 0

    def _fail(self, row: int, kind: PodKind) -> None:
        self._place[row] = WAITING
        self.waiting.setdefault(kind.index, {})[row] = self._clock.now
        refused = self.refused.setdefault(kind.index, {})
        if row not in refused:
            refused[row] = None
            self._cluster.changes += 1
            self._around.refused(row)
        if not self._flushing:
            self._flushing = True
            self._clock.after(_FLUSH_SECONDS, self._flush)

    def _settled(self, row: int, kind: int) -> None:
        self.refused.get(kind, {}).pop(row, None)
        self.attempts.pop(row, None)
        self._tried_at.pop(row, None)

    def _flush(self, _: object) -> None:
        """Pods that nothing has woken for five minutes are tried again."""
        oldest = self._clock.now - self._settings.max_in_unschedulable.total_seconds()
        for pods in self.waiting.values():
            for row in [row for row, since in pods.items() if since <= oldest and row not in self._awaited]:
                self._requeue(row)
        self._flushing = any(self.waiting.values())
        if self._flushing:
            self._clock.after(_FLUSH_SECONDS, self._flush)
