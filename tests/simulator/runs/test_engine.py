import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.simulator.model.clock import Clock
from slack.simulator.model.kinds import PodRole
from slack.simulator.model.result import Churn
from slack.simulator.runs.engine import Simulation, simulate
from slack.simulator.scenario.scenario import InvalidScenario
from tests.examples import by_profile, examples
from tests.simulator.build import Json, advance, at, group, pods, replicas, scenario, simulation, static, workload
from tests.simulator.invariants import verify

CA: Json = {"kind": "clusterAutoscaler"}
POLICIES: Json = {"kind": "policies"}


def _busy(**changes: object) -> Json:
    load = {"kind": "sine", "mean": 6, "amplitude": 0.6, "periodSeconds": 3600, "peakAtSeconds": 900}
    exponential = {"kind": "exponential", "meanSeconds": 400}
    return {
        "nodeGroups": [
            group(initial=2, pricePerHour=0.5, max=20),
            group("b", initial=0, zone="z", allocatable={"cpu": "8", "memory": "32Gi"}, max=5, pricePerHour=1),
        ],
        "workloads": [
            workload("web", cpu="500m", arrivals={"kind": "poisson", "perMinute": 3}, life=exponential),
            workload("burst", arrivals={"kind": "bursts", "size": 6, "every": "10m"}, life=exponential),
            workload("api", cpu="700m", arrivals=replicas(3, load=load, targetPerPod=1)),
            workload("low", cpu="2", priority=-20, arrivals={"kind": "jobs", "parallelism": 2, "every": "15m"}),
        ],
        "autoscaler": CA,
        "slack": POLICIES,
        "duration": "1h",
        **changes,
    }


KARPENTER: Json = {"kind": "karpenter"}


@pytest.mark.parametrize("autoscaler", [CA, pytest.param(KARPENTER, marks=pytest.mark.thorough)])
def test_the_same_seed_gives_the_same_result_and_another_does_not(autoscaler: Json) -> None:
    duration = by_profile("10m", "30m")
    first = simulate(scenario(**_busy(autoscaler=autoscaler, duration=duration)))
    assert simulate(scenario(**_busy(autoscaler=autoscaler, duration=duration))) == first
    assert simulate(scenario(**_busy(autoscaler=autoscaler, duration=duration, seed=2))) != first


@pytest.mark.thorough
def test_the_result_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from slack.simulator.runs.engine import simulate;"
        "from tests.simulator.build import scenario; from tests.simulator.runs.test_engine import _busy;"
        "print(simulate(scenario(**_busy(duration='10m'))).to_dict())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_slack_makes_pods_of_a_burst_start_at_once() -> None:
    def run(slack: Json) -> float:
        # 4 nodes' worth of services, and a burst of two pods once slack is there
        load = [workload("api", cpu="3", arrivals=replicas(3)), workload("burst", arrivals=at(900, size=2))]
        return simulate(scenario(workloads=load, autoscaler=CA, slack=slack)).workloads[1].instant_start_ratio

    rate = {"extraCapacity": {"minRate": 0.3}}
    full = {"kind": "policies", "policies": [{"name": "web", "spec": rate}]}
    assert run(full) == 1.0
    assert run(static(2)) == 1.0


def test_what_is_waited_and_paid_by_hand() -> None:
    # one node of 4 cpu at 2 an hour from the start; a pod of 3 at 0 s, one at 1000.5 s, which is looked at at once, as
    # too new, and 10 s later; the node is there 60 s after that
    sim = scenario(
        nodeGroups=[group(pricePerHour=2)],
        workloads=[workload(cpu="3", arrivals=at(0, 1000.5))],
        autoscaler=CA,
    )
    result = simulate(sim)
    assert result.total.pods == result.total.bound == 2
    assert result.instant_start_ratio == 0.5
    assert result.total.max_seconds == pytest.approx(10 + 60 + 0.05, abs=0.02)
    assert result.total.p50_seconds < 1
    assert result.total.pending_pod_seconds == pytest.approx(70.1, abs=0.1)
    assert result.node_hours == pytest.approx(1 + (3600 - 1010.5) / 3600)
    assert result.cost == pytest.approx(2 * result.node_hours)
    assert result.capacity_cpu_hours == pytest.approx(4 * result.node_hours)
    assert result.requested_cpu_hours == pytest.approx(3 * (3600 + 3600 - 1070.5) / 3600, rel=1e-3)
    assert 0 < result.waste < 1
    assert (result.scale_ups, result.scale_downs) == (1, 0)
    assert result.cost_per_month == pytest.approx(result.cost * 730)


