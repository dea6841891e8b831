"""One immutable view of the cluster: what the planner, the simulator and `explain` read.

A snapshot is made by `ClusterColumns.snapshot(now)` (or by the simulator) and never changes afterwards; all
arrays are read-only copies. Nothing in it grows with pods x nodes: pods are grouped into *kinds*, nodes into
*node classes* (R1-1), and what is kept per node is one row of a few columns.

Units: `cpu` in millicores, everything else in base units (bytes, counts). Row `r` of a requests matrix follows
`Snapshot.resources`, whose first two names are always `cpu` and `memory`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slack.cluster.classes import Constraints, NodeClass
from slack.cluster.unchecked import Unchecked

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
Amounts = tuple[tuple[str, int], ...]
"""(resource, amount), sorted by resource, none of them 0."""

CPU = 0
"""Column of cpu (millicores) in every requests matrix."""
MEMORY = 1
"""Column of memory (bytes) in every requests matrix."""


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Nodes as columns; N rows, R resources."""

    names: tuple[str, ...]
    class_id: IndexArray
    """[N] index into `Snapshot.node_classes`."""
    ready: BoolArray
    """[N] Ready condition is True, and no taint of a node that starts or is lost keeps pods away."""
    schedulable: BoolArray
    """[N] not cordoned and not being taken away (ToBeDeleted..., karpenter.sh/disrupted, deletion timestamp)."""
    deletion_candidate: BoolArray
    """[N] the autoscaler has tainted it as a candidate for deletion (DeletionCandidateOfClusterAutoscaler)."""
    allocatable: IntArray
    """[N, R]"""
    real: IntArray
    """[N, R] effective requests of real, non-terminal pods bound here, without DaemonSet and static pods."""
    daemon: IntArray
    """[N, R] effective requests of DaemonSet and static pods."""
    placeholders: IntArray
    """[N, R] effective requests of the operator's own placeholders, of those unbound ones too that fit here."""
    max_pods: IntArray
    """[N] allocatable pod slots."""
    pod_count: IntArray
    """[N] non-terminal pods bound here, of every sort, and unbound placeholders that fit here."""
    daemon_count: IntArray
    """[N] of these, DaemonSet and static pods."""

    @cached_property
    def free(self) -> IntArray:
        """[N, R] allocatable less everything requested there; negative where a node is overcommitted."""
        free = self.allocatable - self.real - self.daemon - self.placeholders
        free.flags.writeable = False
        return free


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """What a pod belongs to, as people name it: `shop/deploy/api`, or `shop/pod/x` for a bare pod."""

    namespace: str
    kind: str
    """Short lower-case kind: deploy, rs, sts, job, cronjob, ds, pod, or the lower-cased kind of a custom owner."""
    name: str

    def __str__(self) -> str:
        """As it is printed in plans and messages."""
        return f"{self.namespace}/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class PodKinds:
    """Real pods grouped by identical requests, constraints, workload and priority; K rows (R1-1).

    DaemonSet, static, finished pods and placeholders are in no kind.
    """

    workloads: tuple[Workload, ...]
    requests: IntArray
    """[K, R] effective requests of one pod."""
    unoffered: tuple[Amounts, ...]
    """[K] what one pod requests beside, of resources that no node has; a pod with any of them fits nowhere."""
    constraint_id: IndexArray
    """[K] index into `Snapshot.constraints`."""
    priority: IntArray
    """[K]"""
    preempts: BoolArray
    """[K] preemptionPolicy is not Never."""
    excluded: BoolArray
    """[K] annotated `resource-slack.io/exclude: "true"` (R6)."""
    reserve: tuple[str, ...]
    """[K] the `resource-slack.io/reserve` annotation on the pods themselves, '' where there is none (S7)."""
    gang: tuple[str, ...]
    """[K] the pods' scheduling group, in their namespace: they start together or not at all; '' where there is none."""
    labels: tuple[tuple[tuple[str, str], ...], ...]
    """[K] those labels of its pods that their own (anti-)affinity and spread look at, sorted."""
    unchecked: tuple[tuple[Unchecked, ...], ...]
    """[K] what no plan checks of its pods, on which their node depends."""
    running: IntArray
    """[K] pods bound to a node."""
    pending: IntArray
    """[K] pods bound to none that a scheduler considers."""
    gated: IntArray
    """[K] pods behind scheduling gates, which no other number includes; a kind has such pods only, or none."""
    arrivals: IntArray
    """[K] pods created in the observation window, those that have gone since included; 0 while they are gated."""
    together: IntArray
    """[K] how many pods came together lately: 1, 2, 4, or 8 (and more); see `slack.cluster.together`."""
    newest_seconds: IntArray
    """[K] when its newest pod was created, in whole Unix seconds; 0 if no workload is reserved."""
    example: tuple[str, ...]
    """[K] `namespace/name` of one pod, the smallest by name when the kind was first seen; for messages."""

    def __len__(self) -> int:
        """Return the number of kinds."""
        return len(self.workloads)


@dataclass(frozen=True, slots=True, eq=False)
class Avoider:
    """Pods that run and have the same required anti-affinity term, which matches other pods."""

    workloads: tuple[Workload, ...]
    """Some of those that they are of, sorted."""
    number: int
    """Of these workloads."""
    topology_key: str
    owners: tuple[int, ...]
    """For `AvoiderNodes.nodes_of`."""


