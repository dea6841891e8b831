"""SlackPolicy as a typed value: what a user writes, checked, with the field's path in every complaint.

The CRD is generated from these models (`slack.planner.crd`), so the API server refuses what they refuse; the
CLI and the operator check again, because a file is not the API server. `spec: {}` is a good policy (R4).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from slack.cluster.classes import Toleration
from slack.planner.fields import Amount, Cron, Duration, Labels, Rate, TimeZone
from slack.planner.fields import parse_duration as parse_duration
from slack.schema.documents import BadDocument, header
from slack.schema.documents import problem_text as problem_text

API_VERSION = "resource-slack.io/v1alpha1"
KIND = "SlackPolicy"
DEFAULT_RATE = 0.1
"""S5: the rate where neither the policy nor --extra-capacity-min-rate names one."""


class BadPolicy(BadDocument):
    """A SlackPolicy that cannot be used; each problem names the field's path and what would be right."""


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class TolerationSpec(_Model):
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


class LadderStep(_Model):
    """One step of a ladder: from so many nodes, or so much requested, on, this rate."""

    from_nodes: Annotated[int, Field(ge=0)] | None = None
    """The step holds from this many eligible nodes on. Give this or fromRequested."""
    from_requested: Amount | None = None
    """The step holds once what real pods request reaches these amounts, in every resource named."""
    min_rate: Rate
    """The rate of this step: 0.1 is ten percent."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.from_nodes is None) == (self.from_requested is None):
            raise ValueError("give exactly one of fromNodes and fromRequested")
        return self


class ScheduleWindow(_Model):
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
    floor: Amount | None = None
    """The floor while the window is open, where it is above extraCapacity.floor."""
    replicas: Annotated[int, Field(ge=0, le=5000)] | None = None
    """The number of standard placeholders while the window is open."""

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
        if self.min_rate is None and self.floor is None and self.replicas is None:
            raise ValueError("the window changes nothing; give minRate, floor or replicas")
        return self


class ExtraCapacity(_Model):
    """How much room is kept."""

    min_rate: Rate | None = None
    """Extra capacity as a share of the base: 0.1 is ten percent. Without it the operator's --extra-capacity-min-rate
    holds, 0.1 unless it was told otherwise. Which rate is right: resource-slack tune."""
    base: Base = Base.REQUESTED
    """What minRate is a share of. Requested: what real pods request. Allocatable: what the nodes have; nodes that slack
    brings in count too, so it feeds itself."""
    floor: Amount = Field(default_factory=dict)
    """Never less than this, in quiet hours too, such as {cpu: 2, memory: 4Gi}; further resources such as GPUs are kept
    only where they are named here."""
    ceiling: Amount = Field(default_factory=dict)
    """Never more than this, at any instant; wins over everything else and bounds what slack can cost."""
    replicas: Annotated[int, Field(ge=0, le=5000)] | None = None
    """A fixed number of standard placeholders instead of a rate; with perDomain Zone each zone gets its equal part,
    rounded up."""
    ladder: tuple[LadderStep, ...] = ()
    """Rates by size of the cluster, more on a small one, say; the last step that holds is used instead of minRate."""
    schedule: tuple[ScheduleWindow, ...] = ()
    """Windows in which the size is another; where several are open the largest wins."""

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        for name, amount in self.floor.items():
            if name in self.ceiling and amount > self.ceiling[name]:
                raise ValueError(f"floor.{name} is above ceiling.{name}")
        return self


class PodSelector(_Model):
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


class Cover(_Model):
    """Which pods must find the room of one placeholder, so that pushing one out is enough to start them."""

    mode: CoverMode = CoverMode.FREQUENT
    """Frequent: the pods that come most often, as cheaply as can be. Everything: every pod. Largest: one size that all
    pods fit. None: pieces of an average node divided by granularity, whatever the pods are like."""
    coverage: Annotated[float, Field(gt=0, le=1)] = 0.99
    """With mode Frequent: the share of arriving pods that must be covered; rare large pods are what the rest is."""
    max_shapes: Annotated[int, Field(ge=1, le=64)] = 8
    """At most so many different sizes of covering placeholders."""
    exclude: tuple[PodSelector, ...] = ()
    """Pods that need no room kept, such as databases that never come in a burst. The annotation
    resource-slack.io/exclude on a workload does the same."""


class Stabilization(_Model):
    """How fast slack follows; growing is at once, shrinking waits."""

    shrink_delay: Duration = timedelta(minutes=10)
    """How long less must have been enough before slack shrinks. 10m is also what the Cluster Autoscaler waits before it
    removes a node."""
    shape_tolerance: Annotated[float, Field(ge=0, le=1)] = 0.1
    """How far the wanted size of a placeholder may move before running ones are replaced; 0.1 is ten percent."""
    give_up_after: Duration = timedelta(minutes=20)
    """How long placeholders may stay pending while the autoscaler refuses a node; then they are held back, with one
    left to try. Longer than the autoscaler's own time for a node to come."""


class NodeTemplate(_Model):
    """A node of a group that may stand at zero, so that placeholders for it are known to fit."""

    name: str
    """Name of the node group, for messages."""
    labels: Labels = Field(default_factory=dict)
    """Labels of its nodes."""
    taints: tuple[Mapping[str, str], ...] = ()
    """Taints of its nodes: key, value, effect."""
    allocatable: Amount
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


class PolicySpec(_Model):
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
    cover: Cover = Cover()
    """Which pods must find the room of one placeholder, so that pushing one out is enough to start them."""
    granularity: Annotated[int, Field(ge=1, le=100)] = 5
    """Standard placeholders are at most an average node divided by this; more of them are smaller."""
    stabilization: Stabilization = Stabilization()
    """How fast slack follows."""
    node_templates: tuple[NodeTemplate, ...] = ()
    """Nodes of groups that may stand at zero: what the autoscaler would add, so that slack can be planned for it."""
    scheduler_name: str = "default-scheduler"
    """The scheduler of the policy's real pods, which must place the placeholders too: two do not see what the other has
    promised."""
    priority_class_name: str = "resource-slack"
    """PriorityClass of the placeholders: a value from -10 (below it the Cluster Autoscaler adds no node) to -1, and
    preemptionPolicy Never."""
    dry_run: bool = False
    """Work everything out and write it into status, but make, change and delete no placeholder."""


class Policy(_Model):
    """A policy with its identity. `uid` is empty for a file and for the built-in policy."""

    name: str
    """metadata.name"""
    spec: PolicySpec = PolicySpec()
    """The spec."""
    uid: str = ""
    """metadata.uid"""
    generation: int = 0
    """metadata.generation"""
    created_seconds: float = 0.0
    """metadata.creationTimestamp as Unix time, 0 for a file and for the built-in policy."""


def parse_policy(document: object, *, source: str) -> Policy:
    """Check one SlackPolicy document (as decoded from YAML or JSON).

    Args:
        document: a mapping with apiVersion, kind, metadata and spec.
        source: what to call it in complaints: a file's name, `slackpolicy/web`.

    Raises:
        BadPolicy: with every problem found, each naming the field's path.
    """
    found = header(document, api_version=API_VERSION, kind=KIND, source=source, such_as="extraCapacity", bad=BadPolicy)
    try:
        spec = PolicySpec.model_validate(found.spec)
    except ValidationError as error:
        raise BadPolicy(source, tuple(problem_text(dict(e), "spec") for e in error.errors())) from None
    return Policy(
        name=found.name,
        spec=spec,
        uid=found.uid,
        generation=found.generation,
        created_seconds=found.created_seconds,
    )
