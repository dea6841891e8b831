"""The CPU auditor's controller under test: a process with exactly its rights, its policies and their status."""

import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import urllib3

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import access
from e2e.harness.cluster.backend import Backend
from e2e.harness.cluster.certificates import Authority
from e2e.harness.machine_speed import time_scale
from e2e.harness.objects import make_namespace, wait_until
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.leases import renewed_at
from e2e.harness.product.operator import CRDS, NAMESPACE
from slack.audit.api.encoding import decode_answer, encode
from slack.audit.api.messages import REPORTS_PATH, AgentReport, ControllerAnswer
from slack.process.reporting.packing import pack, unpack
from slack_operator.auditor.controller.limit_record import RECORD_NAME

ACCOUNT = "resource-slack-audit"
AGENT_ACCOUNT = "resource-slack-audit-agent"
POLICIES = "/apis/resource-slack.io/v1alpha1/cpuauditpolicies"
REPORTS = "/apis/resource-slack.io/v1alpha1/cpuauditreports"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_GROUP = "resource-slack.io"


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def rights(*, enforcement: bool) -> list[Json]:
    """Return the controller's roles: what it needs, and nothing else."""
    rules = [
        _rule(_GROUP, ["cpuauditpolicies"], ["list", "watch"]),
        _rule(_GROUP, ["cpuauditpolicies/status"], ["patch"]),
        _rule(_GROUP, ["cpuauditreports"], ["list", "watch", "create", "patch", "delete"]),
        _rule("", ["pods", "nodes", "namespaces"], ["list", "watch"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    ]
    own_rules = [_rule("coordination.k8s.io", ["leases"], ["get", "create", "update"])]
    if enforcement:
        rules.append(_rule("", ["pods/resize"], ["patch"]))
        record = _rule("", ["configmaps"], ["get", "patch"]) | {"resourceNames": [RECORD_NAME]}
        own_rules += [_rule("", ["configmaps"], ["create"]), record]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}}
    own = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        "rules": own_rules,
    }
    return [role | {"rules": rules}, own]


def install(cluster: Backend, *, enforcement: bool = True) -> access.Access:
    """Install the CRDs, the namespace, both service accounts and the controller's roles; return its identity."""
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": AGENT_ACCOUNT, "namespace": NAMESPACE},
    }
    cluster.api.apply(account)
    identity = cluster.service_account(NAMESPACE, ACCOUNT)
    access.grant_manifests(cluster.api, identity, rights(enforcement=enforcement), NAMESPACE)
    return identity


class Controller:
    """One controller process.

    Usage:

        with Controller(cluster, identity) as controller:
            controller.wait_until_ready()
    """

    def __init__(
        self,
        cluster: Backend,
        identity: access.Access,
        *flags: str,
        name: str = "audit-controller",
        authority: Authority | None = None,
    ) -> None:
        """One process, not started yet; without an authority for its certificate it takes reports in clear."""
        self.port, self.reports_port = free_port(), free_port()
        self._tls: ssl.SSLContext | None = None
        files: list[str] = []
        self.authority = authority
        if authority is not None:
            pair = authority.issue(name, hosts=[LOOPBACK])
            self._tls = ssl.create_default_context(cafile=str(authority.certificate_path))
            files = [f"--tls-cert-file={pair.certificate}", f"--tls-key-file={pair.key}"]
        self.url = f"{'https' if self._tls else 'http'}://{LOOPBACK}:{self.reports_port}"
        command = [
            str(Path(sys.executable).with_name("resource-slack")),
            "audit",
            "controller",
            f"--kubeconfig={identity.kubeconfig}",
            f"--namespace={NAMESPACE}",
            f"--listen={LOOPBACK}:{self.port}",
            f"--reports-listen={LOOPBACK}:{self.reports_port}",
            "--interval=1s",
            *files,
            *flags,
        ]
        self.program = Program(name, command, cluster.run_folder, {"COVERAGE_PROCESS_START": ""})
        self._http = urllib3.PoolManager(timeout=2.0, retries=False)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of one of its pages; (0, '') while nobody answers."""
        try:
            answer = self._http.request("GET", f"http://{LOOPBACK}:{self.port}{path}")
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            metric, _, rest = head.partition("{")
            if metric == name and all(f'{key}="{text}"' in rest for key, text in labels.items()):
                total += float(value)
        return total

    def turns(self) -> float:
        """Return how many turns it has made."""
        return self.metric("slack_audit_turns_total")

    def wait_until_ready(self, seconds: float = 30.0) -> None:
        """Wait until it leads and takes reports."""
        self.program.wait_until_ready(lambda: self.get("/readyz")[0] == 200, seconds)

    def outlive_the_api_server(self, api: Api, seconds: float = 90.0) -> None:
        """Wait until it leads and takes reports again, after the API server was away.

        Where that took longer than its lease lasts it ends, maybe after the API server answers, and is started again,
        as a kubelet would.
        """
        renewed = renewed_at(api, "resource-slack-audit")
        again = f"{self.program.name} to renew its lease or to end"
        wait_until(
            lambda: renewed_at(api, "resource-slack-audit") != renewed or not self.program.running, seconds, again
        )
        self.program.keep_up_until(lambda: self.get("/readyz")[0] == 200, seconds)

    def post(self, body: bytes, *, token: str = "", encoding: str = "") -> tuple[int, bytes]:
        """Post a body as a report, whatever it is; returns status and answer."""
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Content-Encoding": encoding} if encoding else {}
        address = LOOPBACK, self.reports_port
        connection = (
            http.client.HTTPConnection(*address, timeout=30)
            if self._tls is None
            else http.client.HTTPSConnection(*address, timeout=30, context=self._tls)
        )
        try:
            connection.request("POST", REPORTS_PATH, body, headers)
            response = connection.getresponse()
            return response.status, unpack(response.read(), response.headers.get("Content-Encoding", ""), 1 << 24)
        finally:
            connection.close()

    def report(self, report: AgentReport, token: str) -> ControllerAnswer:
        """Send a report as an agent does: again, while the controller is not ready for it.

        Raises:
            AssertionError: it was not taken.
        """
        body, encoding = pack(encode(report))
        until = time.monotonic() + 60 * time_scale()
        status, answer = self.post(body, token=token, encoding=encoding)
        while status == 503 and time.monotonic() < until:
            time.sleep(0.2)
            status, answer = self.post(body, token=token, encoding=encoding)
        assert status == 200, (status, answer)
        return decode_answer(answer)

    def __enter__(self) -> Self:
        self.program.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.running:
            self.program.stop(seconds=15.0)


def policy(name: str, **spec: object) -> Json:
    """Return a CpuAuditPolicy; its spec as keywords in the API's spelling."""
    return {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "CpuAuditPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def status(api: Api, name: str) -> Json:
    """Return a policy's status, {} before there is one."""
    found: Json = (api.find(f"{POLICIES}/{name}") or {}).get("status") or {}
    return found


def wait_for_status(api: Api, name: str, holds: Callable[[Json], bool], what: str, timeout: float = 30.0) -> Json:
    """Wait until a policy's status is as wanted, and return it."""
    found = wait_until(
        lambda: (lambda now: now if now and holds(now) else None)(status(api, name)),
        timeout,
        f"policy {name}: {what}",
        state=lambda: json.dumps(status(api, name))[:2000],
    )
    return found or {}


def condition(found: Json, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty texts where there is none."""
    found_condition: Json = next((c for c in found.get("conditions") or () if c["type"] == kind), {})
    return found_condition.get("status", ""), found_condition.get("reason", ""), found_condition.get("message", "")
