"""The throttler's injection under test: the chart's webhook with a controller on this machine, or the chart's policy.

A control plane here has no Services: the chart's webhook is applied with the controller's own address in it.
"""

import base64
import math
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from e2e.harness.api import Api, Json
from e2e.harness.cluster import access, kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.objects import make_namespace, pod, wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.helm import NAMESPACE, Helm
from slack.throttler.protocol import AUDIENCE

NAME = "resource-slack-throttler"
AGENT_ACCOUNT, VIEWER_ACCOUNT = f"{NAME}-agent", f"{NAME}-viewer"
NODE = "paced"
AGENT_NAME = f"agent.{NAME}.{NAMESPACE}"
PROGRAM = str(Path(sys.executable).with_name("resource-slack"))
ENABLED = "throttler.resource-slack.io/enabled"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def rendered(folder: Path, authority: Authority, *flags: str) -> list[Json]:
    """Return the chart's manifests with the throttler on, whose agents' certificate this authority signs."""
    pem = authority.certificate_path
    return Helm(folder).template(
        "--kube-version=1.36",
        "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
        "--set=operator.enabled=false,uninstall.enabled=false,throttler.enabled=true",
        "--set=throttler.tls.secretName=cert,throttler.tls.agentSecretName=agent-cert",
        f"--set-file=throttler.tls.authority={pem},throttler.tls.agentAuthority={pem}",
        *flags,
    )


def of_kind(manifests: Sequence[Json], kind: str) -> Json:
    """Return the only manifest of a kind."""
    (found,) = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


def apply_policies(api: Api, manifests: Sequence[Json]) -> list[Json]:
    """Apply the chart's admission policies, each before its binding; returns them."""
    found = [manifest for manifest in manifests if manifest["kind"].startswith("MutatingAdmissionPolicy")]
    for manifest in sorted(found, key=lambda manifest: str(manifest["kind"])):
        api.apply(manifest)
    return found


