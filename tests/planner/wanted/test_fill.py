"""Standard placeholders: few, useful, no larger than a real pod, and not so large that they pin their node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.snapshot import IntArray
from slack.planner.model.result import ConditionType, ExistingShape, PlannerState
from slack.planner.model.shape import Role, Shape
from slack.planner.plan import plan
from slack.planner.wanted.fill_choice import (
    ChunkBounds,
    choose_fill,
    count_for,
    fill_further,
    make_bounds,
    useful,
    version_1,
)
from slack.planner.wanted.fill_pair import choose_fills
from tests.cluster.build import NOW, Json, node, placeholder
from tests.examples import examples
from tests.planner.scenes import GI, MI, as_existing, plan_of, policy_of, replicas, sizes, snapshot_of


def vec(*amounts: int) -> IntArray:
    return np.array(amounts, dtype=np.int64)


def bounds(
    *pods: tuple[int, int], nodes: tuple[tuple[int, int], ...] = ((4000, 16 * GI),), granularity: int = 5
) -> ChunkBounds:
    table = np.array(nodes, dtype=np.int64)
    return make_bounds(
        table, table.mean(axis=0).astype(np.int64), np.array(pods, dtype=np.int64).reshape(-1, 2), granularity
    )


def test_chunks_are_few_and_as_large_as_granularity_and_pods_allow() -> None:
    found = choose_fill(vec(4000, 4 * GI), bounds((1000, 1 * GI), (700, 700 * MI)))
    assert found is not None
    assert (found.chunk.tolist(), found.count) == ([800, 820 * MI], 5)
    # Where no pod fits chunks of that size, they are as large as the pod.
    pod_sized = choose_fill(vec(4000, 4 * GI), bounds((1000, 1 * GI)))
    assert pod_sized is not None
    assert (pod_sized.chunk.tolist(), pod_sized.count) == ([1000, GI], 4)


def test_version_2s_chunks_of_60m_are_refused() -> None:
    """20 nodes of 4 cpu, rate 0.1 and 2000m taken by the biggest pods leave 6000m: 60m each for 100 chunks."""
    found = choose_fill(vec(6000, 6 * GI), bounds((500, 512 * MI), (1000, 1 * GI), nodes=((4000, 16 * GI),) * 20))
    assert found is not None
    assert found.chunk[0] >= 500
    assert found.count <= 12
    crumbs = choose_fill(vec(60, 0), bounds((100, 128 * MI), (1000, 1 * GI)))
    assert crumbs is not None
    assert (crumbs.chunk.tolist(), crumbs.count) == ([100, 128 * MI], 1)  # one that some pod can use


def test_a_negative_remainder_fills_nothing() -> None:
    """The biggest pods take more than all of the extra capacity."""
    assert choose_fill(vec(-500, -GI), bounds((1000, GI))) is None
    pods = replicas(2, "big", "2", "2Gi", node="n0")
    item = plan_of(node("n0"), *pods)
    assert sizes(item) == [(1, 2000, 2 * GI)]
    assert item.desired.tolist()[0] == 400


def test_no_chunk_is_larger_than_the_largest_pod() -> None:
    """S6"""
    found = choose_fill(vec(3000, 3 * GI), bounds((200, 256 * MI), nodes=((16000, 64 * GI),)))
    assert found is not None
    assert (found.chunk <= vec(200, 256 * MI)).all()


@pytest.mark.parametrize(("smallest", "most"), [((2000, 8 * GI), 900), ((1000, 8 * GI), 450)])
def test_chunks_stay_under_45_percent_of_the_smallest_node(smallest: tuple[int, int], most: int) -> None:
    found = choose_fill(
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
    found = choose_fill(vec(800, 8 * GI), bounds((1000, 16 * GI), (10, MI)))
    assert found is not None
    assert found.chunk[0] * found.count == pytest.approx(800, abs=50)
    assert found.chunk[1] * found.count == pytest.approx(8 * GI, rel=0.01)


def test_where_no_pod_has_all_that_remains_each_resource_is_filled_like_the_pods_that_bring_it() -> None:
    split = bounds((1000, 0), (0, GI))
    assert choose_fill(vec(500, GI), split) is None
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
    found = choose_fill(vec(2000, 2 * GI), several)
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
    found = choose_fill(vec(1000, GI), bounds((340, GI), (10, MI)), limit=vec(1000, GI))
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
    assert [str(binding) for binding in item.binding] == ["memory ceiling 100Mi binds (384Mi wanted)"]
    assert "memory ceiling 100Mi binds (384Mi wanted)" in item.condition(ConditionType.SLACK_SATISFIED).message


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


def test_a_chunk_that_has_become_dear_stays_as_long_as_it_holds_what_is_wanted() -> None:
    """A wanted size that has moved is no reason to go; what is one too many goes after the shrink delay."""
    policy, nodes = policy_of(extraCapacity={"minRate": 0.5}), [node("n0", "16", "64Gi")]
    hours = [f"2027-01-{10 + i // 6}T0{i % 6}:00:00Z" for i in range(10)]  # not at once: bursts have larger chunks
    pods = [p for i, at in enumerate(hours) for p in replicas(1, f"t{i}", "100m", "128Mi", node="n0", created=at)]
    pods += replicas(2, "api", "1", "1Gi", node="n0")
    snapshot = snapshot_of(*nodes, *pods)
    dear = ExistingShape("default", Shape((("cpu", 1000), ("memory", 128 * MI))), Role.FILL, 6)
    state: PlannerState = {}
    for seconds in (0, 599, 601, 2000):
        found = plan(snapshot, [policy], now=NOW + seconds, existing=[dear], state=state)
        state = found.state
        item = found.items[0]
        there = next(s for s in item.shapes if s.shape == dear.shape)
        # The cover holds 1 core and 1Gi of the 1.5 cores and 1.6Gi; memory takes five of these for the rest.
        assert (there.count, there.replicas) == (5, 6 if seconds < 600 else 5)
        assert all(s.count == 0 or s.role is Role.COVER for s in item.shapes if s is not there)


def test_new_placeholders_have_todays_size_beside_those_of_another() -> None:
    nodes = [node(f"n{i}", "16", "64Gi") for i in range(4)]
    old = ExistingShape("default", Shape((("cpu", 100), ("memory", 256 * MI))), Role.FILL, 4)
    pods = replicas(30, "api", "1", "2Gi", node="n0")
    item = plan_of(*nodes, *pods, existing=(old,), extraCapacity={"minRate": 0.5})
    fills = {dict(s.shape.requests)["cpu"]: s.count for s in item.shapes}
    assert fills == {100: 4, 1000: 15}


def test_a_shape_that_would_not_be_made_today_is_not_refilled() -> None:
    """S6: it lives on while it is bound; a pending one would ask for a node that no pod needs."""
    large = ExistingShape("default", Shape((("cpu", 3000), ("memory", 2 * GI))), Role.FILL, 2)
    pods = replicas(12, "api", "1", "2Gi", node="n0")
    holders = [
        placeholder("h0", "3", "2Gi", shape=large.shape.name, node="n1"),
        placeholder("h1", "3", "2Gi", shape=large.shape.name),
    ]
    item = plan_of(
        *(node(f"n{i}", "16", "64Gi") for i in range(2)),
        *pods,
        *holders,
        existing=(large,),
        extraCapacity={"minRate": 0.9},
    )
    there = next(s for s in item.shapes if s.shape == large.shape)
    assert (there.count, there.bound, there.replicas) == (2, 1, 1)


def test_there_are_never_more_shapes_than_a_few_and_the_rarest_merge_away() -> None:
    there = tuple(
        ExistingShape("default", Shape((("cpu", 500 + i), ("memory", GI + i * MI))), Role.FILL, 1 + i)
        for i in range(12)
    )
    nodes = [node(f"n{i}", "16", "64Gi") for i in range(20)]
    pods = [p for i in range(20) for p in replicas(10, f"api{i}", "1", "2Gi", node=f"n{i}")]
    item = plan_of(*nodes, *pods, existing=there, extraCapacity={"minRate": 1.0}, cover={"maxShapes": 1})
    fills = [s for s in item.shapes if s.count and s.role is Role.FILL]
    assert len(fills) <= 8
    assert {dict(s.shape.requests)["cpu"] for s in item.shapes if not s.count} == {500, 501, 502, 503}


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


def _mixed_cluster() -> list[Json]:
    """Return pods of four ratios on forty nodes: one kind has little cpu and much memory."""
    pods = [
        pod
        for i in range(40)
        for pod in (
            *replicas(5, f"web-{i}", "500m", "1Gi", node=f"n{i}", owner=("ReplicaSet", "web")),
            *replicas(2, f"side-{i}", "100m", "128Mi", node=f"n{i}", owner=("ReplicaSet", "side")),
            *replicas(1, f"job-{i}", "2", "2Gi", node=f"n{i}", owner=("ReplicaSet", "job")),
        )
    ]
    pods += replicas(10, "cache", "100m", "4Gi", node="n0")
    return [*(node(f"n{i}", "8", "32Gi") for i in range(40)), *pods]


def test_the_number_of_chunks_grows_with_the_rate_and_not_in_jumps() -> None:
    """15, 201, 23, 381, 582 at these rates once: a rounding of 10m won over the count."""
    snapshot = snapshot_of(*_mixed_cluster())
    counts = []
    for rate in (0.1, 0.11, 0.15, 0.2, 0.3):
        item = plan(snapshot, [policy_of(extraCapacity={"minRate": rate})], now=NOW).items[0]
        counts.append(sum(s.count for s in item.shapes if s.role is Role.FILL))
        assert (item.planned <= 1.25 * item.desired).all()
    assert counts == sorted(counts)
    assert counts[-1] < 4.5 * counts[0]


@examples(40, quick=10)
@given(
    st.lists(
        st.tuples(st.sampled_from([50, 100, 500, 1000, 4000]), st.sampled_from([64, 512, 2048, 8192]).map(MI.__mul__)),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    st.integers(500, 40_000),
    st.integers(500, 200_000),
)
def test_a_tenth_more_to_fill_never_takes_many_times_the_placeholders(
    pods: list[tuple[int, int]], cpu: int, memory_mi: int
) -> None:
    limits = bounds(*pods, nodes=((8000, 32 * GI),))
    counts = []
    for more in (100, 110):
        wanted = vec(cpu * more // 100, memory_mi * MI * more // 100)
        fills = choose_fills(wanted, limits, vec(1 << 60, 1 << 60))
        total = sum((fill.count * fill.chunk for fill in fills), vec(0, 0))
        assert (total >= wanted).all()
        assert all(useful(fill.chunk, limits) for fill in fills)
        assert len({tuple(fill.chunk.tolist()) for fill in fills}) <= 2
        counts.append(sum(fill.count for fill in fills))
    assert max(counts) <= 3 * min(counts) + 3


def test_two_shapes_fill_what_one_would_overshoot() -> None:
    """24.1 cores for 16.2 once, of one shape, where four and two of the cover's own shapes do."""
    objects = [
        *(node(f"n{i}", "16", "64Gi") for i in range(4)),
        *(p for i in range(4) for p in replicas(2, f"a-{i}", "4", "4Gi", node=f"n{i}", owner=("ReplicaSet", "a"))),
        *(p for i in range(4) for p in replicas(1, f"b-{i}", "100m", "8Gi", node=f"n{i}", owner=("ReplicaSet", "b"))),
    ]
    spec: Json = {"extraCapacity": {"minRate": 0.5}, "cover": {"mode": "Everything"}}
    item = plan_of(*objects, **spec)
    assert (item.planned <= 1.25 * item.desired).all()
    assert sizes(item) == [(2, 100, 8 * GI), (4, 4000, 4 * GI)]
    again = plan_of(*objects, existing=as_existing(item), **spec)
    assert sizes(again) == sizes(item)


