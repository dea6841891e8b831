"""What goes into a plan beside the snapshot, and what comes out of it. Values only.

A plan says what should be there now (`ShapePlan.replicas`) and what it is heading for (`ShapePlan.count`): the two
differ while slack shrinks, while one shape replaces another, and while an autoscaler refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

from slack.cluster.quantity import WrittenQuantity, format_compared
from slack.cluster.snapshot import IntArray
from slack.planner.model.added import AddedBefore
from slack.planner.model.cost import PlanCost
from slack.planner.model.shape import Role, Shape
from slack.planner.model.surplus import Surplus
from slack.planner.model.wanted_by import WantedByField
from slack.planner.objective.amount import SizingReason
from slack.schema.conditions import StatusCondition


class ConditionType(StrEnum):
    """Condition types of a SlackPolicy, in the order in which they are shown."""

    READY = "Ready"
    SLACK_SATISFIED = "SlackSatisfied"
    COVERED = "Covered"
    FEASIBLE = "Feasible"
    PINS_NODES = "PinsNodes"
    LIMIT_REACHED = "LimitReached"
    AUTOSCALER_IGNORES_PLACEHOLDERS = "AutoscalerIgnoresPlaceholders"
    LARGE_SLACK = "LargeSlack"
    """Only there while it is true: somebody may have meant a tenth of it."""


@dataclass(frozen=True, slots=True)
class ExistingShape:
    """A ReplicaSet of placeholders that is there already, ours by label."""

    policy: str
    shape: Shape
    role: Role
    replicas: int
    """spec.replicas"""
    retiring: bool = False
    """An earlier plan has given it up; it only shrinks, unless it is wanted again."""


class Answer(StrEnum):
    """What an autoscaler, or admission, has said about placeholders."""

    TRIGGERED = "Triggered"
    """A node is on its way: TriggeredScaleUp, Karpenter's Nominated."""
    REFUSED = "Refused"
    """No node group would help: NotTriggerScaleUp, Karpenter's FailedScheduling."""
    LIMIT = "Limit"
    """A ceiling of the autoscaler: MaxNodesTotalReached, 'max node group size reached', NodePool limits."""
    QUOTA = "Quota"
    """Admission refused the pod: FailedCreate with a quota."""
    FAILING = "Failing"
    """The kubelet refuses placeholders, or ends them, as fast as they are made."""


@dataclass(frozen=True, slots=True)
class AutoscalerEvent:
    """The latest event about one ReplicaSet's placeholders."""

    replica_set: str
    answer: Answer
    message: str
    seen_seconds: float
    """Unix time."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Placeholders of a shape are held back because nobody makes room for them."""

    until_seconds: float
    tries: int
    bound: int
    """Bound placeholders when it began; more of them end it."""
    reason: str


@dataclass(frozen=True, slots=True)
class RememberedPolicy:
    """What the planner must remember of one policy between plans. Losing it only makes shrinking wait anew."""

    counts: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    """By shape: (time, wanted count) within the shrink delay."""
    cheaper_since: Mapping[str, float] = field(default_factory=dict)
    """By part of the plan (`cover` with its zone): since when replacing what is there has been due."""
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    """By shape."""
    added: Mapping[str, AddedBefore] = field(default_factory=dict)
    """By shape: what admission adds to its placeholders."""
    ladder: frozenset[str] | None = None
    """Steps of the ladder that hold; None where that is not known."""


PlannerState = Mapping[str, RememberedPolicy]
"""By policy name."""


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """What happens to the placeholders of a shape when the plan is carried out."""

    add: int
    keep: int
    remove: int


@dataclass(frozen=True, slots=True)
class ShapePlan:
    """How many placeholders of one shape."""

    shape: Shape
    role: Role
    count: int
    """What the plan heads for; 0 for a shape that is being retired."""
    replicas: int
    """What should be there now."""
    workloads: tuple[str, ...]
    """Workloads that it makes room for, the most frequent first; at most 20."""
    change: ShapeChange
    bound: int
    pending: int
    retiring: bool = False
    """Given up: its placeholders go as others are bound. Kept on the ReplicaSet, so that a restart goes on with it."""
    victims: tuple[str, ...] = ()
    """Names of bound placeholder pods that should leave first, in order, when `replicas` shrinks."""
    at_first: int | None = None
    """There is a ceiling, and nobody knows yet what admission adds to placeholders: write so many, until one shows."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A limit that binds: without it another amount of a resource would be wanted than with it."""

    resource: str
    at: int
    """The limit, whole; said back as its policy has it."""
    wanted: int
    """Without it; of a ceiling never above what is planned and one more placeholder where that alone is too much."""
    in_parts: bool = False
    """It is divided among zones, and it binds in one of these by its part."""
    limit: Literal["ceiling", "floor"] = "ceiling"
    """Which of `spec.extraCapacity`."""

    def __str__(self) -> str:
        """Return it in words: `cpu ceiling 2 binds (6 wanted)`, `cpu floor 8 binds (6 wanted without it)`."""
        at, wanted = format_compared(self.resource, self.at, self.wanted)
        at = self.at.text if isinstance(self.at, WrittenQuantity) else at
        parts = ", and each zone has an equal part of it" if self.in_parts else ""
        without = " without it" if self.limit == "floor" else ""
        return f"{self.resource} {self.limit} {at} binds ({wanted} wanted{without}{parts})"


@dataclass(frozen=True, slots=True)
class UncoveredPods:
    """A workload for whose pods no capacity is kept, and why."""

    pod: str
    """The workload, or namespace/name of a bare pod."""
    reason: str


