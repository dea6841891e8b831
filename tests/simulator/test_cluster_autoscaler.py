"""Worked examples of the Cluster Autoscaler by hand; 4-core nodes, 60 s to start, scans at 10, 20, 30 ... s."""

from typing import Any

import pytest

from slack.planner.outcome import Answer
from slack.simulator.cluster_autoscaler import estimate
from slack.simulator.engine import Simulation
from slack.simulator.kinds import Kind
from slack.simulator.state import LEAVING, READY, STARTING
from slack.simulator.verify import verify
from tests.simulator.build import Json, advance, at, group, places, replicas, simulation, static, workload

CA: Json = {"kind": "clusterAutoscaler"}
MINUTE = 60.0


def _autoscaled(**changes: object) -> Simulation:
    return simulation(**{"autoscaler": CA, **changes})


def _nodes(sim: Simulation, state: int = READY) -> int:
    return len(sim.cluster.rows(state))


def _words(sim: Simulation) -> list[tuple[str, Answer]]:
    heard: list[tuple[str, Answer]] = []

    def hear(kind: Kind, answer: Answer, message: str) -> None:
        heard.append((kind.name.split("/")[-1], answer))

    sim.autoscaler._hear = hear
    return heard


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
    slow = {"kind": "clusterAutoscaler", "newPodScaleUpDelaySeconds": 30}
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
    heard = _words(sim)
    advance(sim, 10)
    assert _nodes(sim, STARTING) == 2  # both in one group: one estimate
    assert ("overprovisioner", Answer.TRIGGERED) in heard


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
    settings = {"kind": "clusterAutoscaler", "expander": "priority", "expanderPriorities": {"a": 20, "b": 10}}
    sim = _autoscaled(nodeGroups=groups, workloads=[workload(cpu="4", arrivals=at(0, size=2))], autoscaler=settings)
    advance(sim, 10)
    assert sim.cluster.group_counts == [1, 0]
    advance(sim, 20)  # a is full: the rest goes to b in the next loop
    assert sim.cluster.group_counts == [1, 1]


def test_the_random_expander_is_the_same_for_the_same_seed() -> None:
    def chosen(seed: int) -> list[int]:
        groups = [group("a", initial=0), group("b", initial=0)]
        settings = {"kind": "clusterAutoscaler", "expander": "random"}
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
        heard = _words(sim)
        advance(sim, 200)
        assert _nodes(sim) == 2
        assert heard[-1] == ("w", Answer.LIMIT)


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
    advance(sim, 1500)
    assert _nodes(sim) == 3


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
