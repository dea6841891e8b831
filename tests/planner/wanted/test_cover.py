"""S6, R5, R6, R7: which pods find the room of one placeholder, by the source's own examples."""

from dataclasses import replace

import numpy as np
import pytest

from slack.planner.model.result import ConditionType, ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.plan import plan
from tests.cluster.build import NOW, Json, node, placeholder, pod
from tests.planner.scenes import GI, MI, as_existing, plan_of, policy_of, replicas, sizes, snapshot_of

BIG = node("big", "32", "64G")
NO_RATE = {"minRate": 0}


def test_the_sources_example_of_a_pod_that_no_biggest_pod_makes_room_for() -> None:
    """R7: "1000m cpu/1G mem, 10m cpu/10G mem respectively ... a 500m/5G pod has chances not to fit any node"."""
    pods = [
        *replicas(1, "cpu", "1000m", "1G", node="big"),
        *replicas(1, "memory", "10m", "10G", node="big"),
        *replicas(1, "middle", "500m", "5G", node="big"),
    ]
    item = plan_of(BIG, *pods, cover={"mode": "Everything"}, extraCapacity=NO_RATE)
    assert sizes(item, Role.COVER) == [(1, 10, 10**10), (1, 500, 5 * 10**9), (1, 1000, 10**9)]
    assert item.condition(ConditionType.COVERED).status


def test_the_largest_box_of_version_2_may_need_a_larger_node_than_any_pod() -> None:
    """R5: 1000m/1G and 10m/10G fit a node of 1 cpu or 10G; their box needs 1 cpu and 10G."""
    nodes = [node("cpu", "1200m", "2G"), node("memory", "100m", "12G")]
    pods = [*replicas(1, "a", "1000m", "1G", node="cpu"), *replicas(1, "b", "10m", "10G", node="memory")]
    box = plan_of(*nodes, *pods, cover={"mode": "Largest"}, extraCapacity=NO_RATE)
    assert not box.feasible
    assert "spec.cover.mode Largest" in box.condition(ConditionType.FEASIBLE).message
    assert "together with the rest" in box.condition(ConditionType.FEASIBLE).message
    frontier = plan_of(*nodes, *pods, cover={"mode": "Everything"}, extraCapacity=NO_RATE)
    assert frontier.feasible
    assert len(frontier.shapes) == 2


def test_a_lone_database_drops_out_by_itself() -> None:
    """R6: "if the biggest pod in the cluster was a database, we won't want to keep a hot standby node for it"."""
    pods = [*replicas(300, "api", "100m", "128Mi", node="big"), *replicas(1, "pg", "16", "32Gi", node="big")]
    item = plan_of(BIG, *pods, extraCapacity=NO_RATE)
    assert sizes(item, Role.COVER) == [(1, 100, 128 * MI)]
    assert [(u.pod, "rare" in u.reason) for u in item.uncovered] == [("shop/rs/pg", True)]
    assert item.condition(ConditionType.COVERED).status
    wanted = plan_of(BIG, *pods, extraCapacity=NO_RATE, cover={"mode": "Everything"})
    assert sizes(wanted, Role.COVER) == [(1, 16_000, 32 * GI)]


def test_pods_can_be_excluded_by_annotation_and_by_selector() -> None:
    mark = {"resource-slack.io/exclude": "true"}
    pods = [
        *replicas(2, "api", "100m", "128Mi", node="big"),
        *replicas(1, "pg", "16", "32Gi", node="big", annotations=mark),
        *replicas(1, "kafka", "8", "16Gi", node="big", owner=("StatefulSet", "kafka")),
    ]
    out = {"exclude": [{"ownerKind": "StatefulSet", "namespace": "shop"}], "mode": "Everything"}
    item = plan_of(BIG, *pods, extraCapacity=NO_RATE, cover=out)
    assert sizes(item) == [(1, 100, 128 * MI)]
    assert {u.pod: u.reason for u in item.uncovered} == {
        "shop/rs/pg": "excluded by annotation",
        "shop/sts/kafka": "excluded by spec.cover.exclude",
    }


def test_pods_that_cannot_take_a_placeholders_place_are_named_with_the_reason() -> None:
    pods = [
        pod("never", node="big", preemptionPolicy="Never", priority=5),
        pod("low", node="big", priority=-10),
        pod("other", node="big", schedulerName="volcano"),
        pod("free", cpu="0", memory="0", node="big"),
        pod("daemon", node="big", owner=("DaemonSet", "d")),
    ]
    item = plan_of(BIG, *pods)
    reasons = {u.pod: u.reason for u in item.uncovered}
    assert "preemptionPolicy Never" in reasons.pop("shop/pod/never")
    assert "not above the placeholders' (-10)" in reasons.pop("shop/pod/low")
    assert "scheduler volcano" in reasons.pop("shop/pod/other")
    assert not reasons


