"""The state of the cluster in columns: fed by watch events, never rebuilt, read as snapshots.

Invariant: whatever the order, repetition or loss of events was, after a re-list (`begin_*`, events, `end_*`) the
state is that of columns which saw the final objects only; `check` recomputes every aggregate from the rows.
The class is not thread-safe: reflectors and the planning loop share it under one lock, which is the callers' business.
"""

from collections.abc import Callable, Iterable

from slack.cluster import wire
from slack.cluster.freshness import NO_VERSION, Tombstones, version_number
from slack.cluster.identity import PLACEHOLDER, REAL, RESERVE, is_excluded, role_of, workload_of
from slack.cluster.interning import ConstraintTable, RequestTable, Resources
from slack.cluster.kind_table import BY_CLASS, Arrivals, KindKey, KindTable, kind_text
from slack.cluster.node_table import NodeFacts, NodeTable
from slack.cluster.noted import NominatedPod, NotedPods
from slack.cluster.pod_table import GONE, PodState, PodTable
from slack.cluster.reserved import ReservedTable
from slack.cluster.snapshot import Snapshot
from slack.cluster.verify import verify
from slack.cluster.view import View

WINDOW_SECONDS = 21_600.0
_FINISHED = ("Succeeded", "Failed")
_NO_SPEC = wire.PodSpec()
_NO_STATUS = wire.PodStatus()


class BadObject(ValueError):
    """An object that cannot be read; the message names it, the field's path and what is wrong there."""

    def __init__(self, kind: str, metadata: wire.Metadata, problem: object) -> None:
        self.path = str(problem)
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        super().__init__(f"{kind} {name}: {problem}")


Refuse = Callable[[BadObject], None]