def test_a_decision_may_request_several_nodes() -> None:
    # the node of the start is full; four more pods of 3 cpu come at once and take a node each
    load = [workload(cpu="3", arrivals=at(0)), workload("more", cpu="3", arrivals=at(1000, size=4))]
    result = simulate(scenario(workloads=load, autoscaler=CA))
    assert (result.scale_up_decisions, result.scale_ups) == (1, 4)
    assert result.groups[0].scale_ups == 4


def test_a_pod_that_takes_an_evicted_ones_place_is_no_first_start() -> None:
    # 5 cpu hold two nodes until the 3 leave at 300 s; the second node is drained, its pod bound again at once
    short = {"kind": "constant", "seconds": 300}
    load = [workload("long", cpu="1", arrivals=at(0, size=2)), workload("short", cpu="3", arrivals=at(0), life=short)]
    autoscaler = {**CA, "scaleDownUnneededTime": "1m", "scaleDownDelayAfterAdd": "1m"}
    result = simulate(scenario(workloads=load, autoscaler=autoscaler, nodeGroups=[group(initial=2)]))
    assert result.pods_drained == 1
    assert (result.total.pods, result.total.instant, result.total.bound) == (3, 3, 3)
    assert (result.total.recreated, result.total.recreated_instant) == (1, 1)
    assert (result.workloads[0].pods, result.workloads[0].recreated) == (2, 1)
    assert result.to_dict()["total"]["recreated_instant_start_ratio"] == 1.0


def test_a_preempted_pod_that_waits_for_its_new_start_is_not_in_the_ratio() -> None:
    low = workload("low", cpu="3", priority=-5, arrivals=replicas(1))
    high = workload("high", cpu="3", arrivals=at(1000))
    result = simulate(scenario(workloads=[low, high]))
    assert (result.pods_preempted, result.total.pods, result.total.instant) == (1, 2, 2)
    assert (result.total.recreated, result.total.recreated_instant) == (1, 0)
    assert result.total.pending_pod_seconds == pytest.approx(2600, abs=3)


def test_a_node_on_its_way_out_counts_as_capacity_until_it_is_gone() -> None:
    # Karpenter replaces the large node by a small one: the pod runs on until that is ready
    groups = [
        group(initial=0, pricePerHour=1),
        group("big", pricePerHour=4, allocatable={"cpu": "16", "memory": "64Gi"}),
    ]
    load = [workload(arrivals=replicas(1))]
    result = simulate(scenario(workloads=load, nodeGroups=groups, autoscaler=KARPENTER, timelineRows=1000))
    moving = [row for row in result.timeline if row.leaving_nodes]
    assert len(moving) > 10
    assert {(row.nodes, row.starting_nodes, row.capacity_cpu_millis) for row in moving} == {(0, 1, 16000)}
    assert (result.timeline[-1].nodes, result.timeline[-1].capacity_cpu_millis) == (1, 4000)


def test_proportional_replicas_are_two_as_soon_as_there_is_a_second_node() -> None:
    # linear: ceil(4 or 8 cores / 256) = 1 and ceil(1 or 2 nodes / 16) = 1; preventSinglePointFailure makes it 2 with
    # more than one node. The node asked for at the look of 110 s is ready at 170 s, a poll (10 s) sees it; it goes when
    # the pods are gone, and so does the second replica
    spec = {"kind": "proportional", "requests": {"cpu": "100m"}, "coresPerReplica": 256, "nodesPerReplica": 16}
    for prevents, expected in ((False, [1, 1, 1]), (True, [1, 2, 1])):
        sim = simulation(
            workloads=[workload(cpu="3", arrivals=at(100, size=2), life={"kind": "constant", "seconds": 600})],
            autoscaler={**CA, "scaleDownUnneededTime": "1m", "scaleDownDelayAfterAdd": "1m"},
            slack={**spec, "preventSinglePointFailure": prevents},
        )
        seen = []
        for second in (165, 185, 1000):
            advance(sim, second)
            seen.append(len(pods(sim, "overprovisioner")))
        assert seen == expected


def test_of_no_pods_there_is_no_ratio_and_no_wait() -> None:
    result = simulate(scenario(workloads=[workload(arrivals=at(0))], warmUp="30m"))
    data = result.to_dict()
    assert data["total"]["pods"] == 0
    assert (data["instant_start_ratio"], data["total"]["p99_seconds"]) == (None, None)
    assert data["workloads"][0]["instant_start_ratio"] is None


def test_pods_that_are_never_bound_count_with_their_waiting() -> None:
    result = simulate(scenario(workloads=[workload(cpu="4", arrivals=at(0, 600))]))
    assert (result.total.pods, result.total.bound) == (2, 1)
    assert result.instant_start_ratio == 0.5
    assert result.total.max_seconds == 3000


