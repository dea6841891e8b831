"""The operator makes way: placeholders leave together for pods that lack room, before each is preempted one by one.

What leaves is chosen by the planner's own `pick`. As in the operator: a moment after pods came, for no fewer than two
that lack room, never for those that preempt nobody; ReplicaSets are lowered meanwhile, and raised again when the pods
are bound, or after two seconds.
"""

from collections.abc import Callable, Iterable

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.burst_eviction.choice import LONE
from slack.planner.burst_eviction.curves import fits
from slack.planner.burst_eviction.pick import EvictablePlaceholders, Places, pick
from slack.planner.removal.cost import removal_costs
from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodKind, PodRole
from slack.simulator.model.replicaset import ReplicaSets
from slack.simulator.model.state import ModelledCluster

BOUND_SECONDS = 2.0
"""After this time the room is asked for again, bound or not."""


class ModelledBurstEviction:
    """Looks when `touch` was called; `leave` and `give_back` are carried out by the engine."""

    def __init__(
        self, cluster: ModelledCluster, clock: Clock, sets: ReplicaSets, seconds: float, leave: Callable[[int], None]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sets = sets
        self._seconds = seconds
        self._leave = leave
        self._looks = False
        self._waiting: set[int] = set()
        """Kinds for which way was made."""
        self._round = 0
        self.refill: Callable[[PodKind], None] = lambda kind: sets.sync(kind, clock.now)
        """Has a ReplicaSet made what it lacks."""

    def touch(self) -> None:
        """A real pod has come."""
        if not self._looks:
            self._looks = True
            self._clock.after(self._seconds, self._look)

    def bound(self, kind: PodKind) -> None:
        """A real pod has got its node."""
        if kind.index in self._waiting and not self._lacking(kind):
            self._waiting.discard(kind.index)
            if not self._waiting:
                self._give_back(self._round)

    def _lacking(self, kind: PodKind) -> int:
        """Return how many pods have no node, and none nominated."""
        cluster = self._cluster
        pending = cluster.count[kind.index] - cluster.running[kind.index]
        if pending:
            rows = (row for rows in cluster.nominations.values() for row in rows)
            pending -= sum(cluster.kind_of[row] == kind.index for row in rows)
        return pending

    def _look(self, _: object) -> None:
        self._looks = False
        cluster = self._cluster
        kinds = (cluster.kinds[row] for row in range(len(cluster.kinds.workloads)))
        lacking = [(kind, number) for kind in kinds if (number := self._lacking(kind)) > 0]
        if sum(number for kind, number in lacking if kind.preempts) <= LONE:
            return
        free, slots = cluster.free[:, : cluster.size].T.copy(), cluster.slots[: cluster.size].copy()
        for node, rows in cluster.nominations.items():
            for row in rows:
                free[node] -= cluster.kinds[cluster.kind_of[row]].requests
                slots[node] -= 1
        leaving: list[int] = []
        made: dict[int, int] = {}
        for kind, number in sorted(lacking, key=lambda pair: (-pair[0].priority, pair[0].index)):
            rows, made[kind.index] = self._serve(kind, number, free, slots, set(leaving))
            leaving += rows
        if sum(made.values()) <= LONE:
            return
        self._waiting |= {index for index, number in made.items() if number}
        for row in leaving:
            self._sets.lend(cluster.kind_of[row])
            self._leave(row)
        self._round += 1
        self._clock.after(BOUND_SECONDS, self._give_back, self._round)

    def _serve(
        self, kind: PodKind, number: int, free: IntArray, slots: IntArray, gone: set[int]
    ) -> tuple[list[int], int]:
        """Return the pods that leave for a kind, and for how many; `free` and `slots` are less afterwards."""
        cluster = self._cluster
        may = cluster.allowed(kind).copy()
        for other in kind.conflicts:
            if other in cluster.standing:
                may &= cluster.standing[other][: cluster.size] == 0
        nodes = np.flatnonzero(may)
        most = 1 if kind.index in kind.conflicts else number
        each = np.minimum(np.minimum(fits(free[nodes], kind.requests), np.maximum(slots[nodes], 0)), most)
        taken = np.clip(number - (np.cumsum(each) - each), 0, each)
        free[nodes] -= taken[:, None] * kind.requests
        slots[nodes] -= taken
        left = number - int(taken.sum())
        at = np.full(cluster.size, -1, dtype=np.int64)
        at[nodes if most > 1 else nodes[taken == 0]] = np.flatnonzero((taken == 0) | (most > 1))
        pods = [row for row in self._placeholders(kind.priority) if at[cluster.node_of[row]] >= 0 and row not in gone]
        if not left or not pods or not kind.preempts:
            return [], 0
        kinds = [cluster.kinds[cluster.kind_of[row]] for row in pods]
        requests = np.array([own.requests for own in kinds], dtype=np.int64)
        node = np.array([cluster.node_of[row] for row in pods], dtype=np.int64)
        largest = cluster.allocatable[:, : cluster.size].max(axis=1)
        own = EvictablePlaceholders(
            node=at[node],
            requests=requests,
            priority=np.array([other.priority for other in kinds], dtype=np.int64),
            cost=removal_costs(requests, largest),
            turn=np.array([cluster.number[row] for row in pods], dtype=np.int64),
        )
        places = Places(free[nodes], slots[nodes], cluster.candidate[nodes])
        chosen, come = pick(own, places, kind.requests, left, most)
        np.add.at(free, node[chosen], requests[chosen])
        np.add.at(slots, node[chosen], 1)
        free[nodes] -= come[:, None] * kind.requests
        slots[nodes] -= come
        return [pods[i] for i in chosen.tolist()], int(come.sum())

    def _placeholders(self, below: int) -> Iterable[int]:
        cluster = self._cluster
        for kind in cluster.kinds.table:
            if kind.role is PodRole.PLACEHOLDER and kind.priority < below:
                yield from (row for row in cluster.pods_of.get(kind.index, ()) if cluster.node_of[row] >= 0)

    def _give_back(self, made: int) -> None:
        if made != self._round:
            return
        self._waiting.clear()
        for index in self._sets.take_back():
            self.refill(self._cluster.kinds[index])
