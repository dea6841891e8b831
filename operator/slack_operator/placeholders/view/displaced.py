"""Counts placeholders that left their node without our doing, by cause.

A placeholder is displaced when it was bound and goes: the cause is in its `DisruptionTarget` condition, and without one
it was deleted from outside. Deletions that follow from our own lowering of `replicas` are expected beforehand and
do not count. Each pod counts once. Owned by the view, under its lock.

Causes that are open are decided by the next plan; while none is made `MOST_OPEN` of them wait, and the oldest is
counted by what is known of it.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from slack.cluster.labels import LABEL_POLICY
from slack.cluster.wire import Pod

PREEMPTED = "PreemptionByScheduler"
RESIZED = "PreemptionByResize"
"""Preempted for a pod on the node that grows (KEP-5836, 1.37, alpha). The condition says no more than PREEMPTED."""
DELETED = "Deleted"
"""From outside: kubectl delete, another controller."""
OVERCOMMITTED = "NodeOvercommitted"
"""Deleted by us, because real pods left it no room on its node (a static pod, an in-place resize)."""
MADE_WAY = "MadeWay"
"""Deleted by us for a burst of real pods, before the scheduler had to preempt it."""
UNSEEN = "Unseen"
"""Gone while the watch was interrupted."""
EXPECTED_SECONDS = 60.0
"""How long deletions that we caused may take; a controller that is slower shows in other ways."""
UNDECIDED_SECONDS = 2.0
"""How long after a preemption its preemptor's nomination may show; a pod that grows gets none."""
SETTLED_SECONDS = 5.0
"""After a placeholder was deleted on a node because the node had too little room: by then whoever else decides there
has seen it go."""
MOST_OPEN = 10_000
"""Placeholders whose cause is open; and those that have failed and have not gone yet."""
REMEMBERED = 100
"""How many displaced placeholders are known by name."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A placeholder that left its node, and when."""

    at: float
    policy: str
    pod: str
    uid: str
    node: str


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
        self._ours: dict[str, tuple[str, float]] = {}
        """The cause of those that we delete one by one, and when that began, by uid."""
        self._relieved: dict[str, tuple[str, float]] = {}
        """Nodes that had too little room: for which cause a placeholder of theirs was deleted, and when at last."""
        self._counts: dict[tuple[str, str], int] = {}
        self._recent: deque[Displacement] = deque(maxlen=REMEMBERED)
        self._number = 0
        self._undecided: deque[_Left] = deque()
        """Preempted from a node where a pod was waiting to grow."""
        self._unexplained: deque[_Left] = deque()
        """Gone without a cause. One that fails leaves the watch of all pods like one that is deleted, and what it came
        to is shown by another watch, a moment sooner or later."""
        self._failed: dict[str, tuple[str, float]] = {}
        """By uid: the cause of a placeholder that has failed and that the watch of all pods has not let go yet."""

    @property
    def recent(self) -> tuple[Displacement, ...]:
        """The latest ones, the oldest first."""
        return tuple(self._recent)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many so far, by (policy, cause)."""
        return MappingProxyType(dict(self._counts))

    def expect(self, replica_set: str, count: int, now: float) -> None:
        """We are about to make `count` pods of a ReplicaSet go."""
        known, until = self._expected.get(replica_set, (0, now))
        self._expected[replica_set] = ((known if until > now else 0) + count, now + EXPECTED_SECONDS)

    def push_out(self, uid: str, now: float) -> bool:
        """We are about to delete this pod, because its node is overcommitted.

        Returns:
            False where a pod that grows there has just got its room from another one: the plan did not know of it.
        """
        return self._claim(uid, OVERCOMMITTED, now)

    def make_way(self, uid: str, now: float, *, growth: bool = False) -> bool:
        """We are about to delete this pod for a burst, or for a pod on its node that grows.

        Returns:
            False where it is for growth, and the plan has just pushed another one out of the node for the same reason.
        """
        if growth:
            return self._claim(uid, MADE_WAY, now)
        self._ours[uid] = (MADE_WAY, now)
        return True

    def _claim(self, uid: str, cause: str, now: float) -> bool:
        """A node that lacks room is seen by the plan and by the thread that makes way: one of them mends it."""
        while self._relieved and now - next(iter(self._relieved.values()))[1] >= SETTLED_SECONDS:
            del self._relieved[next(iter(self._relieved))]
        pod = self._bound.get(uid)
        node = (pod.spec.node_name if pod is not None and pod.spec else None) or ""
        if self._relieved.get(node, (cause, now))[0] != cause:
            return False
        if node:
            self._relieved.pop(node, None)  # in the order of time
            self._relieved[node] = (cause, now)
        self._ours[uid] = (cause, now)
        return True

    def makes_way(self, uid: str) -> bool:
        """Whether it goes, or is about to, because we have deleted it for a burst."""
        cause, _ = self._ours.get(uid, (None, 0.0))
        return cause == MADE_WAY

    def stays(self, uid: str) -> None:
        """This pod was not deleted by us after all."""
        self._ours.pop(uid, None)

    def is_bound(self, uid: str) -> bool:
        """Whether a placeholder is seen on its node."""
        return uid in self._bound

    def seen(self, pod: Pod, now: float, *, resizing: bool = False) -> str | None:
        """A placeholder as an event has it; returns the node it is displaced from, when it is.

        Args:
            pod: the placeholder.
            now: monotonic seconds.
            resizing: a pod on its node was waiting for a resize to fit.
        """
        uid = pod.metadata.uid or ""
        if pod.metadata.deletion_timestamp is not None:
            return self.gone(pod, now, resizing=resizing)
        if pod.spec is not None and pod.spec.node_name:
            self._bound[uid] = pod
        return None

    def gone(self, pod: Pod, now: float, *, resizing: bool = False) -> str | None:
        """A placeholder that is deleted or being deleted, see `seen`."""
        known = self._bound.pop(pod.metadata.uid or "", None)
        return None if known is None else self._count(pod, cause_of(pod), now, resizing=resizing)

    def decide(self, now: float, promised_since: Callable[[str, float], bool]) -> None:
        """Count preemptions whose cause was open: for a pod that was promised the node, or for one that grew there.

        Args:
            now: monotonic seconds.
            promised_since: whether a pod was promised a node at or after a time.
        """
        while self._undecided and self._undecided[0].at <= now - UNDECIDED_SECONDS:
            left = self._undecided.popleft()
            promised = promised_since(left.node, left.at - UNDECIDED_SECONDS)
            self._add(left, PREEMPTED if promised else RESIZED)
        while self._unexplained and self._unexplained[0].at <= now - UNDECIDED_SECONDS:
            self._explain(self._unexplained.popleft())
        self._failed = {uid: found for uid, found in self._failed.items() if now - found[1] < EXPECTED_SECONDS}
        self._expected = {name: found for name, found in self._expected.items() if found[1] > now}
        self._ours = {
            uid: found
            for uid, found in self._ours.items()
            if uid in self._bound or now - found[1] < EXPECTED_SECONDS  # else the deletion was refused, or went unseen
        }

    def keep_only(self, policies: Container[str]) -> None:
        """Forget the counts of policies that are no more."""
        self._counts = {key: count for key, count in self._counts.items() if key[0] in policies}

    def _explain(self, left: _Left) -> None:
        cause, _ = self._failed.pop(left.uid, (DELETED, left.at))
        self._add(left, cause)

    def failed(self, pod: Pod, cause: str, now: float) -> None:
        """A placeholder has failed: that is why it went, or is about to be let go by the watch of all pods."""
        if pod.spec is not None and pod.spec.node_name:
            self._failed[pod.metadata.uid or ""] = (cause, now)
            if len(self._failed) > MOST_OPEN:
                del self._failed[next(iter(self._failed))]

    def let_go(self, uid: str) -> None:
        """A placeholder whose ReplicaSet is gone, or that is none of the plan: it goes, and is not displaced."""
        self._bound.pop(uid, None)
        self._ours.pop(uid, None)

    @property
    def bound(self) -> Iterable[str]:
        """The uids of the placeholders that are on a node."""
        return self._bound.keys()

    def vanished(self, uid: str, now: float) -> None:
        """A pod went unseen: a new list does not have it."""
        known = self._bound.pop(uid, None)
        if known is not None:
            self._count(known, self._failed.pop(uid, (UNSEEN, now))[0], now)

    def _count(self, pod: Pod, cause: str, now: float, *, resizing: bool = False) -> str | None:
        uid = pod.metadata.uid or ""
        owner = pod.metadata.controller()
        ours, _ = self._ours.pop(uid, (None, 0.0))
        if ours is not None and cause in (DELETED, UNSEEN):
            cause = ours
        elif cause in (DELETED, UNSEEN) and owner is not None:
            count, until = self._expected.get(owner.name, (0, 0.0))
            if count > 0 and until > now:
                self._expected[owner.name] = (count - 1, until)
                return None
        node = (pod.spec.node_name if pod.spec else None) or ""
        left = _Left(now, pod.metadata.label(LABEL_POLICY), pod.metadata.name, uid, node)
        if cause == DELETED and pod.metadata.deletion_timestamp is None:
            self._unexplained.append(left)
            if len(self._unexplained) > MOST_OPEN:
                self._explain(self._unexplained.popleft())
        elif cause == PREEMPTED and resizing:
            self._undecided.append(left)
            if len(self._undecided) > MOST_OPEN:
                self._add(self._undecided.popleft(), PREEMPTED)
        else:
            self._add(left, cause)
        return node

    def _add(self, left: _Left, cause: str) -> None:
        self._counts[left.policy, cause] = self._counts.get((left.policy, cause), 0) + 1
        self._number += 1
        self._recent.append(Displacement(self._number, left.at, left.policy, cause, left.pod, left.node))
