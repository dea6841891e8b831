"""How soon the status says what an autoscaler refuses, and how soon it forgets a workload that is gone; prints both.

The refusal is an Event as Cluster Autoscaler writes it, on a placeholder that has no node. Real are API server,
scheduler, controllers and operator, with the operator's own interval.
"""

import time
from datetime import UTC, datetime

from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.operator import NAMESPACE, Operator, placeholders, policy, status, wait_until_placed

REFUSAL_SECONDS = 3.0
FORGETTING_SECONDS = 180.0
FLAGS = ("--interval=10s",)
"""As users start it: the interval is the product's, not the suites'."""
REFUSALS = 5
GONE = ("ShapeFitsNowhere", "CoverageMissed")


def refusal(pod: Json, number: int) -> Json:
    """The Event of an autoscaler that may not add a node."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"refusal-{number}", "namespace": NAMESPACE},
        "involvedObject": {**about, "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "reason": "NotTriggerScaleUp",
        "message": "pod didn't trigger scale-up: 1 max node group size reached",
        "type": "Normal",
        "source": {"component": "cluster-autoscaler"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def refused(api: Api) -> bool:
    """Whether a condition has the autoscaler's words."""
    return any("max node group size reached" in said["message"] for said in status(api, "web").get("conditions", ()))


def state(api: Api) -> str:
    """The column SLACK."""
    return str(status(api, "web").get("summary", {}).get("state", ""))


def test_an_autoscalers_refusal_is_in_the_status_within_three_seconds(cluster: Backend) -> None:
    api, took = cluster.api, list[float]()
    create_all(api, [kwok.node(f"node-{i}") for i in range(3)])
    api.create(deployment("api", 6, cpu="800m", memory="1Gi"))
    wait_for_running(api, 6, 60)
    with Operator(cluster, *FLAGS) as operator:
        operator.wait_until_ready()
        for number in range(REFUSALS):
            # more than the nodes have: placeholders wait for a node that nobody adds
            api.create(policy("web", hold="Bound", extraCapacity={"minRate": 0, "floor": {"cpu": "64"}}))
            waiting = wait_until(lambda: placeholders(api, bound=False), 60, "placeholders without a node")
            wait_until(lambda: status(api, "web").get("pending"), 30, "a status that counts them")
            assert not refused(api)
            began = time.monotonic()
            api.create(refusal(waiting[0], number))
            wait_until(lambda: refused(api), 30, "the refusal in the status", lambda: state(api), 0.02)
            took.append(time.monotonic() - began)
            api.delete("/apis/resource-slack.io/v1alpha1/slackpolicies/web")
            wait_until(lambda: not placeholders(api), 60, "no placeholders")
    took.sort()
    print(f"\na refusal is in the status after {', '.join(f'{seconds:.2f}' for seconds in took)} s")
    assert took[-1] <= REFUSAL_SECONDS * time_scale()


def test_a_deleted_workload_is_forgotten_within_three_minutes(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(3)])
    api.create(deployment("api", 6, cpu="800m", memory="1Gi"))
    wait_for_running(api, 6, 60)
    with Operator(cluster, *FLAGS) as operator:
        operator.wait_until_ready()
        api.create(policy("web", extraCapacity={"minRate": 0.25}))
        wait_until_placed(api, "web", 60)
        api.create(deployment("huge", 2, cpu="900", memory="1Gi"))
        wait_until(
            lambda: any(name in state(api) for name in GONE), 60, "a workload that fits nowhere", lambda: state(api)
        )
        shown = state(api)
        began = time.monotonic()
        api.delete("/apis/apps/v1/namespaces/default/deployments/huge")
        wait_until(lambda: not any(name in state(api) for name in GONE), 240, "a calm status", lambda: state(api))
        seconds = time.monotonic() - began
    print(f"\n{shown} was gone {seconds:.1f} s after its workload")
    assert seconds <= FORGETTING_SECONDS * time_scale()
