"""CapacityBuffers served on real components, with exactly the rights of the chart."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.cluster_autoscaler import ClusterAutoscaler, NodeGroup
from e2e.harness.autoscalers.karpenter import Karpenter
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, deployment, make_namespace, nodes, scale, wait_for_running, wait_until
from e2e.harness.product.capacity_buffers import (
    CRD_PATH,
    FITS,
    OWN_STRATEGY,
    WAITS,
    buffer_reasons,
    buffer_status,
    capacity_buffer,
    change_buffer,
    delete_buffer,
    install_kind,
    pod_template,
    serving,
    wait_for_provisioning,
)
from e2e.harness.product.operator import (
    POLICIES,
    REPLICA_SETS,
    binding_seconds,
    placeholders,
    policy,
)

PROBE_SECONDS = 40.0


def buffer_sets(api: Api) -> list[Json]:
    return api.items(REPLICA_SETS, labelSelector="resource-slack.io/buffer")


def two_nodes(api: Api) -> None:
    create_all(api, [kwok.node(f"n{i}", cpu="8", memory="32Gi") for i in range(2)])


def test_a_buffer_is_served_within_its_bounds_and_each_condition_is_true(cluster: Backend) -> None:
    api = cluster.api
    two_nodes(api)
    install_kind(api)
    make_namespace(api, "shop")
    api.create(pod_template("chunk"))
    with serving(cluster) as operator:
        api.create(capacity_buffer("cb", podTemplateRef={"name": "chunk"}, replicas=5))
        status = wait_for_provisioning(api, "cb", FITS, PROBE_SECONDS)
        assert (status["replicas"], status["podTemplateRef"]["name"]) == (5, "chunk")
        assert (status["provisioningStrategy"], status["podTemplateGeneration"]) == (OWN_STRATEGY, 1)
        assert {each["observedGeneration"] for each in status["conditions"]} == {1}
        assert operator.metric("slack_capacity_buffer_server", server="Nobody") == 1
        uids = {pod["metadata"]["uid"] for pod in placeholders(api)}
        assert len(uids) == 5
        _edit_template(api)
        _wait_for_size(api, "cb", "podTemplateGeneration", 2)
        assert {pod["metadata"]["uid"] for pod in placeholders(api)} == uids, "no placeholder is made anew"
        _a_policy_counts_it(api)
        _size_follows_a_workload(api)
        _a_size_is_learnt(cluster)
        _quota_and_missing_reference(api)
        writes = api.get("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/cb")["metadata"]
        operator.wait_for_plans(3)
        same = api.get("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/cb")["metadata"]
        assert same["resourceVersion"] == writes["resourceVersion"], "nothing is written in a steady cluster"
        delete_buffer(api, "cb")
        wait_until(lambda: len(buffer_sets(api)) == 1, 20, "the deleted buffer's ReplicaSet to be gone")


def _edit_template(api: Api) -> None:
    api.patch("/api/v1/namespaces/default/podtemplates/chunk", {"template": {"metadata": {"labels": {"new": "x"}}}})


def _wait_for_size(api: Api, name: str, field: str, value: int) -> None:
    def status() -> Json:
        return buffer_status(api, name)

    wait_until(lambda: status().get(field) == value, 30, f"{field} of {name} to be {value}", state=status)


def _a_policy_counts_it(api: Api) -> None:
    """Of each resource the larger of policy and buffer is kept, never the sum; without Count they are beside."""
    room = {"cpu": "6", "memory": "6Gi"}
    spec = {"hold": "Unbound", "cover": {"mode": "None"}, "extraCapacity": {"minRate": 0, "floor": room}}
    api.create(policy("counts", **spec, capacityBuffers="Count"))

    def status() -> Json:
        found: Json = (api.find(f"{POLICIES}/counts") or {}).get("status") or {}
        return found

    def amounts(name: str) -> Json:
        return {key: status().get(name, {}).get(key) for key in room}

    wait_until(lambda: amounts("buffered") == {"cpu": "5", "memory": "5Gi"}, 30, "the buffer to count", state=status)

    def own() -> list[Json]:
        held = placeholders(api)
        return [pod for pod in held if pod["metadata"]["labels"].get("resource-slack.io/policy") == "counts"]

    def satisfied() -> bool:
        return any(c["type"] == "SlackSatisfied" and c["status"] == "True" for c in status().get("conditions", ()))

    wait_until(lambda: satisfied() and len(own()) == 1, 30, "the policy to keep the sixth core", state=status)
    api.patch(f"{POLICIES}/counts", {"spec": {"capacityBuffers": "Ignore"}})
    wait_until(lambda: "buffered" not in status() and len(own()) > 3, 30, "it to count no more", state=status)
    api.delete(f"{POLICIES}/counts")
    wait_until(lambda: len(placeholders(api)) == 5, 30, "the policy's placeholders to be gone")


def _size_follows_a_workload(api: Api) -> None:
    """Percentages follow the replicas, up to the limits."""
    api.create(deployment("web", 3, cpu="500m", memory="256Mi"))
    wait_for_running(api, 3, 60)
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    api.create(capacity_buffer("web", scalableRef=reference, percentage=50, limits={"cpu": "2"}))
    wait_for_provisioning(api, "web", FITS)
    assert buffer_status(api, "web")["replicas"] == 2
    assert "podTemplateRef" not in buffer_status(api, "web")
    scale(api, "web", 6)
    _wait_for_size(api, "web", "replicas", 3)
    change_buffer(api, "web", percentage=200)
    _wait_for_size(api, "web", "replicas", 4)


def _a_size_is_learnt(cluster: Backend) -> None:
    """`tune --buffer` reads buffer, workload and pods of the cluster, and names the value that is to be set."""
    program, kubeconfig = str(Path(sys.executable).with_name("resource-slack")), str(cluster.kubeconfig)
    command = [program, "tune", "--buffer", "default/web", "--objective", "0.9", "--kubeconfig", kubeconfig]
    found = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    tuned = json.loads(found.stdout)
    assert (tuned["buffer"], tuned["field"], tuned["pods_now"]) == ("default/web", "percentage", 6)
    assert tuned["chunk"] == {"cpu_millis": 500, "memory_bytes": 256 << 20}
    assert tuned["known"]
    assert tuned["value"] >= 1


def _quota_and_missing_reference(api: Api) -> None:
    """A quota of the buffer's namespace cuts it, pods included; what is not there is said after 10 s."""
    api.create(pod_template("chunk", "shop"))
    api.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few", "namespace": "shop"},
            "spec": {"hard": {"pods": "2"}},
        }
    )
    api.create(capacity_buffer("cut", "shop", podTemplateRef={"name": "chunk"}, replicas=4))
    status = wait_for_provisioning(api, "cut", FITS, namespace="shop")
    limited = next(each for each in status["conditions"] if each["type"] == "LimitedByQuotas")
    assert (status["replicas"], limited["status"]) == (2, "True")
    assert limited["message"] == "limited from 4 to 2 chunks by quotas: few"
    delete_buffer(api, "cut", "shop")
    api.create(capacity_buffer("lost", podTemplateRef={"name": "nowhere"}, replicas=1))
    wait_for_provisioning(api, "lost", "False NotReadyForProvisioning", 40)
    assert buffer_reasons(api, "lost")["ReadyForProvisioning"] == "False PodTemplateNotFound"
    delete_buffer(api, "lost")


