"""What people are told of starts: Events on pods.

A storm must not become one of Events: single pods are told until a budget is spent, the rest is counted and told once a
minute on the node. Nothing here waits for the API server: Events have a thread of their own.
"""

from collections import Counter
from typing import Final

from slack.kube.events import EventKind, ObjectRef, RecordsEvents
from slack_operator.throttler.agent.node_pods import NodePod
from slack_operator.throttler.reasons import DEPENDS_ON_REFUSED, START_FORCED, START_PERMIT_SKIPPED, START_TIMED_OUT

BURST: Final = 20
"""Events on single pods at once; then one more every `REFILL_SECONDS`."""
REFILL_SECONDS: Final = 6.0
SUMMARY_SECONDS: Final = 60.0
_TROUBLE = frozenset({START_PERMIT_SKIPPED, START_TIMED_OUT, DEPENDS_ON_REFUSED})


class StartEventReporter:
    """What one agent tells. `flush` and what is told belong to one thread."""

    def __init__(self, recorder: RecordsEvents, node: str) -> None:
        self._recorder = recorder
        self._node = node
        self._tokens, self._tokens_at = float(BURST), float("-inf")
        self._untold: Counter[str] = Counter()
        self._summary_at = float("-inf")

    def opened(self, pod: NodePod, container: str, now: float) -> None:
        """A container began without a grant."""
        text = (
            f"container {container} started without a permit: for failOpenAfter its gate had no answer of an agent of "
            "the throttler that sees the node's pods"
        )
        self._tell(pod, START_PERMIT_SKIPPED, text, now)

    def forced(self, pod: NodePod, container: str, now: float) -> None:
        """A container was let in by minRate alone."""
        text = f"container {container} may start by the policy's minRate, whatever the node's load and slots"
        self._tell(pod, START_FORCED, text, now)

    def refused(self, pod: NodePod, why: str, now: float) -> None:
        """A pod's dependencies cannot be kept."""
        self._tell(pod, DEPENDS_ON_REFUSED, f"no container of it is started: {why}", now)

    def late(self, pod: NodePod, container: str, now: float, *, after_seconds: float | None, delete: bool) -> None:
        """A container was not ready in time; the controller evicts its pod if the policy says so."""
        within = "in time" if after_seconds is None else f"within {after_seconds:g} s of its permit"
        done = "its slot is free"
        if delete:
            done += "; a static pod cannot be evicted" if pod.is_mirror else ", and its pod is to be evicted"
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


def _kind(reason: str) -> EventKind:
    return EventKind.WARNING if reason in _TROUBLE else EventKind.NORMAL
