"""The operator under test, as its users run it: the installed command, out of cluster, with exactly its own RBAC.

A missing verb fails the suite, because the identity may do nothing but what `deploy/operator.yaml` grants: the rights
of the chart with its default values.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import urllib3

from e2e.harness.api import Api, Json
from e2e.harness.autoscalers.karpenter import install_crds
from e2e.harness.cluster import access, rbac
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import condition, describe, make_namespace, pods, wait_until
from e2e.harness.pod_times import PodClock
from e2e.harness.ports import LOOPBACK, free_port
from e2e.harness.processes import Program
from e2e.harness.product.leases import renewed_at
from slack.cluster.hold import Hold
from slack.cluster.labels import LABEL_HOLD

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "deploy" / "operator.yaml"
CRDS = ROOT / "charts" / "resource-slack" / "crds"
NAMESPACE = "resource-slack"
USER = f"system:serviceaccount:{NAMESPACE}:resource-slack"
POLICIES = "/apis/resource-slack.io/v1alpha1/slackpolicies"
REPLICA_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
PLACEHOLDERS = "resource-slack.io/placeholder=true"


def install(cluster: Backend, manifests: Sequence[Json] | None = None) -> access.Access:
    """Install CRDs, namespace, class, admission policy and roles; return the operator's identity, with these rights.

    Args:
        cluster: where.
        manifests: of the chart; those with its default values where none are given.
    """
    install_crds(cluster.api, CRDS)
    make_namespace(cluster.api, NAMESPACE)
    if manifests is None:
        manifests = access.read_manifests(MANIFESTS)
    for manifest in manifests:
        if manifest["kind"] in {"PriorityClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}:
            cluster.api.apply(manifest)
    identity = cluster.service_account(NAMESPACE, "resource-slack")
    access.grant_manifests(cluster.api, identity, manifests, NAMESPACE)
    return identity


class Operator:
    """One operator process.

    Usage:

        with Operator(cluster) as operator:
            operator.wait_until_ready()
    """

    def __init__(
        self,
        cluster: Backend,
        *flags: str,
        name: str = "operator",
        identity: access.Access | None = None,
        sources: Path | None = None,
        program: Sequence[str] = (),
    ) -> None:
        """One process, not started yet; with an identity of the caller's nothing is installed.

        Args:
            cluster: where it works.
            flags: further flags; they win over the ones set here.
            name: of its log.
            identity: whose rights it has; the manifests' where none is given.
            sources: a checkout to run it from, another version's; the installed command where none is given.
            program: what to call instead of the installed command.
        """
        self._cluster = cluster
        self._identity = identity or install(cluster)
        self.port = free_port()
        called = list(program) or [str(Path(sys.executable).with_name("resource-slack"))]
        variables = {"COVERAGE_PROCESS_START": ""}
        if sources is not None:
            called = [sys.executable, "-c", "from slack.cli.main import main; main()"]
            variables["PYTHONPATH"] = f"{sources}:{sources / 'operator'}"  # before what is installed
        command = [
            *called,
            "operator",
            f"--kubeconfig={self._identity.kubeconfig}",
            f"--namespace={NAMESPACE}",
            f"--listen={LOOPBACK}:{self.port}",
            "--log-level=debug",
            "--interval=2s",
            *flags,
        ]
        self.program = Program(name, command, cluster.run_folder, variables)
        self._http = urllib3.PoolManager(timeout=2.0, retries=False)

    @property
    def user(self) -> str:
        """Its name in the audit log."""
        return self._identity.user

    def start(self) -> Self:
        """Start the process."""
        self.program.start()
        return self

    def stop(self) -> None:
        """End it as Kubernetes would (SIGTERM)."""
        self.program.stop(seconds=15.0)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self.program.kill()

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of one of its pages; (0, '') while nobody answers."""
        try:
            answer = self._http.request("GET", f"http://{LOOPBACK}:{self.port}{path}")
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def wait_until_ready(self, seconds: float = 90.0) -> None:
        """Wait until /readyz says that it has seen the whole cluster."""
        self.program.wait_until_ready(lambda: self.get("/readyz")[0] == 200, seconds)

    def outlive_the_api_server(self, api: Api, seconds: float = 90.0) -> None:
        """Wait until it has seen the whole cluster again, after the API server was away.

        Where that took longer than its lease lasts it ends, maybe after the API server answers, and is started again,
        as a kubelet would.
        """
        renewed = renewed_at(api, "resource-slack")
        again = f"{self.program.name} to renew its lease or to end"
        wait_until(lambda: renewed_at(api, "resource-slack") != renewed or not self.program.running, seconds, again)
        self.program.keep_up_until(lambda: self.get("/readyz")[0] == 200, seconds)

    def wait_for_plans(self, count: int, seconds: float = 30.0) -> None:
        """Wait until the operator, which leads, has made this many plans that began after now."""
        made = "slack_plan_duration_seconds_count"
        last = self.metric(made) + 1 + count  # one may be under way
        wait_until(lambda: self.metric(made) >= last, seconds, f"{count} plans of {self.program.name}")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            metric, _, rest = head.partition("{")
            if metric == name and all(f'{key}="{text}"' in rest for key, text in labels.items()):
                total += float(value)
        return total

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.program.running:
            self.stop()


