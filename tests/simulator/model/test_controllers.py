"""The ReplicaSet controller, the HPA, cluster-proportional-autoscaler, arrivals: worked examples by hand."""

import numpy as np
import pytest

from slack.simulator.model.hpa import Scaler, recommended_replicas
from slack.simulator.model.overprovisioner import proportional_replicas
from slack.simulator.model.replicaset import removal_order
from slack.simulator.scenario.arrivals import draw_arrivals
from slack.simulator.scenario.inventory import ScenarioWorkload
from slack.simulator.scenario.load import Hpa
from slack.simulator.scenario.slack_kinds import Proportional
from tests.simulator.build import advance, group, places, pods, replicas, scenario, simulation, static, workload


def test_a_replica_set_refills_at_once() -> None:
    sim = simulation(workloads=[workload(arrivals=replicas(3))])
    advance(sim, 10)
    sim.preempt(pods(sim, "w")[0])
    assert len(pods(sim, "w")) == 3
    advance(sim, 11)
    assert places(sim, "w") == [0, 0, 0]


def test_removal_order_pending_then_deletion_cost_then_colocated_then_newest() -> None:
    sim = simulation(nodeGroups=[group(initial=3)], workloads=[workload(cpu="2", arrivals=replicas(0))])
    cluster = sim.cluster
    kind = cluster.kinds[0]
    # bound at 0, 100, 200, 300 on nodes 0, 1, 1, 2; one pending
    rows = [cluster.create_pod(kind, 1e9, 0.0) for _ in range(5)]
    for row, (node, at) in zip(rows, [(0, 0.0), (1, 100.0), (1, 200.0), (2, 300.0)], strict=False):
        cluster.bind(row, node, at)
    a, b, c, d, pending = rows
    # two on node 1 go before those that are alone, the newer of them first; then the newer of a and d
    assert removal_order(cluster, rows, 400.0) == [pending, c, b, d, a]
    cluster.cost[a] = -1000
    assert removal_order(cluster, rows, 400.0) == [pending, a, c, b, d]


@pytest.mark.parametrize(
    ("current", "ready", "load", "expected"),
    [
        (4, 4, 400, 4),  # exactly at the target
        (4, 4, 440, 4),  # 1.1: within the tolerance of 10 %
        (4, 4, 441, 5),  # ceil(4 x 441/400) = 5
        (4, 4, 360, 4),  # 0.9: within
        (4, 4, 300, 3),
        (4, 4, 800, 8),
        (4, 2, 800, 8),  # 2 of 4 ready, at 400 each: unready ones count as idle, 800/4 = 200 -> ceil(2 x 4)
        (8, 4, 800, 8),  # 200 each, but 100 with the four that come: nothing more is asked for
        (4, 0, 800, 4),  # no metrics
    ],
)
def test_hpa_formula_ceil_of_current_times_metric_by_target(current: int, ready: int, load: int, expected: int) -> None:
    assert recommended_replicas(current=current, ready=ready, load=load, target_per_pod=100, tolerance=0.1) == expected


def _hpa(points: list[tuple[float, float]], **changes: object) -> Scaler:
    load = {"kind": "points", "points": points}
    return Scaler(Hpa.model_validate({"load": load, "targetPerPod": 100, "maxReplicas": 100, **changes}))


def test_hpa_scales_down_to_the_largest_recommendation_of_five_minutes() -> None:
    scaler = _hpa([(0, 1000), (14, 1000), (15, 300), (3600, 300)])
    replicas_at = {}
    current = 10
    for now in range(0, 400, 15):
        current = scaler.sync(float(now), current=current, ready=current)
        replicas_at[now] = current
    assert replicas_at[15] == 10
    assert replicas_at[285] == 10  # the recommendation of 0 s is within 300 s
    assert replicas_at[300] == 3


def test_hpa_scales_up_by_four_pods_or_double_a_period() -> None:
    scaler = _hpa([(0, 10_000)])
    steps, current = [], 2
    for now in range(0, 90, 15):
        current = scaler.sync(float(now), current=current, ready=current)
        steps.append(current)
    assert steps == [6, 12, 24, 48, 96, 96]  # the last step is within the tolerance


