import numpy as np
import pytest

from slack.cluster.snapshot import IntArray
from slack.simulator.model.kinds import PodKind
from slack.simulator.model.node_choice import NodeScoring, Placer
from slack.simulator.model.preemption import Preemption
from slack.simulator.model.state import ModelledCluster
from slack.simulator.runs.engine import Simulation
from tests.simulator.build import advance, at, group, places, pods, replicas, scenario, simulation, static, workload

TAINT = {"key": "dedicated", "value": "gpu"}


def test_taints_and_selectors_decide_who_goes_where() -> None:
    tolerating = workload("tolerating", tolerations=[{"key": "dedicated", "value": "gpu"}], nodeSelector={"pool": "g"})
    sim = simulation(
        nodeGroups=[group("plain"), group("tainted", taints=[TAINT], labels={"pool": "g"})],
        workloads=[workload("plain", arrivals=at(0, size=5)), tolerating],
    )
    advance(sim, 5)
    names = sim.cluster.names
    assert sorted(places(sim, "plain"))[0] == -1  # the fifth waits rather than go to the tainted node
    assert {names[n] for n in places(sim, "plain") if n >= 0} == {"plain-000001"}
    assert [names[n] for n in places(sim, "tolerating")] == ["tainted-000002"]


def test_required_anti_affinity_over_hosts_puts_one_pod_on_a_node() -> None:
    sim = simulation(
        nodeGroups=[group(initial=2)], workloads=[workload(arrivals=at(0, size=3), antiAffinity="hostname")]
    )
    advance(sim, 5)
    assert sorted(places(sim, "w")) == [-1, 0, 1]


@pytest.mark.parametrize(("scoring", "expected"), [("leastAllocated", [0, 1, 0, 1]), ("mostAllocated", [0, 0, 0, 0])])
def test_scoring_spreads_or_packs_and_the_first_node_wins_a_tie(scoring: str, expected: list[int]) -> None:
    sim = simulation(
        nodeGroups=[group(initial=2)], workloads=[workload(arrivals=at(0, size=4))], scheduler={"scoring": scoring}
    )
    advance(sim, 5)
    assert places(sim, "w") == expected


def test_least_allocated_by_hand() -> None:
    # node of 4 cpu, 16 Gi, empty; pod of 1 cpu, 4 Gi: ((4-1)/4*100 + (16-4)/16*100) / 2 = 75; most allocated: 25
    sim = simulation(workloads=[workload(memory="4Gi", arrivals=at(100))])
    kind = sim.cluster.kinds[0]
    assert Placer(sim.cluster, "leastAllocated").scores(kind).tolist() == [75]
    assert Placer(sim.cluster, "mostAllocated").scores(kind).tolist() == [25]
    sim.cluster.candidate[0] = True  # PreferNoSchedule: 3 x 100 less
    assert Placer(sim.cluster, "leastAllocated").scores(kind).tolist() == [75 - 300]


def test_soft_taints_are_counted_and_the_most_of_the_nodes_that_fit_score_nothing() -> None:
    sim = simulation(nodeGroups=[group(initial=3)])
    advance(sim, 1)
    kind = sim.cluster.kinds[0]
    placer, before = Placer(sim.cluster, "leastAllocated"), Placer(sim.cluster, "leastAllocated").scores(kind)
    sim.cluster.softly_tainted[1:3] = True
    assert (before - placer.scores(kind)).tolist() == [0, 300, 300]
    sim.cluster.candidate[2] = True
    assert (before - placer.scores(kind)).tolist() == [0, 150, 300]
    fits = np.array([True, True, False])
    assert (before - placer.scores(kind, fits)).tolist()[:2] == [0, 300]


def _last_node_first(cluster: ModelledCluster, row: int, now: float) -> IntArray:
    return np.arange(cluster.size, dtype=np.int64)


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        (NodeScoring(_last_node_first), [2, 2, 2, 2]),
        (NodeScoring(_last_node_first, beside_stock=True), [2, 1, 0, 2]),  # a pod takes 15, a node later gives 1
        (NodeScoring(_last_node_first, beside_stock=True, weight=100), [2, 2, 2, 2]),
    ],
)
def test_a_scoring_function_takes_the_place_of_the_stock_scores_or_stands_beside_them(
    scoring: NodeScoring, expected: list[int]
) -> None:
    made = scenario(nodeGroups=[group(initial=3)], workloads=[workload(arrivals=at(0, size=4))])
    sim = Simulation(made, node_scoring=scoring)
    advance(sim, 5)
    assert places(sim, "w") == expected


