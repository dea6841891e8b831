"""Standard placeholders: few, useful, no larger than a real pod, and not so large that they pin their node."""

import numpy as np
import pytest

from slack.cluster.snapshot import IntArray
from slack.planner.fill import Bounds, count_for, fill, fill_further, make_bounds, useful, version_1
from slack.planner.outcome import ConditionType, ExistingShape
from slack.planner.plan import plan
from slack.planner.shape import Role, Shape
from tests.cluster.build import NOW, Json, node
from tests.planner.scenes import GI, MI, as_existing, plan_of, policy_of, replicas, sizes, snapshot_of


def vec(*amounts: int) -> IntArray:
    return np.array(amounts, dtype=np.int64)


def bounds(
    *pods: tuple[int, int], nodes: tuple[tuple[int, int], ...] = ((4000, 16 * GI),), granularity: int = 5
) -> Bounds:
    table = np.array(nodes, dtype=np.int64)
    return make_bounds(
        table, table.mean(axis=0).astype(np.int64), np.array(pods, dtype=np.int64).reshape(-1, 2), granularity
    )


def test_chunks_are_few_and_as_large_as_granularity_and_pods_allow() -> None:
    found = fill(vec(4000, 4 * GI), bounds((1000, 1 * GI), (700, 700 * MI)))
    assert found is not None
    assert (found.chunk.tolist(), found.count) == ([800, 820 * MI], 5)
    # Where no pod fits chunks of that size, they are as large as the pod.
    pod_sized = fill(vec(4000, 4 * GI), bounds((1000, 1 * GI)))
    assert pod_sized is not None
    assert (pod_sized.chunk.tolist(), pod_sized.count) == ([1000, GI], 4)


def test_version_2s_chunks_of_60m_are_refused() -> None:
    """20 nodes of 4 cpu, rate 0.1 and 2000m taken by the biggest pods leave 6000m: 60m each for 100 chunks."""
    found = fill(vec(6000, 6 * GI), bounds((500, 512 * MI), (1000, 1 * GI), nodes=((4000, 16 * GI),) * 20))
    assert found is not None
    assert found.chunk[0] >= 500
    assert found.count <= 12
    crumbs = fill(vec(60, 0), bounds((100, 128 * MI), (1000, 1 * GI)))
    assert crumbs is not None
    assert (crumbs.chunk.tolist(), crumbs.count) == ([100, 128 * MI], 1)  # one that some pod can use


def test_a_negative_remainder_fills_nothing() -> None:
    """The biggest pods take more than all of the extra capacity."""
    assert fill(vec(-500, -GI), bounds((1000, GI))) is None
    pods = replicas(2, "big", "2", "2Gi", node="n0")
    item = plan_of(node("n0"), *pods)
    assert sizes(item) == [(1, 2000, 2 * GI)]
    assert item.desired.tolist()[0] == 400


def test_no_chunk_is_larger_than_the_largest_pod() -> None:
    """S6"""
    found = fill(vec(3000, 3 * GI), bounds((200, 256 * MI), nodes=((16000, 64 * GI),)))
    assert found is not None
    assert (found.chunk <= vec(200, 256 * MI)).all()


@pytest.mark.parametrize(("smallest", "most"), [((2000, 8 * GI), 900), ((1000, 8 * GI), 450)])
def test_chunks_stay_under_45_percent_of_the_smallest_node(smallest: tuple[int, int], most: int) -> None:
    found = fill(
        vec(9000, 9 * GI), bounds((8000, 8 * GI), (100, GI), nodes=((16000, 64 * GI), smallest), granularity=1)
    )
    assert found is not None
    assert found.chunk[0] <= most


def test_a_cover_that_pins_nodes_says_so() -> None:
    item = plan_of(node("n0", "4", "16Gi"), *replicas(3, "api", "2500m", "1Gi", node="n0"))
    assert item.condition(ConditionType.PINS_NODES).status
    assert "takes 62% of the smallest eligible node" in item.condition(ConditionType.PINS_NODES).message
    assert (
        not plan_of(node("n0"), *replicas(3, "api", "1", "1Gi", node="n0")).condition(ConditionType.PINS_NODES).status
    )


