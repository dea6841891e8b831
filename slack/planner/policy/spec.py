"""SlackPolicy as a typed value: what a user writes, checked, with the field's path in every complaint.

The CRD is generated from these models (`slack.planner.policy.crd`), so the API server refuses what they refuse; the
CLI and the operator check again, because a file is not the API server. `spec: {}` is a good policy (R4).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from slack.cluster.classes import Toleration
from slack.cluster.hold import UNBOUND_SCHEDULER, Hold, ReleaseNodes
from slack.cluster.rates import BOUNDING, MOST_WITHOUT_CEILING, NEEDS_CEILING
from slack.planner.forms.choice import form_of
from slack.planner.forms.form import Form
from slack.planner.policy.fields import NO_TEXT, WHOLE, Cron, Duration, Labels, Rate, Room, Switch, TimeZone
from slack.planner.policy.placeholders import Placeholders
from slack.planner.policy.warm import Warm
from slack.schema.documents import InvalidDocument
from slack.schema.documents import problem_text as problem_text
from slack.schema.policy_object import PolicyObject, SpecModel

KIND = "SlackPolicy"
DEFAULT_RATE = 0.1
"""S5: the rate where neither the policy nor --extra-capacity-min-rate names one."""


ResourceName = Literal["cpu", "memory"]
NO_SCHEDULER = (
    f"schedulerName is that of real pods, and no scheduler has the name {UNBOUND_SCHEDULER}; for unbound placeholders "
    "give hold: Unbound"
)
ONE_NUMBER = "nodes and replicas are two fixed numbers; give one of them"
NO_CHANGE = "the window changes nothing; give minRate, floor, replicas or nodes"
ONE_THRESHOLD = "give exactly one of fromNodes, fromRequested and fromAllocatable"


class InvalidPolicy(InvalidDocument):
    """A SlackPolicy that cannot be used; each problem names the field's path and what would be right."""


class TolerationSpec(SpecModel):
    """A toleration, as on pods."""

    key: str = ""
    """Taint key that is tolerated."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal: the taint's value must be `value`. Exists: any value will do."""
    value: str = ""
    """Taint value that is tolerated, for Equal."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Taint effect that is tolerated; all of them when empty."""

    @model_validator(mode="after")
    def _no_blanket(self) -> Self:
        if not self.key:
            raise ValueError("a toleration without a key tolerates every taint, that of a dying node too; name the key")
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value; leave it out or use Equal")
        return self

    def toleration(self) -> Toleration:
        """Return the planner's value of it."""
        return Toleration(self.key, self.operator, self.value, self.effect)


class Base(StrEnum):
    """What the rate is taken of."""

    REQUESTED = "Requested"
    ALLOCATABLE = "Allocatable"


class CoverMode(StrEnum):
    """Which pods must fit the room of one placeholder."""

    EVERYTHING = "Everything"
    FREQUENT = "Frequent"
    LARGEST = "Largest"
    NONE = "None"


class CountedBuffers(StrEnum):
    """Whether chunks of CapacityBuffers are part of a policy's extra capacity."""

    IGNORE = "Ignore"
    COUNT = "Count"