def test_frequent_takes_the_most_arrivals_per_cost_up_to_max_shapes() -> None:
    pods = [
        *replicas(60, "wide", "800m", "64Mi", node="big"),
        *replicas(30, "tall", "50m", "2Gi", node="big"),
        *replicas(10, "odd", "400m", "1Gi", node="big"),
    ]
    one = plan_of(BIG, *pods, extraCapacity=NO_RATE, cover={"maxShapes": 1})
    assert len(one.shapes) == 1
    assert one.condition(ConditionType.COVERED).reason == "MaxShapesReached"
    assert any("maxShapes (1)" in u.reason for u in one.uncovered)
    two = plan_of(BIG, *pods, extraCapacity=NO_RATE, cover={"coverage": 0.9, "maxShapes": 2})
    assert sizes(two) == [(1, 50, 2 * GI), (1, 800, 64 * MI)]
    assert two.condition(ConditionType.COVERED).status


def test_a_ceiling_leaves_out_what_it_has_no_room_for_and_says_so() -> None:
    pods = [*replicas(9, "small", "100m", "64Mi", node="big"), *replicas(9, "large", "4", "1Gi", node="big")]
    for mode in ("Frequent", "Everything"):
        item = plan_of(BIG, *pods, extraCapacity={"ceiling": {"cpu": "1"}}, cover={"mode": mode})
        assert item.condition(ConditionType.COVERED).reason == "CeilingReached"
        assert item.planned[0] <= 1000
        assert "spec.extraCapacity.ceiling leaves no room for it" in {u.reason for u in item.uncovered}
    box = plan_of(BIG, *pods, extraCapacity={"ceiling": {"cpu": "1"}}, cover={"mode": "Largest"})
    assert box.condition(ConditionType.COVERED).reason == "CeilingReached"


def test_pods_that_go_to_different_nodes_are_covered_apart() -> None:
    """R9: a node selector makes a reach class of its own; its placeholder goes where its pods go."""
    nodes = [node("a", labels={"pool": "web"}), node("b", labels={"pool": "gpu"}, extended={"nvidia.com/gpu": "4"})]
    gpu: Json = {"nodeSelector": {"pool": "gpu"}, "extended": {"nvidia.com/gpu": "1"}}
    pods = [*replicas(5, "any", "1", "1Gi", node="a"), *replicas(5, "train", "500m", "512Mi", node="b", **gpu)]
    item = plan_of(*nodes, *pods, extraCapacity=NO_RATE)
    shapes = {dict(s.shape.requests).get("nvidia.com/gpu", 0): s.shape for s in item.shapes}
    assert shapes[1].node_selector == (("pool", "gpu"),)
    assert shapes[0].node_selector == ()
    assert not item.condition(ConditionType.PINS_NODES).status  # of the node that has GPUs, not of one without
    largest = plan_of(*nodes, *pods, extraCapacity=NO_RATE, cover={"mode": "Largest"})
    assert any("some of the nodes only" in u.reason for u in largest.uncovered)


def test_an_item_without_any_node_costs_nothing_and_spoils_nothing() -> None:
    """A GPU pod where no node has a GPU once made every cost not a number."""
    asks: Json = {"extended": {"nvidia.com/gpu": "1"}}
    item = plan_of(BIG, *replicas(5, "train", "1", "1Gi", **asks), *replicas(5, "api", "2", "2Gi", node="big"))
    assert sizes(item, Role.COVER) == [(1, 2000, 2 * GI)]
    assert "nvidia.com/gpu 1 is more than" in item.condition(ConditionType.FEASIBLE).message


def test_a_runtime_class_is_no_part_of_a_covering_placeholder() -> None:
    """Its admission would add the overhead a second time; selector and tolerations the pods have already."""
    nodes = [node("a", labels={"pool": "web"}), node("b", labels={"pool": "kata"})]
    kata: Json = {"runtimeClassName": "kata", "nodeSelector": {"pool": "kata"}, "overhead": {"cpu": "250m"}}
    item = plan_of(*nodes, *replicas(3, "safe", "500m", "1Gi", node="b", **kata), extraCapacity=NO_RATE)
    (shape,) = item.shapes
    assert dict(shape.shape.requests)["cpu"] == 750
    assert shape.shape.runtime_class == ""


def test_what_is_there_stays_while_it_reaches_the_goal_and_costs_little_more() -> None:
    pods = replicas(5, "api", "1000m", "1Gi", node="big")
    first = plan_of(BIG, *pods, extraCapacity=NO_RATE)
    grown = replicas(5, "api", "1050m", "1Gi", node="big")
    near = plan_of(BIG, *grown, extraCapacity=NO_RATE, existing=as_existing(first))
    assert [s.shape.name for s in near.shapes] == [first.shapes[0].shape.name]  # within the tolerance: it may wait
    much = plan_of(
        BIG, *replicas(5, "api", "2000m", "1Gi", node="big"), extraCapacity=NO_RATE, existing=as_existing(first)
    )
    assert [s.retiring for s in much.shapes] == [False, True]
    assert sizes(much) == [(1, 2000, 1 * GI)]


