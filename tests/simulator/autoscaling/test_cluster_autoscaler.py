"""Worked examples of the Cluster Autoscaler by hand; 4-core nodes, 60 s to start.

Most of them look at 10, 20, 30 ... s only (`frequentLoopsEnabled: false`); when it looks by default has its own tests.
"""

from typing import Any

import pytest

from slack.planner.model.result import Answer
from slack.simulator.autoscaling.cluster_autoscaler import estimate
from slack.simulator.autoscaling.packing import Space
from slack.simulator.autoscaling.scale_down import crop, unneeded_nodes_limit
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.state import LEAVING, READY, STARTING
from slack.simulator.runs.engine import Simulation
from tests.cases import run_for_each
from tests.simulator.build import Json, advance, at, group, places, replicas, simulation, static, workload
from tests.simulator.invariants import verify

BY_DEFAULT: Json = {"kind": "clusterAutoscaler"}
CA: Json = {**BY_DEFAULT, "frequentLoopsEnabled": False}
MINUTE = 60.0


def _autoscaled(**changes: object) -> Simulation:
    return simulation(**{"autoscaler": CA, **changes})


def _nodes(sim: Simulation, state: int = READY) -> int:
    return len(sim.cluster.rows(state))


def _events(sim: Simulation) -> list[tuple[str, Answer]]:
    events: list[tuple[str, Answer]] = []

    def on_answer(kind: PodKind, answer: Answer, message: str) -> None:
        events.append((kind.name.split("/")[-1], answer))

    sim.autoscaler._on_answer = on_answer
    return events


@pytest.mark.parametrize(("arrives", "requested"), [(61.0, 70.0), (69.0, 80.0)])
def test_a_displaced_placeholder_asks_for_a_node_within_about_twelve_seconds(arrives: float, requested: float) -> None:
    # 4 cpu: pod of 3, placeholder of 3. At 69 s the placeholder is 1 s old when the scan comes: too young (2 s)
    sim = _autoscaled(workloads=[workload(cpu="3", arrivals=at(arrives))], slack=static(1, cpu="3"))
    advance(sim, requested - 0.001)
    assert _nodes(sim, STARTING) == 0
    advance(sim, requested)
    assert _nodes(sim, STARTING) == 1
    assert requested - arrives <= 12
    advance(sim, requested + 60 + 1.5)  # t0 + 12 s + boot: slack is there again
    assert places(sim, "overprovisioner") == [1]


@pytest.mark.parametrize(("others", "requested"), [((), 1010.0), ((1000.9,), 1010.9), ((1003.0,), 1003.0)])
def test_an_unschedulable_pod_is_looked_at_at_once_and_again_when_it_is_two_seconds_old(
    others: tuple[float, ...], requested: float
) -> None:
    # at 1000 s it is too new, and the next look is a scan interval away; one that comes at 1003 s hastens it,
    # and one that comes at 1000.9 s, too new as well, puts it off
    pods = workload(cpu="3", arrivals=at(0, 1000, *others))
    sim = _autoscaled(workloads=[pods], autoscaler=BY_DEFAULT)
    advance(sim, requested - 0.01)
    assert sim.cluster.group_counts == [1]
    advance(sim, requested + 0.2)
    assert sim.cluster.group_counts == [2 + len(others)]


def test_the_age_of_a_pod_is_counted_from_a_whole_second() -> None:
    # created at 1000.9 s, which the API says is 1000 s: the pod of 1002 s finds it old enough
    pods = workload(cpu="3", arrivals=at(0, 1000.9, 1002.0))
    sim = _autoscaled(workloads=[pods], autoscaler=BY_DEFAULT)
    advance(sim, 1002.1)
    assert sim.cluster.group_counts == [3]