class LadderStep(SpecModel):
    """One step of a ladder: from so many nodes, or so much requested, on, this rate."""

    from_nodes: Annotated[int, Field(ge=0), WHOLE] | None = None
    """The step holds from this many nodes on, counted by what real pods need: their requests as shares of the nodes
    that they stand on, without DaemonSets; nodes that only slack keeps count for nothing. It is left when a tenth less
    is needed. Give this, fromRequested or fromAllocatable."""
    from_requested: Room | None = None
    """The step holds once what real pods request reaches these amounts, in every resource named; it is left when one of
    them is a tenth below."""
    from_allocatable: Room | None = None
    """The step holds once the ready and schedulable nodes have these amounts allocatable, in every resource named; it
    is left when one of them is a tenth below. Nodes that slack brings in count too, so it can feed itself."""
    min_rate: Rate
    """The rate of this step: 0.1 is ten percent."""
    floor: Room = Field(default_factory=dict)
    """The floor while this step holds, where it is above extraCapacity.floor. With minRate 0 it is a fixed amount."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        given = (self.from_nodes, self.from_requested, self.from_allocatable)
        if sum(threshold is not None for threshold in given) != 1:
            raise ValueError(ONE_THRESHOLD)
        return self


class ScheduleWindow(SpecModel):
    """A time in which the size is another: a cron window with a duration, or one time from start to until."""

    name: str = ""
    """Shown in status while the window is open."""
    cron: Cron | None = None
    """When the window opens: five cron fields in timeZone, such as 0 7 * * 1-5. Needs duration."""
    duration: Duration | None = None
    """How long a cron window stays open, such as 12h."""
    time_zone: TimeZone = "UTC"
    """IANA time zone of cron, such as Europe/Berlin; daylight saving time is followed."""
    start: datetime | None = None
    """When a one-time window opens: RFC 3339 with an offset, such as 2026-11-27T06:00:00Z. Needs until."""
    until: datetime | None = None
    """When a one-time window closes."""
    min_rate: Rate | None = None
    """The rate while the window is open; the largest where several are."""
    floor: Room | None = None
    """The floor while the window is open, where it is above extraCapacity.floor."""
    replicas: Annotated[int, Field(ge=0, le=5000), WHOLE] | None = None
    """The number of standard placeholders while the window is open."""
    nodes: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None
    """The number of whole spare nodes while the window is open, as extraCapacity.nodes. Windows with it win over those
    with replicas."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.cron is None) == (self.start is None):
            raise ValueError("give either cron with duration, or start with until")
        if self.cron is not None and (self.duration is None or self.duration <= timedelta(0)):
            raise ValueError("a cron window needs a duration such as 12h")
        if self.start is not None:
            if self.until is None or self.start.tzinfo is None or self.until.tzinfo is None:
                raise ValueError("start and until are both needed, with an offset, such as 2026-11-27T06:00:00Z")
            if self.until <= self.start:
                raise ValueError("until is not after start")
        if self.min_rate is None and self.floor is None and self.replicas is None and self.nodes is None:
            raise ValueError(NO_CHANGE)
        if self.nodes is not None and self.replicas is not None:
            raise ValueError(ONE_NUMBER)
        return self


class ExtraCapacity(SpecModel):
    """How much room is kept."""

    min_rate: Rate | None = None
    """Extra capacity as a share of the base: 0.1 is ten percent; above 1, here and in ladder and schedule, ceiling must
    name cpu and memory. Without it the operator's --extra-capacity-min-rate holds, 0.1 unless it was told otherwise.
    Which rate is right: resource-slack tune."""
    base: Base = Base.REQUESTED
    """What minRate is a share of. Requested: what real pods request, those on cordoned nodes and on nodes that are not
    ready too: they move soon, or their node comes back. Allocatable: what the ready and schedulable nodes have; nodes
    that slack brings in count too, so it feeds itself."""
    floor: Room = Field(default_factory=dict)
    """Never less than this, in quiet hours too, such as {cpu: 2, memory: 4Gi}; further resources such as GPUs are kept
    only where they are named here."""
    ceiling: Room = Field(default_factory=dict)
    """Never more than this, at any instant, with the most that admission has added to placeholders; wins over
    everything else and bounds what slack can cost."""
    replicas: Annotated[int, Field(ge=0, le=5000), WHOLE] | None = None
    """A fixed number of standard placeholders instead of a rate; with perDomain Zone each zone gets its equal part,
    rounded up."""
    nodes: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None
    """A fixed number of whole spare nodes instead of a rate; with perDomain Zone so many in each zone. Each placeholder
    is as large as an empty node of the usual size less its usual DaemonSets, GPUs and other accelerators included,
    whatever granularity says."""
    ladder: tuple[LadderStep, ...] = ()
    """Rates by size of the cluster, more on a small one, say; the last step that holds is used instead of minRate. With
    perDomain Zone one step holds for the whole domain."""
    schedule: tuple[ScheduleWindow, ...] = ()
    """Windows in which the size is another; where several are open the largest wins."""

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        if self.nodes is not None and self.replicas is not None:
            raise ValueError(ONE_NUMBER)
        return self

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        for name, amount in self.floor.items():
            if name in self.ceiling and amount > self.ceiling[name]:
                raise ValueError(f"floor.{name} is above ceiling.{name}")
        return self

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        rates = (self.min_rate, *(step.min_rate for step in self.ladder), *(each.min_rate for each in self.schedule))
        large = any(rate is not None and rate > MOST_WITHOUT_CEILING for rate in rates)
        if large and any(name not in self.ceiling for name in BOUNDING):
            raise ValueError(NEEDS_CEILING)
        return self


