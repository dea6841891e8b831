"""S7, R8, R9 on a real scheduler: a mirrored workload's next replicas start where its placeholders stand."""

from typing import Any

from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, pods, tolerate, wait_for_running, wait_until
from e2e.harness.product.operator import (
    Operator,
    binding_seconds,
    held,
    placeholders,
    policy,
    status,
    wait_until_placed,
)
from slack.cluster.hold import Hold

RESERVE = "resource-slack.io/reserve"
FREELY = {"ceiling": {"cpu": "100", "memory": "100Gi", "pods": "100"}}
"""More than a tenth of these small clusters."""


def test_a_mirrored_deployment_with_anti_affinity_selector_and_toleration(cluster: Backend, hold: Hold) -> None:
    """The nodes that suit it are full of filler but for the placeholders; a plain pod could not start there."""
    api = cluster.api
    taint = [{"key": "dedicated", "value": "shop", "effect": "NoSchedule"}]
    create_all(
        api,
        [
            *(kwok.node(f"plain-{i}") for i in range(3)),
            *(kwok.node(f"shop-{i}", labels={"pool": "shop"}, taints=taint) for i in range(4)),
        ],
    )
    anti_affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "api"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    where: dict[str, Any] = {
        "affinity": anti_affinity,
        "nodeSelector": {"pool": "shop"},
        "tolerations": tolerate("dedicated"),
    }
    mirrored = deployment("api", 2, cpu="1", memory="1Gi", **where)
    mirrored["metadata"]["annotations"][RESERVE] = "2"
    api.create(mirrored)
    wait_for_running(api, 2, 30, labelSelector="app=api")
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0}, cover={"mode": "None"}, reserve=FREELY))
        wait_until_placed(api, "default")
        there = held(api, hold)
        taken = {pod["spec"]["nodeName"] for pod in pods(api, "default", labelSelector="app=api")}
        assert len(there) == 2
        if hold is Hold.BOUND:
            stands = {pod["spec"]["nodeName"] for pod in there}
            assert stands == {f"shop-{i}" for i in range(4)} - taken, "one each on the nodes without a pod of api"
        assert all("app" not in pod["metadata"]["labels"] for pod in there), "never the workload's labels"
        # Fill what is left of the shop nodes, so that only the placeholders' room is left.
        filler: dict[str, Any] = {"nodeSelector": {"pool": "shop"}, "tolerations": tolerate("dedicated")}
        api.create(deployment("filler", 4, cpu="3", memory="1Gi", **filler))
        wait_for_running(api, 4, 30, labelSelector="app=filler")

        def scale_out() -> None:
            api.patch("/apis/apps/v1/namespaces/default/deployments/api/scale", {"spec": {"replicas": 4}})

        times = binding_seconds(api, scale_out, 2, 20, "api")
        print("\nseconds from creation to binding of the mirrored replicas:", [round(t, 3) for t in times])
        assert len(times) == 2
        assert times[-1] < 2.0
        now = {pod["spec"]["nodeName"] for pod in pods(api, "default", labelSelector="app=api")}
        assert now == {f"shop-{i}" for i in range(4)}


def test_a_percentage_follows_the_replicas(cluster: Backend, hold: Hold) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(4)])
    mirrored = deployment("api", 4, cpu="500m", memory="512Mi")
    mirrored["metadata"]["annotations"][RESERVE] = "50%"
    api.create(mirrored)
    wait_for_running(api, 4, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0}, cover={"mode": "None"}, reserve=FREELY))
        wait_until_placed(api, "default")
        assert len(placeholders(api)) == 2
        api.patch("/apis/apps/v1/namespaces/default/deployments/api/scale", {"spec": {"replicas": 8}})
        wait_until(
            lambda: len(held(api, hold)) == 4,
            30,
            "half of eight replicas to be reserved",
            state=lambda: status(api, "default"),
        )


def test_a_reserve_that_cannot_be_read_is_named(cluster: Backend) -> None:
    api = cluster.api
    create_all(api, [kwok.node(f"node-{i}") for i in range(2)])
    mirrored = deployment("api", 2, cpu="500m", memory="512Mi")
    mirrored["metadata"]["annotations"][RESERVE] = "many"
    api.create(mirrored)
    wait_for_running(api, 2, 30)
    with Operator(cluster) as operator:
        operator.wait_until_ready()
        api.create(policy("default"))
        found = wait_until(
            lambda: next(
                (
                    c
                    for c in status(api, "default").get("conditions") or []
                    if c["type"] == "Feasible" and c["status"] == "False"
                ),
                None,
            ),
            30,
            "Feasible=False",
            state=lambda: status(api, "default"),
        )
        assert found is not None
        assert "default/deploy/api" in found["message"]
        assert "resource-slack.io/reserve" in found["message"]
