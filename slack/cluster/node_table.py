"""One row a node: what it offers, what is requested there, and which class it is of.

A pod may name a node that has not been seen yet, or one that has gone: such a node has a row with `known` False, so
that its pods are counted the moment it appears, and leave the view with it. A row lives while its node is known or a
pod contributes to it. Classes are made lazily (`classify`), as the labels that matter depend on the pods there are.
Owned by `ClusterColumns`.
"""

import math
import sys
from collections.abc import Iterable, Set

import numpy as np

from slack.cluster import wire
from slack.cluster.classes import LIFECYCLE_TAINTS, NODE_NAME, NodeClass, Taint
from slack.cluster.identity import DAEMON, PLACEHOLDER, REAL
from slack.cluster.interning import Interner, Resources, grown
from slack.cluster.requests import allocatable_amounts
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray

ALWAYS_RELEVANT = ("topology.kubernetes.io/zone", "kubernetes.io/arch", "kubernetes.io/os")
"""Labels by which policies and manifests tell nodes apart even where no pod does."""

_NOT_READY = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
    }
)
_NOT_SCHEDULABLE = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/out-of-service",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)
"""memory-pressure is not here: admission lets every pod with requests tolerate it."""
_STARTUP = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
"""Taints that the Cluster Autoscaler expects to go once the node is up (its FAQ)."""
_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
_KEEPING_AWAY = ("NoSchedule", "NoExecute")


class NodeFacts:
    """What of a Node is relevant, read once from the wire struct; compared to see whether an event is news."""

    __slots__ = (
        "allocatable", "candidate", "created", "labels", "max_pods", "ready", "schedulable", "start_seconds", "taints",
    )  # fmt: skip

    def __init__(self, node: wire.Node) -> None:
        metadata, status = node.metadata, node.status
        taints = (node.spec.taints if node.spec else None) or ()
        keys = {taint.key for taint in taints if taint.effect in _KEEPING_AWAY}
        ready_at = _ready_since(status.conditions if status else None)
        self.labels = {key: sys.intern(value) for key, value in (metadata.labels or {}).items()}
        self.taints = tuple(
            sorted(
                Taint(one.key, one.value or "", one.effect)
                for one in taints
                if one.effect in _KEEPING_AWAY and one.key not in LIFECYCLE_TAINTS and not one.key.startswith(_STARTUP)
            )
        )
        self.ready = ready_at is not None and not keys & _NOT_READY and not any(k.startswith(_STARTUP) for k in keys)
        self.schedulable = (
            not (node.spec is not None and node.spec.unschedulable)
            and not keys & _NOT_SCHEDULABLE
            and metadata.deletion_timestamp is None
        )
        self.candidate = any(taint.key == _CANDIDATE for taint in taints)
        self.allocatable = allocatable_amounts(status.allocatable if status else None)
        self.max_pods = self.allocatable.pop("pods", 0)
        self.created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else math.nan
        self.start_seconds = max((ready_at or math.nan) - self.created, 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeFacts) and all(
            # nan is a value like others here: no creation time is no news.
            getattr(self, name) == getattr(other, name) or repr(getattr(self, name)) == repr(getattr(other, name))
            for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]


