"""What the controller sees of the cluster: names, limits and owners of pods, nodes, namespaces, and standing reports.

Of a pod only `AuditedPodFacts` is kept, and for those few whose limits were raised or are being resized, that too:
about 900 bytes a pod of two containers (`python -m benchmarks.audit_view`), so that memory is bounded by the pods that
the API server has, 129 MiB at the 150,000 that Kubernetes is made for. Finished pods are not asked for.

Fed by one reflector a collection (`cluster_watches`), each in its own thread; all access is under one lock, and what is
handed out is immutable.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from slack.audit.api.messages import PodName
from slack.audit.api.report import REPORT_NAME
from slack.audit.enforcement.raised_limits import adoptable, write_former
from slack.audit.findings.sample import CgroupTarget
from slack.audit.sources.node_objects import AuditedNode
from slack.audit.sources.pod_index import PodNames
from slack.audit.sources.pod_objects import AuditedPod, AuditedPodStatus, AuditedResources, Spec
from slack.audit.sources.pods import AuditedContainerFacts, AuditedPodFacts
from slack.cluster.labels import ANNOTATION_FORMER_LIMITS
from slack.cluster.quantity import QuantityError, cpu_millis


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class NamespaceObject(msgspec.Struct, gc=False):
    """v1 Namespace, as far as it is read."""

    metadata: _Meta


class ReportObject(msgspec.Struct, rename="camel", gc=False):
    """A CpuAuditReport that stands, as far as it is read."""

    metadata: _Meta
    measured_at: str = ""
    policy: str = ""


class ViewedNode(NamedTuple):
    """What is kept of a node."""

    kernel_release: str
    cpus: int | None
    seen_at: float
    """When it was first seen, by the monotonic clock."""


class Resize(NamedTuple):
    """What the kubelet says of a pod's resize."""

    pending: str | None = None
    """Deferred or Infeasible; None when nothing is pending."""
    in_progress: bool = False
    message: str = ""
    differing: frozenset[str] = frozenset()
    """Containers for which the kubelet has another limit in force than the spec has."""

    @property
    def under_way(self) -> bool:
        """Whether it is not over."""
        return bool(self.pending) or self.in_progress


