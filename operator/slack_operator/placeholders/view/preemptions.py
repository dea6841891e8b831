"""Preemptions as the watch of pods shows them: who is promised a node, and who is pushed off it for whom.

Fed with every pod event that could matter (`matters`), asked for hangs (`hangs`) and for what tells whether a
preemption was for a pod that starts or for one that grows (`resizing_at`, `promised_since`). Memory is bounded whatever
tenants do: nominations and creations are capped, the oldest go first; victims that have left are forgotten after a
minute, when no nomination can be about them any more. What is kept of pods on nodes ends with those pods. Owned by the
view, under its lock; no clock of its own.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from slack.cluster.labels import LABEL_POD_GROUP
from slack.cluster.tables.kind_table import unchecked_of
from slack.cluster.unchecked import CLAIMS, Unchecked
from slack.cluster.wire import ABSENT, ObjectCondition, Pod, PodSpec, PodStatus
from slack_operator.placeholders.view.displaced import PREEMPTED
from slack_operator.placeholders.view.hangs import Hang, Preemptor, hang_of

AROUND_SECONDS = 60.0
"""How long before its nomination shows a preemptor's victims may have left: the scheduler writes both at once, but only
so many requests a second."""
PROMISED_SECONDS = 600.0
"""How long it is known that a node was promised; a plan asks within seconds."""
MAX_PREEMPTORS = 10_000
MAX_UNBOUND = 20_000
MAX_NODES = 10_000
"""With victims that left within the last minute."""
MAX_LEFT = 64
"""Such victims of one node."""
_RESIZE = "PodResizePending"
_WORTH_READING = re.compile(f"{PREEMPTED}|{_RESIZE}".encode()).search
"""Conditions of pods on nodes are decoded only where one of these words occurs in them."""
_NOTHING = (ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b"[]"), msgspec.Raw(b"{}"))
_NO_SPEC = PodSpec()
_NO_STATUS = PodStatus()


class Preemptions:
    """Preemptors, victims, and resizes that wait for room."""

    def __init__(self) -> None:
        self._preemptors: dict[str, Preemptor] = {}
        """By uid."""
        self._at: dict[str, dict[str, Preemptor]] = {}
        """The same by the node that they were promised."""
        self._unbound: dict[str, float] = {}
        """When a pod without a node was first seen, by uid."""
        self._victims: dict[str, tuple[str, int]] = {}
        """Node and priority of each pod on a node that the scheduler wants off it, by uid."""
        self._left: dict[str, deque[tuple[float, int]]] = {}
        """When victims left, and their priorities, by node."""
        self._resizing: dict[str, str] = {}
        """The node of each pod whose resize waits for room there, by uid."""
        self._resizing_at: dict[str, int] = {}
        """How many of them, by node."""
        self._promised: dict[str, float] = {}
        """When a pod was promised this node last."""

    def matters(self, pod: Pod, uid: str) -> bool:
        """Whether `seen` or `gone` has to be told of an event; of nearly all it need not be."""
        if uid in self._unbound or uid in self._preemptors or uid in self._victims or uid in self._resizing:
            return True
        if not (pod.spec and pod.spec.node_name):
            return True
        return pod.status is not None and _WORTH_READING(pod.status.conditions_json) is not None

    def followed(self) -> Iterable[str]:
        """Return the uids of all pods that are known here."""
        return self._unbound.keys() | self._preemptors.keys() | self._victims.keys() | self._resizing.keys()

    def __len__(self) -> int:
        """How many pods wait for a node that they were promised."""
        return len(self._preemptors)

    def seen(self, pod: Pod, now: float) -> None:
        """A pod that is there, whoever's it is, as an event has it.

        Raises:
            ValueError: when its conditions or volumes have another form than the API's.
        """
        uid = pod.metadata.uid or ""
        spec, status = pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        if spec.node_name:
            self._unbound.pop(uid, None)
            self._forget(uid)
            self._on_node(uid, spec.node_name, spec.priority or 0, status)
        elif pod.metadata.deletion_timestamp is not None:
            self._unbound.pop(uid, None)
            self._forget(uid)
        else:
            new = uid not in self._unbound
            if new:
                self._unbound[uid] = now
                _cap(self._unbound, MAX_UNBOUND)
            self._waits(uid, pod, spec, status, now)
            if new and uid in self._preemptors:
                self._preemptors[uid].unseen = True

    def gone(self, pod: Pod, now: float) -> None:
        """A pod that was deleted, as its last event has it.

        Raises:
            ValueError: when its conditions have another form than the API's.
        """
        uid = pod.metadata.uid or ""
        if uid not in self._victims and pod.spec and pod.spec.node_name and _is_victim(pod.status or _NO_STATUS):
            self._victims[uid] = (pod.spec.node_name, pod.spec.priority or 0)  # the condition came with the deletion
        self.vanished(uid, now)

    def made_way(self, pod: Pod, now: float) -> None:
        """A placeholder went while way was made: the scheduler may have been about to preempt it, and found it gone.

        It marks no such victim, and can forget whom it was to go for. One that was not seen on a node may have been
        assumed on any.
        """
        spec = pod.spec or _NO_SPEC
        self._victim_left(spec.node_name or "", spec.priority or 0, now)

    def vanished(self, uid: str, now: float) -> None:
        """A pod went, seen or unseen."""
        self._unbound.pop(uid, None)
        self._resized(uid)
        self._forget(uid)
        victim = self._victims.pop(uid, None)
        if victim is not None:
            self._victim_left(*victim, now)

    def hangs(
        self, now: float, scheduler_of: Callable[[str], str | None], fits: Callable[[str, str], bool]
    ) -> list[Hang]:
        """Return all preemptors that hang.

        Args:
            now: monotonic seconds.
            scheduler_of: a node's policy's schedulerName; None where no policy has the node.
            fits: whether there is room for a pod (uid) on a node, and nothing but room decides.
        """
        if not self._preemptors:
            return []
        occupied = {node for node, _ in self._victims.values()}
        judged = (
            hang_of(
                preemptor,
                scheduler=scheduler_of(preemptor.node),
                victims_remain=preemptor.node in occupied,
                fits=partial(fits, preemptor.uid, preemptor.node),
                now=now,
            )
            for preemptor in self._preemptors.values()
        )
        return [hang for hang in judged if hang is not None]

    def resizing_at(self, node: str) -> bool:
        """Whether a pod on this node waits for its resize to fit."""
        return node in self._resizing_at

    def forget_promises(self, now: float) -> None:
        """Forget promises of nodes that nobody asks for any more."""
        while self._promised and next(iter(self._promised.values())) < now - PROMISED_SECONDS:
            del self._promised[next(iter(self._promised))]

    def promised_since(self, node: str, at: float) -> bool:
        """Whether a pod waits for this node that it was promised, or was promised it at or after a time."""
        return node in self._at or self._promised.get(node, at - 1.0) >= at

    def _on_node(self, uid: str, node: str, priority: int, status: PodStatus) -> None:
        if _is_victim(status):
            self._victims[uid] = (node, priority)
        else:
            self._victims.pop(uid, None)  # a condition can be taken back
        waits = any(c.type == _RESIZE and c.status == "True" and c.reason == "Deferred" for c in _conditions(status))
        if waits and uid not in self._resizing:
            self._resizing[uid] = node
            self._resizing_at[node] = self._resizing_at.get(node, 0) + 1
        elif not waits:
            self._resized(uid)

    def _resized(self, uid: str) -> None:
        node = self._resizing.pop(uid, None)
        if node is not None:
            self._resizing_at[node] -= 1
            if not self._resizing_at[node]:
                del self._resizing_at[node]

    def _waits(self, uid: str, pod: Pod, spec: PodSpec, status: PodStatus, now: float) -> None:
        node = status.nominated_node_name
        if not node:
            self._forget(uid)
            return
        known = self._preemptors.get(uid)
        if known is not None and known.node != node:
            self._forget(uid)
            known = None
        if known is None:
            known = self._new_preemptor(uid, pod, spec, node, now)
        known.resource_version = pod.metadata.resource_version or ""
        known.unschedulable = not spec.is_gated() and any(
            c.type == "PodScheduled" and c.status == "False" and c.reason == "Unschedulable" for c in status.conditions
        )
        known.held = known.held or status.extended_resource_claim_status is not None

    def _new_preemptor(self, uid: str, pod: Pod, spec: PodSpec, node: str, now: float) -> Preemptor:
        preemptor = Preemptor(
            namespace=pod.metadata.namespace or "",
            name=pod.metadata.name,
            uid=uid,
            resource_version="",
            node=node,
            scheduler=spec.scheduler_name or "default-scheduler",
            priority=spec.priority or 0,
            unschedulable=False,
            held=bool(pod.metadata.label(LABEL_POD_GROUP)) or may_be_held(spec, unchecked_of(spec)),
            since=now,
        )
        created = self._unbound[uid]
        for left, priority in (*self._left.get(node, ()), *self._left.get("", ())):
            if left >= max(created, now - AROUND_SECONDS):
                _left_for(preemptor, priority, left)
        self._preemptors[uid] = self._at.setdefault(node, {})[uid] = preemptor
        self._promised.pop(node, None)
        self._promised[node] = now
        _cap(self._promised, MAX_NODES)
        if len(self._preemptors) > MAX_PREEMPTORS:
            self._forget(next(iter(self._preemptors)))
        return preemptor

    def _victim_left(self, node: str, priority: int, now: float) -> None:
        for preemptor in (self._at.get(node, {}) if node else self._preemptors).values():
            _left_for(preemptor, priority, now)
        left = self._left.pop(node, None) or deque(maxlen=MAX_LEFT)
        left.append((now, priority))
        self._left[node] = left  # the node whose last victim left longest ago is the first
        while self._left and next(iter(self._left.values()))[-1][0] < now - AROUND_SECONDS:
            del self._left[next(iter(self._left))]
        _cap(self._left, MAX_NODES)

    def _forget(self, uid: str) -> None:
        preemptor = self._preemptors.pop(uid, None)
        if preemptor is not None:
            promised = self._at[preemptor.node]
            del promised[uid]
            if not promised:
                del self._at[preemptor.node]


def _left_for(preemptor: Preemptor, priority: int, at: float) -> None:
    preemptor.last_left = at
    preemptor.preempted = preemptor.preempted or priority < preemptor.priority


def _is_victim(status: PodStatus) -> bool:
    return any(
        c.type == "DisruptionTarget" and c.status == "True" and c.reason == PREEMPTED for c in _conditions(status)
    )


def _conditions(status: PodStatus) -> Sequence[ObjectCondition]:
    return () if _WORTH_READING(status.conditions_json) is None else status.conditions


def may_be_held(spec: PodSpec, own: Sequence[Unchecked]) -> bool:
    """Whether the scheduler may have assumed the pod and be waiting for something else before it binds it.

    Whether a claim of a volume is bound is not known here, to read it would need one more right.

    Args:
        spec: of the pod.
        own: what of it no plan answers for, as `unchecked_of` finds it.
    """
    return spec.scheduling_group is not None or spec.workload_ref not in _NOTHING or not CLAIMS.isdisjoint(own)


def _cap(known: dict[str, object] | dict[str, float] | dict[str, deque[tuple[float, int]]], most: int) -> None:
    if len(known) > most:
        del known[next(iter(known))]
