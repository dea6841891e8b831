"""The ground that the other suites stand on: what the control plane of the tests does, shown by itself."""

import socket
import time
from functools import partial

import pytest

from e2e.harness.api import ApiError
from e2e.harness.autoscalers.cluster_autoscaler import GROUP_LABEL, ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import access, audit_log, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import (
    condition,
    create_all,
    deployment,
    is_running,
    nodes,
    pod,
    pods,
    priority_class,
    scale,
    wait_for_running,
    wait_until,
)
from e2e.harness.pod_times import PodClock

READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "node-reader"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}],
}


def test_comes_up_in_seconds(backend: Backend) -> None:
    if not isinstance(backend, ControlPlane):
        pytest.skip("kind takes as long as its images take")
    print(f"\nup in {backend.start_seconds}")
    assert backend.start_seconds["all"] < 30


def test_users_may_do_only_what_was_granted(cluster: Backend) -> None:
    user = cluster.user("somebody")
    account = cluster.service_account("default", "somebody")
    for identity in (user, account):
        with pytest.raises(ApiError, match="cannot list resource") as refusal:
            identity.api.items("/api/v1/nodes")
        assert refusal.value.status == 403
        access.grant_manifests(cluster.api, identity, [READER])
        wait_until(partial(identity.api.get, "/api/v1/nodes"), 10, "the grant to count")
        with pytest.raises(ApiError, match="cannot list resource"):
            identity.api.items("/api/v1/pods")


def test_a_node_boots_and_its_pod_runs(cluster: Backend) -> None:
    cluster.api.create(kwok.node("slow", boot_seconds=3))
    cluster.api.create(pod("early", annotations={kwok.START_SECONDS: "2"}))
    with PodClock(cluster.api, "default") as clock:
        clock.wait_for_running(1, 60)
        (times,) = clock.times()
    (node,) = nodes(cluster.api, fieldSelector="metadata.name=slow")
    assert condition(node, "Ready") == "True"
    assert times.node == "slow"
    assert times.bind_seconds is not None
    assert times.bind_seconds > 1.5, "bound before the node had booted"
    assert times.start_seconds is not None
    assert times.start_seconds > times.bind_seconds + 0.5, "ran before its start time was over"


def test_a_node_that_was_not_heard_of_for_a_while_takes_pods_again(cluster: Backend) -> None:
    cluster.api.create(kwok.node("silent"))
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "its lease has lapsed"}
    cluster.api.patch("/api/v1/nodes/silent/status", {"status": {"conditions": [lost]}})
    path = "/api/v1/nodes/silent"
    wait_until(lambda: condition(cluster.api.get(path), "Ready") == "True", 30, "the node to be Ready")
    cluster.api.create(pod("waits"))
    wait_for_running(cluster.api, 1, 30)


def test_a_real_pod_takes_the_place_of_a_placeholder(cluster: Backend) -> None:
    cluster.api.create(kwok.node("only", cpu="4"))
    cluster.api.create(priority_class("placeholder", -10, "Never"))
    cluster.api.create(deployment("placeholder", 1, cpu="3", priority_class="placeholder"))
    wait_for_running(cluster.api, 1, 20, labelSelector="app=placeholder")
    with PodClock(cluster.api) as clock:
        cluster.api.create(pod("real", cpu="3", labels={"app": "real"}))
        (took,) = clock.wait_for_running(1, 60, app="real")
        print(f"\ncreated to running by preemption: {took:.3f} s")
    (placeholder,) = wait_until(lambda: pods(cluster.api, "default", labelSelector="app=placeholder"), 10, "a new one")
    # The new placeholder may not preempt in turn: it waits.
    time.sleep(1)
    assert condition(placeholder, "PodScheduled") == "False"
    assert [entry["metadata"]["name"] for entry in pods(cluster.api, "default") if is_running(entry)] == ["real"]


def test_the_audit_log_tells_who_wrote_what(cluster: Backend) -> None:
    writer = cluster.user("writer", ["system:masters"])
    mark = cluster.audit_mark()
    writer.api.create(pod("noted"))
    writer.api.get("/api/v1/namespaces/default/pods/noted")
    entries = cluster.audit_entries(user="writer", verbs=audit_log.WRITES, since=mark)
    assert [(entry.verb, entry.resource, entry.name, entry.code) for entry in entries] == [
        ("create", "pods", "noted", 201)
    ]
    asked = [entry.verb for entry in cluster.audit_entries(user="writer", since=mark) if entry.name == "noted"]
    assert asked == ["create", "get"]


