"""Kinds of real pods (R1-1) and their arrivals.

A kind lives as long as a pod or a counted arrival holds it, and holds its request vector and constraints in turn.
Arrivals lie in buckets of absolute time, so that a window of them can be forgotten without looking at pods.
Owned by `ClusterColumns`.
"""

from typing import NamedTuple

import numpy as np

from slack.cluster.identity import EXCLUDE, RESERVE, TEMPLATE_HASH
from slack.cluster.interning import ConstraintTable, Interner, RequestTable, Texts
from slack.cluster.requests import request_text
from slack.cluster.snapshot import IntArray
from slack.cluster.wire import Metadata, PodSpec, PodStatus

_BUCKETS = 72
"""Buckets a window: 5 minutes each for the default of 6 hours."""

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


KindText = tuple[object, ...]


def kind_text(metadata: Metadata, spec: PodSpec, status: PodStatus) -> KindText:
    """Return all that decides which kind a real pod is of: from equal texts follow equal kinds."""
    owner, labels, annotations = metadata.controller(), metadata.labels, metadata.annotations
    return (
        request_text(
            spec, status, spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints
        ),
        metadata.namespace,
        owner.kind if owner is not None else None,
        owner.name if owner is not None else metadata.name,
        labels.get(TEMPLATE_HASH) if labels else None,
        annotations.get(EXCLUDE) if annotations else None,
        annotations.get(RESERVE) if annotations else None,
        spec.priority,
        spec.priority_class_name,
        spec.preemption_policy,
        spec.scheduler_name,
        spec.runtime_class_name,
    )


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
        self.texts: Texts[KindText] = Texts()
        """Kinds by what their pods say, so that each such text is read once."""

    def intern(self, value: KindKey) -> int:
        """Return the kind's id; a new kind holds its requests and constraints."""
        before = self.version
        index = super().intern(value)
        if self.version != before:
            self._requests.retain(value.requests)
            self._constraints.retain(value.constraints)
        return index

    def joined(self, index: int, key: str) -> None:
        """Note that a pod belongs to the kind, and hold it."""
        self.retain(index)
        example = self.examples.get(index)
        if example is None or (key < example and index not in self.stale):
            self.examples[index] = key

    def suggest(self, index: int, key: str) -> None:
        """Offer a name for a kind that may have no pod now (one that has finished already), until it has one."""
        example = self.examples.get(index)
        if example is None or (key < example and index in self.stale):
            self.examples[index] = key
            self.stale.add(index)

    def left(self, index: int, key: str) -> None:
        """Note that a pod belongs to the kind no longer."""
        if self.examples.get(index) == key:
            self.stale.add(index)
        self.release(index)

    def _forget(self, index: int, value: KindKey) -> None:
        self.texts.forget(index)
        self.examples.pop(index, None)
        self.stale.discard(index)
        self._requests.release(value.requests)
        self._constraints.release(value.constraints)


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
        self._counts = np.zeros(64, dtype=np.int64)

    def bucket_of(self, created_seconds: float) -> int:
        """Return the bucket of a time, -1 when the window has passed it for certain."""
        bucket = max(int(created_seconds // self._width_seconds), 0)
        if bucket > self._newest:
            # Whatever `now` is, it is not before this; so old pods of a first list are not even counted.
            self._newest = bucket
            self.forget_before(bucket * self._width_seconds)
        return bucket if bucket > self._forgotten else -1

    def add(self, kind: int, bucket: int) -> None:
        """Count one arrival, which holds the kind."""
        if kind >= self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(max(kind, self._counts.size), dtype=np.int64)])
        kinds = self._buckets.setdefault(bucket, {})
        kinds[kind] = kinds.get(kind, 0) + 1
        self._counts[kind] += 1
        self._kinds.retain(kind)

    def move(self, old: int, new: int, bucket: int) -> None:
        """Count an arrival for another kind, -1 for none, as its pod has changed; a forgotten one stays forgotten."""
        kinds = self._buckets.get(bucket)
        if kinds is None or old not in kinds:
            return
        if new >= 0:
            self.add(new, bucket)
        kinds[old] -= 1
        if not kinds[old]:
            del kinds[old]
        self._counts[old] -= 1
        self._kinds.release(old)

    def forget_before(self, now: float) -> None:
        """Forget the buckets that lie wholly before the window that ends now."""
        last = int((now - self._window_seconds) // self._width_seconds) - 1
        self._forgotten = max(self._forgotten, last)
        for bucket in [one for one in self._buckets if one <= self._forgotten]:
            for kind, count in self._buckets.pop(bucket).items():
                self._counts[kind] -= count
                self._kinds.release(kind, count)

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