class PodSelector(SpecModel):
    """Pods that the cover leaves out: those that match every field given."""

    namespace: str = ""
    """Namespace of the pods."""
    owner_kind: str = ""
    """Kind of their workload: Deployment, StatefulSet, Job, CronJob, ReplicaSet, Pod."""
    name: str = ""
    """Name of their workload."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.namespace or self.owner_kind or self.name):
            raise ValueError("an empty selector would exclude every pod; give namespace, ownerKind or name")
        return self


class Cover(SpecModel):
    """Which pods must find the room of one placeholder, so that pushing one out is enough to start them."""

    mode: CoverMode = CoverMode.FREQUENT
    """Frequent: the pods that come most often, as cheaply as can be. Everything: every pod. Largest: one size that all
    pods fit. None: pieces of an average node divided by granularity, whatever the pods are like."""
    coverage: Annotated[float, Field(gt=0, le=1), NO_TEXT] = 0.99
    """With mode Frequent: the share of arriving pods that must be covered; rare large pods are what the rest is."""
    max_shapes: Annotated[int, Field(ge=1, le=64), WHOLE] = 8
    """At most so many different sizes of covering placeholders."""
    exclude: tuple[PodSelector, ...] = ()
    """Pods that need no room kept, such as databases that never come in a burst. The annotation
    resource-slack.io/exclude on a workload does the same."""


class SelectorRequirement(SpecModel):
    """One requirement on a label, as in every Kubernetes selector."""

    key: str
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In: the label has one of `values`. NotIn: it has none of them. Exists, DoesNotExist: it is there, or not."""
    values: tuple[str, ...] = ()
    """Values, for In and NotIn."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.key:
            raise ValueError("a requirement needs the key of a label")
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError("operators In and NotIn need values, Exists and DoesNotExist take none")
        return self

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet it."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


class NamespaceSelector(SpecModel):
    """Namespaces by their labels; every one has kubernetes.io/metadata.name. All of it must hold."""

    match_labels: Labels = Field(default_factory=dict)
    """Labels that a namespace has, with these values."""
    match_expressions: tuple[SelectorRequirement, ...] = ()
    """Further requirements on its labels."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a namespace with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.holds(labels) for requirement in self.match_expressions
        )


class Reserve(SpecModel):
    """Who may reserve room by the annotation resource-slack.io/reserve, and how much: whoever may edit a workload can
    write it, and the nodes are paid for by others."""

    namespaces: NamespaceSelector = NamespaceSelector()
    """Namespaces whose workloads may reserve; in all others the annotation does nothing. Without it all may. Where
    the operator may not list namespaces their names alone are known: a selector of other labels selects none."""
    max_share: Rate = 1.0
    """At most so many placeholders for one workload, as a share of its own running pods, rounded up: 1 is as many
    again, 0 switches reservations off. Of a Job or CronJob the pods of the last hours count."""
    ceiling: Room = Field(default_factory=dict)
    """The most that the placeholders of all reservations request together; `pods` is their number. What is not named
    is a tenth of what the real pods of the policy's nodes request, or as much as 200 of them request where that is
    more; or one placeholder. It is divided evenly among namespaces, then among their workloads."""


class Stabilization(SpecModel):
    """How fast slack follows; growing is at once, shrinking waits."""

    shrink_delay: Duration = timedelta(minutes=10)
    """How long less must have been enough before slack shrinks. 10m is also what the Cluster Autoscaler waits before it
    removes a node."""
    shape_tolerance: Annotated[float, Field(ge=0, le=1), NO_TEXT] = 0.1
    """How far the wanted size of a placeholder may move before new ones get it, 0.1 is ten percent. Those that are
    there stay."""
    give_up_after: Duration = timedelta(minutes=20)
    """How long placeholders may stay pending while the autoscaler refuses a node; then they are held back, with one
    left to try. Longer than the autoscaler's own time for a node to come."""

    @property
    def keep_seconds(self) -> float:
        """So long a placeholder stays that is not wanted; an objective keeps what it wants again within this time."""
        return self.shrink_delay.total_seconds()


