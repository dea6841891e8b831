"""The watches that feed the view of the cluster: pods, nodes, namespaces and standing reports."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from slack.audit.api.crd import GROUP, REPORT_PLURAL, VERSION
from slack.audit.sources.node_objects import AuditedNode
from slack.audit.sources.pod_objects import AuditedPod
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import UNFINISHED_PODS, resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack_operator.auditor.controller.cluster_view import AuditedClusterView, NamespaceObject, ReportObject
from slack_operator.runtime import watches

T = TypeVar("T")


class _Sink(Generic[T]):
    """One collection into the view."""

    def __init__(
        self,
        put: Callable[[T], None],
        drop: Callable[[T], None],
        keep: Callable[[set[str]], None],
        key: Callable[[T], str],
        *,
        by_uid: bool = True,
    ) -> None:
        """A sink of nothing yet.

        Args:
            put: takes an object as it is now.
            drop: forgets an object.
            keep: forgets all objects but these.
            key: what objects are kept by.
            by_uid: whether that is their uid, or their name.
        """
        self._put, self._drop, self._keep, self._key = put, drop, keep, key
        self._by_uid = by_uid
        self._seen: set[str] | None = None

    def begin(self) -> None:
        """A new generation starts."""
        self._seen = set()

    def apply(self, events: Sequence[tuple[EventType, T]]) -> None:
        """Some events, in order."""
        for kind, item in events:
            if kind is EventType.DELETED:
                self._drop(item)
                continue
            self._put(item)
            if self._seen is not None:
                self._seen.add(self._key(item))

    def keep(self, who: ObjectName) -> None:
        """The list has an object that cannot be read."""
        if self._seen is not None:
            self._seen.add(who.uid if self._by_uid else who.name)

    def end(self) -> None:
        """The generation is complete."""
        if self._seen is not None:
            self._keep(self._seen)
        self._seen = None


class AuditWatches(watches.Watches):
    """The reflectors of one controller, which feed its view."""

    def __init__(
        self, connection: Connection, view: AuditedClusterView, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        pods = _Sink(view.put_pod, view.drop_pod, view.keep_pods, lambda pod: pod.metadata.uid or "", by_uid=True)
        nodes = _Sink(view.put_node, view.drop_node, view.keep_nodes, lambda node: node.metadata.name, by_uid=False)
        namespaces = _Sink(
            view.put_namespace,
            view.drop_namespace,
            view.keep_namespaces,
            lambda namespace: namespace.metadata.name,
            by_uid=False,
        )
        reports = _Sink(
            view.put_report, view.drop_report, view.keep_reports, lambda report: report.metadata.uid, by_uid=True
        )
        reports_path = resource_path(f"{GROUP}/{VERSION}", REPORT_PLURAL)
        required: tuple[Reflector[Any], ...] = (
            Reflector(
                connection, resource_path("v1", "pods"), AuditedPod, pods, field_selector=UNFINISHED_PODS, clock=clock
            ),
            Reflector(connection, resource_path("v1", "nodes"), AuditedNode, nodes, clock=clock),
            Reflector(connection, resource_path("v1", "namespaces"), NamespaceObject, namespaces, clock=clock),
            Reflector(connection, reports_path, ReportObject, reports, clock=clock),
        )
        super().__init__(required, clock=clock)
