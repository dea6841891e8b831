"""What pods request of resources that no node has costs one flag, whatever any tenant's pods name."""

import numpy as np
import pytest

from benchmarks.verify import verify
from slack.cluster.columns import ClusterColumns
from slack.cluster.snapshot import Workload
from slack.cluster.tables.interning import FURTHER, MOST_RESOURCES
from slack.planner.domain.unseen_resources import NOWHERE, widened
from slack.planner.explain import explain
from slack.planner.model.result import ConditionType
from slack.planner.plan import plan
from slack.planner.policy.spec import Policy, PolicySpec
from tests.cluster.build import NOW, Json, apply, columns_of, node, pod, workload
from tests.planner.scenes import plan_of, replicas

NODES = [node(f"n{i}", "8", "32Gi") for i in range(3)]
PODS = [*replicas(4, "api", "1", "2Gi", node="n1"), *replicas(2, "web", "500m", "1Gi", node="n2")]
WIDE = pod("wide", cpu="1m", memory="1Mi", extended={f"evil.example/r{i}": "1" for i in range(5000)})
POLICY = Policy(name="default", spec=PolicySpec())


def shapes(columns: ClusterColumns) -> list[tuple[str, int]]:
    (item,) = plan(columns.snapshot(NOW), [POLICY], now=NOW).items
    return [(shape.shape.name, shape.replicas) for shape in item.shapes]


def test_a_pod_with_invented_resources_gets_no_columns_and_fits_nowhere() -> None:
    columns = columns_of(*NODES, *PODS)
    before = shapes(columns)
    apply(columns, "ADDED", WIDE)
    snapshot = columns.snapshot(NOW)
    assert snapshot.resources == ("cpu", "memory")
    assert columns.requests.matrix.shape[1] == columns.nodes.allocatable.shape[1] == 2
    assert widened(snapshot, frozenset()).resources == ("cpu", "memory", NOWHERE)
    assert shapes(columns) == before
    apply(columns, "DELETED", WIDE)
    later = columns.snapshot(NOW + 7 * 3600)  # its arrival counts as any other's
    assert widened(later, frozenset()).resources == ("cpu", "memory")
    assert not columns.requests.unoffered


def test_such_a_pod_is_named_with_some_of_what_it_lacks() -> None:
    item = plan_of(*NODES, *PODS, WIDE)
    assert item.resources == ("cpu", "memory")
    (uncovered,) = item.uncovered
    assert uncovered.pod == "shop/pod/wide"
    assert "evil.example/r0 1 is more than any empty eligible node has (0) and evil.example/r1 1" in uncovered.reason
    assert len(uncovered.reason) < 300
    assert "evil.example/r0" in item.condition(ConditionType.FEASIBLE).message


def test_of_a_pod_with_more_names_than_there_can_be_columns_as_many_are_kept() -> None:
    columns = columns_of(*NODES, WIDE)
    (unoffered,) = columns.snapshot(NOW).kinds.unoffered
    assert len(unoffered) == MOST_RESOURCES + 1
    assert dict(unoffered)[FURTHER] == 5000 - MOST_RESOURCES
    having = {name: "8" for name, _ in unoffered}
    apply(columns, "ADDED", node("n9", extended=having))
    (rest,) = columns.snapshot(NOW).kinds.unoffered
    assert FURTHER in dict(rest)


def test_pods_that_lack_different_resources_are_each_told_their_own() -> None:
    item = plan_of(*NODES, pod("a", extended={"a.example/x": "1"}), pod("b", extended={"b.example/y": "2"}))
    assert {u.pod: u.reason for u in item.uncovered} == {
        "shop/pod/a": "a.example/x 1 is more than any empty eligible node has (0)",
        "shop/pod/b": "b.example/y 2 is more than any empty eligible node has (0)",
    }


def test_when_a_node_with_the_resource_comes_pods_that_wait_for_it_fit() -> None:
    columns = columns_of(*NODES, pod("train", cpu="1", extended={"nvidia.com/gpu": "1"}))
    (item,) = plan(columns.snapshot(NOW), [POLICY], now=NOW).items
    assert [u.reason for u in item.uncovered] == ["nvidia.com/gpu 1 is more than any empty eligible node has (0)"]
    apply(columns, "ADDED", node("gpu", extended={"nvidia.com/gpu": "4"}))
    (item,) = plan(columns.snapshot(NOW), [POLICY], now=NOW).items
    assert not item.uncovered
    assert [dict(shape.shape.requests).get("nvidia.com/gpu") for shape in item.shapes] == [1]
    apply(columns, "DELETED", node("gpu"))
    assert columns.snapshot(NOW).resources == ("cpu", "memory")