def test_what_changed_something_is_looked_at_again_at_once() -> None:
    # a takes one node and is full; the rest goes to b in the next look, which does not wait ten seconds
    groups = [group("a", initial=0, max=1), group("b", initial=0)]
    settings = {**BY_DEFAULT, "expander": "priority", "expanderPriorities": {"a": 20, "b": 10}}
    sim = _autoscaled(nodeGroups=groups, workloads=[workload(cpu="4", arrivals=at(0, size=2))], autoscaler=settings)
    advance(sim, 11)
    assert sim.cluster.group_counts == [1, 1]


def test_no_second_node_is_asked_for_while_one_is_on_its_way() -> None:
    sim = _autoscaled(workloads=[workload(cpu="3", arrivals=at(0, size=2))])
    advance(sim, 65)
    assert (_nodes(sim), _nodes(sim, STARTING)) == (1, 1)


def test_pods_below_the_cutoff_scale_nothing_up() -> None:
    for priority, nodes in ((-11, 1), (-10, 2)):
        sim = _autoscaled(workloads=[workload(cpu="3", arrivals=at(0))], slack=static(1, cpu="3", priority=priority))
        advance(sim, 100)
        assert _nodes(sim) == nodes


def test_a_young_pod_may_be_told_to_wait() -> None:
    slow = {**CA, "newPodScaleUpDelaySeconds": 30}
    sim = _autoscaled(workloads=[workload(cpu="3", arrivals=at(1, 1))], autoscaler=slow)
    advance(sim, 39)
    assert _nodes(sim, STARTING) == 0
    advance(sim, 40)
    assert _nodes(sim, STARTING) == 1


def test_real_pods_take_simulated_room_first_and_placeholders_trigger_what_is_missing() -> None:
    # one node is on its way for the real pod; the placeholder of the same size needs one more
    sim = _autoscaled(
        nodeGroups=[group(initial=0)], workloads=[workload(cpu="3", arrivals=at(0))], slack=static(1, cpu="3")
    )
    events = _events(sim)
    advance(sim, 10)
    assert _nodes(sim, STARTING) == 2  # both in one group: one estimate
    assert ("overprovisioner", Answer.TRIGGERED) in events


def test_first_fit_decreasing_by_hand() -> None:
    # 4-cpu nodes: 3, 3, 2, 2, 1, 1 -> {3,1} {3,1} {2,2}: three nodes
    sizes = [("big", "3"), ("middle", "2"), ("small", "1")]
    sim = _autoscaled(workloads=[workload(name, cpu=cpu, arrivals=at(0, size=2)) for name, cpu in sizes])
    kinds = sim.cluster.kinds
    option = estimate(sim.cluster, 0, [(kinds[i], 2) for i in (2, 0, 1)], 10)
    assert option is not None
    assert option.nodes == 3
    few = estimate(sim.cluster, 0, [(kinds[i], 2) for i in (2, 0, 1)], 2)  # at most two: the largest are served
    assert few is not None
    assert [(k.name.split("/")[-1], n) for k, n in few.pods] == [("big", 2), ("small", 2)]


def test_pods_find_a_place_all_together_or_nothing_is_taken() -> None:
    # two nodes of 4 cpu: two pods of 3 and two of 1 fit; a third of 3 does not, and what was tried with it is undone
    sim = _autoscaled(
        nodeGroups=[group(initial=2)],
        workloads=[workload("big", cpu="3", arrivals=at(3000)), workload(arrivals=at(3000), antiAffinity="hostname")],
    )
    big, small = sim.cluster.kinds[0], sim.cluster.kinds[1]
    space = Space(sim.cluster)
    free = space.free.copy()
    assert not space.fits_all([(small, 2), (big, 3)])
    assert (space.free == free).all()
    assert space.room(small).tolist() == [1, 1]
    assert space.fits_all([(big, 2), (small, 2)])
    assert space.free[0].tolist() == [0, 0]
    assert space.fill(small, 1) == 1


