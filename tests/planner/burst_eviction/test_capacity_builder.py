"""The room that is made of the columns at once is the one that a snapshot shows."""

import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster import wire
from slack.cluster.classes import Constraints
from slack.cluster.columns import ClusterColumns
from slack.cluster.room_copy import PlaceholderColumns
from slack.planner.burst_eviction.capacity import ClusterCapacity, capacity_of
from slack.planner.burst_eviction.capacity_builder import ClusterCapacityBuilder
from slack.planner.burst_eviction.choice import choose_evictions
from slack.planner.burst_eviction.scale_down import scale_down_turns
from tests.planner.burst_eviction.capacities import burst

NOW = 1_700_000_000.0


def _node(name: str, labels: Any = None, **status: Any) -> wire.Node:
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": name, "labels": labels or {}},
            "status": {
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", **status},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        wire.Node,
    )


def _pod(name: str, node: str, cpu: str, policy: str = "", *, going: bool = False) -> wire.Pod:
    labels = {"resource-slack.io/placeholder": "true", "resource-slack.io/policy": policy} if policy else {}
    owner = {"kind": "ReplicaSet", "name": f"{policy}-set", "uid": f"{policy}-set", "controller": True}
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "resource-slack" if policy else "shop",
            "uid": name,
            "labels": labels,
            "ownerReferences": [owner],
            "deletionTimestamp": "2026-01-01T00:00:00Z" if going else None,
        },
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=wire.Pod)


def _columns() -> ClusterColumns:
    columns = ClusterColumns("resource-slack")
    columns.apply_nodes([("ADDED", _node(f"n{i}", {"pool": "web" if i % 2 else "db"})) for i in range(4)])
    columns.apply_nodes([("ADDED", _node("gpu", None, **{"nvidia.com/gpu": "4"}))])
    for i in range(12):
        columns.apply_pod("ADDED", _pod(f"p{i}", f"n{i % 4}", "500m", "default" if i % 3 else "web"))
        columns.apply_pod("ADDED", _pod(f"r{i}", f"n{i % 4}", "1500m"))
    columns.apply_pod("ADDED", _pod("other", "n0", "500m", "other"))
    columns.apply_pod("ADDED", _pod("nowhere", "gone", "500m", "web"))
    return columns


PRIORITIES = {"default": -10, "web": -5}


def _sorted(room: ClusterCapacity) -> tuple[object, ...]:
    nodes = sorted(
        (name, tuple(room.free[i].tolist()), int(room.slots[i]), bool(room.is_open[i]))
        for i, name in enumerate(room.nodes)
    )
    own = room.standing
    pods = sorted(
        (own.uid[i], own.name[i], own.replica_set[i], own.policy[i], room.nodes[own.node[i]], int(own.priority[i]))
        for i in range(len(own))
    )
    return room.resources, nodes, pods, tuple(room.largest.tolist())


def test_a_room_made_of_the_columns_is_that_of_a_snapshot() -> None:
    columns = _columns()

    quick = ClusterCapacityBuilder().room(columns.room_copy(), [], PRIORITIES, NOW)

    assert _sorted(quick) == _sorted(capacity_of(columns.snapshot(NOW), PRIORITIES))


def test_the_room_of_placeholders_that_are_being_deleted_is_free() -> None:
    columns, builder = _columns(), ClusterCapacityBuilder()
    before = builder.room(columns.room_copy(), [], PRIORITIES, NOW)

    columns.apply_pod("MODIFIED", _pod("p1", "n1", "500m", "default", going=True))
    after = builder.room(columns.room_copy(), [], PRIORITIES, NOW)

    node = after.nodes.index("n1")
    assert after.free[node].tolist() == (before.free[node] + np.array([500, 0, 0])).tolist()
    assert after.slots[node] == before.slots[node] + 1
    assert "p1" not in list(after.standing.uid)


def test_labels_that_only_promised_pods_name_tell_nodes_apart() -> None:
    columns, builder = _columns(), ClusterCapacityBuilder()
    web = Constraints(node_selector=(("pool", "web"),))

    room = builder.room(columns.room_copy(), [web], PRIORITIES, NOW)
    (own,) = choose_evictions(room, [burst(30, constraints=web)]).served

    assert {seat.node for seat in own.seats} == {"n1", "n3"}
    assert own.let_in > 1


def test_rooms_follow_nodes_that_come_and_go() -> None:
    columns, builder = _columns(), ClusterCapacityBuilder()
    builder.room(columns.room_copy(), [], PRIORITIES, NOW)

    columns.apply_nodes([("ADDED", _node("new")), ("DELETED", _node("n0"))])
    room = builder.room(columns.room_copy(), [], PRIORITIES, NOW)

    assert _sorted(room) == _sorted(capacity_of(columns.snapshot(NOW), PRIORITIES))


@st.composite
def _placeholders(draw: st.DrawFn) -> PlaceholderColumns:
    size = draw(st.integers(1, 12))

    def of(values: st.SearchStrategy[Any], kind: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype=kind)

    return PlaceholderColumns(
        facts=[],
        node=of(st.integers(0, 3), np.int32),
        requests=np.zeros((size, 2), dtype=np.int64),
        policies=("a", "b"),
        policy=of(st.integers(0, 1), np.int32),
        leaving=np.zeros(size, dtype=bool),
        cost=of(st.sampled_from([0, 0, 0, 5, -5]), np.int64),
        ready_seconds=of(st.one_of(st.just(math.nan), st.integers(1, 10_000).map(lambda age: NOW - age)), np.float64),
        uid_order=np.array(draw(st.permutations(range(size))), dtype=np.int64),
    )


def _ranked(own: PlaceholderColumns, i: int) -> tuple[object, ...]:
    """As ActivePodsWithRanks compares two pods of one ReplicaSet that are bound and have never been started again."""
    siblings = int(((own.policy == own.policy[i]) & (own.node == own.node[i])).sum())
    ready = not math.isnan(own.ready_seconds[i])
    age = int(math.log2((NOW - own.ready_seconds[i]) * 1e9)) if ready else 0
    return ready, int(own.cost[i]), -siblings, age, int(own.uid_order[i])


@given(_placeholders())
def test_turns_are_the_order_in_which_a_replica_sets_controller_takes_pods_away(own: PlaceholderColumns) -> None:
    turns = scale_down_turns(own, own.node.astype(np.int64), NOW)

    for policy in (0, 1):
        rows = np.flatnonzero(own.policy == policy).tolist()
        assert sorted(rows, key=lambda i: turns[i]) == sorted(rows, key=lambda i: _ranked(own, i))