def test_the_api_server_comes_back_with_its_data(cluster: Backend) -> None:
    cluster.api.create(kwok.node("kept"))
    for crash in (False, True):
        cluster.restart_apiserver(crash=crash, down_seconds=0.5)
        assert cluster.api.find("/api/v1/nodes/kept")
        cluster.api.create(pod(f"after-{crash}".lower()))
    wait_for_running(cluster.api, 2, 30)


def test_what_a_failed_test_left_down_comes_back(cluster: Backend) -> None:
    cluster.stop_apiserver(crash=True)
    cluster.restart_missing()
    cluster.api.create(kwok.node("next"))


def test_nothing_here_may_leave_this_machine() -> None:
    with (
        socket.socket() as outward,
        pytest.raises(PermissionError, match=r"tried to connect to 192\.0\.2\.1, which is not this machine"),
    ):
        outward.connect(("192.0.2.1", 80))


def test_the_scheduler_starts_anew_with_another_gate(cluster: Backend) -> None:
    cluster.restart_scheduler(gates={"SchedulerAsyncPreemption": True})
    try:
        cluster.api.create(kwok.node("only"))
        cluster.api.create(pod("one"))
        wait_for_running(cluster.api, 1, 20)
    finally:
        cluster.restart_scheduler()


def test_a_hundred_nodes_and_five_hundred_pods(cluster: Backend) -> None:
    began = time.monotonic()
    create_all(cluster.api, (kwok.node(f"node-{number}") for number in range(100)))
    cluster.api.create(deployment("many", 500))
    wait_for_running(cluster.api, 500, 60, labelSelector="app=many")
    print(f"\n500 pods on 100 nodes running after {time.monotonic() - began:.1f} s")


@pytest.mark.autoscaler
@pytest.mark.timeout(360)
def test_karpenter_adds_a_node_and_takes_it_away(cluster: Backend) -> None:
    with Karpenter(cluster) as karpenter:
        karpenter.add_pool("default", boot_seconds=3)
        with PodClock(cluster.api, "default") as clock:
            cluster.api.create(deployment("load", 1, cpu="3"))
            (up,) = clock.wait_for_running(1, 120)
        # Seen by a watch, which may tell of the pod late; how long a busy machine takes is printed, not judged.
        assert up > 2, "the node joined before its boot time was over"
        (node,) = nodes(cluster.api)
        assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"
        assert node["status"]["allocatable"]["cpu"] == "4"
        scale(cluster.api, "load", 0)
        began = time.monotonic()
        wait_until(lambda: not nodes(cluster.api), 180, "the empty node to go", state=lambda: nodes(cluster.api))
        gone = time.monotonic() - began
        print(f"\nKarpenter: boot of 3 s, running after {up:.1f} s, node gone {gone:.1f} s after the load")


@pytest.mark.autoscaler
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("cluster_autoscaler_binary")
def test_cluster_autoscaler_adds_a_node_and_takes_it_away(cluster: Backend) -> None:
    groups = [NodeGroup("general", max_count=3), NodeGroup("slow", cpu="8", boot_seconds=5, max_count=2)]
    with ClusterAutoscaler(cluster, groups):
        with PodClock(cluster.api) as clock:
            cluster.api.create(deployment("load", 2, cpu="3", nodeSelector={GROUP_LABEL: "general"}))
            cluster.api.create(deployment("large", 1, cpu="6", nodeSelector={GROUP_LABEL: "slow"}))
            small, large = clock.wait_for_running(2, 120, app="load"), clock.wait_for_running(1, 120, app="large")
        found = nodes(cluster.api)
        groups_of_nodes = sorted(node["metadata"]["labels"][GROUP_LABEL] for node in found)
        assert groups_of_nodes == ["general", "general", "slow"]
        hosts = {node["metadata"]["labels"]["kubernetes.io/hostname"] for node in found}
        assert hosts == {node["metadata"]["name"] for node in found}
        scale(cluster.api, "load", 0)
        scale(cluster.api, "large", 0)
        began = time.monotonic()
        wait_until(lambda: not nodes(cluster.api), 150, "the empty nodes to go")
        gone = time.monotonic() - began
        print(
            f"\nCluster Autoscaler: up after {small} s, boot of 5 s {large} s, nodes gone {gone:.1f} s after the load"
        )
