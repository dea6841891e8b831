"""Worked examples of Karpenter by hand: types of 2, 4 and 8 cores at 1, 2 and 4 an hour, 60 s to start."""

from slack.simulator.engine import Simulation
from slack.simulator.state import READY, STARTING
from tests.simulator.build import Json, advance, at, group, places, replicas, simulation, static, workload

TYPES = [
    group(f"c{cpu}", allocatable={"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}, pricePerHour=cpu / 2, initial=0)
    for cpu in (2, 4, 8)
]


def _karpenter(workloads: list[Json], *, groups: list[Json] | None = None, **changes: object) -> Simulation:
    autoscaler = {"kind": "karpenter", **changes.pop("autoscaler", {})}  # type: ignore[dict-item]
    return simulation(nodeGroups=groups or TYPES, workloads=workloads, autoscaler=autoscaler, **changes)


def _with(*initial: int) -> list[Json]:
    return [{**one, "initial": count} for one, count in zip(TYPES, initial, strict=True)]


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