def test_nothing_counts_before_the_warm_up_is_over() -> None:
    load = [workload(cpu="1", arrivals=at(10, 2000))]
    result = simulate(scenario(workloads=load, warmUp="30m", nodeGroups=[group(pricePerHour=1)]))
    assert result.total.pods == 1
    assert result.node_hours == pytest.approx(0.5)
    assert result.measured_seconds == 1800


def test_the_timeline_keeps_to_its_rows_and_shows_the_whole_run() -> None:
    result = simulate(scenario(timelineRows=7))
    assert len(result.timeline) == 7
    assert (result.timeline[0].time_seconds, result.timeline[-1].time_seconds) == (0, 3600)
    data = result.to_dict()
    assert data["timeline"][-1]["capacity_cpu_millis"] == 4000
    assert result.to_dict(timeline=False)["timeline"] == []
    assert data["total"]["instant_start_ratio"] == 1.0


def test_progress_is_told() -> None:
    told: list[float] = []
    simulate(scenario(**_busy(duration="10m")), on_progress=lambda now, end: told.append(now / end))
    assert told == sorted(told)
    assert told[-1] == 1
    assert 20 < len(told) < 120


def test_a_load_beyond_max_pods_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="maxPods"):
        simulate(scenario(workloads=[workload(arrivals={"kind": "poisson", "perMinute": 1000})], maxPods=100))


def test_the_operator_lowers_slack_to_its_floor_with_the_load() -> None:
    hpa = {"load": {"kind": "points", "points": [[0, 12], [1800, 12], [1801, 1]]}, "targetPerPod": 1}
    sim = simulation(
        nodeGroups=[group(initial=4)],
        workloads=[workload(arrivals=replicas(12, **hpa))],
        autoscaler=CA,
        slack=POLICIES,
        duration="2h",
    )
    advance(sim, 1700)
    before = sim.cluster.asked_total[PodRole.PLACEHOLDER][0]
    assert before >= 1200
    advance(sim, 7100)
    assert 0 < sim.cluster.asked_total[PodRole.PLACEHOLDER][0] < before
    assert sum(sim.cluster.group_counts) < 4


def test_a_displaced_placeholder_is_made_again_and_the_others_keep_their_place() -> None:
    sim = simulation(
        nodeGroups=[group(initial=2)],
        workloads=[workload("api", cpu="3", arrivals=replicas(2)), workload("new", cpu="3", arrivals=at(1000))],
        autoscaler=CA,
        operator={"hold": "Bound"},
        slack={"kind": "policies", "policies": [{"spec": {"extraCapacity": {"minRate": 0.3}}}]},
    )
    advance(sim, 999)
    name = next(k.name for k in sim.cluster.kinds.table if k.role is PodRole.PLACEHOLDER).split("/")[-1]
    before = {sim.cluster.number[p] for p in pods(sim, name)}
    advance(sim, 1005)
    after = {sim.cluster.number[p] for p in pods(sim, name)}
    displaced = sim.meter.counters["displaced"]
    assert displaced >= 1
    assert len(before - after) == displaced
    verify(sim.cluster)


def test_each_placeholder_is_made_for_a_reason() -> None:
    """Three grow at the start, one is displaced and made anew."""
    found = simulate(
        scenario(
            nodeGroups=[group(initial=3)],
            workloads=[workload("first", arrivals=at(0)), workload("second", "2500m", arrivals=at(600))],
            slack=static(3, "3"),
            duration="100m",
        )
    )
    made = (found.placeholders_created, found.placeholders_displaced, found.placeholders_drained)
    assert (*made, found.placeholders_grown, found.placeholders_other) == (4, 1, 0, 3, 0)
    assert found.churn_by_hour == (Churn(created=4, displaced=1, grown=3), Churn())


def test_what_is_made_though_as_much_was_there_is_neither_growth_nor_a_refill() -> None:
    sim = simulation(
        nodeGroups=[group(initial=3)], workloads=[workload(arrivals=at(0, size=4))], slack=POLICIES, warmUp="1m"
    )
    advance(sim, 120)
    kind = next(k for k in sim.cluster.kinds.table if k.role is PodRole.PLACEHOLDER and sim.sets.replicas[k.index])
    sim.sets.scale(kind, sim.sets.replicas[kind.index] + 1, sim.clock.now)
    assert (sim.meter.counters["created"], sim.meter.counters["grown"], sim.meter.counters["other"]) == (1, 0, 1)


