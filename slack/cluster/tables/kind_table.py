"""Kinds of real pods (R1-1) and their arrivals.

A kind lives as long as a pod or a counted arrival holds it, and holds its request vector and constraints in turn.
Arrivals lie in buckets of absolute time, so that a window of them can be forgotten without looking at pods.
Owned by `ClusterColumns`.
"""

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.labels import (
    ANNOTATION_DAEMON_POD,
    ANNOTATION_EXCLUDE,
    ANNOTATION_RESERVE,
    ANNOTATION_STATIC_POD,
    LABEL_PLACEHOLDER,
    LABEL_TEMPLATE_HASH,
)
from slack.cluster.requests import request_text
from slack.cluster.snapshot import IndexArray, IntArray
from slack.cluster.tables.interning import LONGEST_RESERVE, ConstraintTable, Interner, Requests, RequestTable, Texts
from slack.cluster.tables.pod_table import NONE
from slack.cluster.together import HALF_LIFE_SECONDS, LOG2_OF, MOST, NEVER, mark_of
from slack.cluster.unchecked import Unchecked
from slack.cluster.wire import ABSENT, NAMING_LABELS, Metadata, PodSpec, PodStatus

_BUCKETS = 72
"""Buckets a window: 5 minutes each for the default of 6 hours."""

_NOTHING = (b"", b"null", b"[]")
_UNMARKED: tuple[bool, bool, bool, str | None] = (False, False, False, None)
_NAMING_LABELS = frozenset(NAMING_LABELS)

MOST_KINDS = 100_000
"""Beyond it arrivals are forgotten early. Whoever may make pods can make and delete thousands, each of another kind."""
_FORGOTTEN_AT_ONCE = 8
"""Arrivals, with each pod that is new."""

BY_CLASS = -(1 << 40)
"""No pod's priority: those are int32."""


class KindKey(NamedTuple):
    """What makes two pods the same kind."""

    namespace: str
    workload_kind: str
    workload_name: str
    requests: int
    constraints: int
    priority: int
    """BY_CLASS where only the priority class can say, as in hand-written files."""
    priority_class: str
    """Looked up when the view is made; '' where the pod says all of it itself."""
    preemption_policy: str
    """'' where only the priority class can say."""
    excluded: bool
    reserve: str
    gang: str
    """Name of its scheduling group, '' where it has none."""
    gated: bool
    """Its pods are behind scheduling gates."""
    labels: tuple[tuple[str, str], ...] = ()
    """Those labels of its pods that their own (anti-)affinity and spread look at, sorted."""
    unchecked: tuple[Unchecked, ...] = ()
    """What nobody checks of its pods, on which their node depends."""
    claimed: tuple[str, ...] = ()
    """Extended resources that a device claim serves for its pods, sorted."""


KindText = tuple[bytes, *tuple[object, ...]]


def kind_text(metadata: Metadata, spec: PodSpec, status: PodStatus) -> KindText:
    """Return all that decides a pod's role, and the kind of a real one, but for labels that its own terms look at."""
    labels, annotations, owners = metadata.labels, metadata.annotations, metadata.owner_references
    # nearly every pod has one owner, which controls it
    owner = owners[0] if owners and owners[0].controller else metadata.controller()
    group = spec.scheduling_group
    # What `needed_features` and `gang_of` read stands here as it is: they are asked once a kind, this for each event.
    unchecked = unchecked_of(spec)
    marks = _marks_of(annotations) if annotations else _UNMARKED
    return (
        request_text(
            spec, status, spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints
        ),
        metadata.namespace,
        owner.kind if owner is not None else None,
        owner.name if owner is not None else metadata.name,
        labels.get(LABEL_TEMPLATE_HASH) if labels else None,
        tuple(map(labels.get, NAMING_LABELS)) if labels and not _NAMING_LABELS.isdisjoint(labels) else None,
        labels.get(LABEL_PLACEHOLDER) if labels else None,
        *marks,
        spec.priority,
        spec.priority_class_name,
        spec.preemption_policy,
        spec.scheduler_name,
        spec.runtime_class_name,
        spec.host_network,
        spec.host_users,
        group.pod_group_name if group is not None else None,
        spec.scheduling_gates is not ABSENT and spec.is_gated(),
        unchecked,
    )


