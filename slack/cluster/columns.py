"""The state of the cluster in columns: fed by watch events, never rebuilt, read as snapshots.

Invariant: whatever the order, repetition or loss of events was, after a re-list (`begin_*`, events, `end_*`) the
state is that of columns which saw the final objects only.
The class is not thread-safe: reflectors and the planning loop share it under one lock, which is the callers' business.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from slack.cluster import wire
from slack.cluster.classes import KNOWN_TAINTS, NO_SELECTORS, NodeSelectors, TaintKeys
from slack.cluster.column_tables import WINDOW_SECONDS, ColumnTables
from slack.cluster.columns_copy import ColumnsCopy, copied
from slack.cluster.freshness import Freshness
from slack.cluster.identity import DAEMON, PLACEHOLDER, REAL, is_excluded, role_of, workload_of
from slack.cluster.labels import ANNOTATION_RESERVE
from slack.cluster.room_copy import RoomCopy, copied_room
from slack.cluster.snapshot import Snapshot
from slack.cluster.snapshot_builder import SnapshotBuilder
from slack.cluster.tables.interning import LONGEST_RESERVE
from slack.cluster.tables.kind_table import (
    BY_CLASS,
    KindKey,
    KindText,
    gang_of,
    unchecked_of,
)
from slack.cluster.tables.node_table import NodeFacts
from slack.cluster.tables.pod_table import GONE, NONE, PodState
from slack.errors import InvalidInput

_FINISHED = ("Succeeded", "Failed")
_NO_SPEC = wire.PodSpec()
_NO_STATUS = wire.PodStatus()
_NO_LOCK = nullcontext()
_NO_LABELS: Mapping[str, str] = {}
_LAST_SECOND = (1 << 31) - 1


class InvalidObject(InvalidInput):
    """An object that cannot be read; the message names it, the field's path and what is wrong there."""

    def __init__(self, kind: str, metadata: wire.Metadata, problem: object) -> None:
        self.path = str(problem)
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        super().__init__(str(problem), f"{kind} {name}")


Refuse = Callable[[InvalidObject], None]


def _refuse(error: InvalidObject) -> None:
    raise error from None


def _whole_seconds(created_seconds: float | None) -> int:
    """Return whole Unix seconds that fit an int32; 0 for a time that is not known."""
    if created_seconds is None or created_seconds < 0:
        return 0
    return int(created_seconds) if created_seconds < _LAST_SECOND else _LAST_SECOND


