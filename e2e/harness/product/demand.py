"""The controller of demand under test, on this machine, with the rights that the chart gives it, and a real broker."""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from e2e.harness.api import Api, Json
from e2e.harness.brokers.servers import NatsServer
from e2e.harness.cluster import access
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import make_namespace
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.helm import NAMESPACE, Helm
from e2e.harness.product.throttler import page
from slack.cluster.labels import API_VERSION
from slack.demand.crd import pool_crd, quota_crd

ACCOUNT = "resource-slack-demand"
PROGRAM = str(Path(sys.executable).with_name("resource-slack"))
MEDIA = "media"


def rights(folder: Path) -> list[Json]:
    """Return the chart's Roles of the controller, for pools in one namespace, and the lease that it makes for it."""
    manifests = Helm(folder).template(
        "--set=operator.enabled=false,uninstall.enabled=false,demand.enabled=true",
        f"--set=demand.broker.url=nats://nats:4222,demand.namespaces={{{MEDIA}}}",
    )
    return [
        item for item in manifests if item["kind"] in ("Role", "Lease") and item["metadata"]["name"].startswith(ACCOUNT)
    ]


def install(cluster: Backend) -> access.Access:
    """Apply the CRDs, and give the controller's account the chart's rights: a Role in each namespace and no more."""
    for crd in (pool_crd(), quota_crd()):
        cluster.api.apply(crd)
    for namespace in (NAMESPACE, MEDIA):
        make_namespace(cluster.api, namespace)
    identity = cluster.service_account(NAMESPACE, ACCOUNT)
    manifests = rights(cluster.run_folder / "demand-chart")
    access.grant_manifests(cluster.api, identity, manifests, NAMESPACE)
    for lease in manifests:
        if lease["kind"] == "Lease":
            cluster.api.apply(lease)
    return identity


def pool(name: str, memory: str = "64Mi", **spec: object) -> Json:
    """Return an ActivationPool whose containers do nothing."""
    container = {
        "name": "action",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "10m", "memory": memory}},
    }
    timing = {"idleTimeout": "2s", "creationTimeout": "60s"}
    return {
        "apiVersion": API_VERSION,
        "kind": "ActivationPool",
        "metadata": {"name": name, "namespace": MEDIA},
        "spec": {"template": {"spec": {"containers": [container]}}, "timing": timing} | spec,
    }


def quota(containers: int, **spec: object) -> Json:
    """Return the namespace's ActivationQuota."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ActivationQuota",
        "metadata": {"name": "all", "namespace": MEDIA},
        "spec": {"maxContainers": containers} | spec,
    }


class DemandController:
    """One replica."""

    def __init__(
        self, cluster: Backend, identity: access.Access, broker: NatsServer, name: str = "demand", *flags: str
    ) -> None:
        self.health_port, self.throttle_port = free_port(), free_port()
        words = [
            f"--broker-url={broker.url}",
            "--proxy-image=proxy:1",
            f"--namespaces={MEDIA}",
            f"--namespace={NAMESPACE}",
            f"--listen={LOOPBACK}:{self.health_port}",
            f"--throttle-listen={LOOPBACK}:{self.throttle_port}",
            f"--kubeconfig={identity.kubeconfig}",
            *flags,
        ]
        self.program = Program(name, [PROGRAM, "demand", "controller", *words], cluster.run_folder)

    def start(self) -> Self:
        """Start it, and wait until it is ready."""
        self.program.start().wait_until_ready(lambda: page(self.health_port, "/readyz")[0] == 200, 60)
        return self

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric's value, summed over what the labels leave open."""
        total = 0.0
        for line in page(self.health_port, "/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{key}="{text}"' in series for key, text in labels.items()):
                total += float(value)
        return total

    def ask(self, action: str, namespace: str = MEDIA) -> tuple[int, Json]:
        """Ask whether new messages are taken."""
        return self._call("GET", f"/v1/throttle/{namespace}/{action}", None)

    def post(self, action: str, body: bytes, namespace: str = MEDIA) -> tuple[int, Json]:
        """Send a message."""
        return self._call("POST", f"/v1/activations/{namespace}/{action}", body)

    def _call(self, method: str, path: str, body: bytes | None) -> tuple[int, Json]:
        url = f"http://{LOOPBACK}:{self.throttle_port}{path}"
        request = urllib.request.Request(url, data=body, method=method)  # loopback only
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.program.running:
            self.program.stop()


def status(api: Api, name: str) -> Json:
    """Return a pool's status; empty where it has none."""
    found = api.find(f"/apis/{API_VERSION}/namespaces/{MEDIA}/activationpools/{name}")
    return {} if found is None else found.get("status") or {}


def condition(found: Json, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition."""
    for entry in found.get("conditions", ()):
        if entry["type"] == kind:
            return entry["status"], entry["reason"], entry["message"]
    return "", "", ""