def _marks_of(annotations: Mapping[str, str]) -> tuple[bool, bool, bool, str | None]:
    """Return what annotations decide, and nothing of what else may stand in them."""
    reserve = annotations.get(ANNOTATION_RESERVE)
    return (
        ANNOTATION_STATIC_POD in annotations,
        annotations.get(ANNOTATION_DAEMON_POD) == "true",
        annotations.get(ANNOTATION_EXCLUDE) == "true",
        reserve if reserve is None else reserve[:LONGEST_RESERVE],
    )


def unchecked_of(spec: PodSpec) -> tuple[Unchecked, ...]:
    """Return what of a pod, or of a template, no plan checks; nearly always nothing.

    It is asked for each event. In a pod on the host's network every port is one of the node's; the API server writes
    that into pods, not into templates.
    """
    found: tuple[Unchecked, ...] = ()
    if spec.resource_claims is not ABSENT and bytes(spec.resource_claims) not in _NOTHING:
        found = (Unchecked.DEVICE_CLAIMS,)
    if spec.volumes and any(spec.volumes):
        found += (Unchecked.VOLUME_CLAIMS,)
    for own in spec.containers or ():
        if own.ports and (spec.host_network or any(own.ports)):
            return (*found, Unchecked.HOST_PORTS)
    for own in spec.init_containers or ():
        # It has ended when the pod runs, unless it is a sidecar.
        if own.ports and own.restart_policy == "Always" and (spec.host_network or any(own.ports)):
            return (*found, Unchecked.HOST_PORTS)
    return found


def gang_of(spec: PodSpec) -> str:
    """Return the name of a pod's scheduling group, '' where it has none."""
    return (spec.scheduling_group.pod_group_name or "") if spec.scheduling_group is not None else ""


class KindRow(NamedTuple):
    """A kind with the values behind its ids."""

    key: KindKey
    requests: Requests
    constraints: Constraints
    text: str
    """Of the constraints: they are sorted by it."""