@pytest.mark.core
def test_on_full_nodes_the_older_of_two_equal_buffers_fits(cluster: Backend) -> None:
    api = cluster.api
    two_nodes(api)
    install_kind(api)
    api.create(pod_template("chunk"))
    with serving(cluster):
        api.create(capacity_buffer("z-older", podTemplateRef={"name": "chunk"}, replicas=6))
        wait_for_provisioning(api, "z-older", FITS, PROBE_SECONDS)
        api.create(capacity_buffer("a-younger", podTemplateRef={"name": "chunk"}, replicas=10))
        wait_for_provisioning(api, "a-younger", FITS)
        change_buffer(api, "z-older", replicas=10)
        wait_for_provisioning(api, "a-younger", WAITS)
        wait_for_provisioning(api, "z-older", FITS)
        said = next(c["message"] for c in buffer_status(api, "a-younger")["conditions"] if c["type"] == "Provisioning")
        assert said == "6 of 10 chunks fit; 4 wait for a node"
        delete_buffer(api, "z-older")
        wait_for_provisioning(api, "a-younger", FITS)
        delete_buffer(api, "a-younger")
        wait_until(lambda: not buffer_sets(api) and not placeholders(api), 20, "all to be given back")


def test_what_is_deleted_while_nobody_looks_is_taken_away_and_the_kind_may_come_back(cluster: Backend) -> None:
    api = cluster.api
    two_nodes(api)
    install_kind(api)
    api.create(pod_template("chunk"))
    with serving(cluster, serve="Own", name="first"):
        api.create(
            capacity_buffer("ours", provisioningStrategy=OWN_STRATEGY, podTemplateRef={"name": "chunk"}, replicas=2)
        )
        api.create(
            capacity_buffer("gone", provisioningStrategy=OWN_STRATEGY, podTemplateRef={"name": "chunk"}, replicas=1)
        )
        api.create(capacity_buffer("others", podTemplateRef={"name": "chunk"}, replicas=1))
        wait_for_provisioning(api, "ours", FITS, PROBE_SECONDS)
        wait_for_provisioning(api, "gone", FITS)
        assert buffer_status(api, "others") == {}, "upstream's strategy is not ours to serve"
    delete_buffer(api, "gone")
    with serving(cluster, serve="Own", name="second"):
        wait_until(lambda: len(buffer_sets(api)) == 1, 30, "what was left over to be gone")
        assert buffer_reasons(api, "ours")["Provisioning"] == FITS, "a restart turns nothing"
        api.delete(CRD_PATH)
        wait_until(lambda: not buffer_sets(api), 120, "all to be gone with the kind")
        install_kind(api)
        api.create(
            capacity_buffer("new", provisioningStrategy=OWN_STRATEGY, podTemplateRef={"name": "chunk"}, replicas=2)
        )
        wait_for_provisioning(api, "new", FITS, 60 + PROBE_SECONDS)


