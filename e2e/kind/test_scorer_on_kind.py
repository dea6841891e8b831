"""Load-aware scores on real kubelets: metrics-server, the load watcher, and a stock scheduler that asks the scorer.

metrics-server's image is made here, of the program that the suites build. What a kubelet tells of its node is what the
node's container uses, so that one worker can be busy and the other idle on the same machine.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import build
from e2e.harness.api import Api, Json
from e2e.harness.cluster.kind import Kind
from e2e.harness.node import images
from e2e.harness.node.real_node import burning_pod
from e2e.harness.objects import deployment, pods, wait_for_running, wait_until
from e2e.harness.product.helm import NAMESPACE
from e2e.kind import workers

PODS = 6
APART = 15.0
"""Percent of a node's CPU between the busy worker and the idle one."""
WITHOUT_SPREAD: Json = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/os",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "by-load"}},
        }
    ]
}
"""Both workers are one domain: it takes the place of the scheduler's own spread over nodes, which weighs as much as a
difference of 40 % of CPU. On a busy machine the workers are less apart."""
METRICS_IMAGE = "resource-slack.test/metrics-server:1"
SYSTEM = "kube-system"
REGISTERED = "/apis/apiregistration.k8s.io/v1/apiservices"
REFRESH_SECONDS = 5
VALUES: Json = {
    "operator": {"enabled": False},
    "uninstall": {"enabled": False},
    "scorer": {
        "enabled": True,
        "algorithms": [{"name": "LoadVariationRiskBalancing"}],
        "scale": 100,
        "refresh": f"{REFRESH_SECONDS}s",
    },
    "loadWatcher": {"enabled": True, "interval": "20s", "sampleInterval": "10s"},
}
TOLD = f"/api/v1/namespaces/{NAMESPACE}/services/resource-slack-load:2020/proxy/watcher"
pytestmark = pytest.mark.timeout(1500)


def metrics_server() -> list[Json]:
    """metrics-server as its own manifests have it, but for the right to do all and the kubelets' certificates."""
    labels, name = {"app": "metrics-server"}, {"name": "metrics-server"}
    here = name | {"namespace": SYSTEM}
    account = {"kind": "ServiceAccount", **here}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    flags = ["--secure-port=10250", "--cert-dir=/tmp", "--kubelet-insecure-tls", "--metric-resolution=10s"]
    flags += ["--kubelet-request-timeout=5s", "--kubelet-preferred-address-types=InternalIP"]
    container = {"name": "main", "image": METRICS_IMAGE, "imagePullPolicy": "Never", "args": flags}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": here["name"], "containers": [container]}}
    service = {"group": "metrics.k8s.io", "version": "v1beta1", "service": here, "insecureSkipTLSVerify": True}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": here,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": here,
            "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 10250}]},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": service | {"groupPriorityMinimum": 100, "versionPriority": 100},
        },
    ]


@pytest.fixture(scope="module")
def measured(cluster: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    """The cluster with a metrics-server."""
    binary, folder = build.ensure(["metrics-server"])["metrics-server"], tmp_path_factory.mktemp("metrics")
    files, archive = {"metrics-server": binary}, folder / "metrics-server.tar"
    workers.bring(cluster, images.archive(archive, METRICS_IMAGE, [], files=files, Entrypoint=["/metrics-server"]))
    made = metrics_server()
    for manifest in made:
        cluster.api.apply(manifest)
    yield cluster
    for manifest in reversed(made):  # a group that nobody serves is in the way of whoever deletes a namespace
        cluster.api.delete(cluster.api.path_of(manifest))


def means(api: Api) -> dict[str, float]:
    """How much of its CPU each node uses, as the load watcher tells the scorer."""
    found = json.loads(api.text(TOLD))["data"]
    return {
        node: metric["value"]
        for node, told in found.items()
        for metric in told["metrics"]
        if (metric["type"], metric["rollup"]) == ("cpu", "AVG")
    }


def where(api: Api, name: str, **spec: Any) -> set[str]:
    """Place pods, and return the nodes that they are on."""
    api.create(deployment(name, PODS, cpu="10m", memory="8Mi", **spec))
    wait_for_running(api, PODS, 120, labelSelector=f"app={name}")
    return {pod["spec"]["nodeName"] for pod in pods(api, "default", labelSelector=f"app={name}")}


def test_pods_of_the_second_scheduler_go_where_the_load_is_low(measured: Kind, tmp_path: Path) -> None:
    api, (busy, idle) = measured.api, workers.names(measured)
    api.create(burning_pod("busy", 2, nodeSelector={"kubernetes.io/hostname": busy}))
    with workers.Release(measured, tmp_path, VALUES):

        def told() -> bool:
            found = means(api)
            return found.get(busy, 0.0) - found.get(idle, 100.0) > APART

        wait_until(told, 180, "the load to be told", state=lambda: means(api), every=1.0)
        time.sleep(2 * REFRESH_SECONDS)
        print("\nCPU in use:", {node: f"{percent:.0f} %" for node, percent in means(api).items()})
        assert busy in where(api, "by-requests"), "the scheduler of the cluster does not know"
        assert where(api, "by-load", schedulerName="resource-slack", **WITHOUT_SPREAD) == {idle}