_TAINT: dict[str, Any] = {
    "type": "object",
    "required": ["key", "effect"],
    "properties": {
        "key": {"type": "string", "maxLength": 317, "description": "Taint key."},
        "value": {"type": "string", "maxLength": 63, "description": "Taint value."},
        "effect": {
            "type": "string",
            "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
            "description": "What the taint does to pods that do not tolerate it.",
        },
    },
}
"""Plain mappings in the model: the planner reads them as a node's own taints."""


class NodeTemplate(SpecModel):
    """A node of a group that may stand at zero, so that placeholders for it are known to fit."""

    name: str
    """Name of the node group, for messages."""
    labels: Labels = Field(default_factory=dict)
    """Labels of its nodes."""
    taints: tuple[Annotated[Mapping[str, str], WithJsonSchema(_TAINT)], ...] = ()
    """Taints of its nodes: key, value, effect."""
    allocatable: Room
    """Allocatable of its nodes; must have cpu and memory."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        missing = [name for name in ("cpu", "memory") if name not in self.allocatable]
        if missing:
            raise ValueError(f"allocatable needs {' and '.join(missing)}")
        for taint in self.taints:
            if not taint.get("key") or taint.keys() - {"key", "value", "effect"}:
                raise ValueError(f"taint {dict(taint)}: needs key and effect, and may have value")
            if taint.get("effect") not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
                raise ValueError(f"taint {taint['key']}: effect is NoSchedule, PreferNoSchedule or NoExecute")
        return self


class Objective(SpecModel):
    """What the room is to achieve: in place of a rate, the amount is learnt from what comes within the lead time of a
    node, hour by hour, and corrected by what was late."""

    instant_start: Annotated[float, Field(ge=0.5, le=0.999), NO_TEXT]
    """The share of pods that must start without waiting for a node, such as 0.99: bound within 2 s of their creation.
    Until enough has been seen to say what that takes (an hour, and 200 pods for 0.99), capacity is kept for the largest
    burst so far, within floor and ceiling; from 0.98 on for what --extra-capacity-min-rate takes if that is more."""
    prices: dict[ResourceName, Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), NO_TEXT]] = Field(
        default_factory=dict
    )
    """What an hour of a core (cpu) and of a GiB (memory) costs, in any currency, such as {cpu: 0.03, memory: 0.004}: no
    cluster knows its prices. They win over the operator's (--prices) for this policy."""
    max_cost_per_hour: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False), NO_TEXT] | None = None
    """The amount costs no more than this per hour, whatever the objective would take. By prices, or without them by the
    operator's (--prices, the chart's prices), in its currency; where neither knows a price of the policy's nodes
    the rate holds, and Ready is False with NoPrices."""


