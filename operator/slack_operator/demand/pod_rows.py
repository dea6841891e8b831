"""Pods of pools as they are seen: what the rules are told of each, and whose it really is.

Anybody who may create pods can give one our labels. So a pod counts only when its controller is the very pool that its
label names, by uid; any other is left alone. Threads: a reflector writes, the loop reads; under one lock.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from slack.cluster import wire
from slack.cluster.labels import (
    ANNOTATION_RETIRED_SUBJECTS,
    ANNOTATION_SUBJECT,
    LABEL_CREATION,
    LABEL_POOL,
    LABEL_POOL_REVISION,
)
from slack.cluster.requests import RequestError, effective_requests
from slack.demand.model import ContainerState, Place, PoolContainer, QueueKey
from slack.demand.policy import POOL_KIND
from slack.demand.template import PROXY
from slack.kube.object_names import ObjectName
from slack.kube.watch import EventType

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_LAST_WAITS: Final = 50
_MOST_RETIRED: Final = 16


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Only what is read here."""


class _Owner(_Wire):
    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(_Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class _Condition(_Wire):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class _State(_Wire):
    terminated: dict[str, object] | None = None


class _ContainerStatus(_Wire):
    name: str = ""
    state: _State | None = None


class _Status(_Wire):
    phase: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _Spec(wire.PodSpec):
    restart_policy: str | None = None


class PoolPodRow(_Wire):
    """A pod; decoded by the reflector."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class PoolPod:
    """A pod of a pool."""

    container: PoolContainer
    uid: str
    owner: str
    """The uid of its controller, which is an ActivationPool."""
    finished: bool
    """It has ended by itself, or was evicted: only its object is left."""
    deleted: bool
    spent: bool = False
    """Its proxy has had its messages and has ended for good: it is to be deleted."""

    @property
    def place(self) -> Place:
        """Where it is."""
        return self.container.namespace, self.container.id


def parse_pool_pod(row: PoolPodRow) -> PoolPod | None:
    """Return a pod as the rules have it; None for one that no pool can own."""
    metadata, status = row.metadata, row.status
    labels = metadata.labels or {}
    owner = next((o for o in metadata.owner_references or () if o.controller and o.kind == POOL_KIND), None)
    if owner is None or labels.get(LABEL_CREATION) != metadata.name or not labels.get(LABEL_POOL):
        return None
    conditions = {condition.type: condition for condition in status.conditions or ()}
    created = _seconds(metadata.creation_timestamp) or 0.0
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    is_ready = ready is not None and ready.status == "True"
    deleted = metadata.deletion_timestamp is not None
    unschedulable = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    spent = row.spec.restart_policy == "Never" and any(map(_is_ended_proxy, status.container_statuses or ()))
    requests, annotations = _requests(row.spec), metadata.annotations or {}
    since = _seconds(ready.last_transition_time) if ready is not None else None
    if not is_ready and ready is not None and since is not None:
        created = max(created, since)  # from its node on, or from when it broke: the time-out counts from there
    container = PoolContainer(
        id=metadata.name,
        namespace=metadata.namespace,
        pool=labels[LABEL_POOL],
        revision=labels.get(LABEL_POOL_REVISION, ""),
        subject=annotations.get(ANNOTATION_SUBJECT, ""),
        also=tuple(annotations.get(ANNOTATION_RETIRED_SUBJECTS, "").split(",", _MOST_RETIRED)[:_MOST_RETIRED])
        if ANNOTATION_RETIRED_SUBJECTS in annotations
        else (),
        cpu_millis=None if requests is None else requests.get("cpu", 0),
        memory_bytes=None if requests is None else requests.get("memory", 0),
        node=row.spec.node_name or None,
        state=_state(ends=deleted or spent, is_ready=is_ready),
        created_at_seconds=created,
        ready_at_seconds=since if is_ready else None,
        unschedulable_since_seconds=_seconds(scheduled.last_transition_time) if scheduled and unschedulable else None,
    )
    return PoolPod(container, metadata.uid, owner.uid, status.phase in _FINISHED, deleted, spent)


def _state(*, ends: bool, is_ready: bool) -> ContainerState:
    if ends:
        return ContainerState.DRAINING
    return ContainerState.READY if is_ready else ContainerState.CREATING


def _is_ended_proxy(status: _ContainerStatus) -> bool:
    return status.name == PROXY and status.state is not None and status.state.terminated is not None


def _requests(spec: _Spec) -> dict[str, int] | None:
    """Return what the pod requests, its init containers and overhead included; None where nobody can read it."""
    try:
        return effective_requests(spec)
    except RequestError:
        return None


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


class PodRows:
    """Pods of one collection; a reflector's sink."""

    def __init__(self, on_news: Callable[[], None] = lambda: None) -> None:
        """Nothing is known; `on_news` is called in the reflector's thread after each change."""
        self._on_news = on_news
        self._lock = threading.Lock()
        self._rows: dict[Place, PoolPod] = {}
        self._fresh: dict[Place, PoolPod] | None = None
        self._waits: deque[float] = deque(maxlen=_LAST_WAITS)

    def begin(self) -> None:
        """A list begins."""
        self._fresh = {}

    def apply(self, events: Sequence[tuple[EventType, PoolPodRow]]) -> None:
        """Some pods."""
        with self._lock:
            rows = self._rows if self._fresh is None else self._fresh
            for kind, row in events:
                place = row.metadata.namespace, row.metadata.name
                found = None if kind is EventType.DELETED else parse_pool_pod(row)
                if found is None:
                    rows.pop(place, None)
                    continue
                former = self._rows.get(place)
                if former is not None and former.container.node is None and found.container.node is not None:
                    self._bound(former.container, row)
                rows[place] = found
        self._on_news()

    def keep(self, who: ObjectName) -> None:
        """The list has a pod that cannot be read."""
        place = who.namespace, who.name
        if self._fresh is not None and place in self._rows:
            self._fresh[place] = self._rows[place]

    def end(self) -> None:
        """The list is whole."""
        with self._lock:
            if self._fresh is not None:
                self._rows, self._fresh = self._fresh, None
        self._on_news()

    def all(self) -> list[PoolPod]:
        """Return all pods."""
        with self._lock:
            return list(self._rows.values())

    def get(self, place: Place) -> PoolPod | None:
        """Return one pod."""
        with self._lock:
            return self._rows.get(place)

    def waits(self) -> list[float]:
        """Return for how long the last pods without room have waited for their node, in seconds."""
        with self._lock:
            return list(self._waits)

    def _bound(self, former: PoolContainer, row: PoolPodRow) -> None:
        since = former.unschedulable_since_seconds
        at = next((c.last_transition_time for c in row.status.conditions or () if c.type == "PodScheduled"), None)
        bound = _seconds(at)
        if since is not None and bound is not None and bound > since:
            self._waits.append(bound - since)


def owned_pods(rows: Sequence[PodRows], uid_of: Callable[[QueueKey], str | None]) -> Iterator[PoolPod]:
    """Return the pods that really are of the pools that they name.

    Args:
        rows: of all collections.
        uid_of: a pool's uid; None where there is no such pool.
    """
    for collection in rows:
        for pod in collection.all():
            if uid_of(pod.container.key) == pod.owner:
                yield pod
