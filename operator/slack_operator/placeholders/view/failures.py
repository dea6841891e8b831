"""Placeholders that have failed: what is left of them, how many by cause, and where they fail as fast as they come.

The kubelet ends a pod for good when its node runs short or is shut down, and refuses one that it has no room for. The
ReplicaSet controller makes another at once and leaves the failed one lying; where the kubelet refuses that one too,
both go on without a pause. Completed ones are the same: what a kubelet ends, and what then exits with 0 as a
placeholder does, has succeeded to it, and only a condition tells why. Pods of phase Unknown are none of these: their
node is silent, and the taint for that evicts placeholders after ten seconds, whether a kubelet answers or not, as their
grace period is zero.
Owned by the view, under its lock.
"""

from collections import deque
from collections.abc import Container, Mapping
from types import MappingProxyType

from slack.cluster.identity import owner_name
from slack.cluster.labels import LABEL_POLICY
from slack.cluster.wire import Pod
from slack.planner.model.result import Answer, AutoscalerEvent
from slack.planner.removal.reasons import FailedPlaceholder

YOUNG_SECONDS = 60.0
"""Who fails so soon after its creation never held any room."""
WINDOW_SECONDS = 60.0
HOT = 5
"""So many of one ReplicaSet that fail young within the window are a loop."""
KEEP_SECONDS = 7200.0
MAX_MESSAGE = 200
_FINISHED = ("Failed", "Succeeded")
OTHER = "Other"
COMPLETED = "Completed"
ENDED_BY_KUBELET = "TerminationByKubelet"
"""The reason of the condition DisruptionTarget: the node was short of something, or shut down."""
CAUSES = frozenset(
    {
        "Evicted",
        "Preempting",
        "NodeShutdown",
        "Terminated",
        "NodeAffinity",
        "NodeLost",
        "NodeStatusUnknown",
        "UnexpectedAdmissionError",
        "AppArmor",
        "DeadlineExceeded",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "PodLevelResourcesNotSupported",
    }
)
"""What kubelets write into status.reason (pkg/kubelet/eviction, lifecycle, nodeshutdown); a label has few values."""


def cause_of_failure(pod: Pod) -> str:
    """Say in one word why a finished placeholder has ended."""
    status = pod.status
    reason = (status.reason if status else None) or ""
    if reason in CAUSES:
        return reason
    if reason.startswith("OutOf"):
        return "OutOfOther"
    if reason or status is None:
        return OTHER
    if any(each.reason == ENDED_BY_KUBELET and each.status == "True" for each in status.conditions or ()):
        return ENDED_BY_KUBELET
    return COMPLETED if status.phase == "Succeeded" else OTHER


class Failures:
    """What lies there, and the counts."""

    def __init__(self) -> None:
        self._corpses: dict[str, FailedPlaceholder] = {}
        """By uid."""
        self._counts: dict[tuple[str, str], int] = {}
        self._young: dict[str, deque[float]] = {}
        """By ReplicaSet: when placeholders failed young lately (Unix seconds)."""
        self._loops: dict[str, AutoscalerEvent] = {}

    @property
    def corpses(self) -> tuple[FailedPlaceholder, ...]:
        """Those that are there, by name."""
        return tuple(sorted(self._corpses.values(), key=lambda corpse: corpse.name))

    @property
    def uids(self) -> set[str]:
        """Of those that are there."""
        return set(self._corpses)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many so far, by (policy, cause)."""
        return MappingProxyType(dict(self._counts))

    def keep_only(self, policies: Container[str]) -> None:
        """Forget the counts of policies that are no more."""
        self._counts = {key: count for key, count in self._counts.items() if key[0] in policies}

    def seen(self, pod: Pod, now: float) -> str | None:
        """A finished placeholder; returns its cause when it is news.

        Its phase is looked at again: what a proxy or a server that ignores field selectors shows is not all dead.

        Args:
            pod: as the watch shows it.
            now: Unix seconds.
        """
        metadata = pod.metadata
        uid = metadata.uid or ""
        if metadata.deletion_timestamp is not None or uid in self._corpses:
            return None
        if pod.status is None or pod.status.phase not in _FINISHED:
            return None
        cause, replica_set = cause_of_failure(pod), owner_name(pod)
        policy = metadata.label(LABEL_POLICY)
        self._corpses[uid] = FailedPlaceholder(metadata.name, uid, policy, replica_set, cause)
        self._counts[policy, cause] = self._counts.get((policy, cause), 0) + 1
        created = metadata.creation_timestamp
        if replica_set and created is not None and now - created.timestamp() < YOUNG_SECONDS:
            self._note_young(replica_set, cause, pod, now)
        return cause

    def gone(self, uid: str) -> None:
        """It is deleted."""
        self._corpses.pop(uid, None)

    def loops(self, replica_sets: Container[str], now: float) -> tuple[AutoscalerEvent, ...]:
        """Return where placeholders fail as fast as they come, as a word about their ReplicaSets.

        Args:
            replica_sets: those that are there; the others are forgotten.
            now: Unix seconds.
        """
        self._young = {
            name: times
            for name, times in self._young.items()
            if name in replica_sets and now - times[-1] < KEEP_SECONDS
        }
        self._loops = {
            name: event
            for name, event in self._loops.items()
            if name in replica_sets and now - event.seen_seconds < KEEP_SECONDS
        }
        return tuple(self._loops[name] for name in sorted(self._loops))

    def _note_young(self, replica_set: str, cause: str, pod: Pod, now: float) -> None:
        times = self._young.setdefault(replica_set, deque(maxlen=HOT))
        times.append(now)
        if len(times) == HOT and now - times[0] < WINDOW_SECONDS:
            node = (pod.spec.node_name if pod.spec else None) or "no node"
            said = (pod.status.message if pod.status else None) or ""
            text = f"{HOT} failed within a minute, the last on {node[:63]}: {cause}" + (f", {said}" if said else "")
            self._loops[replica_set] = AutoscalerEvent(replica_set, Answer.FAILING, text[:MAX_MESSAGE], now)
