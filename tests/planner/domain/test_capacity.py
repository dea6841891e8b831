"""R2, S5: how much room is kept, in numbers that can be checked by hand."""

import numpy as np
import pytest

from slack.planner.domain.capacity import average_node, dominant_share, rated
from tests.cluster.build import Json, node, pod
from tests.planner.scenes import GI, MI, plan_of, replicas

NODES = [node(f"n{i}", "4", "16Gi") for i in range(3)]
ONE = ("cpu", "memory")


def test_the_rate_is_taken_of_what_real_pods_request() -> None:
    daemon = pod("log", cpu="500m", memory="1Gi", node="n0", owner=("DaemonSet", "log"))
    done = pod("old", cpu="2", memory="4Gi", node="n0", phase="Succeeded")
    waiting = pod("new", cpu="1", memory="1Gi", owner=("ReplicaSet", "new"))
    item = plan_of(*NODES, *replicas(4, "api", "1", "2Gi", node="n1"), daemon, done, waiting)
    assert item.base.tolist() == [5000, 9 * GI]
    assert item.desired.tolist() == [500, int(0.9 * GI) + 1]


@pytest.mark.parametrize(
    ("base", "rate", "share"),
    [
        (38_000, 0.1, 3_800),
        (3, 0.1, 1),
        (10**16 + 1, 0.1, 10**15 + 1),  # not a float any more
        (9 * 10**17, 10.0, 9 * 10**18),
        (7, 0.0, 0),
        (100, 0.07, 7),
        (1_000, 1e-05, 1),
    ],
)
def test_a_rate_is_the_decimal_that_was_written(base: int, rate: float, share: int) -> None:
    assert rated(np.array([base, 0, 8]), rate).tolist() == [share, 0, 0]


def test_floor_and_ceiling_bound_it() -> None:
    pods = replicas(4, "api", "1", "2Gi", node="n1")
    low = plan_of(*NODES, *pods, extraCapacity={"floor": {"cpu": "1", "memory": "1Gi"}})
    assert low.desired.tolist() == [1000, 1 * GI]
    high = plan_of(*NODES, *pods, extraCapacity={"minRate": 1, "ceiling": {"cpu": "1500m"}})
    assert high.desired.tolist() == [1500, 8 * GI]


def test_a_ladder_takes_the_last_step_that_holds() -> None:
    pods = [*replicas(4, "api", "1", "2Gi", node="n1"), *replicas(5, "job", "1", "2Gi")]
    steps = [{"fromNodes": 0, "minRate": 0.5}, {"fromNodes": 3, "minRate": 0.2}, {"fromNodes": 4, "minRate": 0.1}]
    assert plan_of(*NODES, *pods, extraCapacity={"ladder": steps}).rate == 0.2
    asked = [{"fromRequested": {"cpu": "9", "memory": "1Gi"}, "minRate": 0.3}]
    assert plan_of(*NODES, *pods, extraCapacity={"ladder": asked}).rate == 0.3
    more = [{"fromRequested": {"cpu": "10"}, "minRate": 0.3}]
    assert plan_of(*NODES, *pods, extraCapacity={"ladder": more}).rate == 0.1
    gpus = [{"fromRequested": {"nvidia.com/gpu": "1"}, "minRate": 0.3}]
    assert plan_of(*NODES, *pods, extraCapacity={"ladder": gpus}).rate == 0.1


def test_base_allocatable_says_where_it_settles() -> None:
    pods = replicas(4, "api", "1", "2Gi", node="n1")
    item = plan_of(*NODES, *pods, extraCapacity={"base": "Allocatable", "minRate": 0.5})
    assert item.base.tolist() == [12_000, 48 * GI]
    again = plan_of(*NODES, *pods, extraCapacity={"base": "Allocatable", "minRate": 0.5}, cover={"mode": "None"})
    assert again.desired.tolist() == [6_000, 24 * GI]


def test_feedback_is_told_once_the_slack_is_there() -> None:
    for rate, said in ((0.5, "settles at 2.00 times"), (1.0, "never settles")):
        item = plan_of(
            node("n0"), extraCapacity={"base": "Allocatable", "minRate": rate, "ceiling": {"cpu": "0", "memory": "0"}}
        )
        assert said in item.conditions[0].message


def test_a_fixed_number_of_placeholders_is_the_room_of_so_many_chunks() -> None:
    pods = replicas(40, "api", "100m", "256Mi", node="n1")
    item = plan_of(*NODES, *pods, extraCapacity={"replicas": 7}, cover={"mode": "None"})
    assert [(s.count, dict(s.shape.requests)) for s in item.shapes] == [(7, {"cpu": 100, "memory": 256 * MI})]
    assert item.desired.tolist() == [700, 7 * 256 * MI]
    assert plan_of(*NODES, *pods, extraCapacity={"replicas": 0}, cover={"mode": "None"}).shapes == ()


def test_a_fixed_number_without_any_pods_takes_chunks_of_the_average_node() -> None:
    item = plan_of(*NODES, extraCapacity={"replicas": 3})
    assert [(s.count, dict(s.shape.requests)["cpu"]) for s in item.shapes] == [(3, 800)]


def test_a_floor_may_name_a_resource_that_nothing_has_yet() -> None:
    """A GPU group that stands at zero is told by a template; the floor asks for one GPU of it."""
    group = {"name": "gpu", "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}}
    spec: Json = {"extraCapacity": {"floor": {"nvidia.com/gpu": "2"}}, "nodeTemplates": [group]}
    item = plan_of(*NODES, *replicas(2, "api", "1", "1Gi", node="n0"), **spec)
    assert item.resources == (*ONE, "nvidia.com/gpu")
    assert item.planned[2] == 2
    without = plan_of(*NODES, extraCapacity={"floor": {"nvidia.com/gpu": "2"}})
    assert not without.feasible
    assert "nvidia.com/gpu" in without.conditions[3].message


def test_averages_count_only_nodes_that_have_the_resource() -> None:
    assert average_node(np.array([[4, 0], [8, 6]])).tolist() == [6, 6]
    assert dominant_share(np.array([[2, 0], [1, 3]]), np.array([4, 4])).tolist() == [0.5, 0.75]
    assert np.isinf(dominant_share(np.array([1, 1]), np.array([4, 0])))