def test_a_scoring_function_knows_pod_and_time_and_filters_and_taints_hold_beside_it() -> None:
    asked = []

    def score(cluster: ModelledCluster, row: int, now: float) -> IntArray:
        asked.append((cluster.kinds[cluster.kind_of[row]].name, now))
        return np.array([10, 100, 90])

    own = NodeScoring(score)
    groups = [group("a"), group("small", allocatable={"cpu": "1", "memory": "1Gi"}), group("c")]
    sim = Simulation(scenario(nodeGroups=groups, workloads=[workload(cpu="2", arrivals=at(7, 9))]), node_scoring=own)
    advance(sim, 8)
    assert places(sim, "w") == [2]  # the best scored has no room
    sim.cluster.candidate[2] = True
    advance(sim, 10)
    assert places(sim, "w") == [2, 0]
    assert asked == [("default/job/w", 7.0), ("default/job/w", 9.0)]


def test_a_scoring_function_that_misses_nodes_is_refused() -> None:
    sim = simulation()
    placer = Placer(sim.cluster, "leastAllocated", NodeScoring(lambda cluster, row, now: np.zeros(7, dtype=np.int64)))
    with pytest.raises(ValueError, match=r"\(7,\) scores, there are 1 node rows"):
        placer.choose(sim.cluster.kinds[0], 0)


