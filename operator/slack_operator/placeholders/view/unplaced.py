"""Real pods that have no node, and those that have just got one: for whom way is made.

Fed by the sink of pods, so a pod is known here a moment after the API server has shown it. What it asks for is taken
from the columns, where it has been read already. Memory is bounded whatever tenants do: beyond `MOST` pods without a
node the next ones are left to the scheduler. Owned by the view, under its lock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from slack.cluster.classes import Constraints
from slack.cluster.columns import ClusterColumns
from slack.cluster.labels import LABEL_POD_GROUP
from slack.cluster.snapshot import Amounts
from slack.cluster.unchecked import Unchecked, unchecked
from slack.cluster.wire import Pod, PodSpec, PodStatus
from slack.planner.burst_eviction.burst import LeftAlone, left_alone_for
from slack.planner.burst_eviction.growth import GrowingPod, is_resize_deferred
from slack_operator.placeholders.view.preemptions import may_be_held

MOST = 20_000
_MOST_GATED = MOST // 2
"""Gated pods are added below this number only, so that a queue of them keeps no pod out that a scheduler considers."""
_MOST_PLACED = 10_000
_PLACED_SECONDS = 60.0
"""Those that nobody takes for so long are forgotten: making way is off, or this is a standby."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod without a node asks for; pods of equal ones are one burst."""

    key: str
    """Whose it is: `shop/deploy/api`."""
    namespace: str
    requests: Amounts
    constraints: Constraints
    priority: int
    gang: str
    node: str | None
    """Where the scheduler has nominated it."""
    left_alone: LeftAlone | None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod without a node."""

    uid: str
    owner: str
    """uid of its controller; '' for none."""
    created: float
    """Unix time, whole seconds."""
    since: float
    """When it was first seen, monotonic."""
    asked: Asked


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that has got its node, or was deleted before."""

    uid: str
    key: str
    node: str
    """'' where it was deleted."""
    nominated: bool
    """The scheduler had made room for it by itself."""
    waited: float
    """Seconds since it was first seen."""
    at: float
    """When it got it, or went, monotonic."""


class UnplacedPods:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.pods: dict[str, Unplaced] = {}
        """By uid."""
        self.news = False
        """A pod has come, or asks for other things; who tells of it sets it back."""
        self.awaited: frozenset[str] = frozenset()
        """Workloads that way was made for, by key: that one of their pods is placed is news."""
        self.growing: dict[str, GrowingPod] = {}
        """Pods on a node that has no room for their resize, by uid."""
        self._placed: deque[Placed] = deque(maxlen=_MOST_PLACED)

    def seen(self, pod: Pod, columns: ClusterColumns, now: float) -> str | None:
        """A real pod as an event has it; returns the uid of its owner when it is new."""
        uid = pod.metadata.uid or ""
        known = self.pods.get(uid)
        node = (pod.spec.node_name if pod.spec else None) or ""
        if node:
            if not self._leaves(uid, node, now):  # one that has only just come is not resized yet
                self._grows(uid, node, pod)
            return None
        asked, owner = _asked(pod, columns)
        if asked is None or pod.metadata.deletion_timestamp is not None:
            # Whoever holds a deleted pod by a finalizer holds no room by it: the scheduler passes it over.
            self._leaves(uid, "", now)
            return None
        if known is None and len(self.pods) >= (_MOST_GATED if asked.left_alone is LeftAlone.GATED else MOST):
            return None
        if known is None:
            created = pod.metadata.creation_timestamp
            self.pods[uid] = Unplaced(uid, owner, created.timestamp() if created else 0.0, now, asked)
            self.news = True
            return owner
        if known.asked != asked:
            self.pods[uid] = Unplaced(uid, known.owner, known.created, known.since, asked)
            self.news = True
        return None

    def gone(self, uid: str, now: float) -> None:
        """A pod was deleted, seen or unseen."""
        self.growing.pop(uid, None)
        self._leaves(uid, "", now)

    def take_placed(self) -> list[Placed]:
        """Hand over those that got a node, or went, since the last call."""
        placed = list(self._placed)
        self._placed.clear()
        return placed

    def _grows(self, uid: str, node: str, pod: Pod) -> None:
        spec = pod.spec or PodSpec()
        if is_resize_deferred(pod) and spec.preemption_policy != "Never" and len(self.growing) < MOST:
            self.news |= uid not in self.growing
            priority = spec.priority or 0
            self.growing[uid] = GrowingPod(uid, f"{pod.metadata.namespace}/{pod.metadata.name}", node, priority)
        else:
            self.growing.pop(uid, None)

    def _leaves(self, uid: str, node: str, now: float) -> bool:
        known = self.pods.pop(uid, None)
        if known is not None:
            self.news |= known.asked.key in self.awaited
            nominated = known.asked.node is not None
            self._placed.append(Placed(uid, known.asked.key, node, nominated, now - known.since, now))
            while self._placed[0].at < now - _PLACED_SECONDS:
                self._placed.popleft()
        return known is not None


def burst_key(namespace: str, kind: str, name: str) -> str:
    """Return the key of bursts of a workload's pods.

    Bare pods of one burst would each be another: they are one where they ask for the same.
    """
    return f"{namespace}/pod" if kind == "pod" else f"{namespace}/{kind}/{name}"


def _asked(pod: Pod, columns: ClusterColumns) -> tuple[Asked | None, str]:
    """Return what a pod asks for, None where the columns have left it out; and the uid of its owner, '' for none.

    What others know of the pod is asked first, one after the other: the way of an event stays short.
    """
    metadata, spec = pod.metadata, pod.spec or PodSpec()
    group, owner = metadata.label(LABEL_POD_GROUP), metadata.controller()
    row = columns.pods.rows.get(f"{metadata.namespace}/{metadata.name}")
    kind = -1 if row is None else int(columns.pods.cells.kind[row])
    if kind < 0:
        return None, ""
    own = columns.kinds[kind]
    requests, constraints = columns.requests[own.requests], columns.constraints[own.constraints]
    key = burst_key(own.namespace, own.workload_kind, own.workload_name)
    node = (pod.status or PodStatus()).nominated_node_name or None
    never, held = own.preemption_policy == "Never", may_be_held(spec, own.unchecked)
    left_alone = _left_alone(spec, own.unchecked, constraints, held=held, never=never, nominated=node is not None)
    asked = Asked(key, own.namespace, requests, constraints, own.priority, own.gang or group, node, left_alone)
    return asked, owner.uid if owner else ""


def _left_alone(
    spec: PodSpec,
    own: Sequence[Unchecked],
    constraints: Constraints,
    *,
    held: bool,
    never: bool,
    nominated: bool,
) -> LeftAlone | None:
    if spec.is_gated():
        return LeftAlone.GATED
    if never:
        return LeftAlone.NEVER_PREEMPTS
    if held:
        return LeftAlone.CLAIMS
    # Most pods have none of these: the way of an event stays short.
    if own or constraints.topology_spread or constraints.pod_affinity or constraints.anti_affinity:
        return left_alone_for(unchecked(own, constraints))
    return LeftAlone.NOMINATED if nominated else None