def test_a_reserved_deployment_gets_mirrors_that_avoid_its_pods() -> None:
    sim = simulation(
        nodeGroups=[group(initial=3)],
        workloads=[workload("db", arrivals=replicas(2), reserve="1", antiAffinity="hostname")],
        slack={
            "kind": "policies",
            "policies": [{"spec": {"extraCapacity": {"minRate": 0}, "cover": {"mode": "None"}}}],
        },
    )
    advance(sim, 120)
    mirrors = [p for p in sim.cluster.alive() if sim.cluster.kinds[sim.cluster.kind_of[p]].role is PodRole.PLACEHOLDER]
    assert len(mirrors) == 1
    taken = {sim.cluster.node_of[p] for p in pods(sim, "db")}
    assert sim.cluster.node_of[mirrors[0]] in {0, 1, 2} - taken


# -- what must hold --------------------------------------------------------------------------------

_LIFE = st.sampled_from(
    [{"kind": "constant", "seconds": 120}, {"kind": "exponential", "meanSeconds": 300}, {"kind": "forever"}]
)
_ARRIVALS = st.sampled_from(
    [
        {"kind": "poisson", "perMinute": 2},
        {"kind": "bursts", "size": 5, "every": "5m"},
        {"kind": "jobs", "parallelism": 3, "every": "10m"},
        replicas(3),
        replicas(2, load={"kind": "sine", "mean": 5, "periodSeconds": 1200, "peakAtSeconds": 0}, targetPerPod=1),
    ]
)
_WORKLOADS = st.lists(
    st.tuples(
        st.sampled_from(["200m", "500m", "1", "3"]),
        st.sampled_from(["128Mi", "2Gi", "6Gi"]),
        st.sampled_from([-20, 0, 100]),
        st.sampled_from(["none", "hostname"]),
        _ARRIVALS,
        _LIFE,
    ),
    min_size=1,
    max_size=4,
)
_SLACK = st.sampled_from(
    [
        {"kind": "none"},
        POLICIES,
        static(3, cpu="700m"),
        {"kind": "proportional", "requests": {"cpu": "500m"}, "nodesPerReplica": 1},
        {"kind": "policies", "policies": [{"spec": {"cover": {"mode": "Everything"}, "granularity": 3}}]},
        {"kind": "policies", "policies": [{"spec": {"hold": "Bound"}}]},
    ]
)


def _check(sim: Simulation) -> None:
    cluster = sim.cluster
    verify(cluster)
    scheduled = (p for p in cluster.alive() if not cluster.kinds[cluster.kind_of[p]].stays_pending)
    pending = {p for p in scheduled if cluster.node_of[p] < 0}
    assert set(sim.scheduler._place) == pending  # nobody is lost: whoever is pending is in a queue
    assert all(cluster.count[k] == sim.sets.replicas[k] for k in sim.sets.replicas)
    for group_row, spec in enumerate(cluster.groups):
        assert 0 <= cluster.group_counts[group_row] <= spec.max


@examples(20, quick=2)
@given(_WORKLOADS, _SLACK, st.sampled_from([CA, KARPENTER, {"kind": "none"}]), st.integers(0, 1000))
def test_no_node_is_overcommitted_no_pod_is_lost_and_time_only_moves_forward(
    loads: list[tuple[str, str, int, str, Json, Json]], slack: Json, autoscaler: Json, seed: int
) -> None:
    workloads = [
        workload(f"w{i}", cpu=cpu, memory=memory, priority=priority, antiAffinity=anti, arrivals=arrivals, life=life)
        for i, (cpu, memory, priority, anti, arrivals, life) in enumerate(loads)
    ]
    groups = [group(initial=2, max=8), group("b", initial=0, max=4, allocatable={"cpu": "8", "memory": "16Gi"})]
    sim = simulation(
        nodeGroups=groups, workloads=workloads, slack=slack, autoscaler=autoscaler, seed=seed, duration="40m"
    )
    finished, before, checked = 0, 0.0, 0.0
    remove = sim.cluster.remove_pod

    def counted(row: int, now: float) -> None:
        nonlocal finished
        finished += 1
        remove(row, now)

    sim.cluster.remove_pod = counted  # type: ignore[method-assign]  # the run itself is watched
    gone_before = sim.cluster.created_total - sum(1 for _ in sim.cluster.alive())
    while sim.step():
        assert sim.clock.now >= before
        before = sim.clock.now
        if before - checked > 60:
            checked = before
            _check(sim)
    _check(sim)
    assert sim.cluster.created_total == gone_before + finished + sum(1 for _ in sim.cluster.alive())


def test_the_clock_refuses_the_past() -> None:
    clock = Clock(10)
    clock.at(5, lambda _: None)
    clock.step()
    with pytest.raises(ValueError, match="has passed"):
        clock.at(4, lambda _: None)
    assert not clock.step()
    assert clock.now == 10