class Controller:
    """A controller with the chart's arguments and rights, at this machine's address.

    Usage:

        with Controller(cluster, manifests, authority) as controller:
            controller.register(manifests)
    """

    def __init__(self, cluster: Backend, manifests: Sequence[Json], authority: Authority) -> None:
        make_namespace(cluster.api, NAMESPACE)
        own = (NAME, f"{NAME}-events", f"{NAME}-permits", f"{NAME}-evictions")
        roles = [item for item in manifests if item["metadata"]["name"] in own and item["kind"].endswith("Role")]
        self.roles = roles
        self.identity = cluster.service_account(NAMESPACE, NAME)
        access.grant_manifests(cluster.api, self.identity, roles, NAMESPACE)
        self.port, self.health_port, self.reports_port = free_port(), free_port(), free_port()
        self._api = cluster.api
        self._authority = authority
        pair = authority.issue("controller", hosts=[LOOPBACK])
        (container,) = of_kind(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
        places = {
            "--listen": f"{LOOPBACK}:{self.health_port}",
            "--webhook-listen": f"{LOOPBACK}:{self.port}",
            "--reports-listen": f"{LOOPBACK}:{self.reports_port}",
            "--tls-cert-file": pair.certificate,
            "--tls-key-file": pair.key,
            "--agent-ca-file": authority.certificate_path,
        }
        words = [flag for flag in container["args"] if flag.partition("=")[0] not in places]
        words += [f"{flag}={value}" for flag, value in places.items()]
        words += [f"--namespace={NAMESPACE}", f"--kubeconfig={self.identity.kubeconfig}"]
        self.program = Program("throttler-controller", [PROGRAM, *words], cluster.run_folder)

    def page(self, path: str) -> tuple[int, str]:
        """Ask what probes and Prometheus ask; (0, "") while nobody answers."""
        return page(self.health_port, path)

    def register(self, manifests: Sequence[Json], namespace: str) -> None:
        """Apply the chart's webhook, and wait until the API server asks about pods of a labelled namespace."""
        self.apply(manifests)
        wait_until_injected(self._api, namespace)

    def apply(self, manifests: Sequence[Json]) -> None:
        """Apply the chart's webhook with this controller's address."""
        configuration = of_kind(manifests, "MutatingWebhookConfiguration")
        bundle = base64.b64encode(self._authority.certificate_path.read_bytes()).decode()
        config = {"url": f"https://{LOOPBACK}:{self.port}/mutate", "caBundle": bundle}
        webhooks = [webhook | {"clientConfig": config} for webhook in configuration["webhooks"]]
        self._api.apply(configuration | {"webhooks": webhooks})

    def __enter__(self) -> Self:
        self.program.start().wait_until_ready(lambda: self.page("/readyz")[0] == 200, 60)
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.running:
            self.program.stop()


class Agent:
    """An agent with the chart's arguments and rights, on this machine, for a node that is made for it.

    Usage:

        with Agent(cluster, manifests, authority, folder) as agent:
            ConnectedLink(LOOPBACK, agent.port, AGENT_NAME, pem, token_file)
    """

    def __init__(
        self,
        cluster: Backend,
        manifests: Sequence[Json],
        authority: Authority,
        folder: Path,
        controller: Controller | None = None,
        node: str = "",
    ) -> None:
        """Nothing runs yet; without a node, whose name is its address, one of kwok's is made."""
        make_namespace(cluster.api, NAMESPACE)
        if not node:
            cluster.api.create(kwok.node(NODE))
        self.journal = folder / "state" / "grants"
        name = AGENT_ACCOUNT
        self.roles = [item for item in manifests if item["metadata"]["name"] == name and item["kind"].endswith("Role")]
        self.identity = cluster.service_account(NAMESPACE, name)
        access.grant_manifests(cluster.api, self.identity, self.roles, NAMESPACE)
        self.port, self.health_port = free_port(), free_port()
        pair = authority.issue("agent", hosts=[AGENT_NAME])
        (container,) = of_kind(manifests, "DaemonSet")["spec"]["template"]["spec"]["containers"]
        places = {
            "--proc": "/proc",
            "--listen": f"{LOOPBACK}:{self.health_port}",
            "--gates-listen": f"{node or LOOPBACK}:{self.port}",
            "--tls-cert-file": pair.certificate,
            "--tls-key-file": pair.key,
            "--ca-file": authority.certificate_path,
            "--node": node or NODE,
            "--state-dir": folder / "state",
            "--kubeconfig": self.identity.kubeconfig,
        }
        if controller is not None:
            token = folder / "token-of-the-agent"
            token.write_text(token_of(cluster.api, agent_pod(cluster.api, node or NODE)))
            places |= {
                "--controller": f"https://{LOOPBACK}:{controller.reports_port}",
                "--controller-ca-file": authority.certificate_path,
                "--token-file": token,
            }
        words = [flag for flag in container["args"] if flag.partition("=")[0] not in places]
        self.program = Program(name, [PROGRAM, *words, *(f"{flag}={value}" for flag, value in places.items())], folder)

    def start(self) -> Self:
        """Start it, and wait until it has followed pods and policies."""
        self.program.start().wait_until_ready(lambda: page(self.health_port, "/readyz")[0] == 200, 60)
        return self

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels; NaN while nobody answers."""
        lines = page(self.health_port, "/metrics")[1].splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), math.nan)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.program.stop()


def agent_pod(api: Api, node: str) -> Json:
    """Make the pod that an agent of this node would be."""
    return api.create(pod(f"agent-{node}", namespace=NAMESPACE, nodeName=node, serviceAccountName=AGENT_ACCOUNT))


def token_of(api: Api, bound_to: Json | None = None, *, account: str = AGENT_ACCOUNT, audience: str = AUDIENCE) -> str:
    """Return a service account's token, bound to a pod or to nothing."""
    spec: Json = {"audiences": [audience], "expirationSeconds": 3600}
    if bound_to is not None:
        metadata = bound_to["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec["boundObjectRef"] = bound
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", request)
    token: str = answer["status"]["token"]
    return token


def page(port: int, path: str) -> tuple[int, str]:
    """Ask what probes and Prometheus ask; (0, "") while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def admitted(api: Api, manifest: Json) -> Json:
    """Return a pod as the API server would make it; nothing is made."""
    path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods?dryRun=All"
    return api.request("POST", path, manifest)


def is_injected(found: Json) -> bool:
    """Whether each container of a pod waits for a permit."""
    return all(
        any(entry["name"] == "RESOURCE_SLACK_START_PERMIT" for entry in container.get("env", ()))
        for container in found["spec"]["containers"]
    )


def wait_until_injected(api: Api, namespace: str) -> None:
    """Wait until the API server knows what to do with the pods of a namespace."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    probe = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"containers": [container]},
    }
    wait_until(lambda: is_injected(admitted(api, probe)), 30, "pods to be gated", lambda: admitted(api, probe)["spec"])


def enable(api: Api, namespace: str) -> None:
    """Make a namespace, with the label."""
    make_namespace(api, namespace)
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {ENABLED: "true"}}})