def test_least_waste_figures_by_hand_and_its_choice() -> None:
    # one pod of 3 cpu, 6 Gi. small 4/8 Gi: (1/4 + 2/8)/2 = 0.25; large 8/32 Gi: (5/8 + 26/32)/2 = 0.71875
    groups = [
        group("large", allocatable={"cpu": "8", "memory": "32Gi"}, initial=0),
        group("small", allocatable={"cpu": "4", "memory": "8Gi"}, initial=0),
    ]
    pod = workload(cpu="3", memory="6Gi", arrivals=at(0))
    sim = _autoscaled(nodeGroups=groups, workloads=[pod])
    wastes = [estimate(sim.cluster, g, [(sim.cluster.kinds[0], 1)], 1) for g in (0, 1)]
    assert [option.waste for option in wastes if option] == [pytest.approx(0.71875), pytest.approx(0.25)]
    advance(sim, 10)
    assert sim.cluster.group_counts == [0, 1]


def test_the_priority_expander_takes_the_highest_and_one_group_a_loop() -> None:
    groups = [group("a", initial=0, max=1), group("b", initial=0)]
    settings = {**CA, "expander": "priority", "expanderPriorities": {"a": 20, "b": 10}}
    sim = _autoscaled(nodeGroups=groups, workloads=[workload(cpu="4", arrivals=at(0, size=2))], autoscaler=settings)
    advance(sim, 10)
    assert sim.cluster.group_counts == [1, 0]
    advance(sim, 20)  # a is full: the rest goes to b in the next loop
    assert sim.cluster.group_counts == [1, 1]


def test_the_random_expander_is_the_same_for_the_same_seed() -> None:
    def chosen(seed: int) -> list[int]:
        groups = [group("a", initial=0), group("b", initial=0)]
        settings = {**CA, "expander": "random"}
        pods = [workload(cpu="4", arrivals=at(*range(0, 300, 20)))]
        sim = _autoscaled(nodeGroups=groups, workloads=pods, autoscaler=settings, seed=seed)
        advance(sim, 400)
        return list(sim.cluster.group_counts)

    assert chosen(1) == chosen(1)
    assert sum(chosen(1)) == sum(chosen(2)) == 15
    assert min(chosen(1)) > 0


def test_limits_are_kept_and_said() -> None:
    for limit, autoscaler in ((group(max=2), CA), (group(), {**CA, "maxNodesTotal": 2})):
        sim = _autoscaled(
            nodeGroups=[limit], workloads=[workload(cpu="4", arrivals=at(0, size=4))], autoscaler=autoscaler
        )
        events = _events(sim)
        advance(sim, 200)
        assert _nodes(sim) == 2
        assert events[-1] == ("w", Answer.LIMIT)


def test_so_many_nodes_are_asked_for_in_a_scale_up() -> None:
    # --max-nodes-per-scaleup: ten pods of a node each, three nodes a look: 3, 6, 9 and 10 at 10, 20, 30 and 40 s
    sim = _autoscaled(
        nodeGroups=[group(initial=0)],
        workloads=[workload(cpu="4", arrivals=at(0, size=10))],
        autoscaler={**CA, "maxNodesPerScaleUp": 3},
    )
    requested = []
    for second in (9, 11, 21, 31, 41, 51):
        advance(sim, second)
        requested.append(sim.cluster.group_counts[0])
    assert requested == [0, 3, 6, 9, 10, 10]


@pytest.mark.parametrize(("delay", "second_time"), [(0, 620), (60, 670), (65, 680)])
def test_after_nodes_went_none_goes_for_the_delay(delay: float, second_time: float) -> None:
    # --scale-down-delay-after-delete: of twelve idle nodes ten go at 610 s and are gone at 615 s; the others at the
    # first look of 620, 630, ... that is at least the delay after 610 s. The time of the taint counts, not that of the
    # end
    sim = _idle(13, autoscaler={**CA, "scaleDownDelayAfterDeleteSeconds": delay})
    advance(sim, 616)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (3, 0)
    advance(sim, second_time - 0.1)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (3, 0)
    advance(sim, second_time)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (1, 2)


