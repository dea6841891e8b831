"""A fleet of nodes that report to the auditor's controller: kwok's nodes, real tokens, made-up counters.

Each node has an agent's pod, whose service account token is real and bound to it; what the agent would send is made
from counters, through the messages that agents use.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from e2e.harness.api import Api, Json
from e2e.harness.cluster import kwok
from e2e.harness.cluster.backend import Backend
from e2e.harness.objects import create_all, make_namespace, pod, wait_until
from e2e.harness.product.audit_controller import AGENT_ACCOUNT, Controller
from e2e.harness.product.operator import NAMESPACE
from slack.audit.api.messages import AUDIENCE, AgentReport, BurstState, ControllerAnswer
from slack.audit.api.window_report import window_report
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.window import compare


@dataclass
class Busy:
    """What a container's counters show over five minutes."""

    limit_millis: int
    use_millis: int
    throttled_share: float
    stop_seconds: float = 0.0
    """Summed over CPUs, a throttled period."""
    periods: int = 3000


def unthrottled(limit_millis: int = 1000) -> Busy:
    """Return a container that stays well below its limit."""
    return Busy(limit_millis, limit_millis // 5, 0.0)


def starved(limit_millis: int = 200) -> Busy:
    """Return a container of two busy threads that uses its limit up in each period and then stands still."""
    return Busy(limit_millis, limit_millis, 0.98, 2 * (0.1 - limit_millis / 2000 * 0.1))


@dataclass
class Fleet:
    """Nodes with agents' tokens, and pods with counters."""

    cluster: Backend
    size: int
    tokens: dict[str, str] = field(default_factory=dict)
    placed: dict[str, list[Json]] = field(default_factory=dict)
    """Pods by node."""
    busy: dict[str, Busy] = field(default_factory=dict)
    """By pod uid; the others are unthrottled."""

    def build(self, namespaces: Sequence[str], per_node: int = 2) -> None:
        """Make nodes, agents' pods with their tokens, and pods of workloads that are spread over the namespaces."""
        api = self.cluster.api
        names = [f"node-{number:04d}" for number in range(self.size)]
        for namespace in namespaces:
            make_namespace(api, namespace)
        create_all(api, [kwok.node(name) for name in names], 16)
        agents = [
            pod(f"agent-{name}", namespace=NAMESPACE, nodeName=name, serviceAccountName=AGENT_ACCOUNT) for name in names
        ]
        work = [
            _workload(f"api-{number:04d}-{at}", namespaces[(number + at) % len(namespaces)], name)
            for number, name in enumerate(names)
            for at in range(per_node)
        ]
        made = create_all(api, [*agents, *work], 16)
        with ThreadPoolExecutor(16) as pool:
            tokens = pool.map(lambda agent: token_of(api, agent), made[: self.size])
            self.tokens = dict(zip(names, tokens, strict=True))
        for workload_pod in made[self.size :]:
            self.placed.setdefault(workload_pod["spec"]["nodeName"], []).append(workload_pod)

    def place(self, name: str, namespace: str, node: str, *, limit: str) -> Json:
        """Make one more node, and on it a pod that runs and whose container has an id; the fleet reports on neither."""
        self.cluster.api.create(kwok.node(node))
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
        wait_until(lambda: self.cluster.api.find(lease) is not None, 60, f"kwok to see to {node}")
        made = self.cluster.api.create(_workload(name, namespace, node, limit))
        self.give_id(made)
        return made

    def agent_token(self, node: str) -> str:
        """Make the pod of one more agent, and return its token."""
        agent = pod(f"agent-{node}", namespace=NAMESPACE, nodeName=node, serviceAccountName=AGENT_ACCOUNT)
        return token_of(self.cluster.api, self.cluster.api.create(agent))

    def give_id(self, pod_json: Json) -> None:
        """Let a pod's container have an id, as a container runtime gives it one; waits until it runs."""
        path = f"/api/v1/namespaces/{pod_json['metadata']['namespace']}/pods/{pod_json['metadata']['name']}"
        what = f"{pod_json['metadata']['name']} to run"

        def runs() -> bool:
            found = self.cluster.api.get(path)
            if found["status"].get("phase") == "Running":
                return True
            # kwok may miss a pod that comes with its node; any event about it will do
            self.cluster.api.patch(path, {"metadata": {"annotations": {"e2e.resource-slack/seen": str(time.time())}}})
            return False

        wait_until(runs, 60, what, every=0.5)
        status = self.cluster.api.get(path)["status"]
        # the API server takes resources in a container's status for the sign of a kubelet that can resize
        resources = pod_json["spec"]["containers"][0]["resources"]
        more = {"containerID": f"containerd://{container_id(pod_json)}", "resources": resources}
        statuses = [state | more for state in status["containerStatuses"]]
        self.cluster.api.patch(f"{path}/status", {"status": {"containerStatuses": statuses}})

    def report(self, node: str, *, push_seconds: float = 600.0, bursts: Sequence[BurstState] = ()) -> AgentReport:
        """Return what the node's agent would send now; it counts as silent after three times `push_seconds`."""
        facts = {"": CgroupNodeFacts(4, "6.12.0-e2e", "", "v1")}
        here = [sample for pod_json in self.placed.get(node, ()) for sample in self._samples(pod_json)]
        before = Sampled(tuple(start for start, _ in here), facts)
        after = Sampled(tuple(end for _, end in here), facts)
        return AgentReport(
            node=node,
            agent=f"agent-{node}",
            at_unix=time.time(),
            interval_seconds=10.0,
            push_seconds=push_seconds,
            cpus=4,
            kernel_release="6.12.0-e2e",
            hierarchy="v1",
            windows={"5m": window_report(compare(before, after))},
            unnamed=tuple(pod_json["metadata"]["uid"] for pod_json in self.placed.get(node, ())),
            writes_bursts=True,
            bursts=tuple(bursts),
        )

    def _samples(self, pod_json: Json) -> list[tuple[Sample, Sample]]:
        uid = pod_json["metadata"]["uid"]
        busy = self.busy.get(uid, unthrottled())
        path = f"/kubepods/burstable/pod{uid}"
        pod_target = CgroupTarget(CgroupLevel.POD, path, pod_uid=uid)
        target = CgroupTarget(
            CgroupLevel.CONTAINER, f"{path}/{container_id(pod_json)}", pod_uid=uid, container_id=container_id(pod_json)
        )
        throttled = round(busy.periods * busy.throttled_share)
        start = Sample(target, 0.0, busy.limit_millis * 100, 100_000, 0, 0, 0, usage_ns=0)
        end = Sample(
            target,
            busy.periods / 10,
            busy.limit_millis * 100,
            100_000,
            busy.periods,
            throttled,
            round(throttled * busy.stop_seconds * 1e9),
            usage_ns=busy.use_millis * busy.periods * 100_000,
        )
        plain = [Sample(pod_target, at, None, 100_000, 0, 0, 0) for at in (0.0, busy.periods / 10)]
        return [(start, end), (plain[0], plain[1])]

    def report_all(self, controller: Controller, nodes: Iterable[str] | None = None) -> dict[str, ControllerAnswer]:
        """Let all nodes report at once, or some."""
        chosen = list(nodes if nodes is not None else self.tokens)
        with ThreadPoolExecutor(16) as pool:
            answers = pool.map(lambda node: controller.report(self.report(node), self.tokens[node]), chosen)
            return dict(zip(chosen, answers, strict=True))


def container_id(pod_json: Mapping[str, Json]) -> str:
    """Return the id that a pod's container has: 64 hex digits, from the pod's uid."""
    return (str(pod_json["metadata"]["uid"]).replace("-", "") * 2)[:64]


def token_of(api: Api, pod_json: Json, *, account: str = AGENT_ACCOUNT, audience: str = AUDIENCE) -> str:
    """Return a service account token that is bound to a pod."""
    bound = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_json["metadata"]["name"],
        "uid": pod_json["metadata"]["uid"],
    }
    spec = {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", request)
    token: str = answer["status"]["token"]
    return token


def _workload(name: str, namespace: str, node: str, limit: str = "200m") -> Json:
    made = pod(name, namespace=namespace, nodeName=node)
    made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": limit}
    return made
