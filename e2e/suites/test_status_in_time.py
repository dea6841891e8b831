"""How soon the status forgets a workload that is gone; prints it. The operator has the interval of users."""

import time

from e2e.harness.api import Api
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import create_all, deployment, wait_for_running, wait_until
from e2e.harness.product.operator import Operator, policy, status, wait_until_placed

FORGETTING_SECONDS = 180.0
FLAGS = ("--interval=10s",)
"""As users start it: the interval is the product's, not the suites'."""
GONE = ("ShapeFitsNowhere", "CoverageMissed")


def state(api: Api) -> str:
    """The column SLACK."""
    return str(status(api, "web").get("summary", {}).get("state", ""))


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