def test_chunks_leave_with_their_workload_and_come_back_with_it(cluster: Backend) -> None:
    api = cluster.api
    two_nodes(api)
    install_kind(api)
    reference = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    with serving(cluster, serve="Own"):
        api.create(deployment("web", 2, cpu="500m", memory="256Mi"))
        wait_for_running(api, 2, 60)
        api.create(
            capacity_buffer("web", provisioningStrategy=OWN_STRATEGY, scalableRef=reference, percentage=50, replicas=2)
        )
        wait_for_provisioning(api, "web", FITS, PROBE_SECONDS)
        assert len(placeholders(api)) == 2
        api.delete("/apis/apps/v1/namespaces/default/deployments/web")
        wait_for_provisioning(api, "web", "False NotReadyForProvisioning", 40)
        assert buffer_reasons(api, "web")["ReadyForProvisioning"] == "False ScalableRefNotFound"
        wait_until(lambda: not buffer_sets(api) and not placeholders(api), 30, "nothing to be held for what is gone")
        api.create(deployment("web", 8, cpu="500m", memory="256Mi"))
        _wait_for_size(api, "web", "replicas", 4)
        wait_for_provisioning(api, "web", FITS)
        assert len(placeholders(api)) == 4


@pytest.mark.autoscaler
def test_a_buffer_beside_the_stock_cluster_autoscaler_is_filled_used_refilled_and_given_back(
    cluster: Backend, cluster_autoscaler_binary: Path
) -> None:
    """Without its flags; in between the sequence by which Kueue uses a buffer: create, wait, admit, delete, bind."""
    api = cluster.api
    install_kind(api)
    api.create(pod_template("chunk", cpu="3"))
    group = NodeGroup("general", max_count=6, boot_seconds=2)
    with ClusterAutoscaler(cluster, [group]), serving(cluster):
        api.create(capacity_buffer("cb", podTemplateRef={"name": "chunk"}, replicas=2))
        wait_for_provisioning(api, "cb", FITS, 60 + PROBE_SECONDS)
        assert len(nodes(api)) == 2
        seconds = binding_seconds(
            api, lambda: api.create(deployment("burst", 2, cpu="3", memory="1Gi")), 2, 20, "burst"
        )
        assert seconds[-1] < 2.0, "what is held free is free"
        wait_for_provisioning(api, "cb", WAITS, 20)
        wait_for_provisioning(api, "cb", FITS, 60)
        assert len(nodes(api)) == 4
        api.create(capacity_buffer("job", podTemplateRef={"name": "chunk"}, replicas=1))
        wait_for_provisioning(api, "job", FITS, 60)
        delete_buffer(api, "job")
        api.create(deployment("job", 1, cpu="3", memory="1Gi"))
        wait_for_running(api, 3, 20)
        api.delete("/apis/apps/v1/namespaces/default/deployments/burst")
        delete_buffer(api, "cb")
        wait_until(lambda: not buffer_sets(api), 20, "the ReplicaSets to be gone")
        wait_until(lambda: len(nodes(api)) == 1, 120, "the nodes of the buffer to be given back")