def _refuse(error: BadObject) -> None:
    raise error from None


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
        self.noted = NotedPods()
        self.required_labels: frozenset[str] = frozenset()
        self._generation = 0
        self._pod_generation = 0
        self._node_generation = 0
        self._pods_listing = False
        self._nodes_listing = False
        self._classes_listed: set[str] | None = None
        self._pod_tombstones = Tombstones()
        self._node_tombstones = Tombstones()
        self._view = View(self)

    def apply_pods(self, events: Iterable[tuple[str, wire.Pod]], leave_out: Refuse = _refuse) -> None:
        """Apply watch events of pods, in order.

        Args:
            events: what happened, and to which pod.
            leave_out: is told of a pod that cannot be read, which has changed nothing; the others are not its fault.

        Raises:
            BadObject: of such a pod, where nobody is told; the events before it have been applied.
        """
        for event, pod in events:
            metadata = pod.metadata
            key = f"{metadata.namespace or ''}/{metadata.name}"
            uid = hash(metadata.uid or key)
            version = version_number(metadata.resource_version)
            row = self.pods.rows.get(key)
            if event == "DELETED":
                self._pod_tombstones.add(uid, version)
                if row is not None and self.pods.cells.uid[row] == uid:
                    self._remove_pod(row)
                continue
            if self._pod_is_old(row, uid, version):
                if row is not None and self.pods.cells.uid[row] == uid:
                    self.pods.cells.generation[row] = self._pod_generation
                continue
            try:
                self._put_pod(row, key, uid, version, pod)
            except ValueError as error:
                leave_out(BadObject("Pod", metadata, error))

    def apply_nodes(self, events: Iterable[tuple[str, wire.Node]], leave_out: Refuse = _refuse) -> None:
        """Apply watch events of nodes, in order; see `apply_pods`."""
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
                leave_out(BadObject("Node", node.metadata, error))
                continue
            row = nodes.row_of(name)
            self.changed += nodes.put(row, facts)
            nodes.uid[row] = uid
            nodes.resource_version[row] = version
            nodes.generation[row] = self._node_generation

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
                leave_out(BadObject(kind, item.metadata, error))

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
        return tuple(sorted(self.noted.nominated.values(), key=lambda pod: (pod.namespace, pod.name)))

    def terminating_on(self, node_name: str) -> int:
        """Return how many placeholders on a node are being deleted (victims that have not left yet)."""
        row = self.nodes.rows.get(node_name)
        return 0 if row is None else sum(1 for node in self.noted.terminating.values() if node == row)

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
        if row is None:
            return not self._pods_listing and self._pod_tombstones.buries(uid, version)
        cells = self.pods.cells
        if self._pods_listing and cells.generation[row] != self._pod_generation:
            return False
        return version != NO_VERSION and version < cells.version[row]

    def _put_pod(self, row: int | None, key: str, uid: int, version: int, pod: wire.Pod) -> None:
        metadata, spec, status = pod.metadata, pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        role = role_of(metadata, self.placeholder_namespace)
        bound = bool(spec.node_name)
        using = status.phase not in _FINISHED and (bound or metadata.deletion_timestamp is None)
        new = row is None or self.pods.cells.uid[row] != uid
        bucket = self._arrival_bucket(metadata) if new and role == REAL else -1
        counted = bucket >= 0 or (row is not None and not new and self.pods.cells.arrival_kind[row] >= 0)
        # What can fail comes before what changes anything.
        kind, requests = self._kind_and_requests(pod, role, using=using, counted=counted)
        if row is not None and new:
            self._remove_pod(row)
            row = None
            # The pod that is replaced may have been the last to hold the very same values.
            kind, requests = self._kind_and_requests(pod, role, using=using, counted=counted)
        if row is None:
            row = self.pods.add(key, uid)
            self.changed += 1
        node = self.nodes.row_of(spec.node_name) if using and spec.node_name else -1
        state = (role, kind, requests, node) if using else GONE
        before = GONE if new else self.pods.state(row)
        if new:
            self._change(row, GONE, state, kind, bucket, counted=counted)
        elif before != state or state == GONE or (counted and self.pods.cells.arrival_kind[row] != kind):
            # Held meanwhile: what the pod was may be all that holds the values that it has now, or nothing does.
            self._hold(kind, requests)
            self._change(row, before, state, kind, bucket, counted=counted)
            self._let_go(kind, requests)
        # Else it is what it was, as after most events: its row holds the values.
        if not new or node < 0 or role == PLACEHOLDER:  # nearly every pod of a list has a node, and no more to note
            self.changed += self.noted.note(row, pod, role if using else 0, node)
        cells = self.pods.cells
        cells.version[row] = version
        cells.generation[row] = self._pod_generation

    def _arrival_bucket(self, metadata: wire.Metadata) -> int:
        created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0
        return self.arrivals.bucket_of(created) if created > 0 else -1

    def _kind_and_requests(self, pod: wire.Pod, role: int, *, using: bool, counted: bool) -> tuple[int, int]:
        """Return the ids of a pod's kind (real pods) and requests; -1 for what nobody asks for.

        Raises:
            ValueError: when the pod cannot be read; then nothing has changed.
        """
        spec, status = pod.spec or _NO_SPEC, pod.status or _NO_STATUS
        if role != REAL or not (using or counted):
            return -1, self.requests.intern_pod(spec, status) if using else -1
        text = kind_text(pod.metadata, spec, status)
        kind = self.kinds.texts.get(text)
        if kind is None:
            requests = self.requests.intern_pod(spec, status)
            self.requests.retain(requests)
            try:
                kind = self._kind_of(pod.metadata, spec, requests, self.constraints.intern_spec(spec))
            finally:
                self.requests.release(requests)
            self.kinds.texts.put(text, kind)
        return kind, self.kinds[kind].requests

    def _change(self, row: int, before: PodState, state: PodState, kind: int, bucket: int, *, counted: bool) -> None:
        if counted:
            self._count_arrival(row, kind, bucket)
        if before != state:
            self._set_state(row, before, state)

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

    def _count_arrival(self, row: int, kind: int, bucket: int) -> None:
        """Count a new pod (bucket >= 0), or move the count of one whose kind has changed (-1: it has none now)."""
        cells = self.pods.cells
        if bucket >= 0:
            self.arrivals.add(kind, bucket)
            cells.arrival_bucket[row] = bucket
        elif cells.arrival_kind[row] == kind:
            return
        else:
            self.arrivals.move(cells.arrival_kind[row], kind, cells.arrival_bucket[row])
        if kind >= 0:
            self.kinds.suggest(kind, self.pods.keys[row])
        cells.arrival_kind[row] = kind

    def _kind_of(self, metadata: wire.Metadata, spec: wire.PodSpec, requests: int, constraints: int) -> int:
        # Admission writes priority and preemptionPolicy into every pod; a file may have the class's name only.
        by_class = spec.priority_class_name and (spec.priority is None or spec.preemption_policy is None)
        return self.kinds.intern(
            KindKey(
                *workload_of(metadata),
                requests,
                constraints,
                (BY_CLASS if by_class else 0) if spec.priority is None else spec.priority,
                (spec.priority_class_name or "") if by_class else "",
                spec.preemption_policy or ("" if by_class else "PreemptLowerPriority"),
                is_excluded(metadata),
                metadata.annotation(RESERVE),
            )
        )

    def _set_state(self, row: int, before: PodState, state: PodState) -> None:
        self.changed += 1
        key = self.pods.keys[row]
        role, kind, requests, node = state
        old_role, old_kind, old_requests, old_node = before
        if role:
            self.requests.retain(requests)
        if kind >= 0 and kind != old_kind:
            self.kinds.joined(kind, key)
        if node >= 0:
            self.nodes.add_pod(node, role, self.requests.cells[requests])
        self.pods.set_state(row, state)
        if old_node >= 0:
            self.nodes.take_pod(old_node, old_role, self.requests.cells[old_requests])
        if old_kind >= 0 and old_kind != kind:
            self.kinds.left(old_kind, key)
        if old_role:
            self.requests.release(old_requests)

    def _remove_pod(self, row: int) -> None:
        self.changed += 1
        self.noted.forget(row)
        before = self.pods.state(row)
        if before != GONE:
            self._set_state(row, before, GONE)
        self.pods.remove(row)
