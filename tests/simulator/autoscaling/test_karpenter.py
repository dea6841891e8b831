"""Worked examples of Karpenter by hand: types of 2, 4 and 8 cores at 1, 2 and 4 an hour, 60 s to start."""

from fractions import Fraction

import pytest

from slack.simulator.autoscaling.consolidation import allowed_disruptions
from slack.simulator.model.state import LEAVING, READY, STARTING
from slack.simulator.runs.engine import Simulation
from tests.simulator.build import Json, advance, at, group, places, replicas, simulation, static, workload

TYPES = [
    group(f"c{cpu}", allocatable={"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}, pricePerHour=cpu / 2, initial=0)
    for cpu in (2, 4, 8)
]


def _karpenter(workloads: list[Json], *, groups: list[Json] | None = None, **changes: object) -> Simulation:
    autoscaler = {"kind": "karpenter", **changes.pop("autoscaler", {})}  # type: ignore[dict-item]  # `changes` holds any document
    return simulation(nodeGroups=groups or TYPES, workloads=workloads, autoscaler=autoscaler, **changes)


def _with(*initial: int) -> list[Json]:
    return [{**type_, "initial": count} for type_, count in zip(TYPES, initial, strict=True)]


def _states(sim: Simulation) -> tuple[int, int, int]:
    """Nodes that are ready, starting, on their way out."""
    ready, starting, leaving = (len(sim.cluster.rows(state)) for state in (READY, STARTING, LEAVING))
    return ready, starting, leaving


def test_a_batch_closes_a_second_after_its_last_pod() -> None:
    sim = _karpenter([workload(arrivals=at(10, 10.5))])
    advance(sim, 11.4)
    assert len(sim.cluster.rows(STARTING)) == 0
    advance(sim, 11.6)
    assert sim.cluster.group_counts == [1, 0, 0]  # both pods of 1 cpu on one node of 2


def test_a_batch_closes_ten_seconds_after_its_first_pod() -> None:
    sim = _karpenter([workload(arrivals=at(*(10 + 0.5 * i for i in range(40))))])
    advance(sim, 19.9)
    assert sum(sim.cluster.group_counts) == 0
    advance(sim, 20.2)
    assert sum(sim.cluster.group_counts) > 0


def test_a_node_takes_what_fits_the_largest_type_and_becomes_the_cheapest_that_holds_it() -> None:
    # 5 pods of 1 cpu fit one node: 8 is the only type that holds five; 3 pods: 4 does
    for count, expected in ((5, [0, 0, 1]), (3, [0, 1, 0]), (9, [1, 0, 1])):
        sim = _karpenter([workload(arrivals=at(0, size=count))])
        advance(sim, 5)
        assert sim.cluster.group_counts == expected


def test_pods_that_wait_for_a_node_ask_for_no_other() -> None:
    sim = _karpenter([workload(cpu="2", arrivals=at(0, 20))])
    advance(sim, 55)
    assert sim.cluster.group_counts == [2, 0, 0]
    advance(sim, 90)
    assert places(sim, "w").count(-1) == 0
    assert sim.cluster.group_counts == [2, 0, 0]


def test_placeholders_provision_whatever_their_priority() -> None:
    sim = _karpenter([workload(cpu="100m", arrivals=at(3000))], slack=static(1, cpu="2", priority=-1000))
    advance(sim, 5)
    assert sum(sim.cluster.group_counts) == 1


def test_empty_nodes_go_after_a_second_look() -> None:
    sim = _karpenter([workload(arrivals=replicas(1))], groups=_with(0, 0, 2))
    advance(sim, 24)
    assert sum(sim.cluster.group_counts) == 2
    advance(sim, 25)  # poll at 10 s, validation 15 s later
    assert sum(sim.cluster.group_counts) == 1


def test_a_node_is_replaced_by_a_cheaper_one_before_its_pods_move() -> None:
    sim = _karpenter([workload(arrivals=replicas(1))], groups=_with(0, 0, 1))
    advance(sim, 26)
    assert (len(sim.cluster.rows(STARTING)), len(sim.cluster.rows(READY))) == (1, 0)
    assert places(sim, "w") == [0]
    advance(sim, 90)
    assert sim.cluster.group_counts == [1, 0, 0]
    assert places(sim, "w") == [1]
    assert sim.meter.counters["drained"] == 1


def test_when_empty_leaves_loaded_nodes_alone() -> None:
    sim = _karpenter(
        [workload(arrivals=replicas(1))], groups=_with(0, 0, 1), autoscaler={"consolidationPolicy": "WhenEmpty"}
    )
    advance(sim, 1000)
    assert sim.cluster.group_counts == [0, 0, 1]


def test_consolidate_after_waits_for_quiet() -> None:
    life = {"kind": "constant", "seconds": 30}
    pods = [workload(arrivals=replicas(1)), workload("short", arrivals=at(200), life=life)]
    sim = _karpenter(pods, groups=_with(0, 0, 1), autoscaler={"consolidateAfterSeconds": 300})
    advance(sim, 500)
    assert sim.cluster.group_counts == [0, 0, 1]  # the last pod left at 230 s
    advance(sim, 700)
    assert sim.cluster.group_counts == [1, 0, 0]


def test_pods_that_are_about_to_move_need_their_room_on_nodes_to_come() -> None:
    # at 25 s a c2 is on its way for the c8's pod of 1 cpu. The pod of 1.5 cpu that comes at 30 s is larger and is put
    # there first; 0.5 is left, so the moving pod needs a second c2, as it does when both have moved
    sim = _karpenter([workload(arrivals=at(0)), workload("new", cpu="1500m", arrivals=at(30))], groups=_with(0, 0, 1))
    advance(sim, 31.2)
    assert sim.cluster.group_counts == [2, 0, 0]
    advance(sim, 150)
    assert sorted(places(sim, "w") + places(sim, "new")) == [1, 2]


@pytest.mark.parametrize(("most", "states"), [(1, (0, 1, 1)), (2, (0, 2, 1))])
def test_nodes_on_their_way_out_do_not_count_against_the_limit(most: int, states: tuple[int, int, int]) -> None:
    # updateNodePoolResources (state/cluster.go) leaves out what is marked for deletion, and SimulateScheduling the
    # candidates: with a limit of one node a c8 may still be replaced by a c2; for the pod of 30 s it takes a limit of
    # two
    pods = [workload(arrivals=at(0)), workload("new", cpu="2", arrivals=at(30))]
    sim = _karpenter(pods, groups=_with(0, 0, 1), autoscaler={"maxNodesTotal": most})
    advance(sim, 25.1)
    assert _states(sim) == (0, 1, 1)
    advance(sim, 50)
    assert _states(sim) == states


# -- several nodes, and in which order -------------------------------------------------------------------------


def test_three_nodes_become_one() -> None:
    # consolidation_test.go, can merge 3 nodes into 1: a pod on each of three nodes of the most expensive type. Of two
    # c8 the pods would fit the third, of all three (3 cpu) a c4: 2 instead of 12 an hour, and the longest row counts
    sim = _karpenter([workload(arrivals=at(0, size=3))], groups=_with(0, 0, 3), autoscaler={"budgetShare": 1})
    advance(sim, 1)
    assert sorted(places(sim, "w")) == [0, 1, 2]
    advance(sim, 25.1)
    assert (sim.cluster.group_counts, _states(sim)) == ([0, 1, 0], (0, 1, 3))
    advance(sim, 86)
    assert _states(sim) == (1, 0, 0)
    assert set(places(sim, "w")) == {3}


def test_three_of_ten_nodes_go_together_with_a_budget_of_thirty_percent() -> None:
    # consolidation_test.go, Budgets: a pod on each of ten nodes, one of which would hold all; the budget lets three go
    sim = _karpenter(
        [workload(cpu="500m", arrivals=at(0, size=10))],
        groups=_with(0, 0, 10),
        autoscaler={"budgetShare": 0.3},
    )
    advance(sim, 1)
    assert sorted(places(sim, "w")) == list(range(10))
    advance(sim, 24.9)
    assert _states(sim) == (10, 0, 0)
    advance(sim, 25.1)
    assert _states(sim) == (7, 0, 0)


def test_two_nodes_are_not_replaced_by_one_of_their_type() -> None:
    # consolidation_test.go, won't merge 2 nodes into 1 of the same type: two and one pod on the cheapest type. A third
    # c2 would hold 1.5 cpu, too, but the node with one pod just goes
    sim = _karpenter(
        [workload(cpu="500m", arrivals=at(0, size=3))], groups=_with(2, 0, 0), autoscaler={"budgetShare": 1}
    )
    advance(sim, 1)
    assert places(sim, "w") == [0, 1, 0]
    advance(sim, 25.1)
    assert (_states(sim), set(places(sim, "w"))) == ((1, 0, 0), {0})
    advance(sim, 300)
    assert _states(sim) == (1, 0, 0)


@pytest.mark.parametrize(("nano", "counts", "states"), [(4, [1, 0, 0, 0], (0, 1, 3)), (0, [0, 1, 0, 0], (1, 0, 0))])
def test_a_replacement_is_cheaper_than_the_cheapest_of_its_like_that_goes(
    nano: int, counts: list[int], states: tuple[int, int, int]
) -> None:
    # filterOutSameInstanceType's own examples: 2xlarge, 2xlarge, small. Where a nano would hold all pods, it replaces
    # the three; where small is the least that does, small stays, and the others just go
    sizes = {"nano": 1, "small": 2, "xlarge": 8, "2xlarge": 16}
    first = {"small": 1, "2xlarge": 2}
    groups = [
        group(
            f"t-{name}",
            allocatable={"cpu": str(cpu), "memory": f"{4 * cpu}Gi"},
            pricePerHour=cpu / 2,
            initial=first.get(name, 0),
            max=nano if name == "nano" else 4,
        )
        for name, cpu in sizes.items()
    ]
    full = workload("full", cpu="16", arrivals=at(0, size=2), life={"kind": "constant", "seconds": 5})
    pods = [full, workload(cpu="300m", arrivals=at(1)), workload("later", cpu="300m", arrivals=at(6, size=2))]
    sim = _karpenter(pods, groups=groups, autoscaler={"budgetShare": 1})
    advance(sim, 7)
    assert (places(sim, "w"), sorted(places(sim, "later"))) == ([0], [1, 2])
    advance(sim, 25.1)
    assert (sim.cluster.group_counts, _states(sim)) == (counts, states)


def test_the_node_that_saves_most_by_pod_goes_first() -> None:
    # SavingsRatio (types.go) = price / (1 + pods): 4 / (1 + 3) = 1 for the c8, 1 / (1 + 1) = 0.5 for the c2 with one
    # pod
    sim = _karpenter([workload(cpu="400m", arrivals=at(0, size=4))], groups=_with(1, 0, 1))
    advance(sim, 1)
    assert sorted(places(sim, "w")) == [0, 1, 1, 1]
    advance(sim, 25.1)
    assert sim.cluster.group_counts == [1, 0, 0]
    assert set(places(sim, "w")) == {0}


def test_pods_are_not_moved_to_a_node_that_is_not_quiet_yet() -> None:
    # consolidation_test.go, "should not consolidate pods onto a destination node that is under its consolidateAfter
    # window". The first node is quiet from 60 s on; the other from 115 s, as a pod lives there from 50 to 55 s. Its
    # place is found at the poll of 120 s
    short = workload("short", cpu="100m", arrivals=at(50), life={"kind": "constant", "seconds": 5})
    pods = [workload("large", cpu="700m", arrivals=at(0)), workload(cpu="100m", memory="10Mi", arrivals=at(1, 1, 1))]
    sim = _karpenter([*pods, short], groups=_with(2, 0, 0), autoscaler={"consolidateAfterSeconds": 60})
    advance(sim, 52)
    assert (places(sim, "large"), places(sim, "w"), places(sim, "short")) == ([0], [1, 1, 1], [1])
    advance(sim, 134.9)
    assert _states(sim) == (2, 0, 0)
    advance(sim, 135.1)
    assert (_states(sim), places(sim, "large")) == ((1, 0, 0), [1])


def test_all_single_nodes_are_looked_at_in_the_end() -> None:
    # nothing can be done for a c8 with 7.8 of 8 cpu and twenty c2 with 2 of 2: ratios 4 / 2 and 1 / 2. The last c2 has
    # two pods of 0.1, 1 / 3; they fit the c8. Fifteen nodes are looked at at 10 s, seven at 20 s; it goes at 35 s
    pods = [
        workload("large", cpu="7800m", arrivals=at(0)),
        workload("full", cpu="2", arrivals=at(1, size=20)),
        workload("tiny", cpu="100m", memory="10Mi", arrivals=at(2, size=2)),
    ]
    groups = _with(21, 0, 1)
    sim = _karpenter(pods, groups=groups)
    advance(sim, 3)
    assert places(sim, "tiny") == [20, 20]
    advance(sim, 34.9)
    assert sim.cluster.group_counts == [21, 0, 1]
    advance(sim, 35.1)
    assert sim.cluster.group_counts == [20, 0, 1]


# -- how a command is looked at again (disruption/validation.go) -----------------------------------------------


@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized"])
def test_an_empty_node_that_got_a_pod_is_left_out_and_never_drained(policy: str) -> None:
    # three empty nodes are found at 10 s; a pod comes to the first at 20 s; the other two go at 25 s
    sim = _karpenter(
        [workload(arrivals=at(20))],
        groups=_with(3, 0, 0),
        autoscaler={"consolidationPolicy": policy, "budgetShare": 1},
    )
    advance(sim, 24.9)
    assert _states(sim) == (3, 0, 0)
    advance(sim, 25.1)
    assert _states(sim) == (1, 0, 0)
    assert places(sim, "w") == [0]
    assert sim.meter.counters["drained"] == 0


def _with_a_pod_on_the_c2(*more: Json) -> Simulation:
    """A c2 with half a core of its own pod, and a c8."""
    groups = [{**type_, "labels": {"size": str(type_["name"])}} for type_ in _with(1, 0, 1)]
    return _karpenter([workload("own", cpu="500m", nodeSelector={"size": "c2"}, arrivals=at(0)), *more], groups=groups)


def test_what_comes_next_is_tried_at_once_when_no_node_of_a_command_is_empty_any_more() -> None:
    # the c8 is found empty at 10 s and has a pod of 1 cpu from 20 s on: at 25 s the command is dropped. The pod fits
    # the c2 (1.5 cpu), so the c8 goes as a single node 15 s later, at 40 s; from the poll of 30 s it would be 45 s
    sim = _with_a_pod_on_the_c2(workload(arrivals=at(20)))
    advance(sim, 20.5)
    assert places(sim, "w") == [1]
    advance(sim, 39.9)
    assert _states(sim) == (2, 0, 0)
    advance(sim, 40.1)
    assert sim.cluster.group_counts == [1, 0, 0]
    assert places(sim, "w") == [0]


def test_a_node_that_became_empty_meanwhile_is_left_to_emptiness() -> None:
    # the c8's pod fits the c2, so at 10 s the c8 is to go; its pod ends at 20 s. At 25 s the command is dropped, as no
    # empty node is a candidate of consolidation; at 30 s the node is found empty, and it goes at 45 s
    sim = _with_a_pod_on_the_c2(workload(arrivals=at(0), life={"kind": "constant", "seconds": 20}))
    advance(sim, 1)
    assert places(sim, "w") == [1]
    advance(sim, 44.9)
    assert _states(sim) == (2, 0, 0)
    advance(sim, 45.1)
    assert sim.cluster.group_counts == [1, 0, 0]
    assert sim.meter.counters["drained"] == 0


def test_a_removal_that_would_need_a_replacement_meanwhile_is_dropped() -> None:
    # 1.5 and 1 cpu on two c4: the 1 fits beside the 1.5, so at 10 s its node is to go. At 20 s a pod of 2.3 cpu takes
    # that room (4 - 1.5 - 2.3 = 0.2): without the node a c2 would be needed. That is another result, and nothing
    # happens at 25 s; it is a command of its own at 30 s, which starts the c2 at 45 s
    pods = [workload("large", cpu="1500m", arrivals=at(0)), workload("small", arrivals=at(0))]
    filler = workload("new", cpu="2300m", arrivals=at(20))
    sim = _karpenter([*pods, filler], groups=_with(0, 2, 0))
    advance(sim, 21)
    assert (places(sim, "large"), places(sim, "small"), places(sim, "new")) == ([0], [1], [1])
    advance(sim, 44.9)
    assert _states(sim) == (2, 0, 0)


@pytest.mark.parametrize(("ttl", "goes"), [(15, 25), (0, 10), (42, 52)])
def test_a_command_is_carried_out_after_the_consolidation_ttl(ttl: float, goes: float) -> None:
    # found at the poll of 10 s
    sim = _karpenter(
        [workload(arrivals=replicas(1))], groups=_with(2, 0, 0), autoscaler={"consolidationTtlSeconds": ttl}
    )
    advance(sim, goes - 0.1)
    assert sim.cluster.group_counts == [2, 0, 0]
    advance(sim, goes + 0.1)
    assert sim.cluster.group_counts == [1, 0, 0]


# -- budgets ---------------------------------------------------------------------------------------------------


# disruption/suite_test.go: ten nodes, 100 %: 10; two of them on their way out: 8; all of them, with 10 %: 0.
# consolidation_test.go: ten nodes, 30 %: 3. nodepool.go: ten nodes, 5 %: 1, as it is rounded up
@pytest.mark.parametrize(
    ("nodes", "disrupting", "share", "expected"),
    [
        (10, 0, "1", 10),
        (10, 2, "1", 8),
        (10, 10, "0.1", 0),
        (10, 0, "0.3", 3),
        (10, 0, "0.05", 1),
        (100, 0, "0.07", 7),
        (101, 0, "0.07", 8),
        (0, 0, "0.1", 0),
    ],
)
def test_upstreams_examples_of_budgets(nodes: int, disrupting: int, share: str, expected: int) -> None:
    assert allowed_disruptions(nodes, disrupting, Fraction(share)) == expected


def test_three_of_ten_empty_nodes_go_with_a_budget_of_thirty_percent() -> None:
    # emptiness_test.go, should only allow 3 empty nodes to be disrupted; then 30 % of 7 are 2.1, so 3
    sim = _karpenter([workload(arrivals=at(3000))], groups=_with(10, 0, 0), autoscaler={"budgetShare": 0.3})
    advance(sim, 25.1)
    assert sim.cluster.group_counts == [7, 0, 0]
    advance(sim, 45.1)
    assert sim.cluster.group_counts == [4, 0, 0]


def test_a_share_is_taken_as_it_is_written() -> None:
    # 100 x 0.07 is 7.000000000000001 in floating point, of which the ceiling is 8; upstream reckons 7 x 100 / 100
    sim = _karpenter([workload(arrivals=at(3000))], groups=_with(100, 0, 0), autoscaler={"budgetShare": 0.07})
    advance(sim, 25.1)
    assert sim.cluster.group_counts == [93, 0, 0]


def test_nodes_that_are_starting_are_no_part_of_the_whole() -> None:
    # two of ten c2 are empty, five c8 are starting: 10 % of 10 are 1, of 15 they would be 2
    keep = workload("keep", cpu="2", arrivals=replicas(8))
    sim = _karpenter([keep, workload("new", cpu="8", arrivals=at(0, size=5))], groups=_with(10, 0, 0))
    advance(sim, 25.1)
    assert _states(sim) == (9, 5, 0)


def test_nodes_on_their_way_out_use_up_their_part() -> None:
    # ten c8 with 1 cpu each that are kept apart: each could become a c2, none can go with another. 20 % are two: one
    # from 25 s on, the next, looked for at once, from 40 s on. The first c2 is ready at 85 s, and only then a third may
    # go
    sim = _karpenter(
        [workload(arrivals=replicas(10), antiAffinity="hostname")],
        groups=_with(0, 0, 10),
        autoscaler={"budgetShare": 0.2},
    )
    found = []
    for second in (25.1, 39.9, 40.1, 84.9, 86):
        advance(sim, second)
        found.append(_states(sim))
    assert found == [(9, 1, 1), (9, 1, 1), (8, 2, 2), (8, 2, 2), (9, 1, 1)]
