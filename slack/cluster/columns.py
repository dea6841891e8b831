"""The state of the cluster in columns: fed by watch events, never rebuilt, read as snapshots.

Invariant: whatever the order, repetition or loss of events was, after a re-list (`begin_*`, events, `end_*`) the
state is that of columns which saw the final objects only; `check` recomputes every aggregate from the rows.
The class is not thread-safe: reflectors and the planning loop share it under one lock, which is the callers' business.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from slack.cluster import wire
from slack.cluster.freshness import NO_VERSION, Tombstones, version_number
from slack.cluster.identity import (
    PLACEHOLDER,
    POLICY_LABEL,
    REAL,
    RESERVE,
    SHAPE_LABEL,
    deletion_cost,
    is_excluded,
    role_of,
    workload_of,
)
from slack.cluster.interning import ConstraintTable, RequestTable, Resources
from slack.cluster.kind_table import Arrivals, KindKey, KindTable
from slack.cluster.node_table import NodeFacts, NodeTable
from slack.cluster.pod_table import GONE, PodState, PodTable
from slack.cluster.requests import effective_requests
from slack.cluster.reserved import ReservedTable
from slack.cluster.snapshot import Snapshot
from slack.cluster.verify import verify
from slack.cluster.view import PlaceholderFacts, View

_V = TypeVar("_V")
WINDOW_SECONDS = 21_600.0
_FINISHED = ("Succeeded", "Failed")
_NO_SPEC = wire.PodSpec()
_NO_STATUS = wire.PodStatus()


class ObjectError(ValueError):
    """An object that cannot be read; the message names it, the field's path and what is wrong there."""

    def __init__(self, kind: str, metadata: wire.Metadata, problem: object) -> None:
        self.path = str(problem)
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        super().__init__(f"{kind} {name}: {problem}")


class NominatedPod(NamedTuple):
    """A real pod that waits for its victims to leave the node that the scheduler has promised to it."""

    uid: str
    namespace: str
    name: str
    node: str
    created_seconds: float
    """Unix time of creation."""