@dataclass(frozen=True, slots=True)
class CutReservation:
    """A workload that gets less than it reserves by annotation, because of `spec.reserve` or a ceiling."""

    namespace: str
    kind: str
    """Short: deploy, sts, pod."""
    name: str
    asked: int
    granted: int
    reason: str
    uid: str = ""
    """Of the workload object, where that is annotated."""

    def __str__(self) -> str:
        """Return the workload as it is written everywhere."""
        return f"{self.namespace}/{self.kind}/{self.name}"


class CoveredBy(Mapping[int, str]):
    """Row in `Snapshot.kinds` -> name of the shape that makes room for it; put together when somebody asks."""

    def __init__(self, rooms: Sequence[tuple[IntArray, str]], further: Mapping[int, str]) -> None:
        """Take the rows of each shape, later ones before earlier ones, and single rows before these."""
        self._rooms = rooms
        self._further = further

    @cached_property
    def _whole(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for rows, name in self._rooms:
            found.update(dict.fromkeys(rows.tolist(), name))
        return found | dict(self._further)

    def __getitem__(self, row: int) -> str:
        """Return the name of the shape."""
        return self._whole[row]

    def __iter__(self) -> Iterator[int]:
        """Go through the rows."""
        return iter(self._whole)

    def __len__(self) -> int:
        """Return how many rows have room."""
        return len(self._whole)


@dataclass(frozen=True, slots=True, eq=False)
class PolicyPlan:
    """The plan of one policy. Vectors follow the snapshot's `resources`."""

    policy: str
    resources: tuple[str, ...]
    nodes: int
    """Eligible nodes."""
    rate: float
    """The rate in force, after ladder and schedule."""
    base: IntArray
    desired: IntArray
    """Extra capacity wanted: max(floor, min(ceiling, rate x base))."""
    asked: IntArray
    """The same without the ceiling."""
    planned: IntArray
    """Requests of all placeholders that the plan heads for, and what CapacityBuffers keep that counts."""
    reserved: IntArray
    """Requests of the placeholders that are bound now; of unbound ones that fit and that autoscalers were told of; and
    of chunks of CapacityBuffers that count and fit."""
    shapes: tuple[ShapePlan, ...]
    pushed_out: tuple[str, ...]
    """Names of bound placeholder pods that real pods leave no room for on their node (S2 step 1): delete them."""
    uncovered: tuple[UncoveredPods, ...]
    conditions: tuple[StatusCondition, ...]
    covered_share: float
    """Share of the demand's weight that fits the room of one placeholder: what the condition Covered names.

    1 where nothing asks to be covered, 0 where the policy may not plan."""
    covered_by: Mapping[int, str]
    """Row in `Snapshot.kinds` -> name of the shape that makes room for it."""
    dry_run: bool
    act: bool
    """False when nothing may be written for this policy but its status (conflict, dry run)."""
    burst_chunks: int
    """How many placeholders one burst can displace at most before pods wait."""
    sustained_chunks_per_minute: float
    """Displacements a minute that refilling keeps up with: chunks per (12 s + node start)."""
    wanted_by: tuple[WantedByField, ...] = ()
    """What sets the amounts that are asked; empty where the policy may not plan."""
    binding: tuple[Binding, ...] = ()
    """Ceilings that keep the plan below what is asked, by resource."""
    floors: tuple[Binding, ...] = ()
    """Floors for which more is asked than rate or objective come to, by resource."""
    cut: tuple[CutReservation, ...] = ()
    """Sorted by workload."""
    pods: int = 0
    """Real pods of its base, pending ones included."""
    why: SizingReason | None = None
    """What an objective's amount follows from; None without an objective."""
    cost: PlanCost | None = None
    """What it costs when it is carried out; None where no node says."""
    reserved_cost: PlanCost | None = None
    """What the placeholders that are on nodes cost now."""
    surplus: Surplus | None = None
    """What placeholders hold beyond `planned`; None if they hold no more."""
    new_nodes: int = 0
    """At least so many nodes must come until all of it stands on one."""
    low_priority: IntArray | None = None
    """What pods at or below the placeholders' priority request on its nodes: capacity that bound placeholders would
    keep them out of. None where placeholders are bound."""
    buffered: IntArray | None = None
    """The part of `planned` that CapacityBuffers keep; None if the policy counts none, or there is none."""
    held_by_buffers: frozenset[int] = frozenset()
    """Rows of `Snapshot.kinds` whose pods fit into what these keep: the cover leaves them out."""
    set_by: str | None = None
    """The field that sets the amount where neither rate nor objective does, as it was written."""
    replicas: int | None = None
    """The room of all placeholders that there are, counted in standard placeholders; None for a rate."""

    @property
    def limits(self) -> tuple[Binding, ...]:
        """Ceilings and floors that bind."""
        return (*self.binding, *self.floors)

    @property
    def pending(self) -> int:
        """Placeholders that are bound to no node; unbound ones that fit on none, or that nobody was told of."""
        return sum(shape.pending for shape in self.shapes)

    @property
    def feasible(self) -> bool:
        """Whether every wanted shape fits some node."""
        return all(c.status for c in self.conditions if c.type == ConditionType.FEASIBLE)

    def condition(self, kind: ConditionType) -> StatusCondition:
        """Return the condition of that type."""
        return next(c for c in self.conditions if c.type == kind)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Plans of all policies, in the order in which these were given, and the state that the next plan starts from."""

    items: tuple[PolicyPlan, ...]
    state: PlannerState