def rights_report(cluster: Backend) -> list[str]:
    """Return lines about the rights that nobody has used so far; none when no operator ran."""
    asked = cluster.audit_entries(user=USER)
    rights = rbac.granted(access.read_manifests(MANIFESTS))
    return rbac.report(rights, rbac.used(rights, asked), rbac.refused(rights, asked)) if asked else []


def policy(name: str, **spec: object) -> Json:
    """Return a SlackPolicy; its spec as keywords in the API's spelling."""
    return {"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": name}, "spec": spec}


def placeholders(api: Api, bound: bool | None = None) -> list[Json]:
    """Return the placeholder pods that are not on their way out: all, the bound ones, or the pending ones."""
    found = pods(api, NAMESPACE, labelSelector=PLACEHOLDERS)
    return [
        pod
        for pod in found
        if "deletionTimestamp" not in pod["metadata"] and (bound is None or bool(pod["spec"].get("nodeName")) == bound)
    ]


def held(api: Api, hold: Hold) -> list[Json]:
    """Return the placeholders that hold capacity: those on a node, or those that autoscalers are told of."""
    if hold is Hold.BOUND:
        return placeholders(api, bound=True)
    unbound = placeholders(api, bound=False)
    return [pod for pod in unbound if LABEL_HOLD in pod["metadata"]["labels"] and is_told(pod)]


def is_told(pod: Json) -> bool:
    """Whether autoscalers count a pod without a node as demand."""
    found = [c for c in pod.get("status", {}).get("conditions") or [] if c["type"] == "PodScheduled"]
    return any(c["status"] == "False" and c["reason"] == "Unschedulable" for c in found)


def replica_sets(api: Api) -> list[Json]:
    """Return the ReplicaSets of placeholders."""
    return api.items(REPLICA_SETS, labelSelector=PLACEHOLDERS)


def status(api: Api, name: str) -> Json:
    """Return a policy's status, {} before there is one."""
    found: Json = api.get(f"{POLICIES}/{name}").get("status") or {}
    return found


def wait_until_placed(api: Api, name: str, timeout: float = 30.0) -> Json:
    """Wait until all capacity of a policy's current generation is there; return its status.

    Every placeholder is bound then; of unbound ones the status alone says that they fit.
    """

    def placed() -> Json | None:
        found = api.get(f"{POLICIES}/{name}")
        now = found.get("status") or {}
        current = now.get("observedGeneration") == found["metadata"]["generation"]
        there = condition(found, "Ready") == condition(found, "SlackSatisfied") == "True"
        waiting = [pod for pod in placeholders(api, bound=False) if LABEL_HOLD not in pod["metadata"]["labels"]]
        return now if current and there and not waiting else None

    def what_is_there() -> list[object]:
        return [*map(describe, placeholders(api, bound=False)), status(api, name)]

    found = wait_until(placed, timeout, f"the slack of policy {name} to be there", state=what_is_there)
    return found or {}


def wait_for_condition(api: Api, name: str, kind: str, value: str, timeout: float = 30.0) -> Json:
    """Wait until a policy's condition has a value, and return the condition."""

    def there() -> Json | None:
        conditions = status(api, name).get("conditions") or []
        return next((c for c in conditions if c["type"] == kind and c["status"] == value), None)

    found = wait_until(there, timeout, f"policy {name} to have {kind}={value}", state=lambda: status(api, name))
    return found or {}


def binding_seconds(api: Api, create: Callable[[], object], count: int, timeout: float, app: str) -> list[float]:
    """Create pods and measure, for each, the time from its creation to its binding as a watcher sees them.

    Args:
        api: the admin's door.
        create: makes the pods, all at once.
        count: how many there will be.
        timeout: seconds for all of them.
        app: value of their label `app`, in namespace default.

    Returns:
        seconds, sorted; of the pods that came since `create` was called.
    """
    with PodClock(api, "default") as clock:
        began = time.monotonic()
        create()

        def bound() -> list[float]:
            new = [entry.bind_seconds for entry in clock.times(app=app) if entry.created >= began]
            return sorted(seconds for seconds in new if seconds is not None)

        wait_until(
            lambda: len(bound()) >= count, timeout, f"{count} pods of {app} to be bound", state=bound, every=0.02
        )
        return bound()


def environment() -> dict[str, str]:
    """Return the environment for commands that a test runs as a user would."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}
