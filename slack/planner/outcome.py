"""What goes into a plan beside the snapshot, and what comes out of it. Values only.

A plan says what should be there now (`ShapePlan.replicas`) and what it is heading for (`ShapePlan.count`): the two
differ while slack shrinks, while one shape replaces another, and while an autoscaler refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from slack.cluster.snapshot import IntArray
from slack.planner.shape import Role, Shape


class ConditionType(StrEnum):
    """Condition types of a SlackPolicy, in the order in which they are shown."""

    READY = "Ready"
    SLACK_SATISFIED = "SlackSatisfied"
    COVERED = "Covered"
    FEASIBLE = "Feasible"
    PINS_NODES = "PinsNodes"
    LIMIT_REACHED = "LimitReached"
    AUTOSCALER_IGNORES_PLACEHOLDERS = "AutoscalerIgnoresPlaceholders"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `reason` is a CamelCase word that can be searched for, `message` is for people."""

    type: str
    status: bool
    reason: str
    message: str


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


@dataclass(frozen=True, slots=True)
class AutoscalerWord:
    """The latest word about one ReplicaSet's placeholders."""

    replica_set: str
    answer: Answer
    message: str
    seen_seconds: float
    """Unix time."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Placeholders of a shape are held back because nobody makes room for them."""

    until_seconds: float
    tries: int
    bound: int
    """Bound placeholders when it began; more of them end it."""
    reason: str


@dataclass(frozen=True, slots=True)
class PolicyMemory:
    """What the planner must remember of one policy between plans. Losing it only makes shrinking wait anew."""

    counts: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    """By shape: (time, wanted count) within the shrink delay."""
    cheaper_since: Mapping[str, float] = field(default_factory=dict)
    """By part of the plan (`cover`, `fill`, with its zone): since when replacing what is there would pay or be due."""
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """By shape."""


Memory = Mapping[str, PolicyMemory]
"""By policy name."""


@dataclass(frozen=True, slots=True)
class Change:
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
    change: Change
    bound: int
    pending: int
    retiring: bool = False
    """Given up: its placeholders go as others are bound. Kept on the ReplicaSet, so that a restart goes on with it."""
    victims: tuple[str, ...] = ()
    """Names of bound placeholder pods that should leave first, in order, when `replicas` shrinks."""


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Pods for which no room is kept, and why."""

    pod: str
    """The workload, or namespace/name of a bare pod."""
    reason: str


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
    planned: IntArray
    """Requests of all placeholders that the plan heads for."""
    reserved: IntArray
    """Requests of the placeholders that are bound now."""
    shapes: tuple[ShapePlan, ...]
    pushed_out: tuple[str, ...]
    """Names of bound placeholder pods that real pods leave no room for on their node (S2 step 1): delete them."""
    uncovered: tuple[Uncovered, ...]
    conditions: tuple[Condition, ...]
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

    @property
    def pending(self) -> int:
        """Placeholders that are bound to no node."""
        return sum(shape.pending for shape in self.shapes)

    @property
    def feasible(self) -> bool:
        """Whether every wanted shape fits some node."""
        return all(c.status for c in self.conditions if c.type == ConditionType.FEASIBLE)

    def condition(self, kind: ConditionType) -> Condition:
        """Return the condition of that type."""
        return next(c for c in self.conditions if c.type == kind)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Plans of all policies, in the order in which these were given, and the memory for the next plan."""

    items: tuple[PolicyPlan, ...]
    memory: Memory