def test_scores_are_those_of_integer_division() -> None:
    sim = simulation(
        nodeGroups=[
            group(f"g{i}", allocatable={"cpu": f"{1000 + 37 * i}m", "memory": f"{999 + i}Mi"}) for i in range(50)
        ],
        workloads=[workload(cpu="7m", memory="13Mi", arrivals=at(3000))],
    )
    cluster, kind = sim.cluster, sim.cluster.kinds[0]
    rng = np.random.default_rng(1)
    for _ in range(20):
        cluster.free[:, : cluster.size] = rng.integers(100, 900, cluster.size) * np.array([[1], [1 << 20]])
        left = cluster.free[:, : cluster.size] - kind.requests[:, None]
        expected = (left * 100 // cluster.allocatable[:, : cluster.size]).sum(axis=0) // 2
        np.testing.assert_array_equal(Placer(cluster, "leastAllocated").scores(kind), expected)


def test_back_off_doubles_from_one_second_to_ten() -> None:
    sim = simulation()
    assert [sim.scheduler.backoff_seconds(n) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_pod_that_is_woken_waits_for_its_back_off_where_an_idle_scheduler_does_not_pop_it() -> None:
    # the first pod ends at 0.3; the second, refused at 0.2, may be tried again at 1.2 and not before
    life = {"kind": "constant", "seconds": 0.25}
    for pop, expected in ((False, 1.2), (True, 0.3)):
        sim = simulation(
            workloads=[
                workload("first", cpu="4", arrivals=at(0), life=life),
                workload("second", cpu="4", arrivals=at(0.2)),
            ],
            scheduler={"popFromBackoffQ": pop},
        )
        advance(sim, 10)
        bound = sim.cluster.bound_at[pods(sim, "second")[0]]
        assert bound == pytest.approx(expected, abs=0.02)


def test_a_pod_that_nothing_wakes_is_tried_again_after_five_minutes() -> None:
    sim = simulation(workloads=[workload("big", cpu="4", arrivals=at(0, size=2))])
    advance(sim, 299)
    waiting = pods(sim, "big")[1]
    assert sim.scheduler.attempts[waiting] == 1
    advance(sim, 340)
    assert sim.scheduler.attempts[waiting] == 2


def test_a_real_pod_takes_a_placeholders_place_at_once_and_the_replacement_waits() -> None:
    sim = simulation(workloads=[workload(cpu="3", arrivals=at(60))], slack=static(2, cpu="2"))
    advance(sim, 59)
    assert places(sim, "overprovisioner") == [0, 0]
    advance(sim, 62)
    assert places(sim, "w") == [0]
    assert sim.cluster.bound_at[pods(sim, "w")[0]] < 60.5
    assert places(sim, "overprovisioner") == [-1, -1]  # 4 - 3 leaves room for neither
    assert sim.meter.counters["displaced"] == 2


def test_synchronous_preemption_holds_the_next_cycle_up_for_each_victim() -> None:
    # Three pods, a victim each, 0.5 s a victim: the third is nominated a second after the first.
    took = []
    for seconds in (0.0, 0.5):
        sim = simulation(
            workloads=[workload(cpu="1", arrivals=at(60, size=3))],
            slack=static(4, cpu="1"),
            scheduler={"preemptionSeconds": seconds, "asyncPreemption": False},
        )
        advance(sim, 70)
        bound = sorted(sim.cluster.bound_at[pod] for pod in pods(sim, "w"))
        took.append(bound[-1] - 60)
    assert took[0] < 0.5
    assert 1.0 <= took[1] < 2.0


def test_free_room_comes_before_preemption() -> None:
    sim = simulation(nodeGroups=[group(initial=2)], workloads=[workload(cpu="4", arrivals=at(60))], slack=static(1))
    advance(sim, 61)
    assert sim.meter.counters["displaced"] == 0


def test_pods_with_preemption_policy_never_displace_nobody() -> None:
    sim = simulation(workloads=[workload(cpu="4", arrivals=at(60), preempts=False)], slack=static(1))
    advance(sim, 61)
    assert places(sim, "w") == [-1]
    assert sim.meter.counters["displaced"] == 0


def _standing(*nodes: list[tuple[str, str, int]]) -> tuple[Preemption, PodKind, list[list[int]]]:
    """Nodes filled by hand with (cpu, name, priority) in order of start; a preemptor of 2 cpu, priority 0."""
    names = {(cpu, name, priority) for node in nodes for cpu, name, priority in node}
    sim = simulation(
        nodeGroups=[group(initial=len(nodes))],
        workloads=[
            workload("preemptor", cpu="2", arrivals=at(3000)),
            *(workload(name, cpu=cpu, priority=p, arrivals=at(3000)) for cpu, name, p in sorted(names)),
        ],
    )
    cluster = sim.cluster
    kinds = {kind.name.split("/")[-1]: kind for kind in cluster.kinds.table}
    rows: list[list[int]] = []
    for node, standing in enumerate(nodes):
        rows.append([])
        for cpu, name, _ in standing:
            assert cpu
            rows[-1].append(cluster.create_pod(kinds[name], 1e9, 0.0))
            cluster.bind(rows[-1][-1], node, float(len(rows[-1]) + 10 * node))
    return Preemption(cluster, np.random.default_rng(1)), kinds["preemptor"], rows


def _node(preemption: Preemption, kind: PodKind) -> int:
    chosen = preemption.choose(kind, -1)
    assert chosen is not None
    return chosen.node


def test_on_a_node_the_older_and_the_more_important_stay() -> None:
    # 4 x 1 cpu on a 4-cpu node, 2 are needed: of equal priority the two newest go
    preemption, kind, rows = _standing([("1", "p", -10)] * 4)
    chosen = preemption.choose(kind, -1)
    assert chosen is not None
    assert sorted(chosen.victims) == rows[0][2:]
    # the newest has a higher priority: it stays, the two newest of the lowest go
    preemption, kind, rows = _standing([("1", "p", -10), ("1", "p", -10), ("1", "p", -10), ("1", "q", -5)])
    chosen = preemption.choose(kind, -1)
    assert chosen is not None
    assert sorted(chosen.victims) == rows[0][1:3]


def test_among_nodes_the_lowest_highest_victim_goes_first_then_the_fewest_then_the_latest() -> None:
    low, high, big = ("1", "p", -10), ("2", "q", -5), ("2", "r", -10)
    real = ("2", "keep", 0)
    # node 0: one victim of -5; node 1: two victims of -10: the lower priority decides
    preemption, kind, _ = _standing([real, high], [real, low, low])
    assert _node(preemption, kind) == 1
    # two victims of -10, or one of -10: the fewer
    preemption, kind, _ = _standing([real, low, low], [real, big])
    assert _node(preemption, kind) == 1
    # equal but for the start: the later one (node 1 was filled later)
    preemption, kind, _ = _standing([real, big], [real, big])
    assert _node(preemption, kind) == 1


def test_what_a_preemptor_was_promised_is_not_taken_by_an_equal_pod() -> None:
    sim = simulation(workloads=[workload("keep", arrivals=replicas(1)), workload("x", cpu="2", arrivals=at(900))])
    cluster = sim.cluster
    advance(sim, 1)
    kind = cluster.kinds[1]
    preemptor, other = cluster.create_pod(kind, 1e9, 1.0), cluster.create_pod(kind, 1e9, 1.0)
    cluster.nominate(preemptor, 0)  # 3 cpu are free, 2 are promised
    placer = Placer(cluster, "leastAllocated")
    assert placer.choose(kind, other) == -1
    assert placer.choose(kind, preemptor) == 0


def test_among_equals_who_was_tried_longest_ago_comes_first() -> None:
    # PrioritySort goes by when a pod came into the queue: the older one was tried in vain after waiting five minutes,
    # so the younger one, tried at 300 s, gets the room of 400 s
    sim = simulation(
        workloads=[
            workload("full", cpu="4", arrivals=at(0), life={"kind": "constant", "seconds": 400}),
            workload("older", cpu="3", arrivals=at(10)),
            workload("younger", cpu="3", arrivals=at(300)),
        ],
    )
    advance(sim, 399)
    assert places(sim, "older") == places(sim, "younger") == [-1]
    advance(sim, 402)
    assert (places(sim, "older"), places(sim, "younger")) == ([-1], [0])