class ClusterColumns(ColumnTables):
    """Nodes, pods, workloads, priority classes and namespaces as columns.

    Usage:
        columns = ClusterColumns("resource-slack")
        columns.apply_nodes([("ADDED", node)])
        columns.apply_pods([("ADDED", pod), ("DELETED", other)])
        plan(columns.snapshot(now), ...)
    """

    def __init__(
        self,
        placeholder_namespace: str,
        window_seconds: float = WINDOW_SECONDS,
        taint_keys: TaintKeys = KNOWN_TAINTS,
    ) -> None:
        super().__init__(placeholder_namespace, window_seconds)
        self.taint_keys = taint_keys
        """Which taints of nodes are transient."""
        self._pod_freshness = Freshness()
        self._node_freshness = Freshness()
        self._unseen_pods: list[str] = []
        self._classes_listed: set[str] | None = None
        self._namespaces_listed: set[str] | None = None
        self._copied: ColumnsCopy | None = None
        self._room_copied: RoomCopy | None = None
        self._builder = SnapshotBuilder(window_seconds)

    def apply_pods(self, events: Iterable[tuple[str, wire.Pod]], leave_out: Refuse = _refuse) -> None:
        """Apply watch events of pods, in order.

        Args:
            events: what happened, and to which pod.
            leave_out: is told of a pod that cannot be read, which has changed nothing; the others are not its fault.

        Raises:
            InvalidObject: of such a pod, where nobody is told; the events before it have been applied.
        """
        for event, pod in events:
            self.apply_pod(event, pod, leave_out)

    def apply_pod(self, event: str, pod: wire.Pod, leave_out: Refuse = _refuse) -> int:
        """Apply one watch event of a pod, see `apply_pods`; return the pod's role."""
        metadata, pods = pod.metadata, self.pods
        key = f"{metadata.namespace or ''}/{metadata.name}"
        uid = hash(metadata.uid or key)
        row = pods.rows.get(key)
        same = row is not None and pods.cells.uid[row] == uid
        if event == "DELETED":
            self._pod_freshness.deleted(uid, metadata.resource_version)
            role = self._remove_pod(row) if row is not None and same else NONE
            return role if role > 0 else role_of(metadata, self.placeholder_namespace)
        known = None if row is None else (pods.cells.version[row], pods.cells.generation[row])
        version = self._pod_freshness.news(uid, metadata.resource_version, known)
        if version is None:
            return role_of(metadata, self.placeholder_namespace)
        try:
            row, role = self._put_pod(row, key, uid, pod, new=not same)
        except ValueError as error:
            self.keep_pod(metadata.namespace or "", metadata.name, metadata.uid or "")
            leave_out(InvalidObject("Pod", metadata, error))
            return role_of(metadata, self.placeholder_namespace)
        cells = pods.cells
        cells.version[row] = version
        cells.generation[row] = self._pod_freshness.generation
        return role

    def apply_nodes(self, events: Iterable[tuple[str, wire.Node]], leave_out: Refuse = _refuse) -> None:
        """Apply watch events of nodes, in order; see `apply_pods`."""
        nodes, freshness = self.nodes, self._node_freshness
        for event, node in events:
            metadata = node.metadata
            name = metadata.name
            uid = hash(metadata.uid or name)
            row = nodes.rows.get(name)
            if row is not None and not nodes.known[row]:
                row = None
            if event == "DELETED":
                freshness.deleted(uid, metadata.resource_version)
                if row is not None and nodes.uid[row] == uid:
                    nodes.drop(row)
                    self.changed += 1
                continue
            known = None if row is None else (int(nodes.resource_version[row]), int(nodes.generation[row]))
            version = freshness.news(uid, metadata.resource_version, known)
            if version is None:
                continue
            try:
                facts = NodeFacts(node, self.taint_keys)
            except ValueError as error:
                self.keep_node(name, metadata.uid or "")
                leave_out(InvalidObject("Node", metadata, error))
                continue
            row = nodes.row_of(name)
            self.changed += nodes.put(row, facts)
            nodes.uid[row] = uid
            nodes.resource_version[row] = version
            nodes.generation[row] = freshness.generation

    def apply_workloads(
        self, kind: str, events: Iterable[tuple[str, wire.Workload]], leave_out: Refuse = _refuse
    ) -> None:
        """Apply watch events of Deployments, ReplicaSets, StatefulSets, Jobs or CronJobs; see `apply_pods`.

        Only annotated ones are kept, so only their templates are read.
        """
        for event, item in events:
            try:
                self.changed += self.reserved.apply(event, kind, item)
            except ValueError as error:
                leave_out(InvalidObject(kind, item.metadata, error))

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

    def apply_namespaces(self, events: Iterable[tuple[str, wire.Namespace]], leave_out: Refuse = _refuse) -> None:
        """Apply watch events of namespaces; nothing of one that decodes cannot be read."""
        for event, item in events:
            name = item.metadata.name
            labels = None if event == "DELETED" else dict(sorted((item.metadata.labels or {}).items()))
            if labels is not None and self._namespaces_listed is not None:
                self._namespaces_listed.add(name)
            self._put_namespace(name, labels)

    def _put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._namespaces_copied = None
        self.changed += 1

    def begin_pods(self) -> None:
        """Start a re-list: pods that are not applied until `end_pods` will be dropped."""
        self._pod_freshness.begin()

    def keep_pod(self, namespace: str, name: str, uid: str) -> None:
        """Keep a pod as it is known, although a re-list cannot show what it is now."""
        row = self.pods.rows.get(f"{namespace}/{name}")
        if row is not None and self.pods.cells.uid[row] == hash(uid or f"{namespace}/{name}"):
            self.pods.cells.generation[row] = self._pod_freshness.generation

    def end_pods(self, most: int | None = None) -> bool:
        """End a re-list; harmless without a beginning.

        Args:
            most: how many pods may be dropped now, None for all; nothing else may be done with pods until all are.

        Returns:
            whether all are.
        """
        if self._pod_freshness.end():
            self._unseen_pods = self.pods.unseen(self._pod_freshness.generation)
            self._remember_bursts()
        unseen, rest = (self._unseen_pods, []) if most is None else (self._unseen_pods[:most], self._unseen_pods[most:])
        self._unseen_pods = rest
        for key in unseen:
            self._remove_pod(self.pods.rows[key])
        return not rest

    def _remember_bursts(self) -> None:
        """Learn of pods that are older than the window of arrivals which of them came together."""
        pods = self.pods
        kind, bucket = pods.kind[: pods.size], pods.arrival_bucket[: pods.size]
        old = (kind >= 0) & (pods.arrival_kind[: pods.size] < 0) & (bucket > 0)
        if old.any():
            self.arrivals.remember(kind[old], bucket[old])

    def begin_nodes(self) -> None:
        """Start a re-list: nodes that are not applied until `end_nodes` will be dropped."""
        self._node_freshness.begin()

    def keep_node(self, name: str, uid: str) -> None:
        """Keep a node as it is known, see `keep_pod`."""
        row = self.nodes.rows.get(name)
        if row is not None and self.nodes.known[row] and self.nodes.uid[row] == hash(uid or name):
            self.nodes.generation[row] = self._node_freshness.generation

    def end_nodes(self) -> None:
        """End a re-list; harmless without a beginning."""
        if self._node_freshness.end():
            for name in self.nodes.unseen(self._node_freshness.generation):
                self.nodes.drop(self.nodes.rows[name])
                self.changed += 1

    def begin_workloads(self, kind: str) -> None:
        """Start a re-list of one kind of workloads."""
        self.reserved.begin(kind)

    def keep_workload(self, kind: str, namespace: str, name: str) -> None:
        """Keep a workload as it is known, see `keep_pod`."""
        self.reserved.keep(kind, namespace, name)

    def end_workloads(self, kind: str) -> None:
        """End a re-list of one kind of workloads; harmless without a beginning."""
        self.changed += self.reserved.end(kind)

    def begin_priority_classes(self) -> None:
        """Start a re-list of priority classes."""
        self._classes_listed = set()

    def keep_priority_class(self, name: str) -> None:
        """Keep a priority class as it is known, see `keep_pod`."""
        if self._classes_listed is not None:
            self._classes_listed.add(name)

    def end_priority_classes(self) -> None:
        """End a re-list of priority classes; harmless without a beginning."""
        listed, self._classes_listed = self._classes_listed, None
        if listed is not None:
            for name in [name for name in self.priorities if name not in listed]:
                del self.priorities[name]
                self.changed += 1

    def begin_namespaces(self) -> None:
        """Start a re-list of namespaces."""
        self._namespaces_listed = set()

    def keep_namespace(self, name: str) -> None:
        """Keep a namespace as it is known, see `keep_pod`."""
        if self._namespaces_listed is not None:
            self._namespaces_listed.add(name)

    def end_namespaces(self) -> None:
        """End a re-list of namespaces; harmless without a beginning."""
        listed, self._namespaces_listed = self._namespaces_listed, None
        if listed is not None:
            for name in [name for name in self._namespaces if name not in listed]:
                self._put_namespace(name, None)

    def require_labels(self, keys: Iterable[str], selectors: NodeSelectors = NO_SELECTORS) -> None:
        """Say which node labels policies look at, and what they select; replaces what was said before."""
        wanted = frozenset(keys)
        if (wanted, selectors) != (self.required_labels, self.node_selectors):
            self.required_labels, self.node_selectors = wanted, selectors
            self.changed += 1

    def snapshot(self, now: float) -> Snapshot:
        """Return the cluster as it is; arrivals are those of the window that ends at `now` (Unix seconds)."""
        self.arrivals.forget_before(now)
        return self.build(self.copy(), now)

    def copy(self) -> ColumnsCopy:
        """Copy what a snapshot is made of: with `build`, a snapshot in two steps, of which this one is short.

        Usage, by those who share the columns under a lock:
            with lock:
                copy = columns.copy()
            snapshot = columns.build(copy, now, lock)
        """
        self.settle_resources()
        self._copied = copied(self, self._copied)
        return self._copied

    def room_copy(self) -> RoomCopy:
        """Copy what is free where and which placeholders stand there; quicker than `copy`, and apart from it."""
        self.settle_resources()
        self._room_copied = copied_room(self, self._room_copied)
        return self._room_copied

    def build(self, copy: ColumnsCopy, now: float, lock: AbstractContextManager[object] = _NO_LOCK) -> Snapshot:
        """Make a snapshot of a copy, the latest one; `lock` is held for what is learned by it only."""
        snapshot, examples = self._builder.snapshot(copy, now)
        if copy.stale:
            with lock:
                self.kinds.found(examples)
        return snapshot

    def _put_pod(self, row: int | None, key: str, uid: int, pod: wire.Pod, *, new: bool) -> tuple[int, int]:
        """Write what a pod contributes now; return its row and its role.

        Raises:
            ValueError: when the pod cannot be read; then nothing has changed.
        """
        metadata, spec, status = pod.metadata, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        using = status.phase not in _FINISHED and (bool(spec.node_name) or metadata.deletion_timestamp is None)
        text, kind = self.kinds.find(metadata, spec, status)
        role = REAL if kind >= 0 else role_of(metadata, self.placeholder_namespace)
        created = metadata.creation_timestamp.timestamp() if new and metadata.creation_timestamp is not None else None
        version = self.kinds.version
        bucket = self.arrivals.bucket_of(created) if new and role == REAL else NONE
        if self.kinds.version != version:  # the arrivals that were forgotten may have been all that held the kind
            text, kind = self.kinds.find(metadata, spec, status)
        counted = bucket >= 0 or (row is not None and not new and self.pods.cells.arrival_kind[row] >= 0)
        # What can fail comes before what changes anything.
        if kind >= 0 and (using or counted):
            requests = self.kinds.requests_of[kind]
        else:
            kind, requests = self._kind_and_requests(pod, role, text, using=using, counted=counted)
        avoids = self.daemons.read(spec) if role == DAEMON and using else NONE
        if row is not None and new:
            self._remove_pod(row)
            row = None
            # The pod that is replaced may have been the last to hold the very same values.
            kind, requests = self._kind_and_requests(pod, role, text, using=using, counted=counted)
        if row is None:
            row = self.pods.add_pod(key, uid)
            self.pods.cells.created[row] = _whole_seconds(created)
            self.changed += 1
        node = NONE
        if using and spec.node_name:
            known = self.nodes.rows.get(spec.node_name)
            node = self.nodes.row_of(spec.node_name) if known is None else known
        state = (role, kind, requests, node) if using else GONE
        before = GONE if new else self.pods.state(row)
        if new or before != state or state == GONE or (counted and self.pods.cells.arrival_kind[row] != kind):
            self._change(row, before, state, kind, requests, bucket, counted=counted)
        if new and bucket < 0:
            self.pods.cells.arrival_bucket[row] = self.arrivals.old_bucket_of(created)
        known = self.pods.cells.labels[row]
        if role != REAL or not using:
            self._put_labels(row, NONE)
        elif known < 0 or self.label_sets.labels[known] != (metadata.labels or _NO_LABELS):
            self._put_labels(row, self.label_sets.id_of(metadata.labels))
        if avoids >= 0:
            self.daemons.put(row, metadata, node, avoids)
        elif row in self.daemons.rows:
            self.daemons.drop(row)
        # Else it is what it was, as after most events: its row holds the values.
        if role == PLACEHOLDER and using:
            self.changed += self.placeholders.put(row, pod, node)
        elif row in self.placeholders.rows:
            self.placeholders.drop(row)
        if role == DAEMON and metadata.namespace == self.placeholder_namespace:
            self.changed += self.markers.put(key, pod)
        return row, role

    def _put_labels(self, row: int, after: int) -> None:
        """Write which labels a real pod has now; NONE: it is no real pod, or none that uses anything."""
        before = self.pods.cells.labels[row]
        if after != before:
            self.label_sets.replace(before, after)
            self.pods.cells.labels[row] = after
            self.changed += 1

    def _kind_and_requests(
        self, pod: wire.Pod, role: int, text: KindText, *, using: bool, counted: bool
    ) -> tuple[int, int]:
        """Return the ids of a pod's kind (real pods) and requests; NONE for what nobody asks for.

        Raises:
            ValueError: when the pod cannot be read; then nothing has changed.
        """
        spec, status = pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        if role != REAL or not (using or counted):
            return NONE, self.requests.intern_pod(spec, status) if using else NONE
        kind = self.kinds.texts.get(text, NONE)
        if kind < 0:
            requests = self.requests.intern_pod(spec, status)
            self.requests.retain(requests)
            try:
                constraints = self.constraints.intern_spec(spec)
                kind = self._kind_of(pod, requests, constraints)
            finally:
                self.requests.release(requests)
            self.kinds.remember(text, pod.metadata, kind, constraints)
        return kind, self.kinds.requests_of[kind]

    def _kind_of(self, pod: wire.Pod, requests: int, constraints: int) -> int:
        metadata, spec, status = pod.metadata, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        # Admission writes priority and preemptionPolicy into every pod; a file may have the class's name only.
        by_class = spec.priority_class_name and (spec.priority is None or spec.preemption_policy is None)
        labels = self._labels_of(metadata, constraints)
        gang, unchecked = gang_of(spec), unchecked_of(spec)
        return self.kinds.intern(
            KindKey(
                *workload_of(metadata),
                requests,
                constraints,
                (BY_CLASS if by_class else 0) if spec.priority is None else spec.priority,
                (spec.priority_class_name or "") if by_class else "",
                spec.preemption_policy or ("" if by_class else "PreemptLowerPriority"),
                is_excluded(metadata),
                metadata.annotation(ANNOTATION_RESERVE)[:LONGEST_RESERVE],
                gang,
                spec.is_gated(),
                labels,
                unchecked,
                status.claimed if status.extended_resource_claim_status is not None else (),
            )
        )

    def _labels_of(self, metadata: wire.Metadata, constraints: int) -> tuple[tuple[str, str], ...]:
        keys = self.constraints.label_keys[constraints]
        return tuple(sorted((key, value) for key, value in (metadata.labels or {}).items() if key in keys))

    def _change(
        self, row: int, before: PodState, state: PodState, kind: int, requests: int, bucket: int, *, counted: bool
    ) -> None:
        """Count a pod's arrival and make its row contribute what it is now."""
        # What the pod was may be all that holds the values that it has now; a pod that is new takes nothing back.
        takes_back = before != GONE or (counted and bucket < 0)
        if takes_back:
            self._hold(kind, requests)
        cells, key = self.pods.cells, self.pods.keys[row]
        if bucket >= 0:
            self.arrivals.count_arrival(kind, bucket, key)
            cells.arrival_bucket[row], cells.arrival_kind[row] = bucket, kind
        elif counted and cells.arrival_kind[row] != kind:  # NONE: it has none now
            self.arrivals.move(cells.arrival_kind[row], kind, cells.arrival_bucket[row], key)
            cells.arrival_kind[row] = kind
        if before != state:
            self.changed += 1
            role, own_kind, _, node = state
            if own_kind >= 0 and own_kind != before[1]:
                self.kinds.joined(own_kind, key)
            if node >= 0:
                self.nodes.add_pod(node, role, self.requests.cells[requests])
            self.pods.set_state(row, state)
            if role:
                self.requests.retain(requests)
            if before != GONE:
                self._take_back(key, before, own_kind)
        if takes_back:
            self._let_go(kind, requests)

    def _hold(self, kind: int, requests: int) -> None:
        if kind >= 0:
            self.kinds.retain(kind)
        if requests >= 0:
            self.requests.retain(requests)

    def _let_go(self, kind: int, requests: int) -> None:
        if kind >= 0:
            self.kinds.release(kind)
        if requests >= 0:
            self.requests.release(requests)

    def _take_back(self, key: str, state: PodState, new_kind: int = NONE) -> None:
        """End what a pod contributed, and to its kind unless that is still its own."""
        role, kind, requests, node = state
        if node >= 0:
            self.nodes.take_pod(node, role, self.requests.cells[requests])
        if kind >= 0 and kind != new_kind:
            self.kinds.left(kind, key)
        if role:
            self.requests.release(requests)

    def _remove_pod(self, row: int) -> int:
        """Forget a pod; return the role in which it contributed, 0 for none."""
        self.changed += 1
        if row in self.placeholders.rows:
            self.placeholders.drop(row)
        if row in self.daemons.rows:
            self.daemons.drop(row)
        self._put_labels(row, NONE)
        key = self.pods.keys[row]
        if self.markers.rows:
            self.markers.drop(key)
        state = self.pods.remove(row)
        self._take_back(key, state)
        return state[0]
