"""The main job on real components: slack is placed, a burst starts in it, and only what it displaced comes back."""

import json
from collections import Counter

import pytest

from e2e.harness.api import Api
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, nodes, pods, scale, wait_for_running, wait_until
from e2e.harness.pod_times import percentile
from e2e.harness.product.full_machines import create_three_busy_nodes
from e2e.harness.product.operator import (
    Operator,
    binding_seconds,
    held,
    placeholders,
    policy,
    replica_sets,
    status,
    wait_until_placed,
)
from slack.cluster.hold import Hold
from slack.cluster.quantity import base_units, cpu_millis

NODES = 6


def _cluster_with_pods(cluster: Backend, count: int = NODES) -> None:
    create_all(cluster.api, [kwok.node(f"node-{i}", zone=f"zone-{'abc'[i % 3]}") for i in range(count)])
    cluster.api.create(deployment("api", 20, cpu="800m", memory="1Gi"))
    wait_for_running(cluster.api, 20, 60)


def wait_until_reserved(api: Api, count: int) -> None:
    """Wait until status says that so many standard placeholders of 800m have their capacity."""
    wanted = f"{count * 800}m"

    def reserved() -> bool:
        said = (status(api, "default").get("reserved") or {}).get("cpu", "0")
        return cpu_millis(said) == cpu_millis(wanted)

    wait_until(reserved, 20, f"{wanted} to be reserved", state=lambda: status(api, "default"))


def _requests(pod: dict[str, object]) -> tuple[int, int]:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    requests = spec["containers"][0]["resources"]["requests"]
    return cpu_millis(requests["cpu"]), base_units(requests["memory"])


@pytest.mark.core
def test_placeholders_are_scheduled_and_sum_to_at_least_the_desired_capacity(cluster: Backend, hold: Hold) -> None:
    _cluster_with_pods(cluster)
    with Operator(cluster, "--extra-capacity-min-rate=0.1") as operator:
        operator.wait_until_ready()
        cluster.api.create(policy("default", hold=hold))
        wait_until_placed(cluster.api, "default")
        bound = held(cluster.api, hold)
        cpu, memory = (sum(column) for column in zip(*(_requests(pod) for pod in bound), strict=True))
        # Ten percent of 20 pods of 800m and 1Gi.
        assert cpu >= 1600
        assert memory >= 2 * 1024**3
        assert all(pod["spec"]["terminationGracePeriodSeconds"] == 0 for pod in bound)
        assert all(pod["spec"]["priority"] == -10 for pod in bound)
        assert all("finalizers" not in pod["metadata"] for pod in bound)


@pytest.mark.core
def test_a_burst_starts_in_the_slack_and_only_the_displaced_come_back(cluster: Backend, hold: Hold) -> None:
    """Nodes are full, so that without slack the burst waits for a new one; times of both are printed.

    Unbound placeholders are not displaced: all stay, and of these two ask for a node.
    """
    api = cluster.api
    create_three_busy_nodes(api)  # slack takes exactly what is left
    with Operator(cluster, "--no-make-way") as operator:  # what the scheduler does alone
        operator.wait_until_ready()
        # Three standard placeholders of 800m: the 12th part each of what is requested. The burst raises that to four,
        # which the ceiling keeps out of this.
        ceiling = {"cpu": "2400m", "memory": "3Gi"}
        api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.25, "ceiling": ceiling}))
        wait_until(lambda: len(held(api, hold)) == 3, 30, "three placeholders to hold capacity")
        wait_until_reserved(api, 3)
        before = {pod["metadata"]["uid"]: pod for pod in placeholders(api)}
        assert len(before) == 3
        displaced_before = operator.metric("slack_displaced_total", cause="PreemptionByScheduler")
        with_slack = binding_seconds(
            api, lambda: api.create(deployment("burst", 2, cpu="800m", memory="1Gi")), 2, 20, "burst"
        )
        assert len(with_slack) == 2, "the burst that fits the slack must be bound"
        displaced = 2 if hold is Hold.BOUND else 0
        wait_until(lambda: len(placeholders(api)) == 3, 10, "the displaced placeholders to be replaced")
        after = {pod["metadata"]["uid"]: pod for pod in placeholders(api)}
        kept = before.keys() & after.keys()
        assert len(kept) == 3 - displaced, "exactly the displaced placeholders are new"
        assert all(before[uid]["spec"].get("nodeName") == after[uid]["spec"].get("nodeName") for uid in kept)
        assert all("nodeName" not in after[uid]["spec"] for uid in after.keys() - before.keys()), "the nodes are full"
        wait_until_reserved(api, 1)
        wait_until(
            lambda: (
                operator.metric("slack_displaced_total", cause="PreemptionByScheduler") == displaced_before + displaced
            ),
            10,
            "displacements to be counted",
        )
    # Without slack: one more pod than there is room; a node is added by hand after five seconds.
    api.delete("/apis/resource-slack.io/v1alpha1/slackpolicies/default")
    # The garbage collector looks for new kinds of owners every 30 s; the CRD may be younger than that.
    wait_until(lambda: not replica_sets(api) and not placeholders(api), 90, "the policy's placeholders to be gone")
    api.create(deployment("filler", 1, cpu="800m", memory="1Gi"))
    wait_for_running(api, 1, 20, labelSelector="app=filler")

    def burst_and_node() -> None:
        api.create(deployment("late", 2, cpu="800m", memory="1Gi"))
        api.create(kwok.node("node-late", boot_seconds=5))

    without = binding_seconds(api, burst_and_node, 2, 40, "late")
    report = {
        "with_slack": {"p50": percentile(with_slack, 50), "p99": percentile(with_slack, 99)},
        "without_slack": {"p50": percentile(without, 50), "p99": percentile(without, 99)},
    }
    print("\nseconds from creation to binding:", json.dumps(report))
    assert percentile(with_slack, 99) < percentile(without, 50)
    assert percentile(with_slack, 99) < 2.0