class AvoiderNodes:
    """On which nodes pods stand that avoid others; looked up only when somebody asks."""

    def __init__(
        self,
        number: IntArray,
        of_pods: IndexArray,
        node: IndexArray,
        node_position: IndexArray,
        daemons: Sequence[tuple[int, int]],
    ) -> None:
        """Take the columns as they are.

        Args:
            number: [kind row] the kind's number among `Avoider.owners`; the last is for what is no real pod.
            of_pods: [P] row of each pod's kind.
            node: [P] row of its node in the table of nodes, -1 for none.
            node_position: [row of that table] row in the snapshot, -1 for nodes that are not known.
            daemons: numbers and such rows of pods of DaemonSets.
        """
        self._number, self._of_pods, self._node, self._position = number, of_pods, node, node_position
        self._daemons = daemons

    def nodes_of(self, owners: Collection[int]) -> IntArray:
        """Return the rows of `NodeColumns` on which these stand, in order."""
        wanted = np.isin(self._number, list(owners))
        wanted[-1] = False
        there = self._node[wanted[self._of_pods] & (self._node >= 0)]
        daemons = [node for number, node in self._daemons if number in owners]
        rows = self._position[np.concatenate([there, np.array(daemons, dtype=np.int32)])]
        return np.unique(rows[rows >= 0]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """How many bound pods of a kind stand on nodes of a class: M rows, sparse, sorted by (kind, node class)."""

    kind: IndexArray
    node_class: IndexArray
    count: IntArray


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One placeholder pod of the operator's own, as it is seen through the API."""

    uid: str
    name: str
    policy: str
    """Label resource-slack.io/policy."""
    shape: str
    """Label resource-slack.io/shape, the shape's hash."""
    replica_set: str
    """Name of the ReplicaSet that owns it."""
    node: int
    """Row in `Snapshot.nodes`, -1 while it is pending."""
    created_seconds: float
    """Unix time of creation."""
    deletion_cost: int
    """controller.kubernetes.io/pod-deletion-cost, 0 when absent."""
    unschedulable: bool
    """The scheduler has said that it fits nowhere (PodScheduled=False, Unschedulable)."""
    requests: tuple[tuple[str, int], ...] | None = None
    """What it requests in effect, sorted by name: admission may have made it another than its shape says. None: as it
    says."""
    unbound: bool = False
    """No scheduler binds it. `node` is then where it fits (-1: nowhere), `created_seconds` since when it has fitted
    nowhere, the last time, and `unschedulable` says that the autoscaler has been told of it."""
    constraints: Constraints | None = None
    """Where an unbound one may go; None where a scheduler binds it."""

    @property
    def is_held(self) -> bool:
        """Whether its capacity is held: it is on a node, or fits on one that an autoscaler keeps for it."""
        return self.node >= 0 and (self.unschedulable or not self.unbound)


@dataclass(frozen=True, slots=True, eq=False)
class ReservedWorkload:
    """A workload object annotated `resource-slack.io/reserve` (S7), with its pod template."""

    workload: Workload
    reserve: str
    """The annotation's text, unchecked: '2' or '25%'."""
    replicas: int
    """What the object asks for: spec.replicas, spec.parallelism."""
    requests: IntArray
    """[R]"""
    unoffered: Amounts
    """As in `PodKinds`."""
    constraint_id: int
    labels: tuple[tuple[str, str], ...]
    """Labels of its pod template, sorted (what its own anti-affinity and spread selectors match)."""
    uid: str = ""


class AvoiderLookup(Protocol):
    """Answers who avoids pods that are not there yet (`slack.cluster.avoidance.AvoidingTerms`)."""

    def avoiders(self, namespace: str, labels: Mapping[str, str]) -> frozenset[Workload] | None:
        """Return the workloads that avoid pods with these labels; None where that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cluster at one instant. Indices in one part refer to rows of the others."""

    resources: tuple[str, ...]
    """Names of the R resources: cpu, memory, then the others that nodes have, sorted."""
    nodes: NodeColumns
    node_classes: tuple[NodeClass, ...]
    constraints: tuple[Constraints, ...]
    reach: BoolArray
    """[C, NC] whether pods with these constraints may go to nodes of this class (selector, affinity, taints)."""
    kinds: PodKinds
    presence: Presence
    placeholders: tuple[Placeholder, ...]
    """Not finished and not being deleted, sorted by (policy, shape, name)."""
    reserved: tuple[ReservedWorkload, ...]
    """Sorted by workload."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of the namespaces that are known, by name."""
    left_out: tuple[str, ...]
    """Resources that nodes have and that are not counted, as there are too many of them."""
    node_start_seconds: float
    """How long a node takes from creation to Ready here: the median of those seen, or 120 where none was."""
    avoiders: tuple[Avoider, ...] = ()
    """Who avoids others: one entry for each term that matches some of the kinds."""
    standing: AvoiderNodes | None = None
    """Where these stand; None where there are none."""
    avoided: Mapping[int, tuple[int, ...] | None] = field(default_factory=dict)
    """By row of `kinds`, which of `avoiders` avoid its pods; None where that is not known. Others are not avoided.
    That a kind's own pods avoid one another is said by its constraints only."""
    avoiding: AvoiderLookup | None = field(default=None, compare=False)
    """The terms themselves, for pods that are not there yet; None where nobody avoids others."""