@pytest.mark.parametrize("mode", ["Frequent", "Everything", "Largest"])
def test_a_shape_larger_than_its_pods_covers_them_while_it_is_bound_and_is_not_made_again(mode: str) -> None:
    """S6: what displaces it makes room for today's size."""
    first = plan_of(BIG, *replicas(5, "api", "1000m", "1Gi", node="big"), extraCapacity=NO_RATE, cover={"mode": mode})
    policy, existing = policy_of(extraCapacity=NO_RATE, cover={"mode": mode}), as_existing(first)
    (shape,) = first.shapes
    pods = replicas(5, "api", "950m", "1Gi", node="big")
    bound = snapshot_of(BIG, *pods, placeholder("h", "1", "1Gi", shape=shape.shape.name, node="big"))
    soon = plan(bound, [policy], now=NOW, existing=existing)
    assert (sizes(soon.items[0]), soon.items[0].covered_share) == ([(1, 1000, 1 * GI)], 1.0)
    later = plan(bound, [policy], now=NOW + 3600, existing=existing, state=soon.state)
    assert (sizes(later.items[0]), later.items[0].shapes[0].replicas) == ([(1, 1000, 1 * GI)], 1)
    displaced = snapshot_of(BIG, *pods, placeholder("h", "1", "1Gi", shape=shape.shape.name))
    gone = plan(displaced, [policy], now=NOW + 3600, existing=as_existing(later.items[0]), state=later.state)
    assert gone.items[0].shapes[0].replicas == 0
    anew = plan(snapshot_of(BIG, *pods), [policy], now=NOW, existing=as_existing(gone.items[0]), state=gone.state)
    assert [(dict(s.shape.requests)["cpu"], s.replicas) for s in anew.items[0].shapes if s.count] == [(950, 1)]


def test_a_standard_placeholder_that_covers_does_instead_of_a_new_one() -> None:
    chunk = ExistingShape("default", Shape((("cpu", 1500), ("memory", 2 * GI))), Role.FILL, 1)
    pods = replicas(5, "api", "1", "2Gi", node="big")
    item = plan_of(BIG, *pods, extraCapacity=NO_RATE, existing=(chunk,))
    assert [(s.shape, s.role, s.count) for s in item.shapes] == [(chunk.shape, Role.FILL, 1)]
    assert item.covered_share == 1.0
    small = replace(chunk, shape=Shape((("cpu", 900), ("memory", 2 * GI))))
    assert sizes(plan_of(BIG, *pods, extraCapacity=NO_RATE, existing=(small,)), Role.COVER) == [(1, 1000, 2 * GI)]


def test_items_are_distinct_requests_within_a_reach_class_and_nothing_more() -> None:
    """R1-1: ten times the workloads of the same sizes are the same work."""
    from slack.planner.wanted.cover_choice import cover_matrix, frontier, make_items, weighed

    requests = np.array([[1, 2], [2, 1], [1, 1], [1, 2]] * 10)
    reach = np.array([[True, False], [True, True], [True, True], [True, False]] * 10)
    items = weighed(make_items(np.arange(40), requests, reach), np.ones(40))
    assert (len(items), items.weight.tolist()) == (3, [20.0, 10.0, 10.0])
    assert items.kinds_of(np.array([True, False, False])).tolist() == [k for k in range(40) if k % 4 in (0, 3)]
    assert len(frontier(cover_matrix(items.vectors, items.reach_id, items.reach), np.ones(3, dtype=bool))) == 2


def test_at_most_twenty_workloads_are_listed_the_heaviest_first() -> None:
    pods = [p for i in range(30) for p in replicas(1 + i, f"w{i:02d}", "100m", "128Mi", node="big")]
    (shape,) = plan_of(BIG, *pods, extraCapacity=NO_RATE).shapes
    assert len(shape.workloads) == 20
    assert shape.workloads[:2] == ("shop/rs/w29", "shop/rs/w28")


def test_what_stays_for_little_more_must_fit_under_the_ceiling_as_well() -> None:
    first = plan_of(BIG, *replicas(5, "api", "1000m", "1Gi", node="big"), extraCapacity=NO_RATE)
    pods = [*replicas(50, "api", "950m", "1Gi", node="big"), *replicas(50, "tall", "100m", "4Gi", node="big")]
    wide = plan_of(BIG, *pods, extraCapacity=NO_RATE, existing=as_existing(first))
    assert sizes(wide) == [(1, 100, 4 * GI), (1, 1000, GI)]  # the one that is there does for 950m
    tight = {"minRate": 0, "ceiling": {"cpu": "1050m"}}
    assert sizes(plan_of(BIG, *pods, extraCapacity=tight, existing=as_existing(first))) == [
        (1, 100, 4 * GI),
        (1, 950, GI),
    ]


