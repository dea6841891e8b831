"""Nodes and bound pods as watches show them, summed by node: what scores are computed from.

One row a node. Events change sums in place, and `nodes` and `recent` copy them into values that never change. A pod
that was seen to be bound is recent until metrics can show it; those of the first list are not, for metrics show them
already. After a list that was broken off and begun again (`begin_*`, events, `end_*`) the state is that of one which
saw the final objects only. Not thread-safe: its users share a lock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slack.cluster.identity import PLACEHOLDER, role_of
from slack.cluster.requests import allocatable_amounts, request_text
from slack.cluster.tables.interning import Interner, Texts
from slack.cluster.wire import Pod, PodSpec, PodStatus
from slack.scorer.inputs.objects import NodeObject, without_port
from slack.scorer.inputs.recent_table import RecentTable
from slack.scorer.model import FloatArray, IntArray, PodDemand, RecentPods, ScoredNodes

_FINISHED = ("Succeeded", "Failed")
_NO_SPEC, _NO_STATUS = PodSpec(), PodStatus()
_BITS = 32
_MASK = (1 << _BITS) - 1
_SUMS = ("_requested", "_limited", "_placeholders")

DemandOf = Callable[[Pod], PodDemand]
LeaveOut = Callable[[str, ValueError], None]
"""Told of an object that cannot be read: its name, and why."""


class _Facts(NamedTuple):
    """What of a Node matters."""

    uid: str
    capacity: tuple[float, float]
    allocatable: tuple[float, float]
    created_seconds: float
    aliases: tuple[str, ...]


class _Static(NamedTuple):
    """Names and capacities in the order of names, with the row of each node."""

    version: int
    nodes: ScoredNodes
    rows: IntArray

    def places(self, rows: int) -> IntArray:
        """Return by row the place of its node, -1 where there is none; `rows`: how many there are."""
        places = np.full(rows, -1, dtype=np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places


class ClusterState:
    """Fed by the watches of pods that have a node, and of nodes."""

    def __init__(
        self, demand_of: DemandOf, placeholder_namespace: str, recent_kept_seconds: float, leave_out: LeaveOut
    ) -> None:
        self._demand_of = demand_of
        self._placeholder_namespace = placeholder_namespace
        self._recent_kept_seconds = recent_kept_seconds
        self._leave_out = leave_out
        self.changed = 0
        """Grows with every event that changes what is returned here."""
        self._rows: dict[str, int] = {}
        self._names: list[str] = []
        self._facts: list[_Facts | None] = []
        self._free: list[int] = []
        self._requested: FloatArray = np.zeros((2, 64))
        self._limited: FloatArray = np.zeros((2, 64))
        self._placeholders: FloatArray = np.zeros((2, 64))
        self._pod_count: IntArray = np.zeros(64, dtype=np.int64)
        self._held: IntArray = np.zeros(64, dtype=np.int64)
        """Pods there, placeholders too: a row lives while there are any."""
        self._texts: Texts[tuple[bytes, bool]] = Texts()
        self._demands: Interner[PodDemand] = Interner(lambda index, _: self._texts.forget(index))
        self._pods: dict[str, int] = {}
        """`namespace/name` to row and demand, in one number: there may be 150,000."""
        self._recent = RecentTable()
        self._pods_listed: set[str] | None = None
        self._nodes_listed: set[str] | None = None
        self._pods_known = False
        self._nodes_version = 0
        self._columns: _Static | None = None

    @property
    def pod_count(self) -> int:
        """Pods that have a node."""
        return len(self._pods)

    def node_of(self, namespace: str, name: str) -> str | None:
        """Return where a pod runs; None where that is not known."""
        packed = self._pods.get(f"{namespace}/{name}")
        return None if packed is None else self._names[packed >> _BITS]

    def demand_of_bound(self, namespace: str, name: str) -> PodDemand | None:
        """Return what a pod that has a node asks for."""
        packed = self._pods.get(f"{namespace}/{name}")
        return None if packed is None else self._demands[packed & _MASK]

    def begin_pods(self) -> None:
        """A list of pods begins."""
        self._pods_listed = set()

    def apply_pod(self, deleted: bool, pod: Pod, now: float) -> bool:
        """Take one event of a pod; return whether the pod was seen to be bound just now."""
        metadata, spec, status = pod.metadata, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        key = f"{metadata.namespace or ''}/{metadata.name}"
        if deleted or not spec.node_name or status.phase in _FINISHED:
            self._drop_pod(key)
            return False
        try:
            demand = self._intern(pod)
        except ValueError as error:
            self._leave_out(f"pod {key}", error)
            self._drop_pod(key)
            return False
        if self._pods_listed is not None:
            self._pods_listed.add(key)
        row = self._row_of(spec.node_name)
        before, packed = self._pods.get(key), row << _BITS | demand
        if before == packed:
            return False
        self.changed += 1
        self._demands.retain(demand)
        self._add(row, self._demands[demand], 1)
        self._pods[key] = packed
        if before is not None:
            self._take(before)
        if before is None or before >> _BITS != row:
            first_list = not self._pods_known
            if not first_list and not self._demands[demand].placeholder:
                self._recent.put(key, row, min(_bound_at(status, now), now), self._demands[demand].predicted)
            return not first_list
        if self._demands[demand].placeholder:
            self._recent.remove(key)
        else:
            self._recent.resize(key, self._demands[demand].predicted)
        return False

    def keep_pod(self, namespace: str, name: str) -> None:
        """Keep a pod as it is known, although the list cannot show what it is now."""
        if self._pods_listed is not None:
            self._pods_listed.add(f"{namespace}/{name}")

    def end_pods(self) -> None:
        """The list is whole: who was not in it is gone."""
        listed, self._pods_listed, self._pods_known = self._pods_listed, None, True
        if listed is not None:
            for key in [key for key in self._pods if key not in listed]:
                self._drop_pod(key)

    def begin_nodes(self) -> None:
        """A list of nodes begins."""
        self._nodes_listed = set()

    def apply_node(self, deleted: bool, node: NodeObject) -> None:
        """Take one event of a node."""
        metadata, status = node.metadata, node.status
        if deleted:
            self._drop_node(metadata.name)
            return
        if self._nodes_listed is not None:
            self._nodes_listed.add(metadata.name)
        try:
            facts = _Facts(
                metadata.uid or "",
                _amounts(allocatable_amounts(status.capacity if status else None)),
                _amounts(allocatable_amounts(status.allocatable if status else None)),
                metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else float("nan"),
                tuple(dict.fromkeys(node.aliases())),
            )
        except ValueError as error:
            self._leave_out(f"node {metadata.name}", error)
            return
        row = self._row_of(metadata.name)
        if self._facts[row] != facts:
            self._facts[row] = facts
            self._nodes_version += 1
            self.changed += 1

    def keep_node(self, name: str) -> None:
        """Keep a node as it is known, see `keep_pod`."""
        if self._nodes_listed is not None:
            self._nodes_listed.add(name)

    def end_nodes(self) -> None:
        """The list is whole: who was not in it is gone."""
        listed, self._nodes_listed = self._nodes_listed, None
        if listed is not None:
            for name in [name for name, row in self._rows.items() if self._facts[row] and name not in listed]:
                self._drop_node(name)

    def nodes(self) -> ScoredNodes:
        """Return all known nodes, by name; names and capacities are the same values while no node changes."""
        static = self._static()
        rows = static.rows
        return replace(
            static.nodes,
            requested=self._requested[:, rows],
            limited=self._limited[:, rows],
            placeholders=self._placeholders[:, rows],
            pod_count=self._pod_count[rows],
        )

    def recent(self, now: float) -> RecentPods:
        """Return the pods that were bound lately, on the nodes of `nodes`; older ones are forgotten."""
        self._recent.forget_before(now - self._recent_kept_seconds)
        return self._recent.columns(self._static().places(len(self._names)))

    def aliases(self) -> Mapping[str, str]:
        """Return names of nodes by all names that metrics may go by; one that two nodes have is none."""
        found: dict[str, str | None] = {}
        for name, row in self._rows.items():
            facts = self._facts[row]
            for alias in facts.aliases if facts is not None else ():
                bare = without_port(alias)
                found[bare] = name if found.get(bare, name) == name else None
        return {alias: name for alias, name in found.items() if name is not None}

    def _static(self) -> "_Static":
        """Return what only nodes change; worked out anew when they have."""
        if self._columns is not None and self._columns.version == self._nodes_version:
            return self._columns
        known = sorted((name, row) for name, row in self._rows.items() if self._facts[row] is not None)
        names = tuple(name for name, _ in known)
        rows = np.array([row for _, row in known], dtype=np.int64)
        facts = [found for _, row in known if (found := self._facts[row]) is not None]
        columns = ScoredNodes.from_columns(
            names,
            np.array([fact.capacity for fact in facts], dtype=np.float64).reshape(-1, 2).T.copy(),
            allocatable=np.array([fact.allocatable for fact in facts], dtype=np.float64).reshape(-1, 2).T.copy(),
            created_seconds=np.array([fact.created_seconds for fact in facts], dtype=np.float64),
        )
        self._columns = _Static(self._nodes_version, columns, rows)
        return self._columns

    def _text(self, pod: Pod) -> tuple[bytes, bool]:
        return request_text(pod.spec or _NO_SPEC, pod.status or _NO_STATUS), self._is_placeholder(pod)

    def _is_placeholder(self, pod: Pod) -> bool:
        return role_of(pod.metadata, self._placeholder_namespace) == PLACEHOLDER

    def _read(self, pod: Pod) -> PodDemand:
        return replace(self._demand_of(pod), placeholder=self._is_placeholder(pod))

    def _intern(self, pod: Pod) -> int:
        text = self._text(pod)
        known = self._texts.get(text)
        if known is None:
            known = self._demands.intern(self._read(pod))
            self._texts.put(text, known, len(text[0]))
        return known

    def _row_of(self, name: str) -> int:
        found = self._rows.get(name)
        if found is not None:
            return found
        if self._free:
            row = self._free.pop()
            self._names[row] = name
        else:
            row = len(self._names)
            self._names.append(name)
            self._facts.append(None)
            if row >= self._held.size:
                self._grow()
        self._rows[name] = row
        return row

    def _grow(self) -> None:
        for name in (*_SUMS, "_pod_count", "_held"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)], axis=-1))

    def _add(self, row: int, demand: PodDemand, times: int) -> None:
        self._held[row] += times
        if demand.placeholder:
            self._placeholders[:, row] += np.multiply(demand.requests, times)
            return
        self._requested[:, row] += np.multiply(demand.requests, times)
        self._limited[:, row] += np.multiply(demand.limits, times)
        self._pod_count[row] += times

    def _take(self, packed: int) -> None:
        row, demand = packed >> _BITS, packed & _MASK
        self._add(row, self._demands[demand], -1)
        self._demands.release(demand)
        self._free_if_unused(row)

    def _drop_pod(self, key: str) -> None:
        packed = self._pods.pop(key, None)
        if packed is not None:
            self.changed += 1
            self._recent.remove(key)
            self._take(packed)

    def _drop_node(self, name: str) -> None:
        row = self._rows.get(name)
        if row is not None and self._facts[row] is not None:
            self._facts[row] = None
            self._nodes_version += 1
            self.changed += 1
            self._free_if_unused(row)

    def _free_if_unused(self, row: int) -> None:
        if not self._held[row] and self._facts[row] is None:
            del self._rows[self._names[row]]
            self._names[row] = ""
            self._free.append(row)
            for name in _SUMS:  # what rounding may have left
                getattr(self, name)[:, row] = 0.0


def _amounts(amounts: Mapping[str, int]) -> tuple[float, float]:
    return float(max(amounts.get("cpu", 0), 0)), float(max(amounts.get("memory", 0), 0))


def _bound_at(status: PodStatus, now: float) -> float:
    """Return when the scheduler bound the pod: its own word, else now."""
    try:
        conditions: Iterable[object] = status.conditions
    except ValueError:
        return now
    for condition in conditions:
        if getattr(condition, "type", "") == "PodScheduled" and (
            at := getattr(condition, "last_transition_time", None)
        ):
            return float(at.timestamp())
    return now