class PolicySpec(SpecModel):
    """How much room is kept, of which shapes, on which nodes. Every field has a default, and {} is a good policy."""

    node_selector: Labels = Field(default_factory=dict)
    """Nodes with these labels belong to the policy; without any, every node that placeholders could go to and that no
    other policy selects."""
    tolerations: tuple[TolerationSpec, ...] = ()
    """Taints that placeholders tolerate: tainted nodes belong to the policy only when their taints are named here."""
    per_domain: Literal["None", "Zone"] = "None"
    """Zone: an equal part of the slack is kept in every zone. None: it may be anywhere, softly spread."""
    extra_capacity: ExtraCapacity = ExtraCapacity()
    """How much room is kept."""
    objective: Objective | None = None
    """A wanted share of pods that start without waiting for a node. It replaces a rate; extraCapacity.floor and ceiling
    bound it."""
    cover: Cover = Cover()
    """Which pods must find the room of one placeholder, so that pushing one out is enough to start them."""
    granularity: Annotated[int, Field(ge=1, le=100), WHOLE] = 5
    """Standard placeholders are at most an average node divided by this; more of them are smaller."""
    reserve: Reserve = Reserve()
    """Who may reserve room by annotation, and how much."""
    stabilization: Stabilization = Stabilization()
    """How fast slack follows."""
    node_templates: tuple[NodeTemplate, ...] = ()
    """Nodes of groups that may stand at zero: what the autoscaler would add, so that slack can be planned for it."""
    scheduler_name: str = "default-scheduler"
    """The scheduler of the policy's real pods, which must place the placeholders too: two do not see what the other has
    promised."""
    capacity_buffers: CountedBuffers = CountedBuffers.IGNORE
    """What the chunks of CapacityBuffers that the operator serves are to the policy on whose nodes they are. Count:
    part of its extra capacity, so of each resource the larger is kept and never the sum. Ignore: they are beside it."""
    priority_class_name: str = "resource-slack"
    """PriorityClass of the placeholders: a value from -10 (below it the Cluster Autoscaler adds no node) to -1, and
    preemptionPolicy Never."""
    hold: Hold | None = None
    """How placeholders hold capacity; without it the operator's --hold decides. Unbound: no scheduler binds them, so
    the capacity stays free, and the Cluster Autoscaler or Karpenter keeps nodes for them; real pods start there without
    preemption. Bound: they run on nodes, and real pods displace them. Auto: Unbound where one of these two autoscalers
    is recognised, else Bound. Status says which form is used, and why."""
    placeholders: Placeholders = Placeholders()
    """What the placeholders have beside their room, where admission policies demand it."""
    warm: Warm | None = None
    """Pull images on nodes with placeholders before the pods that need them arrive. Without it nothing is pulled."""
    make_way: Switch = True
    """Delete placeholders for a burst of real pods in one step, before the scheduler has to preempt them one by one."""
    dry_run: Switch = False
    """Work everything out and write it into status, but make, change and delete no placeholder."""

    @model_validator(mode="after")
    def _some_scheduler(self) -> Self:
        if self.scheduler_name == UNBOUND_SCHEDULER:
            raise ValueError(NO_SCHEDULER)
        return self

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        extra = self.extra_capacity
        if self.objective is None:
            return self
        if extra.min_rate is not None or extra.replicas is not None or extra.nodes is not None or extra.ladder:
            raise ValueError(
                "objective is in place of extraCapacity's minRate, replicas, nodes and ladder; give one of them"
            )
        if any(number is not None for each in extra.schedule for number in (each.min_rate, each.replicas, each.nodes)):
            raise ValueError("with an objective a window of extraCapacity.schedule can raise the floor only")
        return self


class Policy(PolicyObject):
    """A SlackPolicy with its identity."""

    spec: PolicySpec = PolicySpec()
    """The spec."""
    unbound_scheduler: str = ""
    """The schedulerName of its placeholders where these are unbound, '' where they are bound: what `spec.hold` has
    come to on this cluster. No document has it."""
    release_nodes: ReleaseNodes | None = None
    """How nodes are released from its unbound placeholders; None where they are bound, and where that is not known. No
    document has it."""

    tolerates_soft_taint: bool = False
    """Whether its unbound placeholders tolerate the taint of nodes that hold some. No document has it."""

    @property
    def yields_to_markers(self) -> bool:
        """Whether its unbound placeholders hold no capacity on nodes with a marker pod."""
        return self.release_nodes is ReleaseNodes.MARKER_POD

    @property
    def form(self) -> Form:
        """Return the form of its placeholders."""
        return form_of(
            self.unbound_scheduler,
            yields_to_markers=self.yields_to_markers,
            tolerates_soft_taint=self.tolerates_soft_taint,
        )

    @property
    def precedence(self) -> tuple[str | bool, ...]:
        """Return what its placeholders have as `Shape.precedence`."""
        own = (self.spec.priority_class_name, self.spec.scheduler_name, self.unbound_scheduler)
        return *own, self.yields_to_markers, self.tolerates_soft_taint


def parse_policy(document: object, *, source: str) -> Policy:
    """Check one SlackPolicy document (as decoded from YAML or JSON).

    Args:
        document: a mapping with apiVersion, kind, metadata and spec.
        source: what to call it in complaints: a file's name, `slackpolicy/web`.

    Raises:
        InvalidPolicy: with every problem found, each naming the field's path.
    """
    return Policy.parse(document, kind=KIND, source=source, such_as="extraCapacity", bad=InvalidPolicy)