def test_a_choice_that_a_later_one_makes_needless_is_dropped() -> None:
    """Best weight per cost overshoots: the cheap one first, then one that the goal needs and that is enough alone."""
    pods = [
        *replicas(10, "cheap", "100m", "64Mi", node="big"),
        *replicas(95, "most", "4", "32Mi", node="big"),
    ]
    item = plan_of(BIG, *pods, extraCapacity=NO_RATE, cover={"coverage": 0.9})
    assert sizes(item) == [(1, 4000, 32 * MI)]


def test_a_choice_that_reaches_the_goal_at_the_same_cost_is_not_even_due() -> None:
    """R1-2: arrivals shift a little from one workload to another every minute."""

    def pods(wide: int, tall: int) -> list[Json]:
        return [*replicas(wide, "w", "2", "1Gi", node="big"), *replicas(tall, "t", "1", "4G", node="big")]

    cover = {"coverage": 0.4}
    first = plan_of(BIG, *pods(50, 30), extraCapacity=NO_RATE, cover=cover)
    snapshot, policy = snapshot_of(BIG, *pods(30, 40)), policy_of(extraCapacity=NO_RATE, cover=cover)
    fresh = plan(snapshot, [policy], now=NOW).items[0]
    assert [s.shape for s in fresh.shapes] != [s.shape for s in first.shapes]
    kept = plan(snapshot, [policy], now=NOW, existing=as_existing(first))
    assert [s.shape for s in kept.items[0].shapes] == [s.shape for s in first.shapes]
    assert not kept.state["default"].cheaper_since


def test_pods_that_only_a_template_could_take_are_covered() -> None:
    """No node has a GPU now; measured by nodes alone its cost was infinite."""
    group = {"name": "gpu", "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}}
    gpu = {"nvidia.com/gpu": "1"}
    pods = [
        *replicas(9, "wide", "1", "1Gi", extended=gpu),
        *replicas(9, "tall", "100m", "8Gi", extended=gpu),
        *replicas(9, "api", "500m", "512Mi", node="big"),
    ]
    item = plan_of(BIG, *pods, nodeTemplates=[group], extraCapacity=NO_RATE)
    assert sum(dict(s.shape.requests).get("nvidia.com/gpu") == 1 for s in item.shapes) == 2
    assert item.condition(ConditionType.COVERED).status


def test_a_pod_that_fits_nowhere_takes_no_room_from_the_box_of_all_others() -> None:
    """One pending pod of any tenant once left mode Largest without any cover."""
    nodes = [node(f"n{i}", "16", "64Gi") for i in range(4)]
    pods = [*replicas(8, "web", "1", "2Gi", node="n0"), *replicas(1, "db", "2", "1Gi", node="n1")]
    item = plan_of(*nodes, *pods, *replicas(1, "huge", "200", "1Gi"), cover={"mode": "Largest"}, extraCapacity=NO_RATE)
    assert sizes(item, Role.COVER) == [(1, 2000, 2 * GI)]
    assert [u.pod for u in item.uncovered] == ["shop/rs/huge"]
    assert "cpu 200 is more than any empty eligible node has" in item.uncovered[0].reason


def test_pods_whose_box_together_fits_no_node_leave_the_box_of_most_pods() -> None:
    nodes = [node("cpu", "16", "8Gi"), node("memory", "2", "64Gi")]
    pods = [*replicas(9, "web", "8", "2Gi", node="cpu"), *replicas(1, "odd", "100m", "32Gi", node="memory")]
    item = plan_of(*nodes, *pods, cover={"mode": "Largest"}, extraCapacity=NO_RATE)
    assert sizes(item, Role.COVER) == [(1, 8000, 2 * GI)]
    assert [u.pod for u in item.uncovered] == ["shop/rs/odd"]
    assert "spec.cover.mode Largest" in item.condition(ConditionType.FEASIBLE).message


def test_a_pod_above_the_ceiling_takes_no_room_from_the_box_of_all_others() -> None:
    pods = [*replicas(9, "small", "100m", "64Mi", node="big"), *replicas(9, "large", "4", "1Gi", node="big")]
    item = plan_of(BIG, *pods, extraCapacity={"minRate": 0, "ceiling": {"cpu": "1"}}, cover={"mode": "Largest"})
    assert sizes(item, Role.COVER) == [(1, 100, 64 * MI)]
    assert [u.reason for u in item.uncovered] == ["spec.extraCapacity.ceiling leaves no room for it"]
