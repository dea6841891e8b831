"""Pod kinds: what equal pods share, interned so that a pod is a row of numbers and a kind."""

import json
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.labels import HOSTNAME
from slack.cluster.snapshot import IntArray, Workload
from slack.planner.model.shape import Shape
from slack.simulator.scenario.inventory import ScenarioWorkload as WorkloadSpec
from slack.simulator.scenario.load import DeploymentReplicas
from slack.simulator.scenario.scenario import Scenario


class PodRole(IntEnum):
    """What a pod is to the planner and to the measuring."""

    REAL = 0
    PLACEHOLDER = 1
    """The operator's own."""
    FILLER = 2
    """Of a static or proportional overprovisioner."""


@dataclass(eq=False)
class PodKind:
    """Equal pods. `index` is its row everywhere."""

    index: int
    name: str
    role: PodRole
    requests: IntArray
    """[R]"""
    needs: tuple[tuple[int, int], ...]
    """(resource column, amount), the positive ones: what the filter looks at."""
    priority: int
    preempts: bool
    constraints: Constraints
    constraint: int
    """Row in the cluster's table of constraints."""
    workload: int = -1
    """Row in the scenario's workloads; -1 for placeholders and fillers."""
    controlled: bool = False
    """A ReplicaSet counts its pods: they are kept in order of creation."""
    policy: str = ""
    shape: Shape | None = None
    conflicts: list[int] = field(default_factory=list)
    """Kinds whose pods cannot stand on one node with its own (required anti-affinity over hosts)."""

    @property
    def stays_pending(self) -> bool:
        """Whether no scheduler ever binds its pods."""
        return self.shape is not None and not self.shape.form.is_scheduled

    @property
    def tolerates_soft_taint(self) -> bool:
        """Whether its pods tolerate the operator's taint of nodes that hold unbound placeholders."""
        return self.shape is not None and self.shape.tolerates_soft_taint


def resources_of(scenario: Scenario) -> tuple[str, ...]:
    """Name the resources that occur: cpu, memory, the others sorted."""
    names: set[str] = set()
    for group in scenario.node_groups:
        names |= {name for name in group.allocatable if name != "pods"} | set(group.daemon_requests)
    for workload in scenario.workloads:
        names |= set(workload.requests)
    return ("cpu", "memory", *sorted(names - {"cpu", "memory", "pods"}))


def vector(amounts: dict[str, int], resources: tuple[str, ...]) -> IntArray:
    """Return amounts as a row."""
    return np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)


_KINDS = {"deployment": "deploy", "jobs": "job"}


def workload_of(spec: WorkloadSpec) -> Workload:
    """Name a workload as the planner does."""
    return Workload(spec.namespace, spec.owner_kind or _KINDS.get(spec.arrivals.kind, "job"), spec.name)


class Kinds:
    """The table of kinds and constraints; it only grows."""

    def __init__(self, scenario: Scenario) -> None:
        self.resources = resources_of(scenario)
        self.table: list[PodKind] = []
        self.constraints: list[Constraints] = []
        self._constraint_rows: dict[Constraints, int] = {}
        self._shapes: dict[tuple[str, str], PodKind] = {}
        self.workloads = tuple(workload_of(spec) for spec in scenario.workloads)
        for row, spec in enumerate(scenario.workloads):
            kind = self._add(
                str(self.workloads[row]),
                PodRole.REAL,
                dict(spec.requests),
                spec.constraints,
                spec.priority,
                spec.preempts,
            )
            kind.workload = row
            kind.controlled = isinstance(spec.arrivals, DeploymentReplicas)
            if spec.anti_affinity == "hostname":
                kind.conflicts.append(kind.index)

    def __len__(self) -> int:
        """Return the number of kinds."""
        return len(self.table)

    def __getitem__(self, index: int) -> PodKind:
        """Return a kind by its row."""
        return self.table[index]

    def of_shape(self, policy: str, shape: Shape, priority: int) -> PodKind:
        """Return the kind of a policy's placeholders of one shape."""
        kind = self._shapes.get((policy, shape.name))
        if kind is None:
            # preemptionPolicy Never is in the placeholders' PriorityClass
            kind = self._add(
                f"{policy}/{shape.name}", PodRole.PLACEHOLDER, dict(shape.requests), shape.constraints, priority, False
            )
            kind.controlled, kind.policy, kind.shape = True, policy, shape
            self._shapes[policy, shape.name] = kind
            self._avoid(kind, shape)
        return kind

    def of_filler(self, name: str, requests: dict[str, int], constraints: Constraints, priority: int) -> PodKind:
        """Return the kind of an overprovisioner's pods; these may preempt, as the usual recipe's do."""
        kind = self._add(name, PodRole.FILLER, requests, constraints, priority, True)
        kind.controlled = True
        return kind

    def _avoid(self, kind: PodKind, shape: Shape) -> None:
        """A mirror of a workload that avoids itself avoids the workload's pods and the other mirrors of it."""
        if not shape.anti_affinity:
            return
        if not any(term.get("topologyKey") == HOSTNAME for term in json.loads(shape.anti_affinity)):
            return
        for other in list(self.table):
            mirrors = other is kind or (
                other.shape is not None and bool(shape.reserved_for) and other.shape.reserved_for == shape.reserved_for
            )
            if mirrors or (other.workload >= 0 and str(self.workloads[other.workload]) == shape.reserved_for):
                kind.conflicts.append(other.index)
                if other is not kind:
                    other.conflicts.append(kind.index)

    def _add(
        self,
        name: str,
        role: PodRole,
        requests: dict[str, int],
        constraints: Constraints,
        priority: int,
        preempts: bool,
    ) -> PodKind:
        row = self._constraint_rows.setdefault(constraints, len(self.constraints))
        if row == len(self.constraints):
            self.constraints.append(constraints)
        amounts = vector(requests, self.resources)
        needs = tuple((column, int(amount)) for column, amount in enumerate(amounts) if amount > 0)
        kind = PodKind(len(self.table), name, role, amounts, needs, priority, preempts, constraints, row)
        self.table.append(kind)
        return kind
