"""The cluster as watches show it, shared by their threads, the refresh and explanations: one state under one lock."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from slack.cluster.wire import Pod
from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import UNFINISHED_PODS, resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.scorer.inputs.cluster_state import ClusterState
from slack.scorer.inputs.objects import NodeObject
from slack_operator.runtime import watches

log = logging.getLogger(__name__)

BOUND_PODS = f"spec.nodeName!=,{UNFINISHED_PODS}"
_REPORTED_AT_MOST = 200
"""An object that cannot be read is logged once for as long as it exists, and not more than so many at a time."""

OnBound = Callable[[str, str, str], None]
"""Namespace and name of a pod that was just seen on a node, and the node."""


class ScorerView:
    """Who reads or changes `state` holds `lock`."""

    def __init__(self, make_state: Callable[[Callable[[str, ValueError], None]], ClusterState]) -> None:
        self.lock = threading.Lock()
        self._reported: set[str] = set()
        self.state = make_state(self._leave_out)

    def forget(self, name: str) -> None:
        """Forget an object that is gone, as `leave_out` was given it."""
        self._reported.discard(name)

    def forget_all(self, kind: str) -> None:
        """Forget all objects of a kind, `pod` or `node`: a list of them begins, and names each again."""
        self._reported = {name for name in self._reported if not name.startswith(f"{kind} ")}

    def _leave_out(self, name: str, error: ValueError) -> None:
        if name not in self._reported and len(self._reported) < _REPORTED_AT_MOST:
            self._reported.add(name)
            log.warning("%s is left out: %s", name, error)


class BoundPodSink:
    """Pods that have a node, into the view."""

    def __init__(
        self,
        view: ScorerView,
        touch: Callable[[], None],
        on_bound: OnBound,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._view = view
        self._touch = touch
        self._on_bound = on_bound
        self._wall = wall

    def begin(self) -> None:
        """A list begins."""
        with self._view.lock:
            self._view.forget_all("pod")
            self._view.state.begin_pods()

    def apply(self, events: Sequence[tuple[EventType, Pod]]) -> None:
        """Take some events, in order."""
        now = self._wall()
        bound: list[tuple[str, str, str]] = []
        with self._view.lock:
            state = self._view.state
            before = state.changed
            for event, pod in events:
                if event is EventType.DELETED:
                    self._view.forget(f"pod {pod.metadata.namespace or ''}/{pod.metadata.name}")
                new = state.apply_pod(event is EventType.DELETED, pod, now)
                if new and pod.spec is not None and pod.spec.node_name:
                    bound.append((pod.metadata.namespace or "", pod.metadata.name, pod.spec.node_name))
            changed = state.changed != before
        for namespace, name, node in bound:
            self._on_bound(namespace, name, node)
        if changed:
            self._touch()

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        with self._view.lock:
            self._view.state.keep_pod(who.namespace, who.name)

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            self._view.state.end_pods()
        self._touch()


class ScorerNodeSink:
    """Nodes, into the view."""

    def __init__(self, view: ScorerView, touch: Callable[[], None]) -> None:
        self._view = view
        self._touch = touch

    def begin(self) -> None:
        """A list begins."""
        with self._view.lock:
            self._view.forget_all("node")
            self._view.state.begin_nodes()

    def apply(self, events: Sequence[tuple[EventType, NodeObject]]) -> None:
        """Take some events, in order."""
        with self._view.lock:
            state = self._view.state
            before = state.changed
            for event, node in events:
                if event is EventType.DELETED:
                    self._view.forget(f"node {node.metadata.name}")
                state.apply_node(event is EventType.DELETED, node)
            changed = state.changed != before
        if changed:  # heartbeats change nothing
            self._touch()

    def keep(self, who: ObjectName) -> None:
        """The list has a node that cannot be read."""
        with self._view.lock:
            self._view.state.keep_node(who.name)

    def end(self) -> None:
        """The list is whole."""
        with self._view.lock:
            self._view.state.end_nodes()
        self._touch()


class ScorerWatches(watches.Watches):
    """The reflectors of one scorer."""

    def __init__(
        self,
        connection: Connection,
        view: ScorerView,
        touch: Callable[[], None],
        on_bound: OnBound,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        required: tuple[Reflector[Any], ...] = (
            Reflector(connection, resource_path("v1", "nodes"), NodeObject, ScorerNodeSink(view, touch), clock=clock),
            Reflector(
                connection,
                resource_path("v1", "pods"),
                Pod,
                BoundPodSink(view, touch, on_bound),
                field_selector=BOUND_PODS,
                clock=clock,
            ),
        )
        super().__init__(required, clock=clock)