def test_hpa_rounds_its_percentage_up_or_a_few_pods_could_never_become_more() -> None:
    spec = _hpa([(0, 10_000)]).spec.model_copy(update={"scale_up_pods": 0, "scale_up_percent": 10})
    assert Scaler(spec).sync(0.0, current=1, ready=1) == 2
    assert Scaler(spec).sync(0.0, current=11, ready=11) == 13
    assert Scaler(spec).sync(0.0, current=20, ready=20) == 22


def test_a_deployment_follows_its_load() -> None:
    hpa = {"load": {"kind": "points", "points": [[0, 2], [600, 2], [601, 6]]}, "targetPerPod": 1, "maxReplicas": 8}
    sim = simulation(nodeGroups=[group(initial=4)], workloads=[workload(arrivals=replicas(2, **hpa))])
    advance(sim, 590)
    assert len(pods(sim, "w")) == 2
    advance(sim, 640)
    assert len(pods(sim, "w")) == 6


def test_proportional_replicas_as_its_readme_computes_them() -> None:
    # cluster-proportional-autoscaler README, linear: 4 nodes with 13 cores each, coresPerReplica 2, nodesPerReplica 1
    spec = Proportional.model_validate(
        {"kind": "proportional", "requests": {}, "coresPerReplica": 2, "nodesPerReplica": 1, "max": 100}
    )
    assert proportional_replicas(spec, cores=4 * 13, nodes=4) == 26
    single = spec.model_copy(update={"cores_per_replica": 256.0, "nodes_per_replica": 16.0})
    assert proportional_replicas(single, cores=8, nodes=2) == 1
    double = single.model_copy(update={"prevent_single_point_failure": True})
    assert proportional_replicas(double, cores=8, nodes=2) == 2
    assert proportional_replicas(double, cores=4, nodes=1) == 1


def test_baselines_keep_their_pods() -> None:
    assert len(pods(simulation(slack=static(2)), "overprovisioner")) == 2
    cpa = {"kind": "proportional", "requests": {"cpu": "100m"}, "coresPerReplica": 4}
    assert len(pods(simulation(nodeGroups=[group(initial=3)], slack=cpa), "overprovisioner")) == 3


def _drawn(arrivals: dict[str, object], hours: float, seed: int = 1) -> np.ndarray:
    spec = ScenarioWorkload.model_validate({"name": "w", "requests": {"cpu": "1"}, "arrivals": arrivals})
    return draw_arrivals(spec, hours * 3600, np.random.default_rng(seed))[0]


def test_arrivals_have_their_rate_and_are_sorted() -> None:
    times = _drawn({"kind": "poisson", "perMinute": 10}, 24)
    assert abs(len(times) - 14_400) < 4 * 120  # sqrt(14400) = 120
    assert (np.diff(times) >= 0).all()
    curve = _drawn({"kind": "diurnal", "meanPerMinute": 10, "amplitude": 0.8, "peakAt": "14h"}, 24)
    assert abs(len(curve) - 14_400) < 4 * 120
    by_hour = np.histogram(curve, bins=24, range=(0, 86_400))[0]
    assert by_hour[13:15].mean() / by_hour[1:3].mean() == pytest.approx(1.8 / 0.2, rel=0.3)


def test_bursts_jobs_and_replay_come_when_they_are_told_to() -> None:
    assert _drawn({"kind": "bursts", "size": 3, "at": ["10s", "1m"]}, 1).tolist() == [10, 10, 10, 60, 60, 60]
    assert _drawn({"kind": "jobs", "parallelism": 2, "every": "20m", "firstAt": "5m"}, 1).tolist() == [
        *(300, 300, 1500, 1500, 2700, 2700)
    ]
    spec = ScenarioWorkload.model_validate(
        {"name": "w", "requests": {}, "arrivals": {"kind": "replay", "rows": [[9, 5], [3, None], [4000, 1]]}}
    )
    times, lives = draw_arrivals(spec, 3600, np.random.default_rng(1))
    assert times.tolist() == [3, 9]
    assert lives.tolist() == [np.inf, 5]


def test_slack_does_not_change_what_arrives() -> None:
    poisson = scenario(workloads=[workload(arrivals={"kind": "poisson", "perMinute": 2})])
    assert (
        _drawn({"kind": "poisson", "perMinute": 2}, 1).tolist()
        == _drawn({"kind": "poisson", "perMinute": 2}, 1).tolist()
    )
    assert poisson.workloads == scenario(workloads=[workload(arrivals={"kind": "poisson", "perMinute": 2})]).workloads
