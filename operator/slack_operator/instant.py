"""Instant start, measured: for each real pod that is seen without a node, how long until it has one.

The monotonic clock counts from when our watch showed the pod; creationTimestamp has whole seconds only and another
machine's clock, so it serves only for pods that were waiting before we looked. The ratio is taken over the hour that
ends with the latest start, so that a quiet cluster's figure does not change by itself. Owned by the view, under its
lock; `InstantRatio` by the loop.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slack.cluster.wire import Pod

INSTANT_SECONDS = 2.0
WINDOW_SECONDS = 3600.0
MAX_STARTS = 20_000
"""A policy; the ratio of more is not better known."""


@dataclass(frozen=True, slots=True)
class Start:
    """One real pod that got its node."""

    node: str
    waited_seconds: float
    in_slack: bool
    """It took a placeholder's place."""
    at: float
    """Monotonic."""


@dataclass(slots=True)
class _Waiting:
    since: float
    nominated: str = ""


def _gated(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status else None) or ()
    return any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in conditions)


class InstantStarts:
    """Pods that wait, and starts that the loop has not taken yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._starts: list[Start] = []
        self._vacated: dict[str, float] = {}
        """Nodes that a placeholder was pushed out of, and when."""

    def vacated(self, node: str, now: float) -> None:
        """A placeholder was displaced from this node."""
        self._vacated[node] = now
        if len(self._vacated) > MAX_STARTS:
            self._vacated = {name: at for name, at in self._vacated.items() if now - at < WINDOW_SECONDS}

    def seen(self, pod: Pod, now: float, waited_before: float = 0.0) -> None:
        """A real pod as an event has it.

        Args:
            pod: neither a placeholder nor a DaemonSet's nor a static one.
            now: monotonic seconds.
            waited_before: how long it was waiting before it was first seen; for pods found in a list.
        """
        uid = pod.metadata.uid or ""
        node = pod.spec.node_name if pod.spec else None
        waiting = self._waiting.get(uid)
        if node:
            if waiting is not None:
                del self._waiting[uid]
                # a nomination alone does not tell: since 1.35 pods that preempt nobody can have one too
                in_slack = waiting.nominated == node and self._vacated.get(node, -1.0) >= waiting.since
                self._starts.append(Start(node, now - waiting.since, in_slack, now))
            return
        if pod.metadata.deletion_timestamp is not None:
            self._waiting.pop(uid, None)
            return
        if waiting is None:
            waiting = self._waiting[uid] = _Waiting(now - waited_before)
        elif _gated(pod):
            waiting.since = now  # nobody is to start it yet
        if pod.status is not None and pod.status.nominated_node_name:
            waiting.nominated = pod.status.nominated_node_name

    def gone(self, uid: str) -> None:
        """A pod that was deleted, seen or unseen; one that never started counts nowhere."""
        self._waiting.pop(uid, None)

    @property
    def waiting(self) -> Iterable[str]:
        """The uids of the pods that wait."""
        return self._waiting.keys()

    def take(self) -> list[Start]:
        """Hand over the starts since the last call."""
        starts, self._starts = self._starts, []
        return starts


class InstantRatio:
    """Starts per policy over the last hour. Owned by the planning loop."""

    def __init__(self) -> None:
        self._starts: dict[str, deque[tuple[float, bool]]] = {}

    def add(self, starts: list[Start], policy_of_node: Mapping[str, str]) -> list[tuple[str, Start]]:
        """Take starts; returns them with their policies, without those on nodes that no policy has."""
        counted = []
        for start in starts:
            policy = policy_of_node.get(start.node)
            if policy is None:
                continue
            window = self._starts.setdefault(policy, deque(maxlen=MAX_STARTS))
            window.append((start.at, start.waited_seconds <= INSTANT_SECONDS))
            while window[0][0] < start.at - WINDOW_SECONDS:
                window.popleft()
            counted.append((policy, start))
        return counted

    def of(self, policy: str) -> float | None:
        """The share of instant starts, None before the first."""
        window = self._starts.get(policy)
        return sum(instant for _, instant in window) / len(window) if window else None

    def text(self, policy: str) -> str | None:
        """The share as it stands in status: `98%`, rounded down so that 100% means all."""
        ratio = self.of(policy)
        return None if ratio is None else f"{int(ratio * 100 + 1e-9)}%"
