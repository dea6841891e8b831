"""What happens to slack when Docker is restarted under all nodes, and when a node's disk is full; the operator goes on.

The operator is the chart's, in the cluster. Real pods stay on one worker, so that the other's placeholders are what a
fault is about.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import yaml

from e2e.harness.api import Api, ApiError, Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.objects import condition, deployment, pods, scale, wait_for_running, wait_until
from e2e.harness.product.operator import (
    NAMESPACE,
    PLACEHOLDERS,
    placeholders,
    replica_sets,
    status,
    wait_until_placed,
)
from e2e.kind import workers

BASE, MORE, OPERATORS = 8, 4, 2
"""Real pods of 100m each, how many come after a fault, and the operator's own: slack is half of all that."""
POLICIES: Json = {"policies": {"default": {"hold": "Bound", "extraCapacity": {"minRate": 0.5}}}}
"""Bound: faults of nodes are about placeholders that are on them."""
REPLICASET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
GIB = 1 << 30
DROP_IN = "/etc/kubernetes/kubelet.conf.d/20-disk.conf"
FILL = "/var/e2e-full"
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def slack(cluster: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    """The cluster with an operator, a load on the first worker, and its slack."""
    first, _ = workers.names(cluster)
    selector = {"kubernetes.io/hostname": first}
    cluster.api.create(deployment("base", BASE, cpu="100m", memory="16Mi", nodeSelector=selector))
    wait_for_running(cluster.api, BASE, 120, labelSelector="app=base")
    with workers.Release(cluster, tmp_path_factory.mktemp("helm"), POLICIES):
        wait_until_placed(cluster.api, "default", 120)
        yield cluster


def uids(api: Api) -> set[str]:
    """The placeholders that are there."""
    return {pod["metadata"]["uid"] for pod in placeholders(api)}


def kept(api: Api) -> dict[str, int]:
    """How many placeholders each ReplicaSet is to have."""
    return {found["metadata"]["name"]: found["spec"]["replicas"] for found in replica_sets(api)}


def made(cluster: Kind, since: int) -> int:
    """How many placeholders the ReplicaSet controller has made."""
    entries = cluster.audit_entries(user=REPLICASET_CONTROLLER, verbs={"create"}, since=since)
    return sum(entry.resource == "pods" and entry.namespace == NAMESPACE and entry.code == 201 for entry in entries)


def unreachable(api: Api) -> list[str]:
    """The operator's pods that the API server cannot speak to, with the node of each."""
    found = pods(api, NAMESPACE, labelSelector="app.kubernetes.io/component=operator")
    return [f"{pod['metadata']['name']} on {pod['spec']['nodeName']}" for pod in found if not answers(api, pod)]


def answers(api: Api, pod: Json) -> bool:
    """Whether a pod of the operator does."""
    try:
        api.text(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:8080/proxy/healthz")
    except ApiError:
        return False
    return True


def assert_that_it_goes_on(api: Api) -> None:
    """More load, and slack follows; less, and so it does."""
    for count in (BASE + MORE, BASE):
        scale(api, "base", count)
        wait_for_running(api, count, 120, labelSelector="app=base")
        wanted = f"{(count + OPERATORS) * 100 // 2}m"

        def follows(wanted: str = wanted) -> bool:
            return bool(status(api, "default")["desired"]["cpu"] == wanted)

        wait_until(follows, 60, f"slack of {wanted}", state=lambda: status(api, "default"))
        wait_until_placed(api, "default", 120)


def test_docker_is_restarted_and_no_placeholder_is_made_in_vain(slack: Kind) -> None:
    api, daemon = slack.api, slack.docker.daemon
    if daemon is None:
        pytest.skip("a user's Docker runs here, and whatever else is in it would be restarted too")
    before, sets, mark = uids(api), kept(api), slack.audit_mark()
    began = time.monotonic()
    daemon.restart()
    print(f"\nDocker answers again after {time.monotonic() - began:.1f} s")
    wait_until(lambda: api.get("/readyz") is not None, 120, "the API server")
    for name in workers.names(slack):
        wait_until(partial(workers.ready, api, name), 120, f"{name} to be ready")
    print(f"the nodes are ready {time.monotonic() - began:.1f} s after it was told to stop")
    wait_for_running(api, BASE, 120, labelSelector="app=base")
    wait_for_running(api, OPERATORS, 120, NAMESPACE, labelSelector="app.kubernetes.io/component=operator")
    wait_until_placed(api, "default", 120)
    wait_until(lambda: kept(api) == sets, 60, "the ReplicaSets as they were", state=lambda: kept(api))
    print(f"slack is whole {time.monotonic() - began:.1f} s after it")
    after = uids(api)
    print(f"{len(before & after)} of {len(before)} placeholders are the same pods")
    assert len(after) == len(before)
    assert made(slack, mark) == len(after - before), "whatever was made stands"
    wait_until(lambda: not unreachable(api), 60, "the operators to be reached", state=lambda: unreachable(api))
    assert_that_it_goes_on(api)


@contextmanager
def full_disk(cluster: Kind, node: str) -> Iterator[None]:
    """Fill the disk up to where this node's kubelet evicts, which kind has it never do; images are kept.

    The disk is the machine's, so the limit is one GiB below what is free of it, and what fills it two.
    """

    def run(*command: str) -> str:
        return cluster.docker.run("exec", node, *command)

    free = int(run("df", "--block-size=1", "--output=avail", "/var").split()[-1])
    limits = {"nodefs.available": str(free - GIB), "imagefs.available": "0%", "nodefs.inodesFree": "0%"}
    written = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "evictionHard": limits,
        "evictionPressureTransitionPeriod": "5s",
        "imageMinimumGCAge": "24h",
    }
    cluster.docker.run("exec", "--interactive", node, "sh", "-c", f"cat > {DROP_IN}", stdin=yaml.dump(written).encode())
    run("systemctl", "restart", "kubelet")
    try:
        wait_until(lambda: workers.ready(cluster.api, node), 60, "the kubelet")
        run("fallocate", f"--length={2 * GIB}", FILL)
        yield
        run("rm", FILL)
        wait_until(lambda: not pressed(cluster.api, node), 120, "the pressure to end")
    finally:
        run("rm", "--force", FILL, DROP_IN)
        run("systemctl", "restart", "kubelet")


def pressed(api: Api, node: str) -> bool:
    """Whether a node is short of disk, and tainted for it."""
    found = api.get(f"/api/v1/nodes/{node}")
    taints = {taint["key"] for taint in found["spec"].get("taints") or ()}
    return condition(found, "DiskPressure") == "True" or "node.kubernetes.io/disk-pressure" in taints


def on(api: Api, node: str) -> list[Json]:
    """The placeholders of a node that hold room there."""
    return [pod for pod in placeholders(api, bound=True) if pod["spec"]["nodeName"] == node]


def test_a_full_disk_moves_placeholders_to_the_other_node_and_they_may_come_back(slack: Kind) -> None:
    api = slack.api
    _, second = workers.names(slack)
    victims, sets = on(api, second), kept(api)
    assert victims, "slack goes where there is more room"
    with full_disk(slack, second):
        began = time.monotonic()
        wait_until(lambda: pressed(api, second), 120, "the disk to be full")
        wait_until(lambda: not on(api, second), 180, "placeholders to be evicted", state=lambda: len(on(api, second)))
        wait_until_placed(api, "default", 120)
        took = time.monotonic() - began
        print(f"\n{len(victims)} placeholders evicted, slack is whole elsewhere {took:.1f} s after the disk was filled")
        assert kept(api) == sets, "neither more nor less is kept"
        events = api.items(f"/api/v1/namespaces/{NAMESPACE}/events", fieldSelector="reason=Evicted")
        names = {event["involvedObject"]["name"] for event in events}
        assert names == {pod["metadata"]["name"] for pod in victims}, "each by the kubelet, once"
        ended = [
            pod["metadata"]["name"]
            for pod in pods(api, NAMESPACE, labelSelector=PLACEHOLDERS)
            if pod["status"]["phase"] in ("Succeeded", "Failed")
        ]
        assert not ended, "nothing is left of those that were evicted"
    late = deployment("late", MORE, cpu="100m", memory="16Mi", nodeSelector={"kubernetes.io/hostname": second})
    api.create(late)
    wait_for_running(api, MORE, 120, labelSelector="app=late")
    api.delete("/apis/apps/v1/namespaces/default/deployments/late")
    wait_until(lambda: not pods(api, "default", labelSelector="app=late"), 60, "them to be gone")
    assert_that_it_goes_on(api)
