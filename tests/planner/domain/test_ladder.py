"""A ladder's step follows what real pods need, and neither nodes that slack brings nor a load near a step swing it."""

import pytest

from slack.planner.model.result import PlannerState
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy, PolicySpec
from tests.cluster.build import NOW, Json, node
from tests.examples import by_profile
from tests.planner.scenes import GI, ZONE, as_existing, plan_of, policy_of, replicas, snapshot_of
from tests.planner.world import Group, World

STEPS: list[Json] = [{"fromNodes": 0, "minRate": 0.5}, {"fromNodes": 4, "minRate": 0.1}]


def busy(pods: int, nodes: int = 3) -> list[Json]:
    """Return nodes of 4 cpu, the first ones full of pods of 500m."""
    return [
        *(node(f"n{i}", "4", "64Gi") for i in range(nodes)),
        *(
            pod
            for i in range(nodes)
            for pod in replicas(max(min(pods - 8 * i, 8), 0), f"p{i}", "500m", "1Gi", node=f"n{i}")
        ),
    ]


def test_nodes_that_only_slack_keeps_change_no_step() -> None:
    """With 21 pods of 500m a node came and went every ten minutes: 3 nodes asked for 50 %, and 4 for 10 %."""
    policy = Policy(name="p", spec=PolicySpec.model_validate({"extraCapacity": {"ladder": STEPS}}))
    world = World(groups=[Group(4000, 16 * GI)], policies=[policy])
    world.add_node(world.groups[0])
    world.add_pods("web", 21, 500, 1024)
    world.settle()
    writes, rates = world.writes, set()
    for _ in range(by_profile(40, 120)):
        rates.add(world.round(60.0).items[0].rate)
    assert rates == {0.5}
    assert world.writes == writes
    assert {plan_of(*busy(21, 3 + more), extraCapacity={"ladder": STEPS}).rate for more in range(5)} == {0.5}
    assert {plan_of(*busy(25, 4 + more), extraCapacity={"ladder": STEPS}).rate for more in range(5)} == {0.1}


def test_with_slack_per_zone_one_step_holds_for_the_whole_domain() -> None:
    """Each of three zones of ten nodes once compared itself with the step at twenty."""
    zones = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "abc" for i in range(10)]
    pods = [
        pod for zone in "abc" for i in range(10) for pod in replicas(3, f"{zone}{i}", "1", "1Gi", node=f"{zone}{i}")
    ]
    steps = [{"fromNodes": 0, "minRate": 0.5}, {"fromNodes": 20, "minRate": 0.1}]
    for per_domain in ("None", "Zone"):
        item = plan_of(*zones, *pods, perDomain=per_domain, extraCapacity={"ladder": steps}, cover={"mode": "None"})
        assert item.rate == 0.1
        assert item.desired[0] == pytest.approx(9000, abs=3)


def test_a_step_is_left_when_a_tenth_less_is_needed() -> None:
    policy, rates = policy_of(extraCapacity={"ladder": STEPS}), []
    state: PlannerState = {}
    for pods in (24, 25, 24, 23, 22, 21, 22, 24, 25):
        result = plan(snapshot_of(*busy(pods, 4)), [policy], now=NOW, state=state)
        state = result.state
        rates.append(result.items[0].rate)
    assert rates == [0.5, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.1]


def test_a_step_on_requests_is_left_late_as_well_whatever_the_base() -> None:
    steps = [{"fromRequested": {"cpu": "0"}, "minRate": 0.5}, {"fromRequested": {"cpu": "12"}, "minRate": 0.1}]
    for base in ("Requested", "Allocatable"):
        policy, rates = policy_of(extraCapacity={"ladder": steps, "base": base}), []
        state: PlannerState = {}
        for pods in (23, 24, 22, 21):
            result = plan(snapshot_of(*busy(pods, 4)), [policy], now=NOW, state=state)
            state = result.state
            rates.append(result.items[0].rate)
        assert rates == [0.5, 0.1, 0.1, 0.5]


def test_a_restarted_operator_keeps_the_step_that_explains_what_is_there() -> None:
    policy, between = policy_of(extraCapacity={"ladder": STEPS}), snapshot_of(*busy(23, 4))
    for first, rate in ((busy(30, 4), 0.1), (busy(18, 4), 0.5)):
        before = plan(snapshot_of(*first), [policy], now=NOW)
        restarted = plan(between, [policy], now=NOW, existing=as_existing(before.items[0]))
        assert restarted.items[0].rate == rate


@pytest.mark.parametrize(
    ("cpu", "floor"),
    [("24", (1000, 0)), ("16", (2000, 0)), ("8", (0, 2 * GI)), ("4", (0, 0))],
)
def test_a_step_by_allocatable_has_a_floor_of_its_own(cpu: str, floor: tuple[int, int]) -> None:
    """Nodes count as they are, idle ones too: three of `cpu`, so the last step that holds is at 64, 32, 24 or none."""
    steps = [
        {"fromAllocatable": {"cpu": "24"}, "minRate": 0, "floor": {"memory": "2Gi"}},
        {"fromAllocatable": {"cpu": "32"}, "minRate": 0, "floor": {"cpu": "2"}},
        {"fromAllocatable": {"cpu": "64"}, "minRate": 0, "floor": {"cpu": "1"}},
    ]
    nodes = [node(f"n{i}", cpu, "64Gi") for i in range(3)]
    item = plan_of(*nodes, extraCapacity={"minRate": 0, "ladder": steps}, cover={"mode": "None"})
    assert tuple(item.desired[:2]) == floor


def test_the_floor_of_the_policy_holds_where_that_of_the_step_is_lower() -> None:
    steps = [{"fromAllocatable": {"cpu": "1"}, "minRate": 0.1, "floor": {"cpu": "1", "memory": "9Gi"}}]
    item = plan_of(*busy(16), extraCapacity={"ladder": steps, "floor": {"cpu": "2", "memory": "1Gi"}})
    assert item.rate == 0.1
    assert tuple(item.desired[:2]) == (2000, 9 * GI)


def test_a_step_on_cordoned_nodes_is_not_reached() -> None:
    steps = [{"fromAllocatable": {"cpu": "12"}, "minRate": 0, "floor": {"cpu": "1"}}]
    cordoned = [node(f"n{i}", "4", "64Gi", unschedulable=i == 0) for i in range(3)]
    item = plan_of(*cordoned, extraCapacity={"minRate": 0, "ladder": steps}, cover={"mode": "None"})
    assert item.desired[0] == 0
