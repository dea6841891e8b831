"""The stock scheduler's trap: preemptors that hang. It is produced, noticed and mended, and counted."""

import time
from typing import Any

import pytest

from e2e.harness.api import Api
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.objects import create_all, pod, pods, priority_class, wait_until
from e2e.harness.product.operator import NAMESPACE, USER, Operator, placeholders, policy, wait_until_placed

PODS = 3
RESCUES, STUCK = "slack_preemption_rescues_total", "slack_preemptions_stuck_total"
SECONDS = 150.0
"""From one burst in twenty to one in two hangs, the more the busier the machine; a burst takes some two seconds."""


def _pending(cluster: Backend) -> list[str]:
    found = pods(cluster.api, "default", labelSelector="app=burst")
    return [p["metadata"]["name"] for p in found if not p["spec"].get("nodeName")]


def rescues(cluster: Backend, since: int) -> list[str]:
    """Whose status the operator has written since a mark of the audit log."""
    entries = cluster.audit_entries(user=USER, verbs={"patch", "update"}, since=since)
    return [entry.name for entry in entries if entry.resource == "pods/status"]


def full_node(api: Api) -> None:
    """Make node-0 with three placeholders, and with no room beside them."""
    api.create(kwok.node("node-0", cpu="12"))
    spec: Any = {"extraCapacity": {"minRate": 0, "floor": {"cpu": "9", "memory": "3Gi"}}, "cover": {"mode": "None"}}
    api.create(policy("default", granularity=4, **spec))
    wait_until_placed(api, "default")
    assert len(placeholders(api)) == 3
    api.create(pod("filler", cpu="3", memory="1Gi"))


def test_pods_that_asynchronous_preemption_leaves_hanging_are_rescued(cluster: Backend) -> None:
    """Bursts of three pods that need all three placeholders of one node, until one hangs and is rescued."""
    api = cluster.api
    cluster.restart_scheduler(gates={"SchedulerAsyncPreemption": True})
    try:
        with Operator(cluster, "--no-make-way") as operator:
            operator.wait_until_ready()
            full_node(api)
            began, bursts, worst = time.monotonic(), 0, 0.0
            while operator.metric(RESCUES) == 0 and time.monotonic() - began < SECONDS:
                wait_until(lambda: len(placeholders(api, bound=True)) == 3, 60, "slack to be whole")
                started = time.monotonic()
                burst = [
                    pod(f"burst-{bursts}-{i}", cpu="3", memory="1Gi", labels={"app": "burst"}) for i in range(PODS)
                ]
                create_all(api, burst)
                wait_until(lambda: not _pending(cluster), 120, "the burst to be bound, rescued or not")
                worst = max(worst, time.monotonic() - started)
                for i in range(PODS):
                    api.delete(f"/api/v1/namespaces/default/pods/burst-{bursts}-{i}", grace_seconds=0)
                bursts += 1
            rescued = operator.metric(RESCUES)
            print(f"\n{rescued:.0f} rescued in {bursts} bursts of {PODS}; the slowest was bound after {worst:.1f} s")
            assert operator.metric(STUCK) == rescued
            if rescued:
                events = api.items("/api/v1/namespaces/default/events")
                assert any(
                    e["involvedObject"].get("name", "").startswith("burst-") and e["reason"] == "PreemptionRescued"
                    for e in events
                )
    finally:
        cluster.restart_scheduler()


def test_the_state_that_a_hang_leaves_is_rescued_and_only_once_its_victim_is_gone(cluster: Backend) -> None:
    """The same without luck: what the scheduler does to a preemptor and its victim is done by hand."""
    api = cluster.api
    with Operator(cluster, "--no-make-way") as operator:
        operator.wait_until_ready()
        full_node(api)
        victim = placeholders(api)[0]
        api.create(priority_class("polite", 0, "Never"))  # else the scheduler takes the nomination back itself
        hanging = pod("hangs", cpu="3", memory="1Gi", priority_class="polite", nodeSelector={"no": "where"})
        wait_until(lambda: api.create(hanging), 30, "the class to be known to admission")
        path = "/api/v1/namespaces/default/pods/hangs"
        wait_until(lambda: "Unschedulable" in str(api.get(path)["status"]), 30, "the scheduler to look at it")
        api.patch(f"{path}/status", {"status": {"nominatedNodeName": "node-0"}})
        mark = cluster.audit_mark()
        time.sleep(20)
        assert rescues(cluster, mark) == []  # nobody was preempted for it
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # the disruption controller takes back what is old
        preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        preempted["lastTransitionTime"] = now
        placeholder = f"/api/v1/namespaces/{NAMESPACE}/pods/{victim['metadata']['name']}"
        conditions = [*api.get(placeholder)["status"]["conditions"], preempted]
        api.patch(f"{placeholder}/status", {"status": {"conditions": conditions}})
        api.delete(placeholder, grace_seconds=0)
        wait_until(lambda: operator.metric(RESCUES) == 1, 60, "the pod to be rescued", state=lambda: api.get(path))
        assert "nominatedNodeName" not in api.get(path)["status"]
        assert rescues(cluster, mark) == ["hangs"]
        assert operator.metric(STUCK) == 1
        events = api.items("/api/v1/namespaces/default/events")
        assert any(e["involvedObject"].get("name") == "hangs" and "resource-slack" in str(e) for e in events)


def test_a_preemptor_that_hung_while_no_operator_ran_is_rescued_by_the_next(cluster: Backend) -> None:
    """Who was pushed off for it left unseen; that it would fit where it was promised, and is not put there, is seen."""
    if not isinstance(cluster, ControlPlane):
        pytest.skip("only the local control plane's scheduler can be made to stand still")
    api, path = cluster.api, "/api/v1/namespaces/default/pods/hangs"
    with Operator(cluster, "--no-make-way") as operator:
        operator.wait_until_ready()
        full_node(api)
        operator.kill()
        api.create(priority_class("below", -1000))  # it preempts nobody, so that its state is what is made here
        hanging = pod("hangs", cpu="3", memory="1Gi", priority_class="below")
        wait_until(lambda: api.create(hanging), 30, "the class to be known to admission")
        wait_until(lambda: "Unschedulable" in str(api.get(path)["status"]), 30, "the scheduler to look at it")
        mark = cluster.audit_mark()
        with cluster.stands_still("kube-scheduler"):
            api.patch(f"{path}/status", {"status": {"nominatedNodeName": "node-0"}})
            operator.start()
            operator.wait_until_ready()
            time.sleep(20)
            assert rescues(cluster, mark) == []  # there is no room for it
            api.delete("/api/v1/namespaces/default/pods/filler", grace_seconds=0)
            wait_until(lambda: operator.metric(RESCUES) == 1, 60, "the pod to be rescued", state=lambda: api.get(path))
        assert rescues(cluster, mark) == ["hangs"]
        wait_until(lambda: api.get(path)["spec"].get("nodeName") == "node-0", 60, "the pod to be bound")