def test_nodes_on_their_way_out_count_against_the_limit() -> None:
    # --max-nodes-total=2, a look every 2 s: the idle node is tainted at 602 s and gone at 607 s. The pod of 602.5 s,
    # old enough at 604 s, is refused a node at 604 and 606 s and gets one at 608 s
    sim = simulation(
        nodeGroups=[group(initial=2)],
        workloads=[workload(arrivals=replicas(1)), workload("new", cpu="4", arrivals=at(602.5))],
        autoscaler={**CA, "scanIntervalSeconds": 2, "maxNodesTotal": 2},
    )
    advance(sim, 603)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (1, 1)
    advance(sim, 607.9)
    assert _nodes(sim, STARTING) == 0
    advance(sim, 608.1)
    assert _nodes(sim, STARTING) == 1


# -- scale-down ------------------------------------------------------------------------------------------


def _idle(count: int, *, autoscaler: Json | None = None, slack: Json | None = None, **changes: Any) -> Simulation:
    """So many nodes from the start; `w` is one pod that stays."""
    return simulation(
        nodeGroups=[group(initial=count, **changes)],
        workloads=[workload(arrivals=replicas(1))],
        autoscaler=autoscaler or CA,
        slack=slack or {"kind": "none"},
    )


def test_an_empty_node_goes_when_it_has_been_unneeded_for_ten_minutes() -> None:
    sim = _idle(2)
    advance(sim, 10 + 600 - 0.1)  # first seen at the scan of 10 s
    assert _nodes(sim) == 2
    advance(sim, 610)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (1, 1)
    advance(sim, 615)  # --node-delete-delay-after-taint
    assert _nodes(sim, LEAVING) == 0
    assert sim.cluster.group_counts == [1]


def test_ten_empty_nodes_go_at_a_time() -> None:
    sim = _idle(13)
    advance(sim, 612)
    assert _nodes(sim, LEAVING) == 10


def test_a_group_keeps_its_minimum() -> None:
    sim = _idle(4, min=3)
    advance(sim, 600)
    assert sim.cluster.candidate.sum() == 3  # while the group is above its minimum, all idle nodes are unneeded
    advance(sim, 1500)
    assert _nodes(sim) == 3
    assert sim.cluster.candidate.sum() == 0


# core/scaledown/budgets/budgets_test.go, TestCropNodesToBudgets: at most 10 at a time, 5 of them with a drain
@run_for_each(
    ("emptying", "draining", "empty", "drain", "expected"),
    [
        (0, 0, 10, 0, (10, 0)),
        (0, 0, 11, 0, (10, 0)),
        (1, 1, 8, 0, (8, 0)),
        (1, 1, 10, 0, (8, 0)),
        (5, 5, 10, 0, (0, 0)),
        (50, 50, 10, 0, (0, 0)),
        (0, 0, 0, 5, (0, 5)),
        (0, 0, 0, 6, (0, 5)),
        (1, 2, 0, 3, (0, 3)),
        (1, 2, 0, 5, (0, 3)),
        (1, 5, 0, 5, (0, 0)),
        (1, 50, 0, 5, (0, 0)),
        (7, 1, 0, 4, (0, 2)),
        (10, 0, 0, 4, (0, 0)),
        (0, 0, 5, 5, (5, 5)),
        (0, 0, 8, 8, (8, 2)),
        (0, 0, 2, 8, (2, 5)),
        (10, 0, 5, 5, (0, 0)),
    ],
)
def test_upstreams_budget_examples(
    emptying: int, draining: int, empty: int, drain: int, expected: tuple[int, int]
) -> None:
    removing = emptying + draining
    may_go = crop(list(range(empty)), list(range(drain)), most=10, most_drains=5, removing=removing, draining=draining)
    assert tuple(map(len, may_go)) == expected


# core/scaledown/planner/planner_test.go, TestUpdateClusterStatUnneededNodesLimit: 10 nodes may go at a time
@pytest.mark.parametrize(
    ("before", "unneeded", "interval", "expected"),
    [
        (0, 60, 10, 20),
        (3, 60, 10, 23),
        (70, 60, 10, 70),
        (77, 60, 10, 70),
        (0, 0, 10, 20),
        (13, 60, 1, 33),
        (13, 60, 30, 30),
    ],
)
def test_upstreams_examples_of_how_many_unneeded_nodes_are_looked_for(
    before: int, unneeded: float, interval: float, expected: int
) -> None:
    limit = unneeded_nodes_limit(before, parallelism=10, unneeded_seconds=unneeded, shortest_interval_seconds=interval)
    assert limit == expected


