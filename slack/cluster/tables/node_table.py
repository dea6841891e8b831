"""One row a node: what it offers, what is requested there, and which class it is of.

A pod may name a node that has not been seen yet, or one that has gone: such a node has a row with `known` False, so
that its pods are counted the moment it appears, and leave the view with it. A row lives while its node is known or a
pod contributes to it.
Owned by `ClusterColumns`.
"""

import math
import sys
from collections.abc import Mapping

import numpy as np

from slack.cluster import wire
from slack.cluster.classes import (
    DECLARED,
    DELETION_CANDIDATE_TAINT,
    KNOWN_TAINTS,
    UNHEALTHY_TAINTS,
    Taint,
    TaintKeys,
)
from slack.cluster.identity import DAEMON, PLACEHOLDER, REAL
from slack.cluster.labels import INSTANCE_TYPE, NODE_GROUPS, SOFT_TAINT
from slack.cluster.requests import allocatable_amounts
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray
from slack.cluster.tables.interning import CountedResources, grown

_KEEPING_AWAY = ("NoSchedule", "NoExecute")


class NodeFacts:
    """What of a Node is relevant, read once from the wire struct; compared to see whether an event is news."""

    __slots__ = (
        "allocatable", "candidate", "created", "declares", "labels", "max_pods", "ready", "schedulable",
        "softly_tainted", "start_seconds", "taints", "uid",
    )  # fmt: skip

    def __init__(self, node: wire.Node, known: TaintKeys = KNOWN_TAINTS) -> None:
        metadata, status = node.metadata, node.status
        taints = (node.spec.taints if node.spec else None) or ()
        keys = {taint.key for taint in taints if taint.effect in _KEEPING_AWAY}
        ready_at = _ready_since(status.conditions if status else None)
        self.labels = {key: sys.intern(value) for key, value in (metadata.labels or {}).items()}
        features = (status.declared_features if status else None) or ()
        self.declares = bool(features)
        self.labels |= {sys.intern(DECLARED + name): "" for name in features}
        self.taints = tuple(
            sorted(
                Taint(taint.key, taint.value or "", taint.effect)
                for taint in taints
                if taint.effect in _KEEPING_AWAY and not known.is_transient(taint.key)
            )
        )
        self.ready = ready_at is not None and not any(
            known.is_startup(taint.key) for taint in taints if taint.effect in _KEEPING_AWAY and not _lingers(taint)
        )
        self.schedulable = (
            not (node.spec is not None and node.spec.unschedulable)
            and not any(map(known.keeps_from_scheduling, keys))
            and metadata.deletion_timestamp is None
        )
        self.uid = metadata.uid or ""
        self.candidate = any(taint.key == DELETION_CANDIDATE_TAINT for taint in taints)
        self.softly_tainted = any(taint.key == SOFT_TAINT for taint in taints)
        amounts = allocatable_amounts(status.allocatable if status else None)
        self.max_pods = max(amounts.pop("pods", 0), 0)
        self.allocatable = {name: amount for name, amount in amounts.items() if amount > 0}
        self.created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else math.nan
        self.start_seconds = max((ready_at or math.nan) - self.created, 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeFacts) and all(
            # nan is a value like others here: no creation time is no news.
            getattr(self, name) == getattr(other, name) or repr(getattr(self, name)) == repr(getattr(other, name))
            for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def group(self) -> str:
        """The node group by the cloud's or Karpenter's label, else the instance type."""
        labels = self.labels
        return next((labels[key] for key in NODE_GROUPS if key in labels), labels.get(INSTANCE_TYPE, ""))


class NodeTable:
    """Columns of nodes, by name."""

    def __init__(self, resources: CountedResources) -> None:
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
        self.allocatable: IntArray = np.zeros((64, 2), dtype=np.int64)
        self.requested: dict[int, IntArray] = {
            role: np.zeros((64, 2), dtype=np.int64) for role in (REAL, DAEMON, PLACEHOLDER)
        }
        """By role: [row, resource] effective requests of the pods there."""
        self.pod_count: IntArray = np.zeros(64, dtype=np.int64)
        self.daemon_count: IntArray = np.zeros(64, dtype=np.int64)
        self._look()
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
        if before is None or before.allocatable.keys() != facts.allocatable.keys():
            self._resources.come(facts.allocatable)
            self._resources.go(before.allocatable if before is not None else ())
        self._write_allocatable(row, facts)
        self.known[row] = True
        self.facts[row] = facts
        return True

    def drop(self, row: int) -> None:
        """Forget a node; its row stays while pods contribute to it."""
        self.version += 1
        self.known[row] = False
        before, self.facts[row] = self.facts[row], None
        self._resources.go(before.allocatable if before is not None else ())
        self.allocatable[row] = 0
        self._free_if_unused(row)

    def resettle(
        self, old: Mapping[str, int], new: Mapping[str, int], role: IndexArray, node: IndexArray, requests: IntArray
    ) -> None:
        """Fill the columns of resources that have come, and clear those of resources that have gone.

        Args:
            old: columns that were given back, by resource.
            new: columns that have come, by resource.
            role: [P] of every pod.
            node: [P] row of every pod's node, -1 where it has none.
            requests: [P, R] of every pod, the new columns of it.
        """
        self.version += 1
        width = len(self._resources.names)
        for row in np.flatnonzero(self.known).tolist():
            facts = self.facts[row]
            if facts is not None and not (old.keys() | new.keys()).isdisjoint(facts.allocatable):
                self._write_allocatable(row, facts)
        self.allocatable = _narrowed(self.allocatable, old, width)
        for sort, matrix in self.requested.items():
            table = grown(_narrowed(matrix, old, width), 0, width)
            for column, amounts in zip(new.values(), requests.T, strict=True):
                rows = np.flatnonzero((role == sort) & (node >= 0) & (amounts > 0))
                np.add.at(table[:, column], node[rows], amounts[rows])
            self.requested[sort] = table
        self._look()

    def _write_allocatable(self, row: int, facts: NodeFacts) -> None:
        vector = self._resources.row(facts.allocatable.items())
        self.allocatable = grown(self.allocatable, row + 1, vector.size)
        self.allocatable[row] = 0
        self.allocatable[row, : vector.size] = vector

    def add_pod(self, row: int, role: int, requests: tuple[tuple[int, int], ...]) -> None:
        """Count a pod's requests on a node: (column, amount) each."""
        if requests and requests[-1][0] >= self.requested[role].shape[1]:
            self.requested[role] = grown(self.requested[role], self.known.size, requests[-1][0] + 1)
            self._look()
        cells = self._requested[role]
        for column, amount in requests:
            try:
                cells[row, column] += amount
            except ValueError:
                cells[row, column] = _wrapped(cells[row, column] + amount)
        self._pod_count[row] += 1
        if role == DAEMON:
            self._daemon_count[row] += 1

    def take_pod(self, row: int, role: int, requests: tuple[tuple[int, int], ...]) -> None:
        """Take a pod's requests off a node."""
        cells = self._requested[role]
        for column, amount in requests:
            try:
                cells[row, column] -= amount
            except ValueError:
                cells[row, column] = _wrapped(cells[row, column] - amount)
        self._pod_count[row] -= 1
        if role == DAEMON:
            self._daemon_count[row] -= 1
        self._free_if_unused(row)

    def unseen(self, generation: int) -> list[str]:
        """Return the names of known nodes that were last seen in another generation."""
        return [self.names[int(row)] for row in np.flatnonzero(self.known & (self.generation != generation))]

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
        self.allocatable = grown(self.allocatable, 2 * size, 2)
        self.requested = {role: grown(matrix, 2 * size, 2) for role, matrix in self.requested.items()}
        self._look()

    def _look(self) -> None:
        """Look at the columns that pods change cell by cell, as `pod_table` does; after they have grown, anew."""
        self._requested = {role: matrix.data for role, matrix in self.requested.items()}
        self._pod_count, self._daemon_count = self.pod_count.data, self.daemon_count.data


def _narrowed(matrix: IntArray, old: Mapping[str, int], width: int) -> IntArray:
    """Return the matrix with nothing in the columns that were given back, and no more columns than there are."""
    if not old:
        return matrix
    matrix = matrix[:, :width].copy()
    matrix[:, [column for column in old.values() if column < width]] = 0
    return matrix


def _wrapped(total: int) -> int:
    """Return a sum as int64 has it, beyond its ends at the other end: so what is added can be taken back.

    Pods that name their node themselves may be any number, and request whatever they like.
    """
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


def _lingers(taint: wire.NodeTaint) -> bool:
    """Whether a taint of a node that is Ready keeps no pod away.

    The node monitor takes it away up to five seconds after the node is Ready (node_lifecycle_controller.go,
    nodeMonitorPeriod). Until then pods tolerate it: admission gives each of them such a toleration
    (DefaultTolerationSeconds).
    """
    return taint.effect == "NoExecute" and taint.key in UNHEALTHY_TAINTS


def _ready_since(conditions: list[wire.ObjectCondition] | None) -> float | None:
    """Return when the node became Ready (nan when it does not say), None when it is not."""
    for condition in conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time.timestamp() if condition.last_transition_time else math.nan
    return None
