"""The cluster's state: nodes as numpy columns, pods as rows of numbers, sums kept as things change.

Invariants, checked by tests/simulator/invariants.py: no node gives more than it has; a pod is at one node or at none;
every sum equals what its rows add up to. Whoever changes anything goes through this class; `freed` tells the scheduler
where room grew.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import NodeClass, admits
from slack.cluster.column_tables import WINDOW_SECONDS
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray
from slack.cluster.together import BUCKET_SECONDS, NEVER, mark_of, until_of
from slack.simulator.model.kinds import Kinds, PodKind, PodRole
from slack.simulator.scenario.inventory import NodeGroup
from slack.simulator.scenario.scenario import Scenario

GONE, STARTING, READY, LEAVING = 0, 1, 2, 3
"""States of a node row."""
_BUCKET_SECONDS = 60.0
_DEFAULT_PODS = 110


class ModelledCluster:
    """Nodes and pods. Columns are [R, capacity], so that one resource of all nodes lies together."""

    def __init__(self, scenario: Scenario) -> None:
        self.kinds = Kinds(scenario)
        width = len(self.kinds.resources)
        self._declare_groups(scenario.node_groups)
        self._declare_nodes(width)
        self._declare_pods()
        self._declare_counts(width)
        self._grow_kinds()

    def _declare_groups(self, groups: tuple[NodeGroup, ...]) -> None:
        """Set what each node group's nodes look like; nothing of it changes but the counts."""
        self.groups: tuple[NodeGroup, ...] = groups
        self.classes: tuple[NodeClass, ...] = tuple(dict.fromkeys(group.node_class for group in self.groups))
        self.group_class = [self.classes.index(group.node_class) for group in self.groups]
        resources = self.kinds.resources
        self.group_allocatable: list[IntArray] = []
        self.group_daemon: list[IntArray] = []
        for group in self.groups:
            self.group_allocatable.append(np.array([group.allocatable.get(n, 0) for n in resources], dtype=np.int64))
            self.group_daemon.append(np.array([group.daemon_requests.get(n, 0) for n in resources], dtype=np.int64))
        self.group_slots = [group.allocatable.get("pods", _DEFAULT_PODS) for group in self.groups]
        self.group_counts = [0] * len(self.groups)
        """Nodes that are starting or ready: what the autoscaler's target size is."""

    def _declare_nodes(self, width: int) -> None:
        """Set the node columns, empty, with `width` resources."""
        self.size = 0
        """Rows in use, gone ones between them included."""
        self.free: IntArray = np.zeros((width, 16), dtype=np.int64)
        self.allocatable: IntArray = np.ones((width, 16), dtype=np.int64)
        self.per_cent: npt.NDArray[np.float64] = np.zeros((2, 16))
        """[cpu and memory, capacity] 100 / allocatable, for scoring."""
        self.real: IntArray = np.zeros((width, 16), dtype=np.int64)
        self.ours: IntArray = np.zeros((width, 16), dtype=np.int64)
        self.slots: IntArray = np.zeros(16, dtype=np.int64)
        """Free pod slots."""
        self.pod_count: IntArray = np.zeros(16, dtype=np.int64)
        """Pods, without DaemonSets'."""
        self.group_of: IndexArray = np.zeros(16, dtype=np.int32)
        self.state: IndexArray = np.zeros(16, dtype=np.int32)
        self.candidate: BoolArray = np.zeros(16, dtype=np.bool_)
        """DeletionCandidateOfClusterAutoscaler, PreferNoSchedule."""
        self.softly_tainted: BoolArray = np.zeros(16, dtype=np.bool_)
        """The operator's taint, PreferNoSchedule; unbound placeholders tolerate it."""
        self.lower: dict[int, IntArray] = {}
        """By priority: [R, capacity] requests of the bound pods of that priority."""
        self.standing: dict[int, IntArray] = {}
        """By kind that has conflicts: [capacity] how many of it stand there."""
        self.held_until: dict[int, float] = {}
        """By node: Karpenter's nomination for pods that nobody binds; until then it disrupts the node by no means."""
        self.names: list[str] = []
        self.pods_on: list[set[int]] = []
        self.version: list[int] = []
        """[node] grows with every change there."""
        self.last_change: list[float] = []
        """[node] when a pod last came or left."""
        self.created_at: list[float] = []
        self.node_version = 0
        """Grows when nodes come, go or change their state."""
        self.changes = 0
        """Grows with every change that a scheduler, an autoscaler or the operator could look at."""
        self.room_version = 0
        """Grows when there may be more room somewhere."""
        self.freed: list[int] = []
        """Nodes where room grew since the scheduler looked."""
        self.serial = 0
        self._spare: list[int] = []
        self._admitted: dict[int, BoolArray] = {}
        self._masks: dict[int, tuple[int, BoolArray]] = {}

    def _declare_pods(self) -> None:
        """Set the pod columns, empty."""
        self.kind_of = array("i")
        self.node_of = array("i")
        self.created = array("d")
        self.bound_at = array("d")
        self.life = array("d")
        self.number = array("q")
        """Order of creation; a row is used again, its number is not."""
        self.recreated = array("b")
        """Whether a pod took the place of an evicted or preempted one."""
        self.cost = array("i")
        self.nominated = array("i")
        self._spare_pods: list[int] = []
        self.nominations: dict[int, list[int]] = {}
        """By node: pods that preempted there and are not bound yet."""
        self.pods_of: dict[int, dict[int, None]] = {}
        """By kind that a ReplicaSet counts: its pods, in order of creation."""

    def _declare_counts(self, width: int) -> None:
        """Set the sums over pods and nodes, empty, with `width` resources."""
        self.count: list[int] = []
        """[kind] pods."""
        self.running: list[int] = []
        """[kind] of these, bound."""
        self.presence: list[list[int]] = []
        """[kind][class] bound pods."""
        self.arrivals: list[int] = []
        """[kind] created within the window."""
        self.together: list[float] = []
        """[kind] mark of the largest number that came together, those that were there from the beginning left out."""
        self._wave: dict[int, tuple[int, int]] = {}
        """By kind: the latest bucket in which pods came together, and how many."""
        self._buckets: deque[tuple[float, dict[int, int]]] = deque()
        self.created_total = 0
        self.placeholder_version = 0
        self.started: deque[tuple[float, float]] = deque()
        """(when, how long it took) of nodes that became ready."""
        self.node_total: list[int] = [0] * width
        """Allocatable of ready nodes, less DaemonSets'."""
        self.bound_total = [[0] * width for _ in PodRole]
        """[role][R] requests of bound pods."""
        self.asked_total = [[0] * width for _ in PodRole]
        """[role][R] requests of all pods."""

    # -- nodes -----------------------------------------------------------------------------------------------------

    def add_node(self, group: int, now: float) -> int:
        """Request a node; it is starting."""
        row = self._spare.pop() if self._spare else self._new_row()
        self.changes += 1
        self.serial += 1
        spec = self.groups[group]
        self.names[row] = f"{spec.name}-{self.serial:06d}"
        self.pods_on[row] = set()
        self.version[row] += 1
        self.last_change[row] = self.created_at[row] = now
        allocatable, daemon = self.group_allocatable[group], self.group_daemon[group]
        self.allocatable[:, row] = np.maximum(allocatable, 0)
        self.free[:, row] = allocatable - daemon
        self.per_cent[:, row] = 100.0 / allocatable[:2]
        self.real[:, row] = self.ours[:, row] = 0
        self.slots[row] = self.group_slots[group] - spec.daemon_pods
        self.pod_count[row] = 0
        self.group_of[row] = group
        self.candidate[row] = self.softly_tainted[row] = False
        self.held_until.pop(row, None)
        self.state[row] = STARTING
        self.group_counts[group] += 1
        return row

    def make_ready(self, row: int, now: float) -> None:
        """The node has joined."""
        self.changes += 1
        self.state[row] = READY
        self.started.append((now, now - self.created_at[row]))
        self.last_change[row] = now
        self._add_capacity(row, 1)
        self.node_version += 1
        self._grew(row)

    def make_leaving(self, row: int) -> None:
        """Nothing is scheduled there any more; ToBeDeletedByClusterAutoscaler, karpenter.sh/disrupted."""
        self.changes += 1
        self.state[row] = LEAVING
        self.group_counts[self.group_of[row]] -= 1
        self.node_version += 1

    def remove_node(self, row: int) -> None:
        """The node is gone; its pods must have left."""
        if self.pods_on[row]:
            raise RuntimeError(f"{self.names[row]} is taken away with {len(self.pods_on[row])} pods on it")
        self.changes += 1
        self._add_capacity(row, -1)
        self.state[row] = GONE
        self.candidate[row] = self.softly_tainted[row] = False
        self.node_version += 1
        self._spare.append(row)

    def rows(self, state: int) -> IntArray:
        """Return node rows in a state."""
        return np.flatnonzero(self.state[: self.size] == state)

    def admitted(self, kind: PodKind) -> BoolArray:
        """[groups] whether selectors and taints let the kind's pods onto a group's nodes."""
        found = self._admitted.get(kind.constraint)
        if found is None:
            found = np.array([admits(kind.constraints, group.node_class) for group in self.groups], dtype=np.bool_)
            self._admitted[kind.constraint] = found
        return found

    def allowed(self, kind: PodKind) -> BoolArray:
        """[size] ready nodes that selectors and taints let the kind's pods onto."""
        version, mask = self._masks.get(kind.constraint, (-1, None))
        if mask is None or version != self.node_version or len(mask) != self.size:
            mask = self.admitted(kind)[self.group_of[: self.size]] & (self.state[: self.size] == READY)
            self._masks[kind.constraint] = (self.node_version, mask)
        return mask

    # -- pods ------------------------------------------------------------------------------------------------------

    def create_pod(self, kind: PodKind, life: float, now: float, *, recreated: bool = False) -> int:
        """A pod is created; it is pending."""
        self._grow_kinds()
        if self._spare_pods:
            row = self._spare_pods.pop()
        else:
            row = len(self.kind_of)
            for ints in (self.kind_of, self.node_of, self.cost, self.nominated, self.number, self.recreated):
                ints.append(0)
            for floats in (self.created, self.bound_at, self.life):
                floats.append(0.0)
        index = kind.index
        self.changes += 1
        self.created_total += 1
        self.kind_of[row], self.node_of[row], self.cost[row], self.nominated[row] = index, -1, 0, -1
        self.created[row], self.bound_at[row], self.life[row] = now, -1.0, life
        self.number[row], self.recreated[row] = self.created_total, recreated
        self.count[index] += 1
        if kind.controlled:
            self.pods_of.setdefault(index, {})[row] = None
        if kind.role is PodRole.REAL:
            self._arrived(index, now)
        asked = self.asked_total[kind.role]
        for column, amount in kind.needs:
            asked[column] += amount
        if kind.role is PodRole.PLACEHOLDER:
            self.placeholder_version += 1
        return row

    def bind(self, row: int, node: int, now: float) -> None:
        """A pending pod gets a node."""
        kind = self.kinds[self.kind_of[row]]
        self.changes += 1
        self.unnominate(row)
        self.node_of[row], self.bound_at[row] = node, now
        self._place(kind, node, 1)
        self.pods_on[node].add(row)
        self.last_change[node] = now

    def remove_pod(self, row: int, now: float) -> None:
        """A pod ends, is deleted, evicted or preempted."""
        kind = self.kinds[self.kind_of[row]]
        self.changes += 1
        self.unnominate(row)
        node = self.node_of[row]
        if node >= 0:
            self._place(kind, node, -1)
            self.pods_on[node].remove(row)
            self.last_change[node] = now
            if self.state[node] == READY:
                self._grew(node)
        self.count[kind.index] -= 1
        if kind.controlled:
            del self.pods_of[kind.index][row]
        asked = self.asked_total[kind.role]
        for column, amount in kind.needs:
            asked[column] -= amount
        if kind.role is PodRole.PLACEHOLDER:
            self.placeholder_version += 1
        self.kind_of[row] = -1
        self.number[row] = 0
        self._spare_pods.append(row)

    def nominate(self, row: int, node: int) -> None:
        """A preemptor keeps what its victims free."""
        self.changes += 1
        self.unnominate(row)
        self.nominated[row] = node
        self.nominations.setdefault(node, []).append(row)
        self.version[node] += 1

    def unnominate(self, row: int) -> None:
        """A preemptor is bound, gone, or tried again elsewhere."""
        node = self.nominated[row]
        if node >= 0:
            self.nominated[row] = -1
            self.nominations[node].remove(row)
            if not self.nominations[node]:
                del self.nominations[node]
            self.version[node] += 1
            self.room_version += 1
            self.changes += 1

    def alive(self) -> Iterator[int]:
        """Yield the rows of all pods."""
        return (row for row, kind in enumerate(self.kind_of) if kind >= 0)

    def forget_arrivals(self, now: float) -> None:
        """Drop the arrivals before the window."""
        while self._buckets and self._buckets[0][0] < now - WINDOW_SECONDS:
            for index, number in self._buckets.popleft()[1].items():
                self.arrivals[index] -= number
        while self.started and self.started[0][0] < now - WINDOW_SECONDS:
            self.started.popleft()

    def arrivals_until(self, now: float) -> float:
        """Return when the first arrival leaves the window, or a burst of pods that are there fades by a step."""
        leaves = self._buckets[0][0] + WINDOW_SECONDS if self._buckets else math.inf
        there = (mark for count, mark in zip(self.count, self.together, strict=True) if count)
        return min(leaves, *(until_of(mark, now) for mark in there), math.inf)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _place(self, kind: PodKind, node: int, sign: int) -> None:
        lower = self.lower.get(kind.priority)
        if lower is None:
            lower = self.lower[kind.priority] = np.zeros_like(self.free)
        by_role = self.real if kind.role is PodRole.REAL else self.ours
        bound = self.bound_total[kind.role]
        for column, amount in kind.needs:
            signed = sign * amount
            self.free[column, node] -= signed
            by_role[column, node] += signed
            lower[column, node] += signed
            bound[column] += signed
        self.slots[node] -= sign
        self.pod_count[node] += sign
        self.version[node] += 1
        self.running[kind.index] += sign
        self.presence[kind.index][self.group_class[self.group_of[node]]] += sign
        if kind.conflicts:
            if kind.index not in self.standing:
                self.standing[kind.index] = np.zeros(self.free.shape[1], dtype=np.int64)
            self.standing[kind.index][node] += sign
        if kind.role is PodRole.PLACEHOLDER:
            self.placeholder_version += 1

    def _grew(self, node: int) -> None:
        self.room_version += 1
        self.freed.append(node)

    def _arrived(self, index: int, now: float) -> None:
        if not self._buckets or now - self._buckets[-1][0] >= _BUCKET_SECONDS:
            self._buckets.append((now, {}))
        bucket = self._buckets[-1][1]
        bucket[index] = bucket.get(index, 0) + 1
        self.arrivals[index] += 1
        if now > 0:
            latest = int(now // BUCKET_SECONDS)
            before, number = self._wave.get(index, (latest, 0))
            number = number + 1 if before == latest else 1
            self._wave[index] = latest, number
            self.together[index] = max(self.together[index], mark_of(number, latest * BUCKET_SECONDS))

    def _grow_kinds(self) -> None:
        while len(self.count) < len(self.kinds):
            self.count.append(0)
            self.running.append(0)
            self.arrivals.append(0)
            self.together.append(NEVER)
            self.presence.append([0] * len(self.classes))

    def _add_capacity(self, row: int, sign: int) -> None:
        group = self.group_of[row]
        for column, amount in enumerate(self.group_allocatable[group] - self.group_daemon[group]):
            self.node_total[column] += sign * int(amount)

    def _new_row(self) -> int:
        if self.size == self.free.shape[1]:
            self._widen(2 * self.size)
        self.size += 1
        self.names.append("")
        self.pods_on.append(set())
        for column in (self.last_change, self.created_at):
            column.append(0.0)
        self.version.append(0)
        self.node_version += 1
        return self.size - 1

    def _widen(self, capacity: int) -> None:
        def wider(matrix: IntArray) -> IntArray:
            grown = np.zeros((matrix.shape[0], capacity), dtype=np.int64)
            grown[:, : matrix.shape[1]] = matrix
            return grown

        self.free, self.real, self.ours = wider(self.free), wider(self.real), wider(self.ours)
        self.allocatable = wider(self.allocatable)
        self.per_cent = np.concatenate([self.per_cent, np.zeros((2, capacity - self.per_cent.shape[1]))], axis=1)
        self.lower = {priority: wider(matrix) for priority, matrix in self.lower.items()}
        self.standing = {kind: wider(row[None])[0] for kind, row in self.standing.items()}
        self.slots, self.pod_count = wider(self.slots[None])[0], wider(self.pod_count[None])[0]
        self.group_of = np.resize(self.group_of, capacity)
        self.state = np.concatenate([self.state, np.zeros(capacity - len(self.state), dtype=np.int32)])
        more = np.zeros(capacity - len(self.candidate), dtype=np.bool_)
        self.candidate = np.concatenate([self.candidate, more])
        self.softly_tainted = np.concatenate([self.softly_tainted, more])