def test_an_empty_node_and_one_that_needs_a_drain_go_together() -> None:
    # 0.5 cpu on two nodes, the third is empty: it and one drained node go in one look
    sim = simulation(
        nodeGroups=[group(initial=3)], workloads=[workload(cpu="500m", arrivals=at(0, size=2))], autoscaler=CA
    )
    advance(sim, 611)
    assert (_nodes(sim), _nodes(sim, LEAVING)) == (1, 2)


def test_a_drained_node_goes_five_seconds_after_its_pods() -> None:
    sim = simulation(
        nodeGroups=[group(initial=2)], workloads=[workload(cpu="500m", arrivals=at(0, size=2))], autoscaler=CA
    )
    advance(sim, 614.9)
    assert sorted(places(sim, "w")) == [0, 1]
    advance(sim, 615.1)  # --node-delete-delay-after-taint
    assert len(set(places(sim, "w"))) == 1
    assert _nodes(sim, LEAVING) == 1
    advance(sim, 620.1)  # waitPodsToDisappear found them there at 615 s and looks every 5 s
    assert _nodes(sim, LEAVING) == 0


def test_moved_pods_must_find_another_place_when_that_node_is_looked_at() -> None:
    # 1.5, 1.5 and 2.4 of 4 cpu: the pod of the first fits on the second; both together fit nowhere else
    loads = [workload(cpu="1500m", arrivals=at(0, size=2)), workload("large", cpu="2400m", arrivals=at(0))]
    sim = simulation(nodeGroups=[group(initial=3)], workloads=loads, autoscaler=CA)
    advance(sim, 15)
    assert sorted(places(sim, "w") + places(sim, "large")) == [0, 1, 2]
    assert sim.cluster.candidate.sum() == 1


def test_pods_of_a_node_that_is_drained_need_their_place_already() -> None:
    # 0.5, 0.5 and 3.4 cpu. While the first node goes, its pod is taken to be on the second: the third has no room for
    # two of 0.5, so the second is needed, also in the looks before the pod is evicted
    loads = [workload(cpu="500m", arrivals=at(0, size=2)), workload("large", cpu="3400m", arrivals=at(0))]
    settings = {**CA, "scanIntervalSeconds": 2, "unremovableNodeRecheckTimeout": "1s"}
    sim = simulation(nodeGroups=[group(initial=3)], workloads=loads, autoscaler=settings)
    advance(sim, 605)
    assert sim.cluster.rows(LEAVING).tolist() == [0]
    assert sim.cluster.candidate.tolist()[1:3] == [False, False]
    advance(sim, 1500)
    assert _nodes(sim) == 2


def test_moved_pods_find_no_place_on_nodes_that_are_on_their_way() -> None:
    # 0.8 cpu on a, 3.5 on another of a; a node of b for 6 cpu is on its way and would have room for the 0.8
    loads = [
        workload("small", cpu="800m", arrivals=at(0)),
        workload("large", cpu="3500m", arrivals=at(0)),
        workload("new", cpu="6", arrivals=at(8)),
    ]
    groups = [group("a", initial=2), group("b", initial=0, allocatable={"cpu": "8", "memory": "32Gi"})]
    settings = {**CA, "unremovableNodeRecheckTimeout": "10s"}
    sim = simulation(nodeGroups=groups, workloads=loads, autoscaler=settings)
    advance(sim, 65)
    assert sim.cluster.group_counts == [2, 1]
    assert sim.cluster.candidate.sum() == 0
    advance(sim, 85)  # ready at 70 s
    assert sim.cluster.candidate.sum() == 1