class NodeTable:
    """Columns of nodes, by name."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.facts: list[NodeFacts | None] = []
        """None for nodes that are not known."""
        self._free: list[int] = []
        self.known: BoolArray = np.zeros(64, dtype=np.bool_)
        self.uid: IntArray = np.zeros(64, dtype=np.int64)
        self.resource_version: IntArray = np.zeros(64, dtype=np.int64)
        self.generation: IntArray = np.zeros(64, dtype=np.int64)
        self.class_id: IndexArray = np.full(64, -1, dtype=np.int32)
        self.allocatable: IntArray = np.zeros((64, 2), dtype=np.int64)
        self.requested: dict[int, IntArray] = {
            role: np.zeros((64, 2), dtype=np.int64) for role in (REAL, DAEMON, PLACEHOLDER)
        }
        """By role: [row, resource] effective requests of the pods there."""
        self.pod_count: IntArray = np.zeros(64, dtype=np.int64)
        self.daemon_count: IntArray = np.zeros(64, dtype=np.int64)
        self._look()
        self.classes: Interner[NodeClass] = Interner()
        self._unclassified: set[int] = set()
        self._needs: frozenset[tuple[str, str | None]] = frozenset()
        self.version = 0
        """Grows when a node comes or goes or anything about it changes, requests aside."""

    def row_of(self, name: str) -> int:
        """Return a node's row, known or not; a new row is one of a node that is not known."""
        found = self.rows.get(name)
        if found is not None:
            return found
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
            self.facts.append(None)
            if row >= self.known.size:
                self._grow()
        self.rows[name] = row
        return row

    def put(self, row: int, facts: NodeFacts) -> bool:
        """Write what a node is; return whether that is news."""
        before = self.facts[row]
        if before == facts:
            return False
        self.version += 1
        vector = self._resources.vector(facts.allocatable.items())
        self.allocatable = grown(self.allocatable, row + 1, vector.size)
        self.allocatable[row] = 0
        self.allocatable[row, : vector.size] = vector
        self.known[row] = True
        self.facts[row] = facts
        if before is None or before.labels != facts.labels or before.taints != facts.taints:
            self._unclassified.add(row)
        return True

    def drop(self, row: int) -> None:
        """Forget a node; its row stays while pods contribute to it."""
        self.version += 1
        self.known[row] = False
        self.facts[row] = None
        self.allocatable[row] = 0
        self._unclassified.discard(row)
        if self.class_id[row] >= 0:
            self.classes.release(int(self.class_id[row]))
            self.class_id[row] = -1
        self._free_if_unused(row)

    def add_pod(self, row: int, role: int, requests: tuple[tuple[int, int], ...]) -> None:
        """Count a pod's requests on a node: (column, amount) each."""
        if requests and requests[-1][0] >= self.requested[role].shape[1]:
            self.requested[role] = grown(self.requested[role], self.known.size, requests[-1][0] + 1)
            self._look()
        cells = self._requested[role]
        for column, amount in requests:
            cells[row, column] += amount
        self._pod_count[row] += 1
        if role == DAEMON:
            self._daemon_count[row] += 1

    def take_pod(self, row: int, role: int, requests: tuple[tuple[int, int], ...]) -> None:
        """Take a pod's requests off a node."""
        cells = self._requested[role]
        for column, amount in requests:
            cells[row, column] -= amount
        self._pod_count[row] -= 1
        if role == DAEMON:
            self._daemon_count[row] -= 1
        self._free_if_unused(row)

    def classify(self, needs: Iterable[tuple[str, str | None]], required: Set[str]) -> None:
        """Give every known node its class: all of them when the labels that matter have changed, else the new ones."""
        wanted = frozenset(needs) | {(key, None) for key in (*ALWAYS_RELEVANT, *required)}
        if wanted != self._needs:
            self._needs = wanted
            self._unclassified = {int(row) for row in np.flatnonzero(self.known)}
        if not self._unclassified:
            return
        whole = {key for key, value in wanted if value is None}
        for row in self._unclassified:
            facts = self.facts[row]
            if facts is None:
                continue
            labels = [
                (key, value)
                for key, value in ((NODE_NAME, self.names[row]), *facts.labels.items())
                if key in whole or (key, value) in wanted
            ]
            new = self.classes.intern(NodeClass(tuple(sorted(labels)), facts.taints))
            old = int(self.class_id[row])
            if new == old:
                continue
            self.classes.retain(new)
            if old >= 0:
                self.classes.release(old)
            self.class_id[row] = new
            self.version += 1
        self._unclassified = set()

    def unseen(self, generation: int) -> list[str]:
        """Return the names of known nodes that were last seen in another generation."""
        return [self.names[int(row)] for row in np.flatnonzero(self.known & (self.generation != generation))]

    def median_start_seconds(self, since: float) -> float | None:
        """Return the median time from creation to Ready of the nodes created since then; None when there are none."""
        seen = [
            facts.start_seconds
            for facts in self.facts
            if facts is not None and facts.created >= since and not math.isnan(facts.start_seconds)
        ]
        return float(np.median(seen)) if seen else None

    def _free_if_unused(self, row: int) -> None:
        if not self._pod_count[row] and not self.known[row]:
            del self.rows[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def _grow(self) -> None:
        size = self.known.size
        for name in ("known", "uid", "resource_version", "generation", "pod_count", "daemon_count"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self.class_id = np.concatenate([self.class_id, np.full(size, -1, dtype=np.int32)])
        self.allocatable = grown(self.allocatable, 2 * size, 2)
        self.requested = {role: grown(matrix, 2 * size, 2) for role, matrix in self.requested.items()}
        self._look()

    def _look(self) -> None:
        """Look at the columns that pods change cell by cell, as `pod_table` does; after they have grown, anew."""
        self._requested = {role: matrix.data for role, matrix in self.requested.items()}
        self._pod_count, self._daemon_count = self.pod_count.data, self.daemon_count.data


def _ready_since(conditions: list[wire.Condition] | None) -> float | None:
    """Return when the node became Ready (nan when it does not say), None when it is not."""
    for condition in conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time.timestamp() if condition.last_transition_time else math.nan
    return None
