"""A running pod whose resize is Deferred gets what it asks from placeholders on its own node."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import wire
from slack.planner.burst_eviction.growth import GrowingPod, choose_for_growth, is_resize_deferred
from tests.examples import examples
from tests.planner.burst_eviction.capacities import Node, Ph, room


def _growing(node: str = "n0", priority: int = 0) -> GrowingPod:
    return GrowingPod("uid", "shop/pg-0", node, priority)


def _pod(reason: str, status: str = "True", kind: str = "PodResizePending", node: str = "n0") -> wire.Pod:
    conditions = [{"type": "Ready", "status": "True"}, {"type": kind, "status": status, "reason": reason}]
    document = {
        "metadata": {"name": "pg-0", "namespace": "shop", "uid": "u"},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": conditions},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)


def test_only_a_resize_for_which_its_node_has_no_room_now_is_deferred() -> None:
    assert is_resize_deferred(_pod("Deferred"))
    assert not is_resize_deferred(_pod("Infeasible"))
    assert not is_resize_deferred(_pod("Deferred", status="False"))
    assert not is_resize_deferred(_pod("", kind="PodResizeInProgress"))
    assert not is_resize_deferred(_pod("Deferred", node=""))


def test_the_cheapest_placeholder_that_suffices_leaves() -> None:
    there = room(Node(-400, placeholders=[Ph(2000), Ph(500), Ph(300)]), Node(-400, placeholders=[Ph(400)]))

    assert choose_for_growth(there, _growing()) == (1,)


def test_several_leave_where_none_suffices_alone_the_fewest_first() -> None:
    assert choose_for_growth(room(Node(-900, placeholders=[Ph(300), Ph(500), Ph(400), Ph(200)])), _growing()) == (1, 2)


def test_none_leaves_where_all_would_not_suffice() -> None:
    assert choose_for_growth(room(Node(-900, -1, placeholders=[Ph(500), Ph(500)])), _growing()) == ()
    assert choose_for_growth(room(Node(-900, placeholders=[Ph(500)])), _growing()) == ()


def test_none_leaves_where_nothing_lacks_any_more() -> None:
    assert choose_for_growth(room(Node(0, placeholders=[Ph(500)])), _growing()) == ()
    assert choose_for_growth(room(Node(-5, placeholders=[Ph(500)])), _growing("gone")) == ()


@pytest.mark.parametrize(("priority", "leaving"), [(0, (1,)), (-7, (1,)), (-10, ())])
def test_a_policy_of_lower_priority_gives_first_and_none_that_is_not_below_the_pod(
    priority: int, leaving: tuple[int, ...]
) -> None:
    there = room(Node(-400, placeholders=[Ph(400, priority=-5), Ph(900, priority=-10)]))

    assert choose_for_growth(there, _growing(priority=priority)) == leaving


@examples(200)
@given(
    st.integers(-9, 2), st.integers(-9, 2), st.lists(st.builds(Ph, st.integers(0, 5), st.integers(0, 5)), max_size=6)
)
def test_what_leaves_is_enough_and_none_of_it_could_stay(cpu: int, memory: int, pods: list[Ph]) -> None:
    there = room(Node(cpu, memory, placeholders=pods))
    rows = list(choose_for_growth(there, _growing()))

    requests, lacks = there.standing.requests, np.maximum(-there.free[0], 0)
    if not rows:
        assert not lacks.any() or not (requests.sum(axis=0) >= lacks).all()
    else:
        assert (requests[rows].sum(axis=0) >= lacks).all()
        for row in rows:
            assert not (requests[rows].sum(axis=0) - requests[row] >= lacks).all()
