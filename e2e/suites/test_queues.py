"""A queue of pods that no scheduler of ours considers raises nothing; its pods count once they may start.

The API server and the scheduler are stock. The queue is created before the load that must be counted, and the operator
reads both from one watch: when it has counted the load, it has seen the queue.
"""

from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, pod, pods, scale, wait_for_running, wait_until
from e2e.harness.product.operator import Operator, policy, replica_sets, status, wait_until_placed

GATES = [{"name": "queue.example.com/admission"}]
QUEUED, GATED = 60, 5


def test_queued_pods_count_only_once_they_may_start(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(8)])
    api.create(deployment("web", 4, cpu="1", memory="64Mi"))
    wait_for_running(api, 4, 30, labelSelector="app=web")
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", extraCapacity={"minRate": 0.5}))
        assert wait_until_placed(api, "default")["base"]["cpu"] == "4"

        gated = [pod(f"gated-{i}", cpu="1", labels={"app": "gated"}, schedulingGates=GATES) for i in range(GATED)]
        foreign = [pod(f"foreign-{i}", cpu="4", schedulerName="volcano") for i in range(QUEUED)]
        create_all(api, [*gated, *foreign])
        scale(api, "web", 6)
        wait_until(lambda: status(api, "default")["base"]["cpu"] != "4", 30, "the load to be counted")
        wait_until(lambda: status(api, "default")["base"]["cpu"] == "6", 30, "the load alone to be counted")
        wait_until_placed(api, "default")
        assert asked(cluster) == 3000, "half of what runs"

        for waiting in pods(api, "default", labelSelector="app=gated"):
            name = waiting["metadata"]["name"]
            api.patch(f"/api/v1/namespaces/default/pods/{name}", {"spec": {"schedulingGates": None}})
        wait_until(lambda: status(api, "default")["base"]["cpu"] == "11", 30, "the queue to be counted")


def asked(cluster: Backend) -> int:
    """Return how many millicores the placeholders' ReplicaSets ask for."""
    total = 0
    for item in replica_sets(cluster.api):
        text = item["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        total += item["spec"]["replicas"] * (int(text[:-1]) if text.endswith("m") else 1000 * int(text))
    return total