@pytest.mark.parametrize(("cpu", "stays"), [("2", False), ("2001m", True)])
def test_placeholders_above_half_of_a_node_pin_it(cpu: str, stays: bool) -> None:
    # a placeholder on each of two nodes: 2 of 4 cpu is at the threshold, and both fit one node
    sim = _autoscaled(nodeGroups=[group(initial=2)], workloads=[workload(arrivals=at(3000))], slack=static(2, cpu=cpu))
    advance(sim, 700)
    assert (_nodes(sim) == 2) is stays


def test_a_node_is_needed_while_its_pods_fit_nowhere_else() -> None:
    # two nodes at 1.9 of 4 cpu each; together 3.8 fit one node: one goes. At 2 x 2 pods of 1.1: 2.2 is above half
    fits = simulation(
        nodeGroups=[group(initial=2)], workloads=[workload(cpu="1900m", arrivals=replicas(2))], autoscaler=CA
    )
    advance(fits, 700)
    assert _nodes(fits) == 1
    tight = simulation(
        nodeGroups=[group(initial=3)], workloads=[workload(cpu="1500m", arrivals=replicas(3))], autoscaler=CA
    )
    advance(tight, 2000)  # 1.5 each: two fit one node, so one of three goes, and then none
    assert _nodes(tight) == 2


def test_anti_affinity_over_hosts_keeps_nodes() -> None:
    pods = workload(arrivals=replicas(2), antiAffinity="hostname")
    sim = simulation(nodeGroups=[group(initial=2)], workloads=[pods], autoscaler=CA)
    advance(sim, 2000)
    assert _nodes(sim) == 2


def test_one_drain_at_a_time_and_the_pods_find_a_place() -> None:
    # 6 nodes with 0.5 cpu each: all but one could go, one by one
    sim = simulation(
        nodeGroups=[group(initial=6)], workloads=[workload(cpu="500m", arrivals=replicas(6))], autoscaler=CA
    )
    leaving = []
    for second in range(600, 800, 5):
        advance(sim, second)
        leaving.append(_nodes(sim, LEAVING))
    assert max(leaving) == 1
    assert _nodes(sim) == 1
    assert sim.meter.counters["drained"] >= 5
    assert places(sim, "w").count(-1) == 0
    verify(sim.cluster)


def test_every_scale_up_stops_scale_down_of_the_whole_cluster_for_ten_minutes() -> None:
    # group b grows at 500 s; the empty node of a, due at 610 s, goes at 500 + 600 s
    sim = simulation(
        nodeGroups=[group("a", initial=2), group("b", initial=0, labels={"pool": "b"})],
        workloads=[
            workload("stays", cpu="3", arrivals=replicas(1)),
            workload("new", cpu="3", nodeSelector={"pool": "b"}, arrivals=at(491)),
        ],
        autoscaler=CA,
    )
    advance(sim, 500)
    assert sim.cluster.group_counts == [2, 1]
    advance(sim, 1099)
    assert sim.cluster.group_counts == [2, 1]
    advance(sim, 1100)
    assert sim.cluster.group_counts == [1, 1]


def test_unneeded_nodes_get_the_soft_taint() -> None:
    sim = _idle(2)
    advance(sim, 15)
    assert sim.cluster.candidate[: sim.cluster.size].sum() >= 1


def test_so_many_soft_taints_are_put_on_or_taken_off_in_a_look() -> None:
    # TestSoftTaintUpdate (core/scaledown/actuation/softtaint_test.go): one a look. The pods of 35 s need every node
    load = [workload(arrivals=replicas(1)), workload("large", cpu="3", arrivals=at(35, size=3))]
    settings = {**CA, "maxBulkSoftTaintCount": 1}
    sim = simulation(nodeGroups=[group(initial=3, max=3)], workloads=load, autoscaler=settings)
    tainted = []
    for second in (11, 21, 31, 41, 51):
        advance(sim, second)
        tainted.append(int(sim.cluster.candidate.sum()))
    assert tainted == [1, 2, 2, 1, 0]
