"""The planner's one door."""

import numpy as np
import pytest

from slack.planner.conditions import total_of
from slack.planner.model.result import ConditionType, ExistingShape
from slack.planner.model.shape import Role, Shape
from slack.planner.objective.amount import Amount, SizingReason
from slack.planner.plan import plan
from tests.cluster.build import NOW, node, placeholder, workload
from tests.planner.scenes import FREELY, GI, as_existing, plan_of, policy_of, replicas, sizes, snapshot_of, with_pods
from tests.planner.world import Group, World

PODS = replicas(6, "api", "500m", "1Gi", node="n")


def test_the_default_rate_is_the_operators_and_a_policys_own_wins() -> None:
    snapshot, policies = (
        snapshot_of(node("n"), *PODS),
        [policy_of("a"), policy_of("b", nodeSelector={"pool": "x"}, extraCapacity={"minRate": 0})],
    )
    items = plan(snapshot, policies, now=NOW, default_rate=0.4).items
    assert (items[0].rate, items[1].rate) == (0.4, 0.0)
    assert items[0].desired[0] == 1200


@pytest.mark.parametrize(
    ("known", "cpu_millis", "desired", "placeholders"),
    [
        (True, 3000, [3000, 6 * GI], [(6, 500, GI)]),
        (True, 9000, [4000, 6 * GI], [(8, 500, GI)]),  # extraCapacity.ceiling
        (False, 9000, [300, -(-6 * GI // 10)], [(1, 500, GI)]),  # the rate holds
    ],
)
def test_an_objectives_amount_is_kept_in_place_of_a_rate(
    known: bool, cpu_millis: int, desired: list[int], placeholders: list[tuple[int, int, int]]
) -> None:
    why = SizingReason(objective=0.9, known=known)
    amounts = {"web": Amount(cpu_millis, 6 * GI, why, (((500, GI), 1.0),))}
    policy = policy_of("web", objective={"instantStart": 0.9}, extraCapacity={"ceiling": {"cpu": "4"}})
    (item,) = plan(snapshot_of(node("n"), *PODS), [policy], now=NOW, objectives=amounts).items
    assert (item.desired.tolist(), sizes(item), item.why) == (desired, placeholders, why)


def test_two_policies_with_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same name"):
        plan(snapshot_of(), [policy_of(), policy_of()], now=NOW)
    assert plan(snapshot_of(node("n")), [], now=NOW).items == ()
    assert (
        plan(
            snapshot_of(node("n"), workload("Deployment", "x", annotations={"resource-slack.io/reserve": "1"})),
            [],
            now=NOW,
        ).items
        == ()
    )


@pytest.mark.parametrize(("value", "good"), [(-11, False), (-10, True), (-1, True), (0, False), (1000, False)])
def test_the_priority_must_be_seen_by_autoscalers_and_stand_below_real_pods(value: int, good: bool) -> None:
    item = plan_of(node("n"), *PODS, priorities={"resource-slack": value})
    assert item.act is good
    assert (item.condition(ConditionType.READY).reason == "BadPriorityClass") is not good


def test_a_policy_that_may_not_act_leaves_everything_as_it_is() -> None:
    first = plan_of(node("n"), *PODS)
    down = plan_of(node("n", taints=[{"key": "gpu", "effect": "NoSchedule"}]), *PODS, existing=as_existing(first))
    assert not down.act
    assert [(s.shape, s.replicas, s.change.add, s.change.remove) for s in down.shapes] == [
        (s.shape, s.replicas, 0, 0) for s in first.shapes
    ]
    assert {c.type for c in down.conditions[:4] if not c.status} == {"SlackSatisfied", "Covered", "Feasible"}
    assert down.condition(ConditionType.READY).status, "nodes come and go: nobody must mend that"


def test_a_dry_run_computes_and_does_not_act() -> None:
    item = plan_of(node("n"), *PODS, dryRun=True)
    assert item.dry_run
    assert not item.act
    assert item.shapes


def test_status_says_what_is_there_and_what_is_missing() -> None:
    first = plan_of(node("n", "8", "32Gi"), *PODS)
    (shape,) = first.shapes
    there = as_existing(first)
    waiting = plan_of(
        node("n", "8", "32Gi"), *PODS, placeholder("p", "500m", "1Gi", shape=shape.shape.name), existing=there
    )
    assert waiting.pending == 1
    assert waiting.condition(ConditionType.READY).status
    satisfied = waiting.condition(ConditionType.SLACK_SATISFIED)
    assert (satisfied.status, satisfied.reason) == (False, "Refilling")
    said = "reserved so far: cpu 0 of 300m, memory 0 of 614Mi; 0 of 1 placeholders are on nodes; "
    assert satisfied.message == f"{said}a node takes about 72 s here"
    bound = plan_of(
        node("n", "8", "32Gi"), *PODS, placeholder("p", "500m", "1Gi", shape=shape.shape.name, node="n"), existing=there
    )
    assert bound.condition(ConditionType.READY).status
    assert bound.reserved.tolist() == [500, GI]
    assert bound.burst_chunks == 1
    assert bound.sustained_chunks_per_minute == pytest.approx(60 / (12 + 60))
    assert (bound.shapes[0].bound, bound.shapes[0].change.keep) == (1, 1)
    mirror = workload("Deployment", "pg", annotations={"resource-slack.io/reserve": "1"})
    more = plan_of(
        *with_pods(node("n", "8", "32Gi"), *PODS, mirror),
        placeholder("p", "500m", "1Gi", shape=shape.shape.name, node="n"),
        existing=there,
        reserve=FREELY,
    )
    assert more.condition(ConditionType.SLACK_SATISFIED).reason == "Refilling"
    assert "1 of 2 placeholders are on nodes" in more.condition(ConditionType.SLACK_SATISFIED).message


def test_other_policies_placeholders_are_not_counted() -> None:
    first = plan_of(node("n"), *PODS)
    stray = placeholder("p", "500m", "1Gi", shape=first.shapes[0].shape.name, node="n", policy="other")
    assert plan_of(node("n"), *PODS, stray, existing=as_existing(first)).reserved.tolist() == [0, 0]


def test_what_real_pods_leave_no_room_for_is_named() -> None:
    first = plan_of(node("n"), *PODS)
    name = first.shapes[0].shape.name
    item = plan_of(
        node("n", "3", "16Gi"),
        *PODS,
        placeholder("p", "500m", "1Gi", shape=name, node="n"),
        existing=as_existing(first),
    )
    assert item.pushed_out == ("p",)


def test_yielded_nodes_are_told() -> None:
    nodes = [node("a", labels={"pool": "web"}), node("b")]
    every, web = plan(
        snapshot_of(*nodes), [policy_of("all"), policy_of("web", nodeSelector={"pool": "web"})], now=NOW
    ).items
    assert "yields 1 nodes (a ...) to web" in every.condition(ConditionType.READY).message
    assert web.nodes == 1


def test_placeholders_of_resources_that_are_gone_are_given_up_without_error() -> None:
    gpu = ExistingShape("default", Shape((("cpu", 100), ("nvidia.com/gpu", 1))), Role.COVER, 1)
    item = plan_of(node("n"), *PODS, existing=(gpu,))
    assert item.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert {s.shape: s.retiring for s in item.shapes}[gpu.shape]


def test_a_shape_that_only_a_vanished_class_had_ends() -> None:
    """A retiring shape with nothing left of it is not planned for again."""
    old = ExistingShape("default", Shape((("cpu", 100), ("memory", GI))), Role.FILL, 0, retiring=True)
    item = plan_of(node("n"), *PODS, existing=(old,))
    assert [(s.replicas, s.retiring) for s in item.shapes if s.shape == old.shape] == [(0, True)]
    assert sizes(item) == sizes(plan_of(node("n"), *PODS))


def test_huge_clusters_in_numbers_do_not_run_over() -> None:
    nodes = [node(f"n{i}", "10000", "900Ti") for i in range(3)]
    pods = [big for i in range(3) for big in replicas(1, f"x{i}", "9000", "800Ti", node=f"n{i}")]
    item = plan_of(*nodes, *pods, extraCapacity={"minRate": 10, "ceiling": {"cpu": "1000k", "memory": "1Ei"}})
    assert (item.planned >= item.desired).all()
    assert item.desired.tolist()[0] == 270_000_000


def test_amounts_add_up() -> None:
    assert total_of([(2, np.array([1, 2])), (1, np.array([3, 0]))], 2).tolist() == [5, 4]


def test_a_real_pod_finds_room_without_a_new_node_and_the_room_comes_back() -> None:
    """The promise, once through: displace, start at once, refill."""
    group = Group(4000, 16 << 30)
    world = World(groups=[group], policies=[policy_of(extraCapacity={"minRate": 0.5})])
    world.add_node(group)
    world.add_pods("api", 4, 500, 1024)
    world.settle()
    nodes = set(world.nodes)
    placeholders = set(world.holders)
    world.add_pods("api", 1, 500, 1024)
    world.schedule()
    assert all(p.node in nodes for p in world.pods.values())
    world.settle()
    assert len(placeholders - set(world.holders)) <= 1
    (item,) = world.plan().items
    assert item.condition(ConditionType.READY).status
