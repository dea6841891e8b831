"""What runs, fits: no running pod is told to be more than any node has, whatever it requests and wherever it runs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slack.cluster.snapshot import Snapshot
from slack.cluster.unchecked import Unchecked
from slack.planner.explain import explain, target
from slack.planner.explain_text import lines
from slack.planner.model.result import ConditionType, PolicyPlan
from slack.planner.plan import plan
from tests.cluster.build import NOW, Json, node, pod, workload
from tests.planner.scenes import FREELY, policy_of, snapshot_of

GPU = "example.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/gpu.example.com"
TOO_MUCH = "is more than any"


def claimed(*names: str) -> Json:
    """Return the status of a pod for whose extended resources the scheduler has made a claim."""
    mappings = [
        {"containerName": "main", "resourceName": name, "requestName": f"r-{i}"} for i, name in enumerate(names)
    ]
    return {"extendedResourceClaimStatus": {"resourceClaimName": "claim-x", "requestMappings": mappings}}


def resized(cpu: str, memory: str) -> Json:
    """Return the status of a pod that has these resources and waits for more."""
    held = {"cpu": cpu, "memory": memory}
    return {
        "containerStatuses": [{"name": "main", "allocatedResources": held, "resources": {"requests": held}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    }


@st.composite
def running(draw: st.DrawFn, name: str, nodes: int) -> Json:
    """Draw a pod that runs, of a workload of its own."""
    cpu, memory = f"{draw(st.integers(1, 20_000))}m", f"{draw(st.integers(1, 80_000))}Mi"
    resources = draw(st.sampled_from([(), (GPU,), (BY_CLASS,), (GPU, BY_CLASS), ("example.com/fpga",)]))
    status: Json = claimed(*resources) if draw(st.booleans()) else {}
    if draw(st.booleans()):
        status |= resized("10m", "1Mi")
    fields: dict[str, Any] = {"annotations": {"resource-slack.io/reserve": "1"}} if draw(st.booleans()) else {}
    extended = {resource: str(draw(st.integers(1, 16))) for resource in resources}
    where = f"n{draw(st.integers(0, nodes - 1))}"
    return pod(name, cpu=cpu, memory=memory, node=where, owner=("StatefulSet", name), extended=extended,
               status=status, **fields)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], int]:
    """Draw nodes that may be cordoned, not ready or full of DaemonSets, and how many pods run on them."""
    found: list[Json] = []
    count = draw(st.integers(1, 4))
    for i in range(count):
        extended = {GPU: "4"} if draw(st.booleans()) else {}
        found.append(
            node(
                f"n{i}",
                cpu=str(draw(st.integers(1, 16))),
                memory=f"{draw(st.integers(1, 64))}Gi",
                pods=str(draw(st.sampled_from([1, 5, 110]))),
                extended=extended,
                unschedulable=draw(st.booleans()) and i > 0,
                ready=i == 0 or draw(st.booleans()),
            )
        )
        if draw(st.booleans()):
            found.append(pod(f"agent-{i}", cpu="900m", memory="1Gi", node=f"n{i}", owner=("DaemonSet", "agent")))
    pods = draw(st.integers(1, 6))
    found += [draw(running(f"w{i}", count)) for i in range(pods)]
    return found, pods


def texts_of(snapshot: Snapshot, pods: int, **spec: Any) -> list[str]:
    """Return all that a plan and the explanations of each workload say."""
    policies = [policy_of(reserve=FREELY, **spec)]
    made = plan(snapshot, policies, now=NOW)
    (item,) = made.items
    said = [uncovered.reason for uncovered in item.uncovered] + [condition.message for condition in item.conditions]
    for i in range(pods):
        said += lines(explain(snapshot, made, policies, target("sts", f"w{i}", "shop"), priorities={}))
    return said


@given(clusters(), st.sampled_from(["Frequent", "Everything", "None"]), st.sampled_from(["None", "Zone"]))
def test_no_running_pod_is_more_than_any_node_has(cluster: tuple[list[Json], int], mode: str, zones: str) -> None:
    objects, pods = cluster
    for text in texts_of(snapshot_of(*objects), pods, cover={"mode": mode, "coverage": 1.0}, perDomain=zones):
        assert TOO_MUCH not in text


@given(clusters())
def test_only_what_keeps_a_mirror_from_being_made_is_not_feasible(cluster: tuple[list[Json], int]) -> None:
    objects = [item for item in cluster[0] if not item["metadata"].get("annotations")]
    item = planned(*objects)
    assert item.feasible, item.condition(ConditionType.FEASIBLE).message


def planned(*objects: Json, **spec: Any) -> PolicyPlan:
    return plan(snapshot_of(*objects), [policy_of(reserve=FREELY, **spec)], now=NOW).items[0]


LARGE: dict[str, tuple[list[Json], str]] = {
    "overcommitted": ([node("n")], "cpu 8, and at most 4 is there"),
    "resize deferred": (
        [node("n"), pod("agent", cpu="1", node="n", owner=("DaemonSet", "agent"))],
        "cpu 8, and at most 3 is there",
    ),
    "node cordoned": ([node("n", cpu="16", unschedulable=True), node("m")], "cpu 8, and at most 4 is there"),
}


@pytest.mark.parametrize("case", LARGE)
def test_what_is_true_of_a_running_pod_that_has_no_room_for_a_copy_is_said(case: str) -> None:
    nodes, reason = LARGE[case]
    large = pod("w-0", cpu="8", node="n", owner=("StatefulSet", "w"), status=resized("1", "1Gi"))
    item = planned(*nodes, large)
    assert item.feasible
    (left,) = item.uncovered
    assert left.reason == (
        f"its pods run, but a further one fits no empty eligible node as nodes are declared now ({reason})"
    )
    waiting = planned(*nodes, pod("w-0", cpu="8", owner=("StatefulSet", "w")))
    assert not waiting.feasible
    assert TOO_MUCH in waiting.uncovered[0].reason


def test_a_mirror_of_a_running_workload_says_the_same() -> None:
    reserve = {"resource-slack.io/reserve": "1"}
    large = pod("w-0", cpu="8", node="n", owner=("StatefulSet", "w"))
    item = planned(node("n"), large, workload("StatefulSet", "w", cpu="8", annotations=reserve))
    (left,) = item.uncovered
    assert left.reason.startswith("its pods run, but a further one fits no empty eligible node")
    assert not item.feasible, "what is reserved cannot be made"


def test_reasons_of_constraints_stay_as_they_are() -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    moved = pod("w-0", cpu="8", node="n", owner=("StatefulSet", "w"), nodeSelector={"pool": "a"})
    objects = [node("n", labels={"pool": "b"}, taints=[taint]), node("m", labels={"pool": "b"}), moved]
    policies = [policy_of()]
    snapshot = snapshot_of(*objects)
    found = explain(snapshot, plan(snapshot, policies, now=NOW), policies, target("sts", "w", "shop"), priorities={})
    (reason,) = found.reasons
    assert reason == "its pods can go to no node of this cluster: node selector pool=a is not met"


# --- extended resources that device claims serve ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [GPU, BY_CLASS])
def test_pods_whose_devices_are_claimed_are_covered_and_what_is_not_checked_is_said(name: str) -> None:
    pods = [
        pod(f"w-{i}", cpu="1", node="n", owner=("StatefulSet", "w"), extended={name: "1"}, status=claimed(name))
        for i in range(2)
    ]
    snapshot, policies = snapshot_of(node("n"), *pods), [policy_of()]
    assert snapshot.kinds.unchecked == ((Unchecked.CLAIMED_RESOURCES,),)
    made = plan(snapshot, policies, now=NOW)
    assert (made.items[0].uncovered, made.items[0].covered_share) == ((), 1.0)
    found = explain(snapshot, made, policies, target("sts", "w", "shop"), priorities={})
    assert [room.requests[0] for room in found.rooms] == [("cpu", 1000)]
    assert found.unknown == ("device claims serve extended resources that it requests, which is not checked",)
    assert not found.ready


def test_pods_that_wait_for_the_same_resource_wait_for_a_claim_too() -> None:
    served = pod("w-0", cpu="1", node="n", owner=("StatefulSet", "w"), extended={GPU: "1"}, status=claimed(GPU))
    waits = pod("w-1", cpu="1", owner=("StatefulSet", "w"), extended={GPU: "1"})
    alone, beside = snapshot_of(node("n"), waits), snapshot_of(node("n"), served, waits)
    assert alone.kinds.unoffered == (((GPU, 1),),)
    assert beside.kinds.unoffered == ((), ())
    assert beside.kinds.unchecked == ((Unchecked.CLAIMED_RESOURCES,),) * 2
    assert planned(node("n"), served, waits).feasible
    assert not planned(node("n"), waits).feasible


def test_a_reserved_workload_without_pods_waits_for_a_claim_too() -> None:
    served = pod("w-0", cpu="1", node="n", owner=("StatefulSet", "w"), extended={GPU: "1"}, status=claimed(GPU))
    other = workload("StatefulSet", "other", annotations={"resource-slack.io/reserve": "1"})
    other["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] |= {GPU: "1", BY_CLASS: "1"}
    assert snapshot_of(node("n"), other).reserved[0].unoffered == ((GPU, 1),)
    assert snapshot_of(node("n"), served, other).reserved[0].unoffered == ()


def test_a_pod_on_a_node_with_its_device_plugin_requests_the_nodes_resource() -> None:
    plugin = pod("w-0", cpu="1", node="n", owner=("StatefulSet", "w"), extended={GPU: "1"})
    served = pod("v-0", cpu="1", node="m", owner=("StatefulSet", "v"), extended={GPU: "1"}, status=claimed(GPU))
    snapshot = snapshot_of(node("n", extended={GPU: "1"}), node("m"), plugin, served)
    at = snapshot.resources.index(GPU)
    found = {w.name: (int(r[at]), u) for w, r, u in
             zip(snapshot.kinds.workloads, snapshot.kinds.requests, snapshot.kinds.unchecked, strict=True)}  # fmt: skip
    assert found == {"w": (1, ()), "v": (0, (Unchecked.CLAIMED_RESOURCES,))}
    assert snapshot.nodes.real[:, at].tolist() == [0, 1]
