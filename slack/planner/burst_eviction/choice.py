"""Which placeholders leave for bursts of pods: the fewest and cheapest that let in the most of them.

Bursts are served as the scheduler would take them up, the highest priority first, and each sees what the one before has
left. Free room comes first: what fits there lacks nothing. Then placeholders leave, those of the lowest priority first,
and of these those nodes' first where each that leaves lets in the most. The number of pods that are let in is the most
that is possible for the burst; the number of placeholders is the least up to the last step. None leaves that the pods
could do without, and none for pods that would not fit afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slack.cluster.class_index import ClassIndex
from slack.cluster.snapshot import BoolArray, IntArray
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst
from slack.planner.burst_eviction.capacity import ClusterCapacity
from slack.planner.burst_eviction.curves import fits
from slack.planner.burst_eviction.pick import EvictablePlaceholders, Places, pick
from slack.planner.model.added import vector_of
from slack.planner.removal.cost import removal_costs
from slack.planner.removal.ordering import Criterion, order_of_leaving

LONE = 1
"""So many pods that lack room are left to the scheduler: one preemption is as quick as we are."""
MOST_BURSTS = 32
"""For so many placeholders are chosen at once, those of the highest priority; the others are looked at next time."""
_TAKES_NOTHING = (LeftAlone.GATED, LeftAlone.SCHEDULER)
"""The placeholders' scheduler does not consider these pods, so they take no free room from those that it does."""
_NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """Room on a node for pods of a burst, free or about to be."""

    node: str
    pods: int


@dataclass(frozen=True, slots=True)
class BurstResult:
    """What becomes of one burst."""

    key: str
    free: int
    """Pods that fit into free room."""
    let_in: int
    """Pods for which placeholders leave."""
    without: int
    """Pods that stay without room."""
    leaving: tuple[int, ...]
    """Rows of `ClusterCapacity.standing`, in the order in which they go."""
    seats: tuple[ExpectedPods, ...]
    """Where the pods are expected, sorted by node."""
    left_alone: LeftAlone | None = None
    """Why no placeholder leaves for those that lack room, where one could not."""


@dataclass(frozen=True, slots=True)
class EvictionChoice:
    """Who leaves, and for whom."""

    served: tuple[BurstResult, ...]
    """One a burst, in the order given."""

    @property
    def leaving(self) -> tuple[int, ...]:
        """Rows of `ClusterCapacity.standing`, in the order in which they go; the bursts of highest priority first
        served."""
        return tuple(row for own in self.served for row in own.leaving)


def choose_evictions(
    room: ClusterCapacity, bursts: Sequence[PodBurst], *, before: EvictionChoice | None = None, lone: int = LONE
) -> EvictionChoice:
    """Choose the placeholders that leave.

    Every pod without a node that is known belongs in here, those for which no way is made too (`PodBurst.left_alone`):
    they take free room. So nothing is given twice, as long as placeholders on their way out are taken off the room
    (`ClusterCapacity.without`).

    Args:
        room: what is there.
        bursts: pods without a node.
        before: the choice before this one: what it gave to a burst of the same key is that burst's first, so that room
            which was made for one is not another's.
        lone: if no more pods than these can be let in, nobody leaves.
    """
    choice = _serve(room, bursts, before)
    if 0 < sum(own.let_in for own in choice.served) <= lone:
        return _serve(room, [replace(own, left_alone=own.left_alone or LeftAlone.LONE) for own in bursts], before)
    return choice


def _serve(room: ClusterCapacity, bursts: Sequence[PodBurst], before: EvictionChoice | None) -> EvictionChoice:
    state = _State(room, before)
    order = sorted(range(len(bursts)), key=lambda i: (-bursts[i].priority, i))
    for i in order:
        state.hold(bursts[i])
    served = {i: state.serve(bursts[i]) for i in order}
    return EvictionChoice(tuple(served[i] for i in range(len(bursts))))