def test_the_chunk_has_the_ratio_of_what_remains() -> None:
    found = fill(vec(800, 8 * GI), bounds((1000, 16 * GI), (10, MI)))
    assert found is not None
    assert found.chunk[0] * found.count == pytest.approx(800, abs=50)
    assert found.chunk[1] * found.count == pytest.approx(8 * GI, rel=0.01)


def test_where_no_pod_has_all_that_remains_each_resource_is_filled_like_the_pods_that_bring_it() -> None:
    split = bounds((1000, 0), (0, GI))
    assert fill(vec(500, GI), split) is None
    assert not useful(vec(1000, GI), split)
    item = plan_of(
        node("n0"),
        *replicas(3, "a", "1", "0", node="n0"),
        *replicas(3, "b", "0", "1Gi", node="n0"),
        extraCapacity={"floor": {"cpu": "3", "memory": "3Gi"}},
    )
    assert item.feasible
    assert {s.shape.requests for s in item.shapes} == {(("cpu", 1000),), (("memory", GI),)}
    assert item.planned.tolist() == [3000, 3 * GI]
    several = bounds((1000, 0), (500, GI), (0, 2 * GI))
    found = fill(vec(2000, 2 * GI), several)
    assert found is not None
    assert found.chunk.tolist() == [500, GI]
    with pytest.raises(ValueError, match="lacks a resource"):
        count_for(vec(1, 1), vec(1, 0))


def test_version_1s_count_is_nodes_times_granularity_times_rate() -> None:
    """The printed node_cnt x granularity would be the whole cluster."""
    average, nodes, granularity, rate = vec(4000, 16 * GI), 20, 5, 0.1
    found = version_1(vec(int(nodes * 4000 * rate), int(nodes * 16 * GI * rate)), average, granularity)
    assert found is not None
    assert (found.count, found.chunk[0]) == (int(nodes * granularity * rate), 800)
    assert version_1(vec(0, 0), average, granularity) is None
    item = plan_of(
        *(node(f"n{i}") for i in range(20)),
        extraCapacity={"base": "Allocatable", "minRate": 0.1},
        cover={"mode": "None"},
    )
    assert [(s.count, dict(s.shape.requests)["cpu"]) for s in item.shapes] == [(10, 800)]


def test_a_floor_of_gpus_is_filled_like_the_pod_that_brings_them_at_the_least_cost() -> None:
    pods = np.array([[1000, GI, 1], [8000, GI, 2], [500, GI, 0]])
    table = np.array([[16000, 64 * GI, 8]])
    limits = make_bounds(table, table[0], pods, 5)
    found = fill_further(vec(0, 0, 3), limits, 2)
    assert (found.chunk.tolist(), found.count) == ([1000, GI, 1], 3)
    bare = fill_further(vec(0, 0, 3), make_bounds(table, table[0], pods[:0], 5), 2)
    assert (bare.chunk.tolist(), bare.count) == ([0, 0, 2], 2)


def test_a_ceiling_is_divided_into_equal_chunks_and_not_cut() -> None:
    """Chunks rounded up once went over the ceiling, and a whole one was cut off."""
    found = fill(vec(1000, GI), bounds((340, GI), (10, MI)), limit=vec(1000, GI))
    assert found is not None
    assert (found.chunk[0], found.count) == (333, 3)
    item = plan_of(
        node("n0"),
        *replicas(9, "api", "340m", "64Mi", node="n0"),
        extraCapacity={"minRate": 1, "ceiling": {"cpu": "1"}},
        cover={"mode": "Frequent"},
    )
    assert item.planned[0] <= 1000


def test_what_the_ceiling_cuts_off_is_said() -> None:
    item = plan_of(
        node("n0"),
        *replicas(6, "api", "400m", "64Mi", node="n0"),
        extraCapacity={"minRate": 1, "ceiling": {"memory": "100Mi"}},
    )
    assert item.planned[0] < item.desired[0]
    assert item.condition(ConditionType.SLACK_SATISFIED).reason == "CeilingReached"


