"""Counts placeholders that left their node without our doing, by cause.

A placeholder is displaced when it was bound and goes: the cause is in its `DisruptionTarget` condition, and without one
it was deleted from outside. Deletions that follow from our own lowering of `replicas` are expected beforehand and
do not count. Each pod counts once. Owned by the view, under its lock.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from slack.cluster.wire import Pod
from slack.planner.manifests import LABEL_POLICY

PREEMPTED = "PreemptionByScheduler"
DELETED = "Deleted"
"""From outside: kubectl delete, another controller."""
OVERCOMMITTED = "NodeOvercommitted"
"""Deleted by us, because real pods left it no room on its node (a static pod, an in-place resize)."""
UNSEEN = "Unseen"
"""Gone while the watch was interrupted."""
EXPECTED_SECONDS = 60.0
"""How long deletions that we caused may take; a controller that is slower shows in other ways."""
REMEMBERED = 100
"""How many displaced placeholders are known by name."""


@dataclass(frozen=True, slots=True)
class Displacement:
    """One placeholder that was displaced."""

    number: int
    """Counted from 1 since the process began."""
    at: float
    """Monotonic."""
    policy: str
    cause: str
    pod: str
    node: str
    """'' where it is not known."""


def cause_of(pod: Pod) -> str:
    """Say why a placeholder goes: the reason of its DisruptionTarget condition, or `Deleted`."""
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or DELETED
    return DELETED


class Displaced:
    """The counts, and which deletions are our own."""

    def __init__(self) -> None:
        self._bound: dict[str, Pod] = {}
        """Placeholders on a node, by uid."""
        self._expected: dict[str, tuple[int, float]] = {}
        """By ReplicaSet: how many deletions we caused that have not been seen yet, and until when they count."""
        self._pushed: set[str] = set()
        self._counts: dict[tuple[str, str], int] = {}
        self._recent: deque[Displacement] = deque(maxlen=REMEMBERED)
        self._number = 0

    @property
    def recent(self) -> tuple[Displacement, ...]:
        """The latest ones, the oldest first."""
        return tuple(self._recent)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many so far, by (policy, cause)."""
        return MappingProxyType(dict(self._counts))

    def of_policy(self, policy: str) -> int:
        """How many of a policy's so far."""
        return sum(count for (name, _), count in self._counts.items() if name == policy)

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """We are about to make `count` pods of a ReplicaSet go."""
        known, until = self._expected.get(replica_set, (0, now))
        self._expected[replica_set] = ((known if until > now else 0) + count, now + EXPECTED_SECONDS)

    def push_out(self, uid: str) -> None:
        """We are about to delete this pod, because its node is overcommitted."""
        self._pushed.add(uid)

    def seen(self, pod: Pod, now: float) -> str | None:
        """A placeholder as an event has it; returns the node it is displaced from, when it is."""
        uid = pod.metadata.uid or ""
        if pod.metadata.deletion_timestamp is not None:
            return self.gone(pod, now)
        if pod.spec is not None and pod.spec.node_name:
            self._bound[uid] = pod
        return None

    def gone(self, pod: Pod, now: float) -> str | None:
        """A placeholder that is deleted or being deleted; returns the node it is displaced from, when it is."""
        known = self._bound.pop(pod.metadata.uid or "", None)
        return None if known is None else self._count(pod, cause_of(pod), now)

    def retired(self, uid: str) -> None:
        """A placeholder whose ReplicaSet is gone: the garbage collector took it after its policy."""
        self._bound.pop(uid, None)

    @property
    def bound(self) -> Iterable[str]:
        """The uids of the placeholders that are on a node."""
        return self._bound.keys()

    def vanished(self, uid: str, now: float) -> None:
        """A pod went unseen: a new list does not have it."""
        known = self._bound.pop(uid, None)
        if known is not None:
            self._count(known, UNSEEN, now)

    def _count(self, pod: Pod, cause: str, now: float) -> str | None:
        uid = pod.metadata.uid or ""
        owner = pod.metadata.controller()
        if uid in self._pushed:
            self._pushed.discard(uid)
            cause = OVERCOMMITTED
        elif cause in (DELETED, UNSEEN) and owner is not None:
            left, until = self._expected.get(owner.name, (0, 0.0))
            if left > 0 and until > now:
                self._expected[owner.name] = (left - 1, until)
                return None
        key = (pod.metadata.label(LABEL_POLICY), cause)
        self._counts[key] = self._counts.get(key, 0) + 1
        node = (pod.spec.node_name if pod.spec else None) or ""
        self._number += 1
        self._recent.append(Displacement(self._number, now, key[0], cause, pod.metadata.name, node))
        return node