class _State:
    """What is free while bursts are served one after the other."""

    def __init__(self, room: ClusterCapacity, before: EvictionChoice | None) -> None:
        self._room = room
        self._seats = {own.key: own.seats for own in before.served} if before is not None else {}
        self._free = room.free.copy()
        self._slots = room.slots.copy()
        self._there: BoolArray = np.ones(len(room.standing), dtype=bool)
        self._index = ClassIndex(room.classes)
        self._row = {name: row for row, name in enumerate(room.nodes)}
        self._cost = removal_costs(room.standing.requests, room.largest)
        self._choices = 0
        self._held: dict[str, IntArray] = {}
        """By key of the burst, [X] pods on each node that it may go to."""

    def serve(self, burst: PodBurst) -> BurstResult:
        """Give a burst its room, and say who leaves for it."""
        vector = vector_of(burst.requests, self._room.resources)
        if {name for name, _ in burst.requests} - set(self._room.resources):
            return BurstResult(burst.key, 0, 0, burst.count, (), (), LeftAlone.NO_FIT)
        if burst.left_alone in _TAKES_NOTHING:
            return BurstResult(burst.key, 0, 0, burst.count, (), (), burst.left_alone)
        nodes = self._nodes_of(burst)
        taken = self._into_free(burst, nodes, vector)
        free = int(taken.sum())
        lacking = burst.count - free
        leaving, let_in = _NONE, np.zeros(len(nodes), dtype=np.int64)
        reason: LeftAlone | None = burst.left_alone if lacking else None
        if lacking and reason is None and self._choices == MOST_BURSTS:
            reason = LeftAlone.CROWDED
        if lacking and reason is None:
            leaving, let_in = self._choose(burst, nodes, vector, taken, lacking)
            if burst.whole and int(let_in.sum()) < lacking:
                leaving, let_in = _NONE, np.zeros_like(let_in)
            if not let_in.any():
                reason = self._why_none(burst, nodes)
        if burst.whole and free + int(let_in.sum()) < burst.count:
            self._put_back(nodes, vector, taken)
            return BurstResult(burst.key, 0, 0, burst.count, (), (), reason)
        self._take(nodes, vector, let_in, leaving)
        seats = taken + let_in
        return BurstResult(
            key=burst.key,
            free=free,
            let_in=int(let_in.sum()),
            without=lacking - int(let_in.sum()),
            leaving=tuple(leaving.tolist()),
            seats=tuple(
                ExpectedPods(self._room.nodes[nodes[i]], int(seats[i])) for i in np.flatnonzero(seats).tolist()
            ),
            left_alone=reason,
        )

    def _nodes_of(self, burst: PodBurst) -> IntArray:
        """Return the rows of nodes that a burst's pods may go to."""
        room = self._room
        may: BoolArray = room.is_open & self._index.admitted(burst.constraints)[room.class_id]
        for name in burst.barred:
            if name in self._row:
                may[self._row[name]] = False
        if burst.node is not None:
            only = np.zeros_like(may)
            if burst.node in self._row:
                only[self._row[burst.node]] = True
            may &= only
        return np.flatnonzero(may)

    def hold(self, burst: PodBurst) -> None:
        """Keep what the choice before gave to a burst for it, as far as it is free."""
        seats = self._seats.get(burst.key)
        if not seats or burst.left_alone in _TAKES_NOTHING:
            return
        vector = vector_of(burst.requests, self._room.resources)
        nodes = self._nodes_of(burst)
        former = np.zeros(len(self._room.nodes), dtype=np.int64)
        for seat in seats:
            if seat.node in self._row:
                former[self._row[seat.node]] = seat.pods
        each = np.minimum(self._room_for(burst, nodes, vector), former[nodes])
        self._held[burst.key] = self._fill(nodes, vector, each, np.arange(len(nodes)), burst.count)

    def _into_free(self, burst: PodBurst, nodes: IntArray, vector: IntArray) -> IntArray:
        """[X] how many pods go into the free room of each node; it is theirs then."""
        held = self._held.pop(burst.key, None)
        if held is None:
            held = np.zeros(len(nodes), dtype=np.int64)
        each = self._room_for(burst, nodes, vector)
        if burst.one_a_node:
            each = np.where(held > 0, 0, each)
        # As the scheduler does by default, the emptiest first; in what order does not matter where all is taken.
        order = np.argsort(-each, kind="stable")
        return held + self._fill(nodes, vector, each, order, burst.count - int(held.sum()))

    def _room_for(self, burst: PodBurst, nodes: IntArray, vector: IntArray) -> IntArray:
        most = 1 if burst.one_a_node else burst.count
        return np.minimum(np.minimum(fits(self._free[nodes], vector), np.maximum(self._slots[nodes], 0)), most)

    def _fill(self, nodes: IntArray, vector: IntArray, each: IntArray, order: IntArray, count: int) -> IntArray:
        """[X] how many of `count` pods go into each node, of which no more than `each`, one node after the other."""
        sizes = each[order]
        taken = np.zeros_like(each)
        taken[order] = np.clip(count - (np.cumsum(sizes) - sizes), 0, sizes)
        self._free[nodes] -= taken[:, None] * vector
        self._slots[nodes] -= taken
        return taken

    def _put_back(self, nodes: IntArray, vector: IntArray, taken: IntArray) -> None:
        self._free[nodes] += taken[:, None] * vector
        self._slots[nodes] += taken

    def _take(self, nodes: IntArray, vector: IntArray, let_in: IntArray, leaving: IntArray) -> None:
        standing = self._room.standing
        self._there[leaving] = False
        np.add.at(self._free, standing.node[leaving], standing.requests[leaving])
        np.add.at(self._slots, standing.node[leaving], 1)
        self._free[nodes] -= let_in[:, None] * vector
        self._slots[nodes] -= let_in

    def _why_none(self, burst: PodBurst, nodes: IntArray) -> LeftAlone:
        standing = self._room.standing
        here = np.isin(standing.node, nodes)
        if here.any() and not (standing.priority[here] < burst.priority).any():
            return LeftAlone.PRIORITY
        return LeftAlone.NO_FIT

    def _choose(
        self, burst: PodBurst, nodes: IntArray, vector: IntArray, taken: IntArray, lacking: int
    ) -> tuple[IntArray, IntArray]:
        """Return rows of placeholders that leave, and [X] how many pods they let in on each node."""
        standing = self._room.standing
        if not len(nodes):
            return _NONE, np.zeros(0, dtype=np.int64)
        place = np.full(len(self._room.nodes), -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        at = place[standing.node]
        usable = self._there & (standing.priority < burst.priority) & (at >= 0)
        if burst.one_a_node:
            usable &= taken[at] == 0
        rest, slots = self._free[nodes].copy(), self._slots[nodes].copy()
        usable &= self._helps(usable, at, rest, vector)
        self._choices += bool(usable.any())
        let_in = np.zeros(len(nodes), dtype=np.int64)
        leaving = _NONE
        # Those of a higher priority only where the lower ones do not suffice, as the scheduler has it.
        for priority in np.unique(standing.priority[usable]).tolist():
            left = lacking - int(let_in.sum())
            rows = np.flatnonzero(usable & (standing.priority <= priority))
            if burst.one_a_node:
                rows = rows[let_in[at[rows]] == 0]
            if not left or not len(rows):
                break
            most = 1 if burst.one_a_node else left
            placeholders = EvictablePlaceholders(
                at[rows], standing.requests[rows], standing.priority[rows], self._cost[rows], standing.turn[rows]
            )
            places = Places(rest, slots, self._room.candidate[nodes])
            chosen, pods = pick(placeholders, places, vector, left, most)
            rows = rows[chosen]
            leaving = np.concatenate([leaving, rows])
            usable[rows] = False
            np.add.at(rest, at[rows], standing.requests[rows])
            np.add.at(slots, at[rows], 1)
            rest -= pods[:, None] * vector
            slots -= pods
            let_in += pods
        return self._needed(leaving, at, rest, slots, vector), let_in

    def _helps(self, usable: BoolArray, at: IntArray, rest: IntArray, vector: IntArray) -> BoolArray:
        """[P] which placeholders are on nodes where a pod would fit if all that may leave did: mostly quick to know."""
        standing = self._room.standing
        rows, whole = np.flatnonzero(usable), rest.copy()
        for r in np.flatnonzero(vector > 0).tolist():
            whole[:, r] += np.bincount(at[rows], standing.requests[rows, r], len(rest)).astype(np.int64)
        helped: BoolArray = fits(whole, vector)[at] > 0
        return helped

    def _needed(self, leaving: IntArray, at: IntArray, rest: IntArray, slots: IntArray, vector: IntArray) -> IntArray:
        """Return those of `leaving` without which the pods do not fit; `rest` and `slots` are what is left at last."""
        standing, asked = self._room.standing, vector > 0
        spare = np.all((standing.requests[leaving] <= rest[at[leaving]]) | ~asked, axis=1) & (slots[at[leaving]] > 0)
        if not spare.any():  # nearly always
            return leaving
        stays: list[int] = []
        rows = np.flatnonzero(spare)
        # The other way round: the dearest stays first.
        for i in rows[order_of_leaving({Criterion.COST: -self._cost[leaving[rows]]})].tolist():
            row = leaving[i]
            place, requests = at[row], standing.requests[row]
            if slots[place] > 0 and np.all((requests <= rest[place]) | ~asked):
                rest[place] -= requests
                slots[place] -= 1
                stays.append(i)
        return np.delete(leaving, stays)
