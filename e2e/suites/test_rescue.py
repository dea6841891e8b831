"""The stock scheduler's trap: preemptors that hang. It is produced, noticed and mended, and counted."""

import time

from e2e.harness import kwok
from e2e.harness.backend import Backend
from e2e.harness.objects import create_all, pod, pods, wait_until
from e2e.harness.operator import Operator, placeholders, policy, wait_until_placed

PODS = 3
RESCUES = "slack_preemption_rescues_total"
SECONDS = 240.0
"""About one burst in twenty hangs, at some two seconds a burst: hardly one run in fifty sees none."""


def _pending(cluster: Backend) -> list[str]:
    found = pods(cluster.api, "default", labelSelector="app=burst")
    return [p["metadata"]["name"] for p in found if not p["spec"].get("nodeName")]


def test_pods_that_asynchronous_preemption_leaves_hanging_are_rescued(cluster: Backend) -> None:
    """Bursts of three pods that need all three placeholders of one node, until one hangs and is rescued.

    Where the scheduler's luck holds for the whole time, the state that a hang leaves is made by hand instead: a pending
    pod with a nominated node that no scheduler looks at.
    """
    api = cluster.api
    cluster.restart_scheduler(gates={"SchedulerAsyncPreemption": True})
    try:
        api.create(kwok.node("node-0", cpu="12"))
        with Operator(cluster) as operator:
            operator.wait_until_ready()
            api.create(
                policy(
                    "default",
                    extraCapacity={"minRate": 0, "floor": {"cpu": "9", "memory": "3Gi"}},
                    cover={"mode": "None"},
                    granularity=4,
                )
            )
            wait_until_placed(api, "default")
            assert len(placeholders(api)) == 3
            # What the placeholders leave of the node is taken, so that the burst must displace all three.
            api.create(pod("filler", cpu="3", memory="1Gi"))
            began, bursts, worst = time.monotonic(), 0, 0.0
            while operator.metric(RESCUES) == 0 and time.monotonic() - began < SECONDS:
                wait_until(lambda: len(placeholders(api, bound=True)) == 3, 20, "slack to be whole")
                started = time.monotonic()
                create_all(
                    api,
                    [pod(f"burst-{bursts}-{i}", cpu="3", memory="1Gi", labels={"app": "burst"}) for i in range(PODS)],
                )
                wait_until(lambda: not _pending(cluster), 40, "the burst to be bound, rescued or not")
                worst = max(worst, time.monotonic() - started)
                for i in range(PODS):
                    api.delete(f"/api/v1/namespaces/default/pods/burst-{bursts}-{i}", grace_seconds=0)
                bursts += 1
            rescued = operator.metric(RESCUES)
            print(f"\n{rescued:.0f} rescued in {bursts} bursts of {PODS}; the slowest was bound after {worst:.1f} s")
            if not rescued:
                api.create(pod("burst-by-hand", schedulerName="nobody"))
                nominated = {"status": {"nominatedNodeName": "node-0"}}
                api.patch("/api/v1/namespaces/default/pods/burst-by-hand/status", nominated)
                wait_until(lambda: operator.metric(RESCUES) == 1, 20, "the pod nominated by hand to be rescued")
                left = api.get("/api/v1/namespaces/default/pods/burst-by-hand")["status"]
                assert "nominatedNodeName" not in left
            events = api.items("/api/v1/namespaces/default/events")
            assert any("burst-" in e["involvedObject"].get("name", "") and "resource-slack" in str(e) for e in events)
    finally:
        cluster.restart_scheduler()
