"""What holds for every choice: enough, no more than that, and the most that is possible."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.snapshot import IntArray
from slack.planner.burst_eviction.burst import LeftAlone, PodBurst
from slack.planner.burst_eviction.capacity import ClusterCapacity
from slack.planner.burst_eviction.choice import EvictionChoice, choose_evictions
from tests.examples import examples
from tests.planner.burst_eviction.capacities import Node, Ph, burst, room

_PLACEHOLDERS = st.builds(
    Ph,
    cpu=st.integers(1, 8),
    memory=st.integers(0, 4),
    priority=st.sampled_from([-10, -10, -5]),
    turn=st.integers(0, 3),
)
_NODES = st.builds(
    Node,
    free=st.integers(-2, 6),
    memory=st.integers(0, 6),
    placeholders=st.lists(_PLACEHOLDERS, max_size=4),
    slots=st.integers(0, 4),
    is_open=st.sampled_from([True, True, True, False]),
    candidate=st.booleans(),
)
_BURSTS = st.builds(
    burst,
    count=st.integers(0, 12),
    cpu=st.integers(1, 6),
    memory=st.integers(0, 3),
    priority=st.sampled_from([0, 0, 5, -7]),
    whole=st.sampled_from([False, False, True]),
    one_a_node=st.sampled_from([False, False, True]),
    left_alone=st.sampled_from([None, None, None, LeftAlone.GATED]),
)


def _vector(own: PodBurst) -> IntArray:
    asked = dict(own.requests)
    return np.array([asked.get("cpu", 0), asked.get("memory", 0)], dtype=np.int64)


def _fit(own: PodBurst, free: object, slots: int) -> int:
    vector, left = _vector(own), np.asarray(free)
    most = min((int(left[r] // vector[r]) for r in range(2) if vector[r]), default=99)
    return max(min(most, slots, 1 if own.one_a_node else most), 0)


def _brute_force(own: PodBurst, there: ClusterCapacity) -> tuple[int, int]:
    """Return how many pods could be let in at most, and with how few placeholders, node by node."""
    best: dict[int, int] = {0: 0}
    for node in np.flatnonzero(there.is_open).tolist():
        rows = np.flatnonzero((there.standing.node == node) & (there.standing.priority < own.priority))
        options: dict[int, int] = {}
        for taken in product((False, True), repeat=len(rows)):
            gone = there.standing.requests[rows[list(taken)]].sum(axis=0)
            pods = _fit(own, there.free[node] + gone, int(there.slots[node]) + sum(taken))
            for number in range(pods + 1):
                options[number] = min(options.get(number, 99), sum(taken))
        merged: dict[int, int] = {}
        for (pods, cost), (more, extra) in product(best.items(), options.items()):
            merged[pods + more] = min(merged.get(pods + more, 99), cost + extra)
        best = merged
    most = min(max(best), own.count)
    return most, best[most]


@examples(300)
@given(st.lists(_NODES, min_size=1, max_size=4), _BURSTS)
def test_a_burst_gets_the_most_pods_that_any_choice_could_let_in(nodes: list[Node], own: PodBurst) -> None:
    there = room(*nodes)
    (served,) = choose_evictions(there, [own], lone=0).served

    most, fewest = _brute_force(own, there)
    if own.left_alone is not None:
        assert not served.leaving
    elif own.whole:
        assert served.free + served.let_in == (own.count if most == own.count else 0)
    else:
        assert served.free + served.let_in == most
        # Priorities come before numbers, and the last step is taken whole.
        if len(set(there.standing.priority.tolist())) < 2:
            assert len(served.leaving) <= fewest + 2


@examples(300)
@given(st.lists(_NODES, min_size=1, max_size=4), st.lists(_BURSTS, min_size=1, max_size=3))
def test_no_more_room_is_made_than_lacks(nodes: list[Node], bursts: list[PodBurst]) -> None:
    there = room(*nodes)
    choice = choose_evictions(there, bursts)
    _all_fit(there, bursts, choice)
    for own, served in zip(bursts, choice.served, strict=True):
        for row in served.leaving:
            assert there.standing.priority[row] < own.priority
        if served.leaving:
            assert own.left_alone is None
            assert served.let_in > 0
        assert served.free + served.let_in + served.without == own.count
        assert sum(seat.pods for seat in served.seats) == served.free + served.let_in
        assert own.whole <= (served.without in (0, own.count))
        assert not own.one_a_node or all(seat.pods == 1 for seat in served.seats)
    assert len(set(choice.leaving)) == len(choice.leaving)


def _all_fit(there: ClusterCapacity, bursts: list[PodBurst], choice: EvictionChoice) -> None:
    """Every pod that has a seat fits there, and with any placeholder less for its burst it does not."""
    room_on, slots = there.free.copy(), there.slots.copy()
    row_of = {name: row for row, name in enumerate(there.nodes)}
    for row in choice.leaving:
        room_on[there.standing.node[row]] += there.standing.requests[row]
        slots[there.standing.node[row]] += 1
    for own, served in zip(bursts, choice.served, strict=True):
        for seat in served.seats:
            assert there.is_open[row_of[seat.node]]
            room_on[row_of[seat.node]] -= seat.pods * _vector(own)
            slots[row_of[seat.node]] -= seat.pods
    for seats in (served.seats for served in choice.served):
        for seat in seats:
            asked = np.any([_vector(own) > 0 for own in bursts], axis=0)
            assert (room_on[row_of[seat.node]][asked] >= np.minimum(there.free[row_of[seat.node]][asked], 0)).all()
            assert slots[row_of[seat.node]] >= 0
    if len(bursts) == 1:
        asked = _vector(bursts[0]) > 0
        for row in choice.leaving:
            node = there.standing.node[row]
            spare = (there.standing.requests[row] <= room_on[node])[asked].all() and slots[node] > 0
            assert not spare, "a placeholder left without which the pods would fit"


@examples(100)
@given(st.lists(_NODES, min_size=1, max_size=4), st.lists(_BURSTS, min_size=1, max_size=3))
def test_the_same_room_gives_the_same_choice_and_what_was_made_is_not_made_again(
    nodes: list[Node], bursts: list[PodBurst]
) -> None:
    there = room(*nodes)
    bursts = [replace(own, key=f"shop/deploy/{number}") for number, own in enumerate(bursts)]
    choice = choose_evictions(there, bursts)

    assert choose_evictions(room(*nodes), bursts) == choice
    gone = {there.standing.uid[row] for row in choice.leaving}
    again = choose_evictions(there.without(gone), bursts, before=choice)
    assert not again.leaving
    assert [own.free for own in again.served] == [own.free + own.let_in for own in choice.served]


@given(st.integers(1, 30), st.integers(2, 60), st.lists(st.integers(0, 1000), min_size=120, max_size=120))
def test_of_equal_placeholders_those_go_that_their_controller_would_take(
    nodes: int, count: int, turns: list[int]
) -> None:
    there = room(*[Node(placeholders=[Ph(500, turn=turns[4 * i + j]) for j in range(4)]) for i in range(nodes)])
    (served,) = choose_evictions(there, [burst(count)]).served

    first = sorted(there.standing.turn.tolist())[: len(served.leaving)]
    assert Counter(there.standing.turn[list(served.leaving)].tolist()) == Counter(first)
