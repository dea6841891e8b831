"""Pods that wait on their nodes for keys of a ConfigMap: those that are bound, pending, and named one by the webhook.

A pod of which all containers have begun is pending no more, so that this is small however many pods there are. Threads:
the reflector's writes, the writer of permits reads; under one lock.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from slack.kube.connection import Connection
from slack.kube.object_names import ObjectName
from slack.kube.paths import resource_path
from slack.kube.reflector import Reflector
from slack.kube.watch import EventType
from slack.throttler.config_maps import HeldPod, is_name
from slack.throttler.injection import PERMITS_IN, VARIABLE

SELECTOR = "status.phase=Pending,spec.nodeName!="


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Only what is read here."""


class _Named(_Wire):
    name: str = ""


class _Container(_Wire):
    name: str = ""
    env: list[_Named] | None = None


class _Metadata(_Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Spec(_Wire):
    node_name: str = ""
    containers: list[_Container] | None = None


class PodRow(_Wire):
    """A pod; decoded by the reflector."""

    metadata: _Metadata
    spec: _Spec

    def held(self) -> HeldPod | None:
        """Return what may have to be written for it; None where nothing ever has."""
        metadata, config_map = self.metadata, (self.metadata.annotations or {}).get(PERMITS_IN, "")
        containers = tuple(
            container.name
            for container in self.spec.containers or ()
            if any(variable.name == VARIABLE for variable in container.env or ())
        )
        if not is_name(config_map) or not containers:
            return None
        return HeldPod(metadata.uid, metadata.namespace, metadata.name, self.spec.node_name, config_map, containers)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod, and since when it is known."""

    pod: HeldPod
    since: float
    """Monotonic seconds."""


class HeldPods:
    """All of them; the reflector's sink."""

    def __init__(self, on_news: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is known.

        Args:
            on_news: called with the node of a pod that is new.
            clock: monotonic seconds.
        """
        self._on_news = on_news
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, WaitingPod] = {}
        self._fresh: dict[str, WaitingPod] | None = None
        self._by_node: dict[str, set[str]] = {}

    def begin(self) -> None:
        """A list begins."""
        self._fresh = {}

    def apply(self, events: Sequence[tuple[EventType, PodRow]]) -> None:
        """Some pods."""
        news = set()
        with self._lock:
            for kind, row in events:
                uid = row.metadata.uid
                held = None if kind is EventType.DELETED else row.held()
                known = self._pods.get(uid)
                if held is None:
                    self._forget(uid)
                    if self._fresh is not None:
                        self._fresh.pop(uid, None)
                    continue
                if known is None or known.pod != held:
                    self._forget(uid)
                    known = WaitingPod(held, self._clock())
                    self._pods[uid] = known
                    self._by_node.setdefault(held.node, set()).add(uid)
                    news.add(held.node)
                if self._fresh is not None:
                    self._fresh[uid] = known
        for node in news:
            self._on_news(node)

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        with self._lock:
            if self._fresh is not None and who.uid in self._pods:
                self._fresh[who.uid] = self._pods[who.uid]

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            fresh, self._fresh = self._fresh or {}, None
            for uid in self._pods.keys() - fresh.keys():
                self._forget(uid)

    def get(self, uid: str) -> HeldPod | None:
        """Return one that waits."""
        with self._lock:
            found = self._pods.get(uid)
            return None if found is None else found.pod

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those on which some wait."""
        with self._lock:
            return tuple(self._by_node)

    @property
    def uids(self) -> frozenset[str]:
        """All that wait."""
        with self._lock:
            return frozenset(self._pods)

    def uids_on(self, node: str) -> frozenset[str]:
        """Return the uids of those of a node."""
        with self._lock:
            return frozenset(self._by_node.get(node, ()))

    def on(self, node: str) -> tuple[WaitingPod, ...]:
        """Return those of a node."""
        with self._lock:
            return tuple(self._pods[uid] for uid in self._by_node.get(node, ()))

    def _forget(self, uid: str) -> None:
        found = self._pods.pop(uid, None)
        if found is None:
            return
        mine = self._by_node[found.pod.node]
        mine.discard(uid)
        if not mine:
            del self._by_node[found.pod.node]


def reflector(connection: Connection, pods: HeldPods) -> Reflector[PodRow]:
    """Make what follows them; not started yet."""
    return Reflector(connection, resource_path("v1", "pods"), PodRow, pods, field_selector=SELECTOR)