def test_a_chunk_that_fits_no_node_is_not_made_and_the_reason_told() -> None:
    daemon = replicas(1, "agent", "3900m", "1Gi", node="n0", owner=("DaemonSet", "agent"))
    item = plan_of(node("n0"), *daemon, extraCapacity={"floor": {"cpu": "1", "memory": "1Gi"}})
    assert not item.shapes
    assert "standard placeholder: cpu" in item.condition(ConditionType.FEASIBLE).message


def test_the_chunk_that_is_there_is_kept_while_it_costs_little_more() -> None:
    nodes = [node("n0", "16", "64Gi")]
    spec: Json = {"cover": {"mode": "Frequent"}, "extraCapacity": {"minRate": 0.5}}
    first = plan_of(*nodes, *replicas(10, "api", "500m", "1Gi", node="n0"), **spec)
    chunk = next(s.shape for s in first.shapes if s.count > 1)
    more = plan_of(*nodes, *replicas(11, "api", "500m", "1Gi", node="n0"), existing=as_existing(first), **spec)
    assert [s.shape for s in more.shapes if s.count > 1] == [chunk]


def test_a_chunk_that_has_become_dear_is_kept_for_the_window_only() -> None:
    policy, nodes = policy_of(extraCapacity={"minRate": 0.5}), [node("n0", "16", "64Gi")]
    pods = [*replicas(10, "tiny", "100m", "128Mi", node="n0"), *replicas(2, "api", "1", "1Gi", node="n0")]
    snapshot = snapshot_of(*nodes, *pods)
    dear = ExistingShape("default", Shape((("cpu", 1000), ("memory", 128 * MI))), Role.FILL, 6)
    soon = plan(snapshot, [policy], now=NOW, existing=[dear])
    assert dear.shape in [s.shape for s in soon.items[0].shapes if not s.retiring]
    assert list(soon.memory["default"].cheaper_since) == ["fill/"]
    later = plan(snapshot, [policy], now=NOW + 600, existing=[dear], memory=soon.memory)
    assert dear.shape in [s.shape for s in later.items[0].shapes if s.retiring]
    assert later.items[0].planned[0] < soon.items[0].planned[0]


def test_a_covering_placeholder_that_is_used_as_a_chunk_as_well_stays_one() -> None:
    pods = replicas(20, "api", "500m", "512Mi", node="n0")
    nodes = [node("n0", "16", "64Gi")]
    spec: Json = {"extraCapacity": {"minRate": 0.5}}
    first = plan_of(*nodes, *pods, **spec)
    (shape,) = first.shapes
    assert (shape.role, shape.count) == (Role.COVER, 10)
    more = plan_of(*nodes, *pods, *replicas(1, "new", "40m", "16Mi", node="n0"), existing=as_existing(first), **spec)
    assert [s.shape for s in more.shapes] == [shape.shape]


def test_a_covering_placeholder_too_large_for_a_chunk_is_not_taken_for_one() -> None:
    pods = [*replicas(10, "tiny", "100m", "128Mi", node="n0"), *replicas(10, "api", "3", "1Gi", node="n0")]
    there = ExistingShape("default", Shape((("cpu", 3000), ("memory", GI))), Role.COVER, 2)
    item = plan_of(node("n0"), *pods, extraCapacity={"minRate": 1}, existing=(there,))
    fills = [dict(s.shape.requests)["cpu"] for s in item.shapes if s.role is Role.FILL]
    assert fills
    assert max(fills) <= 1800


def test_pods_that_fit_nowhere_do_not_spoil_the_chunks() -> None:
    """A chunk once had to be as large as the smallest pod, though that pod fits no node."""
    floor = {"floor": {"cpu": "1", "memory": "1Gi"}}
    item = plan_of(node("n0"), *replicas(3, "huge", "64", "128Gi"), extraCapacity=floor)
    assert sizes(item) == [(2, 500, 512 * MI)]