def test_two_shapes_that_are_there_stay_while_they_serve() -> None:
    pods = replicas(8, "a", "2", "128Mi", node="n0") + replicas(8, "b", "100m", "4Gi", node="n0")
    spec: Json = {"extraCapacity": {"minRate": 1}, "cover": {"mode": "Everything"}, "granularity": 4}
    nodes = [node(f"n{i}", "8", "32Gi") for i in range(4)]
    first = plan_of(*nodes, *pods, **spec)
    assert len(first.shapes) == 2
    more = [*pods, *replicas(1, "c", "300m", "1Gi", node="n1")]
    second = plan_of(*nodes, *more, existing=as_existing(first), **spec)
    assert {s.shape for s in first.shapes} <= {s.shape for s in second.shapes if not s.retiring}


def test_a_chunk_that_a_ceiling_has_no_room_for_is_made_smaller_in_mode_none() -> None:
    """It once gave nothing at all, though the floor lay below the ceiling."""
    bare = node("m", "64", "512Gi")
    size: Json = {"floor": {"cpu": "2", "memory": "1Gi"}, "ceiling": {"cpu": "8", "memory": "8Gi"}}
    item = plan_of(bare, cover={"mode": "None"}, extraCapacity=size)
    assert sizes(item) == [(1, 2000, GI)]
    assert item.condition(ConditionType.SLACK_SATISFIED).reason != "CeilingReached"
    # Two chunks of 12.8 cpu are above the ceiling, and one is less than the floor.
    size = {"floor": {"cpu": "20", "memory": "40Gi"}, "ceiling": {"cpu": "20", "memory": "64Gi"}}
    assert sizes(plan_of(bare, cover={"mode": "None"}, extraCapacity=size)) == [(2, 10000, 20 * GI)]


@pytest.mark.parametrize("rate", [0.25, 0.3, 0.31, 0.35, 0.4, 0.5])
def test_what_is_left_beside_whole_chunks_is_not_filled_with_dozens_of_the_wrong_ratio(rate: float) -> None:
    """At a rate of 0.4 once 43 placeholders of 500m brought the memory of one more of 4Gi: 23.5 cores where 3.4 were
    wanted, for that chunk was more than what was left and therefore not tried."""
    of_each = [("4", "64Gi"), ("4", "32Gi"), ("16", "16Gi"), ("16", "64Gi"), ("4", "16Gi"), ("16", "64Gi")]
    nodes = [node(f"n{i}", *size) for i, size in enumerate(of_each)]
    pods = [
        *replicas(10, "memory", "50m", "4Gi", node="n2"),
        *replicas(6, "cpu", "2", "64Mi", node="n0"),
        *replicas(8, "api", "500m", "64Mi", node="n4"),
    ]
    item = plan_of(*nodes, *pods, extraCapacity={"minRate": rate})
    total = sum(count * cpu for role in (Role.COVER, Role.FILL) for count, cpu, _ in sizes(item, role))
    assert total < 1.3 * max(int(item.desired[0]), 3000)