class ClusterColumns:
    """Nodes, pods, workloads and priority classes as columns.

    Usage:
        columns = ClusterColumns("resource-slack")
        columns.apply_nodes([("ADDED", node)])
        columns.apply_pods([("ADDED", pod), ("DELETED", other)])
        plan(columns.snapshot(now), ...)
    """

    def __init__(self, placeholder_namespace: str, window_seconds: float = WINDOW_SECONDS) -> None:
        self.placeholder_namespace = placeholder_namespace
        self.window_seconds = window_seconds
        self.changed = 0
        """Grows with every event that changes what a snapshot would show."""
        self.resources = Resources()
        self.requests = RequestTable(self.resources)
        self.constraints = ConstraintTable()
        self.kinds = KindTable(self.requests, self.constraints)
        self.arrivals = Arrivals(self.kinds, window_seconds)
        self.nodes = NodeTable(self.resources)
        self.pods = PodTable()
        self.reserved = ReservedTable(self.requests, self.constraints)
        self.priorities: dict[str, tuple[int, bool]] = {}
        """Value and whether its pods may preempt, by class name."""
        self.placeholders: dict[int, PlaceholderFacts] = {}
        """By pod row; those that are being deleted are in `terminating` instead."""
        self.terminating: dict[int, int] = {}
        """Node row by pod row, of placeholders that are being deleted."""
        self.placeholder_version = 0
        self.required_labels: frozenset[str] = frozenset()
        self._nominated: dict[int, NominatedPod] = {}
        self._generation = 0
        self._pod_generation = 0
        self._node_generation = 0
        self._pods_listing = False
        self._nodes_listing = False
        self._classes_listed: set[str] | None = None
        self._pod_tombstones = Tombstones()
        self._node_tombstones = Tombstones()
        self._view = View(self)

    def apply_pods(self, events: Iterable[tuple[str, wire.Pod]]) -> None:
        """Apply watch events of pods, in order.

        Raises:
            ObjectError: when a pod cannot be read; the events before it have been applied, it has changed nothing.
        """
        for event, pod in events:
            metadata = pod.metadata
            key = f"{metadata.namespace or ''}/{metadata.name}"
            uid = hash(metadata.uid or key)
            version = version_number(metadata.resource_version)
            row = self.pods.rows.get(key)
            if event == "DELETED":
                self._pod_tombstones.add(uid, version)
                if row is not None and self.pods.uid[row] == uid:
                    self._remove_pod(row)
                continue
            if self._pod_is_old(row, uid, version):
                if row is not None and self.pods.uid[row] == uid:
                    self.pods.generation[row] = self._pod_generation
                continue
            try:
                self._put_pod(key, uid, version, pod)
            except ValueError as error:
                raise ObjectError("Pod", metadata, error) from None

    def apply_nodes(self, events: Iterable[tuple[str, wire.Node]]) -> None:
        """Apply watch events of nodes, in order.

        Raises:
            ObjectError: when a node cannot be read.
        """
        nodes = self.nodes
        for event, node in events:
            name = node.metadata.name
            uid = hash(node.metadata.uid or name)
            version = version_number(node.metadata.resource_version)
            row = nodes.rows.get(name)
            known = row is not None and bool(nodes.known[row])
            if event == "DELETED":
                self._node_tombstones.add(uid, version)
                if row is not None and known and nodes.uid[row] == uid:
                    nodes.drop(row)
                    self.changed += 1
                continue
            listed_now = self._nodes_listing and not (known and nodes.generation[row] == self._node_generation)
            if not listed_now:
                if known and version != NO_VERSION and version < nodes.resource_version[row]:
                    continue
                if not known and self._node_tombstones.buries(uid, version):
                    continue
            try:
                facts = NodeFacts(node)
            except ValueError as error:
                raise ObjectError("Node", node.metadata, error) from None
            row = nodes.row_of(name)
            self.changed += nodes.put(row, facts)
            nodes.uid[row] = uid
            nodes.resource_version[row] = version
            nodes.generation[row] = self._node_generation

    def apply_workloads(self, kind: str, events: Iterable[tuple[str, wire.Workload]]) -> None:
        """Apply watch events of Deployments, ReplicaSets, StatefulSets, Jobs or CronJobs; only annotated ones are kept.

        Raises:
            ObjectError: when an annotated workload's template cannot be read.
        """
        for event, item in events:
            try:
                self.changed += self.reserved.apply(event, kind, item)
            except ValueError as error:
                raise ObjectError(kind, item.metadata, error) from None

    def apply_priority_classes(self, events: Iterable[tuple[str, wire.PriorityClass]]) -> None:
        """Apply watch events of priority classes."""
        for event, item in events:
            name = item.metadata.name
            before = self.priorities.get(name)
            if event == "DELETED":
                self.priorities.pop(name, None)
            else:
                self.priorities[name] = (item.value, item.preemption_policy != "Never")
                if self._classes_listed is not None:
                    self._classes_listed.add(name)
            self.changed += before != self.priorities.get(name)

    def begin_pods(self) -> None:
        """Start a re-list: pods that are not applied until `end_pods` will be dropped."""
        self._generation += 1
        self._pod_generation = self._generation
        self._pods_listing = True
        self._pod_tombstones.clear()

    def end_pods(self) -> None:
        """End a re-list; harmless without a beginning."""
        if self._pods_listing:
            self._pods_listing = False
            for key in self.pods.unseen(self._pod_generation):
                self._remove_pod(self.pods.rows[key])

    def begin_nodes(self) -> None:
        """Start a re-list: nodes that are not applied until `end_nodes` will be dropped."""
        self._generation += 1
        self._node_generation = self._generation
        self._nodes_listing = True
        self._node_tombstones.clear()

    def end_nodes(self) -> None:
        """End a re-list; harmless without a beginning."""
        if self._nodes_listing:
            self._nodes_listing = False
            for name in self.nodes.unseen(self._node_generation):
                self.nodes.drop(self.nodes.rows[name])
                self.changed += 1

    def begin_workloads(self, kind: str) -> None:
        """Start a re-list of one kind of workloads."""
        self.reserved.begin(kind)

    def end_workloads(self, kind: str) -> None:
        """End a re-list of one kind of workloads; harmless without a beginning."""
        self.changed += self.reserved.end(kind)

    def begin_priority_classes(self) -> None:
        """Start a re-list of priority classes."""
        self._classes_listed = set()

    def end_priority_classes(self) -> None:
        """End a re-list of priority classes; harmless without a beginning."""
        listed, self._classes_listed = self._classes_listed, None
        if listed is not None:
            for name in [one for one in self.priorities if one not in listed]:
                del self.priorities[name]
                self.changed += 1

    def require_labels(self, keys: Iterable[str]) -> None:
        """Say which node labels policies look at; replaces what was said before."""
        wanted = frozenset(keys)
        if wanted != self.required_labels:
            self.required_labels = wanted
            self.changed += 1

    def nominated(self) -> tuple[NominatedPod, ...]:
        """Return the real pods that are nominated to a node and not bound yet, by namespace and name."""
        return tuple(sorted(self._nominated.values(), key=lambda pod: (pod.namespace, pod.name)))

    def terminating_on(self, node_name: str) -> int:
        """Return how many placeholders on a node are being deleted (victims that have not left yet)."""
        row = self.nodes.rows.get(node_name)
        return 0 if row is None else sum(1 for node in self.terminating.values() if node == row)

    def snapshot(self, now: float) -> Snapshot:
        """Return the cluster as it is; arrivals are those of the window that ends at `now` (Unix seconds)."""
        self.arrivals.forget_before(now)
        return self._view.snapshot(now)

    def check(self) -> None:
        """Recompute every aggregate from the rows.

        Raises:
            RuntimeError: when one differs from what was kept incrementally; a bug, never the cluster's fault.
        """
        verify(self)

    def _pod_is_old(self, row: int | None, uid: int, version: int) -> bool:
        pods = self.pods
        if row is None:
            return not self._pods_listing and self._pod_tombstones.buries(uid, version)
        if self._pods_listing and pods.generation[row] != self._pod_generation:
            return False
        return version != NO_VERSION and version < pods.version[row]

    def _put_pod(self, key: str, uid: int, version: int, pod: wire.Pod) -> None:
        metadata, spec, status = pod.metadata, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        role = role_of(metadata, self.placeholder_namespace)
        amounts = tuple(sorted(effective_requests(spec, status).items()))
        bound, deleting = bool(spec.node_name), metadata.deletion_timestamp is not None
        using = status.phase not in _FINISHED and (bound or not deleting)
        created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0
        row = self.pods.rows.get(key)
        new = row is None or self.pods.uid[row] != uid
        bucket = self.arrivals.bucket_of(created) if new and role == REAL and created > 0 else -1
        counted = bucket >= 0 or (row is not None and not new and self.pods.arrival_kind[row] >= 0)
        # What can fail comes before what changes anything.
        constraints = self.constraints.intern_spec(spec) if role == REAL and (using or counted) else -1
        requests = self.requests.intern(amounts) if using or constraints >= 0 else -1
        kind = self._kind_of(metadata, spec, requests, constraints) if constraints >= 0 else -1
        with self._held(kind, requests):
            if row is not None and new:
                self._remove_pod(row)
            row = self.pods.add(key, uid) if row is None or new else row
            if bucket >= 0:
                self.arrivals.add(kind, bucket)
                self.pods.arrival_bucket[row] = bucket
                self.pods.arrival_kind[row] = kind
            elif counted and self.pods.arrival_kind[row] != kind:
                self.arrivals.move(int(self.pods.arrival_kind[row]), kind, int(self.pods.arrival_bucket[row]))
                self.pods.arrival_kind[row] = kind
            node = self.nodes.row_of(spec.node_name) if using and spec.node_name else -1
            state = PodState(role, kind if role == REAL else -1, requests, node) if using else GONE
            self._set_state(row, state, new)
        self._note(row, pod, spec, status, role if using else 0, node)
        self.pods.version[row] = version
        self.pods.generation[row] = self._pod_generation

    @contextmanager
    def _held(self, kind: int, requests: int) -> Iterator[None]:
        """Keep ids that were just interned alive while what held them so far is released."""
        if kind >= 0:
            self.kinds.retain(kind)
        if requests >= 0:
            self.requests.retain(requests)
        yield
        if kind >= 0:
            self.kinds.release(kind)
        if requests >= 0:
            self.requests.release(requests)

    def _kind_of(self, metadata: wire.Metadata, spec: wire.PodSpec, requests: int, constraints: int) -> int:
        named = spec.priority is None
        return self.kinds.intern(
            KindKey(
                *workload_of(metadata),
                requests,
                constraints,
                spec.priority or 0,
                (spec.priority_class_name or "") if named else "",
                spec.preemption_policy or ("" if spec.priority_class_name else "PreemptLowerPriority"),
                is_excluded(metadata),
                metadata.annotation(RESERVE),
            )
        )

    def _set_state(self, row: int, state: PodState, new: bool) -> None:
        before = self.pods.state(row)
        if before == state:
            self.changed += new
            return
        self.changed += 1
        key = self.pods.keys[row]
        if state.role:
            self.requests.retain(state.requests)
        if state.kind >= 0:
            self.kinds.joined(state.kind, key)
        if state.node >= 0:
            self.nodes.add_pod(state.node, state.role, self.requests.matrix[state.requests])
        self.pods.set_state(row, state)
        if before.node >= 0:
            self.nodes.take_pod(before.node, before.role, self.requests.matrix[before.requests])
        if before.kind >= 0:
            self.kinds.left(before.kind, key)
        if before.role:
            self.requests.release(before.requests)

    def _note(self, row: int, pod: wire.Pod, spec: wire.PodSpec, status: wire.PodStatus, role: int, node: int) -> None:
        """Keep what only a few pods have: placeholders one by one, and nominations."""
        metadata = pod.metadata
        deleting = metadata.deletion_timestamp is not None
        created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0
        placeholder = None
        if role == PLACEHOLDER and not deleting:
            owner = metadata.controller()
            placeholder = PlaceholderFacts(
                metadata.uid or "",
                metadata.name,
                metadata.label(POLICY_LABEL),
                metadata.label(SHAPE_LABEL),
                owner.name if owner else "",
                node,
                created,
                deletion_cost(metadata),
                node < 0 and _unschedulable(status),
            )
        nominee = None
        if role == REAL and status.nominated_node_name and not spec.node_name:
            nominee = NominatedPod(
                metadata.uid or "", metadata.namespace or "", metadata.name, status.nominated_node_name, created
            )
        leaving = node if role == PLACEHOLDER and deleting else None
        self._keep(row, placeholder, nominee, leaving)

    def _keep(
        self, row: int, placeholder: PlaceholderFacts | None, nominee: NominatedPod | None, leaving: int | None
    ) -> None:
        if self.placeholders.get(row) != placeholder:
            self.placeholder_version += 1
            self.changed += 1
            _put_or_pop(self.placeholders, row, placeholder)
        if self._nominated.get(row) != nominee:
            self.changed += 1
            _put_or_pop(self._nominated, row, nominee)
        if self.terminating.get(row) != leaving:
            self.changed += 1
            _put_or_pop(self.terminating, row, leaving)

    def _remove_pod(self, row: int) -> None:
        self.changed += 1
        self._keep(row, None, None, None)
        self._set_state(row, GONE, False)
        self.pods.remove(row)


def _put_or_pop(table: dict[int, _V], row: int, value: _V | None) -> None:
    if value is None:
        table.pop(row, None)
    else:
        table[row] = value


def _unschedulable(status: wire.PodStatus) -> bool:
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for one in status.conditions or ()
    )
