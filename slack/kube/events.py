"""Kubernetes Events about our decisions: short lines that `kubectl describe` shows beside the object.

core/v1, because every tool shows its counts. Equal lines within a window are one Event whose count grows; each object
has a budget, so a flapping one cannot flood etcd. `record` only puts into a bounded queue and never fails or blocks;
the recorder's own daemon thread does the posting and owns all other state.
"""

from __future__ import annotations

import collections
import logging
import queue
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from slack.kube.apply import Json, Writer
from slack.kube.errors import ApiError, KubeError
from slack.kube.paths import resource_path
from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

WINDOW_SECONDS = 600.0
BURST = 25
REFILL_SECONDS = 60.0  # one more Event a minute and object
MAX_MESSAGE = 1024
MAX_KNOWN = 4096
POST_SECONDS = 120.0  # a post that takes longer counts as stuck; writers give up after some seconds


class EventKind(StrEnum):
    """The two types the API allows."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object an Event is about. `namespace` is empty for cluster-scoped ones."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    namespace: str = ""


@dataclass
class RecorderCounters:
    """What became of the lines."""

    posted: int = 0
    aggregated: int = 0
    limited: int = 0
    dropped: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    regarding: ObjectRef
    kind: EventKind
    reason: str
    message: str


@dataclass
class _Posted:
    path: str
    count: int
    last: float


@dataclass
class _Budget:
    at: float
    tokens: float = field(default=float(BURST))


class RecordsEvents(Protocol):
    """Where Events go; `EventRecorder` is one."""

    def record(self, regarding: ObjectRef, kind: EventKind, reason: str, message: str) -> None:
        """Say something about an object; never waits."""


class EventRecorder:
    """Posts Events in the background.

    >>> events = EventRecorder(writer, component="resource-slack", instance=pod_name)  # doctest: +SKIP
    >>> events.record(ref, EventKind.WARNING, "LimitReached", "...")                   # doctest: +SKIP
    """

    def __init__(
        self,
        writer: Writer,
        *,
        component: str,
        instance: str = "",
        window_seconds: float = WINDOW_SECONDS,
        queue_size: int = 256,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = RecorderCounters()
        self._writer = writer
        self._component = component
        self._instance = instance
        self._window_seconds = window_seconds
        self._clock = clock
        self._queue: queue.Queue[_Line | None] = queue.Queue(queue_size)
        self._posted: collections.OrderedDict[_Line, _Posted] = collections.OrderedDict()
        self._budgets: collections.OrderedDict[ObjectRef, _Budget] = collections.OrderedDict()
        heart = Heartbeat("the thread that posts Events", POST_SECONDS)
        self._thread = SupervisedThread(self._run, name="events", heart=heart)

    def start(self) -> None:
        """Post from a daemon thread."""
        self._thread.start()

    def unhealthy(self) -> str | None:
        """Return why no Event is posted any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def stop(self, timeout: float = 2.0) -> None:
        """Post what waits, for at most `timeout` seconds."""
        self._thread.dismiss()
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def record(self, regarding: ObjectRef, kind: EventKind, reason: str, message: str) -> None:
        """Say something about an object, from any thread. Never raises, never waits; a full queue drops the line.

        Args:
            regarding: The object.
            kind: Normal or Warning.
            reason: One CamelCase word for machines.
            message: A sentence for people, stable as long as the situation is (it decides what counts as equal).
        """
        text = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
        try:
            self._queue.put_nowait(_Line(regarding, kind, reason, text))
        except queue.Full:
            self.counters.dropped += 1

    def _run(self) -> None:
        while True:
            self._thread.heart.beat()
            try:
                line = self._queue.get(timeout=heartbeat.LONGEST_REST_SECONDS)
            except queue.Empty:
                continue
            if line is None:
                return
            self._thread.heart.beat()
            try:
                self._post(line)
            except KubeError as error:
                self.counters.errors += 1
                log.warning("event %s for %s %s: %s", line.reason, line.regarding.kind, line.regarding.name, error)
            except Exception:  # an Event is never worth the thread that posts them
                self.counters.errors += 1
                log.exception("event %s for %s %s", line.reason, line.regarding.kind, line.regarding.name)

    def _post(self, line: _Line) -> None:
        now = self._clock()
        if not self._affordable(line.regarding, now):
            self.counters.limited += 1
            return
        known = self._posted.get(line)
        if known is not None and now - known.last < self._window_seconds and self._count_up(line, known, now):
            return
        manifest = self._manifest(line)
        namespace = manifest["metadata"]["namespace"]
        self._writer.create(resource_path("v1", "events", namespace=namespace), manifest)
        self.counters.posted += 1
        path = resource_path("v1", "events", namespace=namespace, name=manifest["metadata"]["name"])
        self._posted[line] = _Posted(path, 1, now)
        self._posted.move_to_end(line)
        if len(self._posted) > MAX_KNOWN:
            self._posted.popitem(last=False)

    def _count_up(self, line: _Line, known: _Posted, now: float) -> bool:
        try:
            self._writer.merge_patch(known.path, {"count": known.count + 1, "lastTimestamp": _time()})
        except ApiError as error:
            if not error.not_found:
                raise
            return False  # Events live for an hour on the server, or somebody deleted it
        known.count += 1
        known.last = now
        self._posted.move_to_end(line)
        self.counters.aggregated += 1
        return True

    def _affordable(self, regarding: ObjectRef, now: float) -> bool:
        budget = self._budgets.setdefault(regarding, _Budget(now))
        self._budgets.move_to_end(regarding)
        if len(self._budgets) > MAX_KNOWN:
            self._budgets.popitem(last=False)
        budget.tokens = min(float(BURST), budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        if budget.tokens < 1.0:
            return False
        budget.tokens -= 1.0
        return True

    def _manifest(self, line: _Line) -> Json:
        regarding = line.regarding
        # the API server wants Events about cluster-scoped objects in the namespace `default`
        namespace = regarding.namespace or "default"
        involved = {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "name": regarding.name,
            "namespace": regarding.namespace,
            "uid": regarding.uid,
        }
        now = _time()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding.name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": line.kind.value,
            "reason": line.reason,
            "message": line.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