class KindTable(Interner[KindKey]):
    """Kinds with one example pod each."""

    def __init__(self, requests: RequestTable, constraints: ConstraintTable) -> None:
        super().__init__(self._forget)
        self._requests = requests
        self._constraints = constraints
        self.examples: dict[int, str] = {}
        """`namespace/name` of the smallest pod of each kind, except for `stale` ones."""
        self.stale: set[int] = set()
        """Kinds whose example has left; the next view looks for another."""
        self._empty: set[int] = set()
        """Those without pods: they keep their last one until another joins, whatever its name."""
        self._looked_for: set[int] = set()
        """Those for which it is being looked, in a copy of the pods."""
        self.changes: dict[int, KindRow | None] = {}
        """What has come (None: gone) since somebody took these."""
        self.requests_of: list[int] = []
        """[id] of the kind's request vector."""
        self.together = array("d")
        """[id] mark of the largest number of its pods that came together."""
        self.is_crowded = False
        """Whether there are more kinds, or longer ones, than there is room for; asked with each pod that is new."""
        self.texts: Texts[KindText] = Texts()
        """Kinds by what their pods say, so that each such text is read once; see `find`."""

    def intern(self, value: KindKey) -> int:
        """Return the kind's id; a new kind holds its requests and constraints."""
        before = self.version
        index = super().intern(value)
        if self.version != before:
            self._requests.retain(value.requests)
            self._constraints.retain(value.constraints)
            if index == len(self.requests_of):
                self.requests_of.append(NONE)
                self.together.append(NEVER)
            self.requests_of[index] = value.requests
            self.together[index] = NEVER
            constraints = self._constraints[value.constraints]
            text = self._constraints.sort_key(value.constraints)
            self._look_around()
            self.changes[index] = KindRow(value, self._requests[value.requests], constraints, text)
        return index

    def find(self, metadata: Metadata, spec: PodSpec, status: PodStatus) -> tuple[KindText, int]:
        """Return what a pod says, and the kind of a real pod that says it, NONE where it is not known yet.

        Where terms look at labels of the pod itself, its text leads to the constraints, and with those labels to the
        kind: few pods pay for what few pods have.
        """
        text = kind_text(metadata, spec, status)
        kind = self.texts.get(text, NONE)
        if kind < NONE:
            labels, keys = metadata.labels, self._constraints.label_keys[NONE - 1 - kind]
            kind = self.texts.get((text[0], text, tuple(map(labels.get, keys)) if labels else None), NONE)
        return text, kind

    def remember(self, text: KindText, metadata: Metadata, kind: int, constraints: int) -> None:
        """Remember where a text led: to a kind, and to the constraints, which the kind holds."""
        labels, keys, length = metadata.labels, self._constraints.label_keys[constraints], len(text[0])
        if keys:
            self.texts.put(text, kind, length, NONE - 1 - constraints)
            text = text[0], text, tuple(map(labels.get, keys)) if labels else None
        self.texts.put(text, kind, length)

    def joined(self, index: int, key: str) -> None:
        """Note that a pod belongs to the kind, and hold it."""
        self._holders[index] += 1
        self._look_again(index)
        example = self.examples.get(index)
        if example is None or index in self._empty or (key < example and index not in self.stale):
            self.examples[index] = key
            self._empty.discard(index)

    def arrived(self, index: int, key: str) -> None:
        """Hold the kind for an arrival; the pod names it while it has no other (one that has finished already)."""
        self._holders[index] += 1
        self._look_again(index)
        example = self.examples.get(index)
        if example is None:
            self._empty.add(index)
        if example is None or (key < example and (index in self.stale or index in self._empty)):
            self.examples[index] = key

    def came_together(self, index: int, mark: float) -> None:
        """Note that pods of the kind came together; that is remembered as long as the kind lives."""
        if mark > self.together[index]:
            self.together[index] = mark

    def left(self, index: int, key: str) -> None:
        """Note that a pod belongs to the kind no longer."""
        if self.examples.get(index) == key:
            self.stale.add(index)
        self._look_again(index)
        self.release(index)

    def take_stale(self) -> set[int]:
        """Return the kinds whose examples are to be looked for; `found` ends that."""
        taken, self.stale = self.stale, set()
        self._looked_for |= taken
        return self._looked_for.copy()

    def found(self, examples: Mapping[int, str]) -> None:
        """Keep the examples that were found; where pods have come or gone meanwhile, the next view looks again."""
        for index in self._looked_for & examples.keys():
            self.examples[index] = examples[index]
        self._empty |= self._looked_for - examples.keys()
        self._looked_for = set()

    def _look_again(self, index: int) -> None:
        if index in self._looked_for:
            self._looked_for.discard(index)
            self.stale.add(index)

    def _forget(self, index: int, value: KindKey) -> None:
        self.texts.forget(index)
        self.examples.pop(index, None)
        self.stale.discard(index)
        self._looked_for.discard(index)
        self._empty.discard(index)
        self.changes[index] = None
        self._requests.release(value.requests)
        self._constraints.release(value.constraints)
        self._look_around()

    def _look_around(self) -> None:
        crowded = self._constraints.is_crowded or self._requests.is_crowded
        self.is_crowded = crowded or len(self._ids) > MOST_KINDS


