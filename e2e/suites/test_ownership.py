"""Our ReplicaSets are ours: whoever scales, edits, adopts, deletes or fights over them keeps nothing of it."""

import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    REPLICA_SETS,
    Operator,
    held,
    placeholders,
    policy,
    replica_sets,
    status,
    wait_for_condition,
    wait_until_placed,
)
from slack.cluster.hold import Hold

TAKEN_BACK = "slack_ownership_taken_back_total"
QUIET_SECONDS = 15.0
"""The autoscalers look every second or two here, and a node is there two seconds later."""
OLD_SECONDS = 60.0
"""The ReplicaSet controller deletes pods without a node first, then the youngest, and takes ages that have the same
power of two for equal. Bound placeholders are safe once they are a second old, unbound ones when they are much older.
"""
Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(cluster: Backend) -> Kubectl:
    program = build.ensure(["kubectl"])["kubectl"]

    def run(*args: str) -> str:
        command: list[str | Path] = [program, f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}", *args]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return answer.stdout

    return run


def scaled_to_500(cluster: Backend, operator: Operator, kubectl: Kubectl, hold: Hold, most_new: int = 0) -> None:
    """Scale a ReplicaSet of ours to 500: the count is back at once, what is pending goes, and no node comes."""
    api = cluster.api
    (ours,) = replica_sets(api)
    name, wanted = ours["metadata"]["name"], ours["spec"]["replicas"]
    before, uids = {node["metadata"]["name"] for node in nodes(api)}, _uids(api, hold)
    time.sleep(1.1 if hold is Hold.BOUND else OLD_SECONDS)
    mark = cluster.audit_mark()
    kubectl("scale", "replicaset", name, "--replicas=500")
    began, most, last = time.monotonic(), 0, 0.0
    seen = set(before)
    while time.monotonic() - began < QUIET_SECONDS or most == 0 or time.monotonic() - began < last + 5:
        surplus = len(placeholders(api)) - wanted
        seen |= {node["metadata"]["name"] for node in nodes(api)}
        if surplus > 0:
            most, last = max(most, surplus), time.monotonic() - began
        assert time.monotonic() - began < 120, "the surplus stays"
        time.sleep(0.1)
    entries = cluster.audit_entries(since=mark)
    scales = [e for e in entries if e.resource == "apps/replicasets/scale" and e.verb in audit_log.WRITES]
    answers = [e for e in entries if e.user == operator.user and e.resource == "apps/replicasets" and e.verb == "patch"]
    taken = _seconds(answers[0].time) - _seconds(scales[0].time)
    print(
        f"\n{len(before)} nodes before, {len(seen)} at the most after; taken back after {taken:.2f} s; "
        f"{most} placeholders beyond the plan at the most, the last gone after {last:.1f} s"
    )
    assert taken < 3.0
    assert len(seen - before) <= most_new, "no node came for it"
    (ours,) = replica_sets(api)
    assert ours["spec"]["replicas"] == wanted
    wait_until(lambda: len(held(api, hold)) == wanted, 30, "as many as planned to hold capacity")
    # The ReplicaSet controller takes the youngest, but rounds ages to powers of two: for it a placeholder that
    # found room meanwhile may be as old as one that was there for some seconds.
    assert len(uids - _uids(api, hold)) <= 1, "those that were there stay"
    assert operator.metric(TAKEN_BACK, policy="default", part="replicas") >= 1
    events = api.items("/api/v1/namespaces/default/events")
    told = [
        e["message"] for e in events if e["reason"] == "OwnershipTakenBack" and e["involvedObject"]["name"] == "default"
    ]
    assert any(name in text and "kubectl" in text for text in told)


def _uids(api: Api, hold: Hold = Hold.BOUND) -> set[str]:
    return {pod["metadata"]["uid"] for pod in held(api, hold)}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.autoscaler
def test_a_scale_to_500_brings_no_node_of_the_stock_autoscaler(
    cluster: Backend, cluster_autoscaler_binary: Path, kubectl: Kubectl, hold: Hold
) -> None:
    api = cluster.api
    group = NodeGroup("general", max_count=14, boot_seconds=2)
    with ClusterAutoscaler(cluster, [group]), Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(deployment("api", 9, cpu="800m", memory="1Gi"))
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.3}))
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        scaled_to_500(cluster, operator, kubectl, hold)


@pytest.mark.autoscaler
def test_a_scale_to_500_brings_two_nodes_of_karpenter_at_the_most(
    cluster: Backend, kubectl: Kubectl, hold: Hold
) -> None:
    """Karpenter waits for a second without new pods; a busy machine takes longer than that to take all back.

    Of unbound placeholders beyond the plan it is not told at all.
    """
    api = cluster.api
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("default", cpu_limit="200")
        operator.wait_until_ready()
        api.create(deployment("api", 9, cpu="800m", memory="1Gi"))
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.3}))
        wait_for_running(api, 9, 90)
        wait_until_placed(api, "default", 90)
        scaled_to_500(cluster, operator, kubectl, hold, most_new=2 if hold is Hold.BOUND else 0)


