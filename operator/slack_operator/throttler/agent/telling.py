"""What people are told of starts: Events on pods, and pods that are deleted because they were late.

A storm must not become one of Events: single pods are told until a budget is spent, the rest is counted and told once a
minute on the node. Nothing here waits for the API server: Events and deletions have threads of their own.
"""

import logging
import threading
from collections import Counter
from typing import Final, Protocol

from slack.kube.apply import Writer
from slack.kube.errors import ApiError, KubeError
from slack.kube.events import EventKind, ObjectRef
from slack.kube.paths import resource_path
from slack.process.outages import Outages
from slack.process.reasons import DEPENDS_ON_REFUSED, START_FORCED, START_PERMIT_SKIPPED, START_TIMED_OUT
from slack.supervision.workers import Workers
from slack_operator.throttler.agent.node_pods import NodePod

log = logging.getLogger(__name__)

BURST: Final = 20
"""Events on single pods at once; then one more every `REFILL_SECONDS`."""
REFILL_SECONDS: Final = 6.0
SUMMARY_SECONDS: Final = 60.0
MAX_DELETIONS: Final = 100
"""That wait to be sent; more are left to run on."""
_TROUBLE = frozenset({START_PERMIT_SKIPPED, START_TIMED_OUT, DEPENDS_ON_REFUSED})


class Recorder(Protocol):
    """Where Events go."""

    def record(self, regarding: ObjectRef, kind: EventKind, reason: str, message: str) -> None:
        """Say something about an object; never waits."""


class Teller:
    """What one agent tells. `flush` and what is told belong to one thread."""

    def __init__(self, recorder: Recorder, writer: Writer, node: str) -> None:
        self.deleted = 0
        self.undeleted = 0
        self._recorder = recorder
        self._writer = writer
        self._node = node
        self._tokens, self._tokens_at = float(BURST), float("-inf")
        self._untold: Counter[str] = Counter()
        self._summary_at = float("-inf")
        self._outages = Outages()
        self._deletions = Workers(1, name="deletions")
        self._places = threading.BoundedSemaphore(MAX_DELETIONS)

    def stop(self) -> None:
        """Give up what is not sent yet."""
        self._deletions.shutdown(wait=False, cancel_futures=True)

    def unhealthy(self) -> str | None:
        """Return why late pods are not deleted any more; None if they are."""
        return self._deletions.unhealthy()

    def opened(self, pod: NodePod, container: str, now: float) -> None:
        """A container began without a grant."""
        text = f"container {container} started without a permit: its gate heard of no agent of the throttler"
        self._tell(pod, START_PERMIT_SKIPPED, text, now)

    def forced(self, pod: NodePod, container: str, now: float) -> None:
        """A container was let in by minRate alone."""
        text = f"container {container} may start by the policy's minRate, whatever the node's load and slots"
        self._tell(pod, START_FORCED, text, now)

    def refused(self, pod: NodePod, why: str, now: float) -> None:
        """A pod's dependencies cannot be kept."""
        self._tell(pod, DEPENDS_ON_REFUSED, f"no container of it is started: {why}", now)

    def late(self, pod: NodePod, container: str, now: float, *, after_seconds: float | None, delete: bool) -> None:
        """A container was not ready in time; its pod is deleted if the policy says so."""
        within = "in time" if after_seconds is None else f"within {after_seconds:g} s of its permit"
        done = "its slot is free"
        if delete:
            done = self._delete(pod)
        self._tell(pod, START_TIMED_OUT, f"container {container} was not ready {within}; {done}", now)

    def flush(self, now: float) -> None:
        """Tell on the node what was too much for its pods."""
        if not self._untold or now - self._summary_at < SUMMARY_SECONDS:
            return
        self._summary_at = now
        node = ObjectRef("v1", "Node", self._node, self._node)
        for reason, count in sorted(self._untold.items()):
            self._recorder.record(node, _kind(reason), reason, f"{count} more containers of this node")
        self._untold.clear()

    def _tell(self, pod: NodePod, reason: str, message: str, now: float) -> None:
        self._tokens = min(float(BURST), self._tokens + max(0.0, now - self._tokens_at) / REFILL_SECONDS)
        self._tokens_at = now
        if self._tokens < 1.0:
            self._untold[reason] += 1
            return
        self._tokens -= 1.0
        metadata = pod.metadata
        about = ObjectRef("v1", "Pod", metadata.name, metadata.uid, metadata.namespace)
        self._recorder.record(about, _kind(reason), reason, message)

    def _delete(self, pod: NodePod) -> str:
        """Have a pod deleted; returns what becomes of it."""
        if pod.is_mirror:
            return "its slot is free; a static pod cannot be deleted"
        if not pod.gated or not self._places.acquire(blocking=False):
            return "its slot is free"
        metadata = pod.metadata
        path = resource_path("v1", "pods", namespace=metadata.namespace, name=metadata.name)
        try:
            self._deletions.submit(self._send, path, metadata.uid)
        except RuntimeError:  # the agent ends
            self._places.release()
            return "its slot is free"
        return "its pod is deleted"

    def _send(self, path: str, uid: str) -> None:
        try:
            self.deleted += self._writer.delete(path, uid=uid)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status == 409:
                return  # another pod has that name now
            self.undeleted += 1
            if self._outages.is_new(f"{type(error).__name__} {getattr(error, 'status', '')}"):
                log.warning("%s was late and cannot be deleted, it runs on without a slot: %s", path, error)
        finally:
            self._places.release()


def _kind(reason: str) -> EventKind:
    return EventKind.WARNING if reason in _TROUBLE else EventKind.NORMAL