class AuditedClusterView:
    """The view. Sinks write, the receiver and the turn read, each from its own thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods = PodNames()
        self._annotated: dict[str, str] | None = {}
        self._resizes: dict[str, Resize] = {}
        self._nodes: dict[str, ViewedNode] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._reports: dict[str, ReportObject] = {}

    def pod_names(self, uids: Iterable[str], node: str) -> dict[str, PodName]:
        """Return the names of those of the pods that are on the node, by uid as asked."""
        found: dict[str, PodName] = {}
        with self._lock:
            for uid in uids:
                pod = self._pods.by_uid(uid.replace("_", "-"))
                if pod is not None and pod.node == node:
                    ids = zip(pod.container_ids, pod.containers, strict=True)
                    names = {container_id: container.name for container_id, container in ids if container_id}
                    found[uid] = PodName(namespace=pod.namespace, name=pod.name, containers=names)
        return found

    def whose(self, target: CgroupTarget) -> tuple[AuditedPodFacts | None, AuditedContainerFacts | None, CgroupTarget]:
        """Return pod, container and the target with its names."""
        with self._lock:
            pod, container = self._pods.facts_of(target)
            return pod, container, self._pods.named(target)

    def pod(self, uid: str) -> AuditedPodFacts | None:
        """Return a pod by its uid or the one of its cgroup."""
        with self._lock:
            return self._pods.by_uid(uid)

    def node_of(self, namespace: str, name: str, uid: str) -> str | None:
        """Return the node that a pod is on; None for one that is not known, or is another by now."""
        with self._lock:
            pod = self._pods.by_name(namespace, name)
        return pod.node or None if pod is not None and (not uid or pod.uid == uid) else None

    def annotated(self) -> dict[str, str]:
        """Return by uid the annotations that an earlier release may have written."""
        with self._lock:
            return dict(self._annotated or {})

    def drop_annotated(self) -> None:
        """Keep such annotations no longer: what may be taken over has been."""
        with self._lock:
            self._annotated = None

    def resize(self, uid: str) -> Resize:
        """Return what the kubelet says of a pod's resize."""
        with self._lock:
            return self._resizes.get(uid, _NO_RESIZE)

    def nodes(self) -> dict[str, ViewedNode]:
        """Return all nodes."""
        with self._lock:
            return dict(self._nodes)

    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Return labels by namespace, without those that are being deleted."""
        with self._lock:
            return dict(self._namespaces)

    def reports(self) -> dict[str, ReportObject]:
        """Return our reports by namespace."""
        with self._lock:
            return dict(self._reports)

    def pods_on(self, nodes: frozenset[str]) -> dict[str, int]:
        """Count, by namespace, those of the nodes that its pods are on."""
        found: dict[str, set[str]] = {}
        with self._lock:
            for pod in self._pods.pods():
                if pod.node in nodes:
                    found.setdefault(pod.namespace, set()).add(pod.node)
        return {namespace: len(names) for namespace, names in found.items()}

    @property
    def pod_count(self) -> int:
        """How many pods are known."""
        return len(self._pods)

    def put_pod(self, pod: AuditedPod) -> None:
        """Take a pod as it is now."""
        uid = pod.metadata.uid or ""
        with self._lock:
            facts = self._pods.put(pod)
            if self._annotated is not None:
                text = (pod.metadata.annotations or {}).get(ANNOTATION_FORMER_LIMITS)
                _keep(self._annotated, uid, _worth_keeping(facts, text) if isinstance(text, str) else None)
            _keep(self._resizes, uid, _resize(pod))

    def drop_pod(self, pod: AuditedPod) -> None:
        """Forget a pod."""
        uid = pod.metadata.uid or ""
        with self._lock:
            self._pods.drop(uid)
            if self._annotated is not None:
                self._annotated.pop(uid, None)
            self._resizes.pop(uid, None)

    def keep_pods(self, uids: set[str]) -> None:
        """Forget all other pods."""
        with self._lock:
            self._pods.keep_only(uids)
            if self._annotated is not None:
                self._annotated = {uid: text for uid, text in self._annotated.items() if uid in uids}
            self._resizes = {uid: resize for uid, resize in self._resizes.items() if uid in uids}

    def put_node(self, node: AuditedNode) -> None:
        """Take a node as it is now; one without Linux has no agent, and would be silent for ever."""
        name = node.metadata.name
        if not node.is_linux:
            return self.drop_node(node)
        with self._lock:
            known = self._nodes.get(name)
            seen = known.seen_at if known else self._clock()
            self._nodes[name] = ViewedNode(node.kernel_release, node.cpus, seen)
        return None

    def drop_node(self, node: AuditedNode) -> None:
        """Forget a node."""
        with self._lock:
            self._nodes.pop(node.metadata.name, None)

    def keep_nodes(self, names: set[str]) -> None:
        """Forget all other nodes."""
        with self._lock:
            self._nodes = {name: node for name, node in self._nodes.items() if name in names}

    def put_namespace(self, namespace: NamespaceObject) -> None:
        """Take a namespace as it is now; one that is being deleted takes no reports any more."""
        if namespace.metadata.deletion_timestamp:
            return self.drop_namespace(namespace)
        with self._lock:
            self._namespaces[namespace.metadata.name] = namespace.metadata.labels or {}
        return None

    def drop_namespace(self, namespace: NamespaceObject) -> None:
        """Forget a namespace."""
        with self._lock:
            self._namespaces.pop(namespace.metadata.name, None)

    def keep_namespaces(self, names: set[str]) -> None:
        """Forget all other namespaces."""
        with self._lock:
            self._namespaces = {name: labels for name, labels in self._namespaces.items() if name in names}

    def put_report(self, report: ReportObject) -> None:
        """Take one of our reports; others of the kind are somebody else's."""
        if report.metadata.name == REPORT_NAME:
            with self._lock:
                self._reports[report.metadata.namespace] = report

    def drop_report(self, report: ReportObject) -> None:
        """Forget a report."""
        if report.metadata.name == REPORT_NAME:
            with self._lock:
                self._reports.pop(report.metadata.namespace, None)

    def keep_reports(self, uids: set[str]) -> None:
        """Forget all other reports."""
        with self._lock:
            self._reports = {name: report for name, report in self._reports.items() if report.metadata.uid in uids}


V = TypeVar("V")


def _keep(kept: dict[str, V], uid: str, value: V | None) -> None:
    if value is None:
        kept.pop(uid, None)
    else:
        kept[uid] = value


def _worth_keeping(pod: AuditedPodFacts, text: str) -> str | None:
    """Return what of an annotation could be taken over: about what its containers cost, whatever a tenant writes."""
    return write_former(adoptable(pod, text, math.inf))


def _resize(pod: AuditedPod) -> Resize | None:
    spec, status = pod.spec or Spec(), pod.status or AuditedPodStatus()
    found = {condition.type: condition for condition in status.conditions or () if condition.status == "True"}
    pending, running = found.get("PodResizePending"), found.get("PodResizeInProgress")
    in_force = {
        container.name: _limit(container.resources)
        for container in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        if container.resources is not None
    }
    differing = frozenset(
        sys.intern(container.name)
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container.name in in_force and in_force[container.name] != _limit(container.resources)
    )
    if pending is None and running is None and not differing:
        return None
    said = " ".join(
        condition.message for condition in (pending, running) if condition is not None and condition.message
    )
    return Resize((pending.reason or "Deferred") if pending else None, running is not None, said[:512], differing)


def _limit(resources: AuditedResources | None) -> int | None:
    if resources is None or resources.limits is None or resources.limits.cpu is None:
        return None
    return _millis(resources.limits.cpu)


def _millis(quantity: object) -> int:
    try:
        return cpu_millis(str(quantity))
    except QuantityError:
        return 0


_NO_RESIZE = Resize()