class Arrivals:
    """How many pods of each kind were created in the last window."""

    def __init__(self, kinds: KindTable, window_seconds: float) -> None:
        self._kinds = kinds
        self._width_seconds = max(window_seconds / _BUCKETS, 1.0)
        self._window_seconds = window_seconds
        self._buckets: dict[int, dict[int, int]] = {}
        self._newest = -1
        self._forgotten = -1
        """The newest bucket that was forgotten; no bucket up to it comes back."""
        self._left_over = False
        """Some of these buckets are still there."""
        self._counts = np.zeros(64, dtype=np.int64)

    def bucket_of(self, created_seconds: float | None) -> int:
        """Return the bucket of a creation, -1 when the window has passed it for certain or nobody knows it.

        Old arrivals are forgotten here, a few at a time, and kinds with them: look for a kind afterwards.
        """
        if created_seconds is None:
            return NONE
        bucket = max(int(created_seconds // self._width_seconds), 0)
        if bucket > self._newest:
            # Whatever `now` is, it is not before this; so old pods of a first list are not even counted.
            self._newest = bucket
            self._pass(int((bucket * self._width_seconds - self._window_seconds) // self._width_seconds) - 1)
        if self._kinds.is_crowded and self._buckets:
            self._pass(min(self._buckets))
        if self._left_over:
            self._forget(_FORGOTTEN_AT_ONCE)
        return bucket if bucket > self._forgotten else NONE

    def old_bucket_of(self, created_seconds: float | None) -> int:
        """Return the bucket of a creation, whether the window has passed it or not; 0 where nobody knows it."""
        return 0 if created_seconds is None else max(int(created_seconds // self._width_seconds), 0)

    def remember(self, kinds: IndexArray, buckets: IndexArray) -> None:
        """Note which pods came together, of those that are not counted: by kind and bucket of creation."""
        cells, counts = np.unique(kinds.astype(np.int64) << 32 | buckets, return_counts=True)
        several = counts > 1
        for cell, number in zip(cells[several].tolist(), counts[several].tolist(), strict=True):
            bucket = cell & 0xFFFFFFFF
            self._kinds.came_together(cell >> 32, mark_of(number, bucket * self._width_seconds))

    def count_arrival(self, kind: int, bucket: int, key: str) -> None:
        """Count the arrival of a pod, which holds the kind."""
        self._kinds.arrived(kind, key)
        if kind >= self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(max(kind, self._counts.size), dtype=np.int64)])
        kinds = self._buckets.setdefault(bucket, {})
        kinds[kind] = number = kinds.get(kind, 0) + 1
        self._counts[kind] += 1
        if number > 1:
            # As mark_of says; written out, as it is for each arrival.
            mark = LOG2_OF[min(number, MOST)] + bucket * self._width_seconds / HALF_LIFE_SECONDS
            self._kinds.came_together(kind, mark)

    def move(self, old: int, new: int, bucket: int, key: str) -> None:
        """Count an arrival for another kind, -1 for none, as its pod has changed; a forgotten one stays forgotten."""
        kinds = self._buckets.get(bucket)
        if kinds is None or old not in kinds:
            return
        if new >= 0:
            self.count_arrival(new, bucket, key)
        kinds[old] -= 1
        if not kinds[old]:
            del kinds[old]
        self._counts[old] -= 1
        self._kinds.release(old)

    def forget_before(self, now: float, most: int | None = None) -> bool:
        """Forget the buckets that lie wholly before the window that ends now.

        Args:
            now: Unix seconds.
            most: of how many kinds at once; None for all.

        Returns:
            whether that is all.
        """
        self._pass(int((now - self._window_seconds) // self._width_seconds) - 1)
        return self._forget(most)

    def _pass(self, last: int) -> None:
        """Let no bucket up to this one come back."""
        if last > self._forgotten:
            self._forgotten, self._left_over = last, True

    def _forget(self, most: int | None) -> bool:
        done = 0
        for bucket in [bucket for bucket in self._buckets if bucket <= self._forgotten]:
            kinds = self._buckets[bucket]
            while kinds:
                if done == most:
                    return False
                kind, count = kinds.popitem()
                self._counts[kind] -= count
                self._kinds.release(kind, count)
                done += 1
            del self._buckets[bucket]
        self._left_over = False
        return True

    def counts(self, capacity: int) -> IntArray:
        """Return arrivals by kind id, for ids below capacity; a copy."""
        out = np.zeros(capacity, dtype=np.int64)
        size = min(capacity, self._counts.size)
        out[:size] = self._counts[:size]
        return out

    def held(self) -> dict[int, int]:
        """Return arrivals by kind id, added up from the buckets, for self-checks."""
        totals: dict[int, int] = {}
        for kinds in self._buckets.values():
            for kind, count in kinds.items():
                totals[kind] = totals.get(kind, 0) + count
        return totals
