"""A week of the auditor's controller: pods, nodes, namespaces and reports come and go, and limits are raised.

The parts are those of the controller's process. The API server and the agents are modelled here: a pod's limit is what
was written last, and a kubelet has it in force at once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

from benchmarks.soak.churn import Churn
from benchmarks.soak.sizes import SEQUENCE, series, sizes
from slack.audit.api.messages import AgentReport
from slack.audit.api.policy import AuditPolicy, parse_audit_policy
from slack.audit.api.window_report import window_report
from slack.audit.findings.sample import CgroupLevel, CgroupNodeFacts, CgroupTarget, Sample, Sampled
from slack.audit.findings.window import compare
from slack.audit.sources.node_objects import AuditedNode
from slack.audit.sources.pod_objects import AuditedMetadata, decode_pods
from slack.cluster.labels import API_VERSION
from slack.kube.apply import Writer
from slack.kube.errors import ApiError
from slack_operator.auditor.controller.cluster_view import AuditedClusterView, NamespaceObject, ReportObject, _Meta
from slack_operator.auditor.controller.enforcer import Enforcer
from slack_operator.auditor.controller.event_reporter import AuditEventReporter
from slack_operator.auditor.controller.limit_record import LimitRecord
from slack_operator.auditor.controller.metrics import AuditControllerMetrics
from slack_operator.auditor.controller.node_findings import NodeFindings
from slack_operator.auditor.controller.reconciler import Reconciler
from slack_operator.auditor.controller.reports import Reports
from slack_operator.runtime.desired import Desired

PODS: Final = 24
"""That are there at a time, each on a node of its own, three of a namespace."""
_BEGAN: Final = 1_767_225_600.0
_HISTORY: Final = ("EnforcementState.actions", "Reconciler._status")
"""The last 32 actions of a policy, which its status shows, and that status: a bounded history."""
Json = dict[str, Any]


@dataclass(slots=True)
class _Pod:
    """One pod with a container that is at its limit, and its node."""

    name: str
    namespace: str
    node: str
    container_id: str
    limit: str = "500m"

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    def document(self) -> Json:
        resources = {"limits": {"cpu": self.limit}}
        state = {"name": "api", "containerID": f"containerd://{self.container_id}", "resources": resources}
        return {
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": "1"},
            "spec": {"nodeName": self.node, "containers": [{"name": "api", "resources": resources}]},
            "status": {"qosClass": "Burstable", "containerStatuses": [state]},
        }

    def report(self) -> AgentReport:
        path = f"/kubepods/burstable/pod{self.uid}/{self.container_id}"
        target = CgroupTarget(CgroupLevel.CONTAINER, path, pod_uid=self.uid, container_id=self.container_id)
        facts = {"": CgroupNodeFacts(16)}
        zero = Sample(target, 0.0, 50_000, 100_000, 0, 0, 0, usage_ns=0)
        late = Sample(target, 300.0, 50_000, 100_000, 3000, 2900, 174_000_000_000, usage_ns=150_000_000_000)
        told = window_report(compare(Sampled((zero,), facts), Sampled((late,), facts)))
        return AgentReport(node=self.node, cpus=16, kernel_release="6.12.0", windows={"5m": told, "1h": told})


class _Server:
    """An API server, as `Writer` sees it: pods by path, and objects that are applied, created or patched."""

    def __init__(self) -> None:
        self.pods: dict[str, _Pod] = {}
        self.reports: dict[str, Json] = {}
        self.record: dict[str, str] | None = None

    def get(self, path: str) -> Json:
        if self.record is None:
            raise ApiError(404, "NotFound", path)
        return {"data": dict(self.record)}

    def create(self, collection: str, manifest: Json) -> Json:
        self.record = dict(manifest["data"])
        return manifest

    def merge_patch(self, path: str, patch: Json) -> Json:
        record = {} if self.record is None else self.record
        self.record = {key: value for key, value in (record | patch["data"]).items() if value is not None}
        return patch

    def strategic_patch(self, path: str, patch: Json, *, dry_run: bool = False) -> Json:
        pod = self.pods.get(path.removesuffix("/resize"))
        if pod is None:
            raise ApiError(404, "NotFound", path)
        for container in patch.get("spec", {}).get("containers", ()):
            if not dry_run:
                pod.limit = container["resources"]["limits"]["cpu"]
        return pod.document()

    def apply(self, path: str, manifest: Json, *, force: bool = False) -> Json:
        if manifest["kind"] == "CpuAuditReport":
            self.reports[path] = manifest
        return manifest

    def delete(self, path: str, *, uid: str | None = None) -> bool:
        return self.reports.pop(path, None) is not None


class AuditorWeek(Churn[_Pod]):
    """A controller that leads, and its surroundings."""

    def __init__(self, seed: int) -> None:
        """Begin without a pod."""
        super().__init__(seed, PODS)
        self._server = _Server()
        writer = cast("Writer", self._server)
        self.view = AuditedClusterView(self._clock)
        self.nodes = NodeFindings(self.view, self._clock)
        self.metrics = AuditControllerMetrics()
        self.desired: Desired[AuditPolicy] = Desired(lambda: None, parse_audit_policy, "cpuauditpolicy")
        self._put_policy()
        recorder: Any = SimpleNamespace(record=lambda *_: None)
        watches: Any = SimpleNamespace(stale=lambda: None)
        self.record = LimitRecord(writer, "ours", may_write=lambda: True, clock=self._clock)
        self.enforcer = Enforcer(
            writer,
            recorder,
            self.view,
            self.nodes,
            self.record,
            may_write=lambda: True,
            on_outcome=self.metrics.on_resize,
            wall=self._wall,
            clock=self._clock,
        )
        self.reports = Reports(
            writer,
            may_write=lambda: True,
            on_written=self.metrics.reports_written.inc,
            wall=self._wall,
            clock=self._clock,
        )
        self.event_reporter = AuditEventReporter(recorder, may_write=lambda: True, clock=self._clock)
        self.reconciler = Reconciler(
            view=self.view,
            watches=watches,
            desired=self.desired,
            nodes=self.nodes,
            writer=writer,
            reports=self.reports,
            event_reporter=self.event_reporter,
            enforcer=self.enforcer,
            metrics=self.metrics,
            may_write=lambda: True,
            clock=self._clock,
            wall=self._wall,
        )
        self.reconciler.reconcile()

    def _wall(self) -> float:
        return _BEGAN + self._now

    def turn(self, now_seconds: float) -> None:
        """Change a pod for another, have the agents report, decide and write."""
        self._change(now_seconds)
        for pod in self._pods:
            self._show(pod)
            self.nodes.put(pod.report())
        self.reconciler.reconcile()
        self._show_reports()

    def sizes(self) -> Mapping[str, int]:
        """Return what the process keeps, and its record at the API server."""
        roots = (self.view, self.nodes, self.desired, self.record, self.enforcer, self.reports, self.event_reporter)
        server = {"ConfigMap of former limits": len(self._server.record or {}), "reports": len(self._server.reports)}
        kept = sizes((*roots, self.reconciler, self.metrics))
        kept = {name + SEQUENCE if name in _HISTORY else name: size for name, size in kept.items()}
        return kept | series(self.metrics.registry) | server

    def raised(self) -> int:
        """Count the pods whose limit is raised now."""
        return sum(pod.limit != "500m" for pod in self._pods)

    def close(self) -> None:
        """End nothing: there is no connection."""

    def _put_policy(self) -> None:
        metadata = {"name": "default", "uid": "p", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        spec = {"mode": "Enforce", "enforce": {"resize": {"after": "15m"}}}
        document = {"apiVersion": API_VERSION, "kind": "CpuAuditPolicy", "metadata": metadata, "spec": spec}
        self.desired.replace_all([document], events_before=self.desired.events)

    def _add(self) -> None:
        number = next(self._numbers)
        container_id = f"{self._random.getrandbits(256):064x}"
        pod = _Pod(f"api-{number}", f"team-{number // 3}", f"node-{number}", container_id)
        self._pods.append(pod)
        self._server.pods[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"] = pod
        self.view.put_node(AuditedNode(AuditedMetadata(name=pod.node)))
        self.view.put_namespace(NamespaceObject(_Meta(name=pod.namespace)))

    def _show(self, pod: _Pod) -> None:
        (shown,) = decode_pods(json.dumps({"items": [pod.document()]}).encode())
        self.view.put_pod(shown)

    def _remove(self) -> None:
        pod = self._pods.popleft()
        del self._server.pods[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"]
        (shown,) = decode_pods(json.dumps({"items": [pod.document()]}).encode())
        self.view.drop_pod(shown)
        self.view.drop_node(AuditedNode(AuditedMetadata(name=pod.node)))
        if all(other.namespace != pod.namespace for other in self._pods):
            self.view.drop_namespace(NamespaceObject(_Meta(name=pod.namespace)))
            self._server.reports = {
                path: report for path, report in self._server.reports.items() if f"/{pod.namespace}/" not in path
            }

    def _show_reports(self) -> None:
        there = {path.split("/")[5]: report for path, report in self._server.reports.items()}
        for namespace in self.view.reports().keys() - there.keys():
            self.view.drop_report(ReportObject(_Meta(name="cpu-audit", namespace=namespace)))
        for namespace, report in there.items():
            measured = str(report.get("measuredAt", ""))
            meta = _Meta(name="cpu-audit", namespace=namespace, uid=f"uid-{namespace}")
            self.view.put_report(ReportObject(meta, measured, "default"))


def week(seed: int) -> AuditorWeek:
    """Return a week of the auditor."""
    return AuditorWeek(seed)
