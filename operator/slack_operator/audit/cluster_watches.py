"""The watches that feed the view of the cluster: pods, nodes, namespaces and standing reports."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from slack.cfs.crd import GROUP, REPORT_PLURAL, VERSION
from slack.cfs.pods import Pod
from slack.kube.connection import Connection
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack_operator.audit.pods_view import ClusterView, NamespaceObject, Node, ReportObject

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
STALE_SECONDS = 200.0
"""A quiet watch gets a bookmark every two minutes at the latest."""

T = TypeVar("T")


class _Sink(Generic[T]):
    """One collection into the view."""

    def __init__(
        self,
        put: Callable[[T], None],
        drop: Callable[[T], None],
        keep: Callable[[set[str]], None],
        key: Callable[[T], str],
    ) -> None:
        self._put, self._drop, self._keep, self._key = put, drop, keep, key
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

    def end(self) -> None:
        """The generation is complete."""
        if self._seen is not None:
            self._keep(self._seen)
        self._seen = None


class Watches:
    """The reflectors of one controller, and whether all are whole and fresh."""

    def __init__(
        self, connection: Connection, view: ClusterView, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        pods = _Sink(view.put_pod, view.drop_pod, view.keep_pods, lambda one: one.metadata.uid or "")
        nodes = _Sink(view.put_node, view.drop_node, view.keep_nodes, lambda one: one.metadata.name)
        namespaces = _Sink(view.put_namespace, view.drop_namespace, view.keep_namespaces, lambda one: one.metadata.name)
        reports = _Sink(view.put_report, view.drop_report, view.keep_reports, lambda one: one.metadata.uid)
        self.reports = Reflector(
            connection, resource_path(f"{GROUP}/{VERSION}", REPORT_PLURAL), ReportObject, reports, clock=clock
        )
        self._all: tuple[Reflector[Any], ...] = (
            Reflector(connection, resource_path("v1", "pods"), Pod, pods, field_selector=UNFINISHED, clock=clock),
            Reflector(connection, resource_path("v1", "nodes"), Node, nodes, clock=clock),
            Reflector(connection, resource_path("v1", "namespaces"), NamespaceObject, namespaces, clock=clock),
            self.reports,
        )

    def start(self) -> None:
        """Begin to list and watch."""
        for reflector in self._all:
            reflector.start()

    def stop(self) -> None:
        """End all streams, then all threads."""
        for reflector in self._all:
            reflector.stop(timeout=0.0)
        for reflector in self._all:
            reflector.stop(timeout=2.0)

    def stale(self) -> str:
        """Say which watch is not whole or not fresh; '' when all are."""
        now = self._clock()
        for reflector in self._all:
            why = f": {reflector.last_error}" if reflector.last_error else ""
            if not reflector.synced:
                return f"{reflector.path} is not listed yet{why}"
            if reflector.last_heard_age(now) > STALE_SECONDS:
                return f"{reflector.path} has been silent for more than {STALE_SECONDS:.0f} s{why}"
        return ""