@pytest.mark.autoscaler
def test_the_autoscaler_adds_a_node_for_slack_and_takes_it_away_with_the_load(cluster: Backend, hold: Hold) -> None:
    """R3: nodes come for pending placeholders, and leave when load and slack have gone."""
    api = cluster.api
    with Karpenter(cluster) as karpenter, Operator(cluster) as operator:
        karpenter.add_pool("default")
        operator.wait_until_ready()
        api.create(
            policy(
                "default",
                hold=hold,
                extraCapacity={"minRate": 0.25},
                stabilization={"shrinkDelay": "5s", "giveUpAfter": "2m"},
            )
        )
        api.create(deployment("api", 10, cpu="700m", memory="1Gi"))
        wait_for_running(api, 10, 60)
        wait_until_placed(api, "default", 60)
        loaded = len(nodes(api))
        times = binding_seconds(api, lambda: scale(api, "api", 12), 2, 20, "api")
        print("\nseconds from creation to binding in slack beside Karpenter:", [round(t, 3) for t in times])
        wait_until_placed(api, "default", 60)
        assert len(nodes(api)) >= loaded
        scale(api, "api", 0)
        wait_until(
            lambda: not nodes(api),
            120,
            "all nodes to be gone with the load",
            state=lambda: (len(nodes(api)), [p["metadata"]["name"] for p in pods(api)], status(api, "default")),
        )
        assert placeholders(api) == []


@pytest.mark.core
def test_placeholders_of_one_shape_are_equal_for_the_autoscaler(cluster: Backend, hold: Hold) -> None:
    """R1-1: labels and spec equal, one controller each, so that one simulation serves them all."""
    _cluster_with_pods(cluster)
    with Operator(cluster, "--no-make-way") as operator:  # what the scheduler does alone
        operator.wait_until_ready()
        cluster.api.create(policy("default", hold=hold, extraCapacity={"minRate": 0.3}))
        wait_until_placed(cluster.api, "default")
        found = placeholders(cluster.api)
        owners = Counter(pod["metadata"]["ownerReferences"][0]["name"] for pod in found)
        assert len(owners) == len(replica_sets(cluster.api))
        by_shape: dict[str, set[str]] = {}
        for pod in found:
            # Since 1.35 the API server copies the node's topology labels onto a pod as it binds it: not ours.
            labels = {k: v for k, v in pod["metadata"]["labels"].items() if not k.startswith("topology.kubernetes.io/")}
            same = json.dumps([labels, pod["spec"]["containers"], pod["spec"]["tolerations"]], sort_keys=True)
            by_shape.setdefault(labels["resource-slack.io/shape"], set()).add(same)
        assert all(len(versions) == 1 for versions in by_shape.values())
