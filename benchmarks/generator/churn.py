"""What a watch sends after the list: rollouts, jobs, scaling, failing probes; consistent with the list and with itself.

Each change runs through the events that a real control plane makes of it (created, bound, starting, running; marked
for deletion, ended, deleted), and some forty of them run interleaved. Pods go to nodes that have room for
them and whose pool, zone and neighbours their constraints allow.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.generator.layout import Layout
from benchmarks.generator.lists import LIMIT, SEED, layout_of, pages_of
from benchmarks.generator.placement import NO_NODE, demand
from benchmarks.generator.pools import BoolArray, IntArray
from benchmarks.generator.rendering import PodWriter
from benchmarks.generator.size import NOW, Size
from benchmarks.generator.states import PodState, Stage
from benchmarks.generator.workloads import Kind, Spread, Workload, eligible

_AT_ONCE = 40
_EVENTS_PER_SECOND = 100
"""By the objects' own times; how fast lines are sent is the reader's business."""
_TRIES = 8
_TEMPLATES = 4096
_Event = tuple[str, PodState]
_Key = tuple[int, int]


def watch_lines(size: Size, seed: int = SEED, events: int = 10_000) -> Iterator[bytes]:
    """Yield lines of a watch that starts from the list's resourceVersion."""
    return Churn(size, seed).lines(events)