def test_a_template_of_a_policy_names_the_resource_that_no_node_has() -> None:
    group = {"name": "gpu", "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}}
    item = plan_of(*NODES, pod("train", cpu="1", extended={"nvidia.com/gpu": "1"}), nodeTemplates=[group])
    assert item.resources == ("cpu", "memory", "nvidia.com/gpu")
    assert not item.uncovered


def test_explain_says_what_no_node_has_and_takes_no_placeholder_for_room() -> None:
    objects = [*NODES, *PODS, pod("train", cpu="100m", memory="1Mi", extended={"nvidia.com/gpu": "1"})]
    snapshot = columns_of(*objects).snapshot(NOW)
    made = plan(snapshot, [POLICY], now=NOW)
    found = explain(snapshot, made, [POLICY], Workload("shop", "pod", "train"), priorities={})
    assert not found.rooms
    assert found.reasons == ("policy default: nvidia.com/gpu 1 is more than any empty eligible node has (0)",)
    assert found.requests == (("cpu", 100), ("memory", 1 << 20), ("nvidia.com/gpu", 1))


def test_a_reserved_workload_that_lacks_a_resource_is_told_which() -> None:
    reserve = {"resource-slack.io/reserve": "1"}
    item = plan_of(*NODES, workload("Deployment", "api", annotations=reserve, overhead={"example.com/disk": "5"}))
    assert not item.shapes
    assert "example.com/disk 5 is more than any empty eligible node has (0)" in item.uncovered[0].reason


def test_of_more_resources_than_can_be_counted_those_that_most_nodes_have_are() -> None:
    mine = [node(f"d{i}", extended={"nvidia.com/gpu": "8", f"dev.example/{i:03}": "1"}) for i in range(100)]
    columns = columns_of(*mine, pod("train", node="d7", extended={"nvidia.com/gpu": "2", "dev.example/007": "1"}))
    snapshot = columns.snapshot(NOW)
    assert len(snapshot.resources) == 2 + MOST_RESOURCES
    assert snapshot.resources[-1] == "nvidia.com/gpu"
    assert len(snapshot.left_out) == 100 + 1 - MOST_RESOURCES
    assert snapshot.nodes.real[:, -1].sum() == 2
    backwards = columns_of(*reversed(mine)).snapshot(NOW)
    assert backwards.resources == snapshot.resources
    for gone in mine[1:]:
        apply(columns, "DELETED", gone)
    assert columns.snapshot(NOW).resources == ("cpu", "memory", "dev.example/000", "nvidia.com/gpu")
    assert columns.snapshot(NOW).left_out == ()


@pytest.mark.parametrize("text", ["1e30", "9223372036854775807", "-1", "-1e30", "0"])
def test_an_absurd_amount_moves_nothing(text: str) -> None:
    having = [node(f"n{i}", "8", "32Gi", extended={"nvidia.com/gpu": "4"}) for i in range(3)]
    absurd: Json = {"cpu": "1m", "memory": "1Mi", "extended": {"nvidia.com/gpu": text, "evil.example/x": text}}
    pods = [pod(f"evil{i}", owner=("ReplicaSet", "evil"), **absurd) for i in range(2000)]
    calm, item = plan_of(*having, *PODS), plan_of(*having, *PODS, *pods)
    fits = text in ("-1", "-1e30", "0")
    assert item.base[:2].tolist() == (calm.base[:2] + np.array([2000, 2000 << 20]) * fits).tolist()
    assert (item.desired >= 0).all()


def test_what_runs_on_a_node_is_no_more_than_it_has() -> None:
    pinned = [pod(f"evil{i}", memory="1e30", cpu="1e30", node="n0") for i in range(1500)]
    item = plan_of(*NODES, *PODS, *pinned)
    calm = plan_of(*NODES, *PODS)
    assert (item.base >= calm.base - 1).all()
    assert (item.base <= calm.base + np.array([8000, 32 << 30])).all()


def test_what_no_int64_holds_can_be_taken_back() -> None:
    columns = columns_of(*NODES)
    before = columns.snapshot(NOW).nodes.real.tolist()
    pinned = [pod(f"evil{i}", memory="1e30", node="n0") for i in range(1500)]
    apply(columns, "ADDED", *pinned)
    verify(columns)
    apply(columns, "DELETED", *pinned)
    assert columns.snapshot(NOW).nodes.real.tolist() == before