@pytest.mark.autoscaler
def test_flags_that_are_switched_on_later_double_nothing(cluster: Backend, cluster_autoscaler_binary: Path) -> None:
    api = cluster.api
    install_kind(api)
    api.create(pod_template("chunk", cpu="3"))
    group = NodeGroup("general", max_count=6, boot_seconds=2)
    flags = ["--capacity-buffer-controller-enabled=true", "--capacity-buffer-pod-injection-enabled=true"]
    with serving(cluster):
        with ClusterAutoscaler(cluster, [group]):
            api.create(capacity_buffer("cb", podTemplateRef={"name": "chunk"}, replicas=2))
            wait_for_provisioning(api, "cb", FITS, 60 + PROBE_SECONDS)
        with ClusterAutoscaler(cluster, [group], flags):
            served = wait_until(lambda: _the_one_server(api), 60 + PROBE_SECONDS, "one server to hold the chunks")
            # Its first loop may see its own chunks beside ours, which leave a moment later.
            wait_until(lambda: len(nodes(api)) == 2, 120, "no chunk to have a second node")
            assert wait_until(lambda: _the_one_server(api), 20, "one server to hold them still") == served


@pytest.mark.autoscaler
def test_karpenter_serves_with_its_gate_and_we_do_without(cluster: Backend) -> None:
    """The CRD is there in both cases, as Karpenter's chart brings it."""
    api = cluster.api
    install_kind(api)
    api.create(pod_template("chunk", cpu="3"))
    pinned = pod_template("pinned", cpu="1")
    pinned["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "one"}
    api.create(pinned)
    with Karpenter(cluster) as karpenter, serving(cluster, name="without"):
        karpenter.add_pool("default")
        api.create(capacity_buffer("cb", podTemplateRef={"name": "chunk"}, replicas=2))
        wait_for_provisioning(api, "cb", FITS, 60 + PROBE_SECONDS)
        assert nodes(api), "Karpenter has made a node for the chunks"
        api.create(capacity_buffer("pinned", podTemplateRef={"name": "pinned"}, replicas=1))
        wait_for_provisioning(api, "pinned", "False NotReadyForProvisioning")
        ready = next(c for c in buffer_status(api, "pinned")["conditions"] if c["type"] == "ReadyForProvisioning")
        assert "requires kubernetes.io/hostname" in ready["message"]
        delete_buffer(api, "pinned")
    with (
        Karpenter(cluster, flags=["--feature-gates=CapacityBuffer=true"]),
        serving(cluster, name="with") as operator,
    ):
        wait_until(
            lambda: operator.metric("slack_capacity_buffer_server", server="Karpenter") == 1,
            60,
            "the probe to find Karpenter",
            state=lambda: buffer_status(api, "cb"),
        )
        wait_until(lambda: not buffer_sets(api), 30, "our placeholders to be gone")
        wait_until(
            lambda: buffer_status(api, "cb").get("provisioningStrategy") == "buffer.x-k8s.io/active-capacity",
            60,
            "Karpenter to serve the buffer",
            state=lambda: buffer_status(api, "cb"),
        )
        wait_for_provisioning(api, "cb", FITS, 90)


def _the_one_server(api: Api) -> str:
    """Name who holds the chunks of `cb`; '' while nobody does, or while it is about to change.

    Cluster Autoscaler writes the status when it starts. If our own write comes later in the same second, it stays ours.
    """
    strategy, reasons = buffer_status(api, "cb").get("provisioningStrategy"), buffer_reasons(api, "cb")
    if strategy == OWN_STRATEGY:
        return "resource-slack" if buffer_sets(api) and reasons.get("Provisioning") == FITS else ""
    return "" if buffer_sets(api) or reasons.get("Provisioning") != "True FakePodsInjected" else "Cluster Autoscaler"