@pytest.fixture
def placed(cluster: Backend) -> Iterator[Operator]:
    """An operator on six nodes with a policy whose placeholders are there."""
    create_all(cluster.api, [kwok.node(f"node-{i}") for i in range(6)])
    cluster.api.create(deployment("api", 12, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 12, 60)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        cluster.api.create(policy("default", extraCapacity={"minRate": 0.3}))
        wait_until_placed(cluster.api, "default", 60)
        yield operator


def test_a_manager_that_fights_is_left_alone_after_five_times_and_told(cluster: Backend, placed: Operator) -> None:
    api = cluster.api
    (ours,) = replica_sets(api)
    path, wanted = f"{REPLICA_SETS}/{ours['metadata']['name']}", ours["spec"]["replicas"]

    def fight() -> Json | None:
        """As a HorizontalPodAutoscaler or a downscaler does."""
        if api.get(path)["spec"]["replicas"] != wanted + 2:
            api.patch(f"{path}/scale?fieldManager=downscaler", {"spec": {"replicas": wanted + 2}})
        found = {c["type"]: c for c in status(api, "default").get("conditions", ())}
        contested = found.get("OwnershipContested", {})
        return contested if contested.get("status") == "True" else None

    condition = wait_until(fight, 60, "the fight to be given up", every=0.3)
    assert condition is not None
    assert condition["reason"] == "WrittenBack"
    assert "downscaler" in condition["message"]
    assert placed.metric(TAKEN_BACK, policy="default", part="replicas") == 5
    mark = cluster.audit_mark()
    time.sleep(5)  # two turns of the operator, and more
    assert api.get(path)["spec"]["replicas"] == wanted + 2
    writes = cluster.audit_entries(user=placed.user, verbs=audit_log.WRITES, since=mark)
    assert [e for e in writes if e.resource == "apps/replicasets"] == []


def test_what_is_edited_adopted_relabelled_or_deleted_is_put_right_and_no_placeholder_is_lost(
    cluster: Backend, placed: Operator, kubectl: Kubectl
) -> None:
    api = cluster.api
    (ours,) = replica_sets(api)
    name, uids = ours["metadata"]["name"], _uids(api)
    path = f"{REPLICA_SETS}/{name}"

    def right() -> bool:
        found = api.get(path)
        return bool(
            found["spec"]["template"] == ours["spec"]["template"]
            and found["spec"]["replicas"] == ours["spec"]["replicas"]
            and ours["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
            and [o["uid"] for o in found["metadata"]["ownerReferences"]]
            == [o["uid"] for o in ours["metadata"]["ownerReferences"]]
        )

    more = [{"name": "miner", "image": "miner"}]
    spec: dict[str, Any] = {"nodeSelector": {"pool": "gpu"}, "priorityClassName": "", "tolerations": []}
    containers = ours["spec"]["template"]["spec"]["containers"]
    accidents: dict[str, Json] = {
        "template": {"spec": {"template": {"spec": spec | {"containers": containers + more}}}},
        "labels": {"metadata": {"labels": {"resource-slack.io/policy": "x", "resource-slack.io/placeholder": None}}},
        "adopted": {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "node-0", "controller": True}
                    | {"uid": api.get("/api/v1/nodes/node-0")["metadata"]["uid"]}
                ]
            }
        },
        "paused": {"spec": {"replicas": 0}},
    }
    for accident, patch in accidents.items():
        if accident == "paused":
            uids = set()  # the controller takes them as soon as it is told
        api.patch(path, patch)
        wait_until(right, 20, f"{accident}: put right", state=lambda: api.get(path))
        assert uids <= _uids(api), accident
    wait_until_placed(api, "default", 60)
    uids = _uids(api)
    kubectl("delete", "replicaset", name, "--cascade=orphan")
    wait_until(lambda: [rs["metadata"]["name"] for rs in replica_sets(api)] == [name], 20, "it to be made again")
    stray = placeholders(api)[0]["metadata"]
    kubectl("label", "pod", stray["name"], "--overwrite", "resource-slack.io/shape=00000000")
    wait_until(lambda: stray["uid"] not in _uids(api), 20, "the stray pod to go")
    wait_until_placed(api, "default", 60)
    assert uids - {stray["uid"]} <= _uids(api)
    kubectl("delete", "priorityclass", "resource-slack")
    wait_until(lambda: "resource-slack" in kubectl("get", "priorityclasses", "-o=name"), 20, "the class to come back")
    wait_for_condition(api, "default", "SlackSatisfied", "True", 60)


def test_our_priority_class_is_not_made_the_default_of_all_pods(cluster: Backend, placed: Operator) -> None:
    """Every pod without a class would be a placeholder's equal."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/resource-slack"
    mine = cluster.api.get(path)
    cluster.api.patch(path, {"globalDefault": True})
    wait_until(lambda: not cluster.api.get(path).get("globalDefault"), 30, "the default to be taken back")
    wait_until(lambda: placed.metric(TAKEN_BACK, part="globalDefault") == 1, 30, "that to be counted")
    assert cluster.api.get(path)["metadata"]["uid"] == mine["metadata"]["uid"]
