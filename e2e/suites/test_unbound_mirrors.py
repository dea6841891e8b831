"""Unbound mirrors beside the real Karpenter: in the zones of the next pods, and none that names a host."""

from typing import Any

from e2e.harness.api import Json
from e2e.harness.autoscalers.karpenter import ZONES, Karpenter
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import deployment, nodes, scale, wait_for_running, wait_until
from e2e.harness.product.operator import Operator, binding_seconds, placeholders, policy, status, wait_until_placed
from slack.cluster.labels import ANNOTATION_RESERVE, ZONE
from slack.planner.domain.host_names import HOST_REFUSED

FREELY = {"ceiling": {"cpu": "100", "memory": "100Gi", "pods": "100"}}
LARGE: dict[str, Any] = {"cpu": "3", "memory": "1Gi"}
"""One pod on each node of four CPUs, so that each mirror needs a node of its zone."""


def reserving(name: str, replicas: int, count: str, **spec: Any) -> Json:
    found = deployment(name, replicas, **LARGE, **spec)
    found["metadata"]["annotations"][ANNOTATION_RESERVE] = count
    return found


def slack() -> Json:
    return policy("default", hold="Unbound", extraCapacity={"minRate": 0}, cover={"mode": "None"}, reserve=FREELY)


def test_mirrors_of_a_workload_that_spreads_hold_nodes_in_the_zones_of_its_next_pods(cluster: Backend) -> None:
    api = cluster.api
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("general", boot_seconds=2)
        operator.wait_until_ready()
        api.create(reserving("web", 4, "2", topologySpreadConstraints=[spread]))
        wait_for_running(api, 4, 90)
        before = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in nodes(api)}
        full = next(zone for zone in ZONES if list(before.values()).count(zone) == 2)
        api.create(slack())
        wait_until_placed(api, "default", 90)
        held = placeholders(api)
        assert sorted(pod["spec"]["nodeSelector"][ZONE] for pod in held) == sorted(set(ZONES) - {full})
        assert not any("topologySpreadConstraints" in pod["spec"] for pod in held)
        added = [n["metadata"]["labels"][ZONE] for n in nodes(api) if n["metadata"]["name"] not in before]
        assert sorted(added) == sorted(set(ZONES) - {full})
        times = binding_seconds(api, lambda: scale(api, "web", 6), 2, 20, "web")
        print("\nseconds from creation to binding of the next pods:", [round(t, 3) for t in times])
        assert len(times) == 2
        assert times[-1] < 2.0


def test_a_reservation_for_a_host_is_refused_with_the_reason(cluster: Backend) -> None:
    api = cluster.api
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("general")
        operator.wait_until_ready()
        api.create(deployment("web", 1, **LARGE))
        wait_for_running(api, 1, 90)
        (node,) = nodes(api)
        host: dict[str, Any] = {
            "nodeSelector": {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
        }
        small = deployment("local", 1, cpu="100m", memory="64Mi", **host)
        small["metadata"]["annotations"][ANNOTATION_RESERVE] = "1"
        api.create(small)
        wait_for_running(api, 2, 60)
        api.create(slack())
        found = wait_until(
            lambda: [each for each in status(api, "default").get("uncovered", []) if each["reason"] == HOST_REFUSED],
            60,
            "the reservation to be refused",
            state=lambda: status(api, "default"),
        )
        assert [each["pod"] for each in found] == ["default/deploy/local"]
        assert not placeholders(api)