class Churn:
    """A cluster that goes on from its list.

    Usage:
        churn = Churn(size, seed)
        for line in churn.lines(10_000): ...
        for page in churn.pages(): ...        # the list as it is then
    """

    def __init__(self, size: Size, seed: int = SEED) -> None:
        self._layout: Layout = layout_of(size, seed)
        self._rng = random.Random(f"churn of {seed}")
        self._writer = PodWriter(self._layout, _TEMPLATES)
        self._free: IntArray = self._layout.free.copy()
        self._changed: dict[_Key, PodState | None] = {}
        """Pods that differ from the list's; None for those of the list that are gone."""
        self._next = {workload.number: workload.replicas for workload in self._layout.workloads}
        self._busy: set[_Key] = set()
        self._reach: dict[int, BoolArray] = {}
        self._scripts: list[Iterator[_Event]] = []
        movable = [workload for workload in self._layout.workloads if workload.kind not in (Kind.DAEMON_SET, Kind.BARE)]
        self._movable = movable
        self._weights = np.cumsum([workload.replicas for workload in movable]).tolist()
        self._events = 0
        self.version = self._layout.list_version
        """The resourceVersion of the last event."""
        self.pods = size.pods
        """How many there are now."""

    def lines(self, events: int) -> Iterator[bytes]:
        """Yield so many lines; call again for more. Without anything that may change there are none."""
        if not self._movable:
            return
        for _ in range(events):
            kind, state = self._step()
            yield self._writer.event(kind, state)

    def pages(self, limit: int = LIMIT) -> Iterator[bytes]:
        """Yield the list as of now, whatever happens while it is read; `pod_pages` yields it as of the beginning."""
        return pages_of(self._layout, list(self._states()), self.pods, self.version, limit)

    def _states(self) -> Iterator[PodState]:
        for workload in self._layout.workloads:
            ordinals = range(self._next[workload.number])
            states = {ordinal: state for ordinal in ordinals if (state := self._state(workload, ordinal)) is not None}
            for ordinal in self._layout.ordered(workload, iter(states)):
                yield states[ordinal]

    def _state(self, workload: Workload, ordinal: int) -> PodState | None:
        key = (workload.number, ordinal)
        if key in self._changed:
            return self._changed[key]
        return self._layout.state(workload, ordinal) if ordinal < workload.replicas else None

    def _step(self) -> _Event:
        """Return the next event of one of the changes that are under way."""
        while True:
            if len(self._scripts) < _AT_ONCE:
                self._scripts.append(self._script())
            place = self._rng.randrange(len(self._scripts))
            event = next(self._scripts[place], None)
            if event is not None:
                return event
            self._scripts[place] = self._scripts[-1]
            self._scripts.pop()

    def _script(self) -> Iterator[_Event]:
        workload = self._rng.choices(self._movable, cum_weights=self._weights)[0]
        if workload.kind in (Kind.JOB, Kind.CRON_JOB):
            return self._finish(workload)
        chance = self._rng.random()
        if workload.kind is Kind.STATEFUL_SET:
            return self._replace_in_place(workload)
        if chance < 0.60:
            return self._replace(workload)
        return self._fail_for_a_while(workload) if chance < 0.85 else self._bind_late(workload)

    def _replace(self, workload: Workload) -> Iterator[_Event]:
        """Delete a Deployment's pod; the ReplicaSet makes another, before the old one has ended."""
        old = self._pick(workload, Stage.RUNNING)
        if old is None:
            return
        old, event = self._put(old, Stage.TERMINATING)
        yield event
        ordinal = self._next[workload.number]
        self._next[workload.number] += 1
        zone = int(self._layout.nodes.zone[old.node]) if workload.spread is Spread.ZONES else None
        if workload.spread is Spread.APART:  # its own node is the one that surely has no second one
            yield from self._end(old)
            yield from self._start(workload, ordinal, old.node)
            return
        starts = self._start(workload, ordinal, None, zone)
        for _ in range(2):
            if (event_of_new := next(starts, None)) is not None:
                yield event_of_new
        yield from self._end(old)
        yield from starts

    def _replace_in_place(self, workload: Workload) -> Iterator[_Event]:
        """Delete a StatefulSet's pod; one of the same name comes when it is gone."""
        old = self._pick(workload, Stage.RUNNING)
        if old is None:
            return
        old, event = self._put(old, Stage.TERMINATING)
        yield event
        yield from self._end(old)
        yield from self._start(workload, old.ordinal, old.node, ended=old.ended + 1)

    def _finish(self, workload: Workload) -> Iterator[_Event]:
        """Let a Job's pod succeed and be cleaned up, and start the next."""
        old = self._pick(workload, Stage.RUNNING)
        if old is None:
            return
        self._give_back(old)
        old, event = self._put(old, Stage.SUCCEEDED)
        yield event
        ordinal = self._next[workload.number]
        self._next[workload.number] += 1
        yield from self._start(workload, ordinal, old.node)
        yield self._drop(old)

    def _fail_for_a_while(self, workload: Workload) -> Iterator[_Event]:
        """Let a readiness probe fail, twice."""
        state = self._pick(workload, Stage.RUNNING)
        if state is None:
            return
        for stage in (Stage.UNREADY, Stage.RUNNING, Stage.UNREADY, Stage.RUNNING):
            state, event = self._put(state, stage)
            yield event
        self._release(state)

    def _bind_late(self, workload: Workload) -> Iterator[_Event]:
        """Bind a pod that had waited for room."""
        state = self._pick(workload, Stage.UNSCHEDULABLE)
        if state is None or workload.spread in (Spread.APART, Spread.ZONES):
            return
        yield from self._bind(state, None)

    def _start(
        self, workload: Workload, ordinal: int, node: int | None, zone: int | None = None, ended: int = 0
    ) -> Iterator[_Event]:
        key = (workload.number, ordinal)
        self._busy.add(key)
        created = self._now()
        state = PodState(workload, ordinal, NO_NODE, Stage.CREATED, 0, created, created, ended)
        self.pods += 1
        state, _ = self._put(state, Stage.CREATED)
        yield "ADDED", state
        yield from self._bind(state, node, zone)

    def _bind(self, state: PodState, node: int | None, zone: int | None = None) -> Iterator[_Event]:
        found = self._find_node(state.workload, node, zone)
        if found is None:
            state, event = self._put(state, Stage.UNSCHEDULABLE)
            yield event
            self._release(state)
            return
        self._free[found] -= demand(state.workload)
        for stage in (Stage.BOUND, Stage.STARTING, Stage.RUNNING):
            state, event = self._put(replace(state, node=found), stage)
            yield event
        self._release(state)

    def _end(self, state: PodState) -> Iterator[_Event]:
        state, event = self._put(state, Stage.ENDED)
        yield event
        self._give_back(state)
        yield self._drop(state)

    def _pick(self, workload: Workload, stage: Stage) -> PodState | None:
        """Return one of the workload's pods in a stage, which no other change touches; None when none was hit upon."""
        for _ in range(_TRIES):
            ordinal = self._rng.randrange(self._next[workload.number])
            if (workload.number, ordinal) in self._busy:
                continue
            state = self._state(workload, ordinal)
            if state is not None and state.stage is stage:
                self._busy.add((workload.number, ordinal))
                return state
        return None

    def _find_node(self, workload: Workload, node: int | None, zone: int | None) -> int | None:
        asked = demand(workload)
        if node is not None:
            return node if bool((self._free[node] >= asked).all()) else None
        if workload.number not in self._reach:
            self._reach[workload.number] = eligible(workload, self._layout.nodes)
        mask = self._reach[workload.number]
        if zone is not None:
            mask = mask & (self._layout.nodes.zone == zone)
        for _ in range(_TRIES):
            tried = self._rng.randrange(self._layout.size.nodes)
            if mask[tried] and bool((self._free[tried] >= asked).all()):
                return tried
        fitting = np.flatnonzero(mask & (self._free >= asked).all(axis=1))
        return int(fitting[self._rng.randrange(len(fitting))]) if len(fitting) else None

    def _put(self, state: PodState, stage: Stage) -> tuple[PodState, _Event]:
        """Write a pod's next stage."""
        self.version += 1 + self._rng.randrange(3)
        self._events += 1
        state = replace(state, stage=stage, version=self.version, changed=self._now())
        self._changed[state.workload.number, state.ordinal] = state
        return state, ("MODIFIED", state)

    def _drop(self, state: PodState) -> _Event:
        key = (state.workload.number, state.ordinal)
        state, _ = self._put(state, state.stage)
        if state.ordinal < state.workload.replicas:
            self._changed[key] = None
        else:
            del self._changed[key]
        self._busy.discard(key)
        self.pods -= 1
        return "DELETED", state

    def _give_back(self, state: PodState) -> None:
        self._free[state.node] += demand(state.workload)

    def _release(self, state: PodState) -> None:
        self._busy.discard((state.workload.number, state.ordinal))

    def _now(self) -> int:
        return int(NOW) + self._events // _EVENTS_PER_SECOND
