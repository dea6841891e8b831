"""What the API server sends, as slim structs: only the fields that somebody here reads.

Unknown fields are skipped by msgspec without being built, which is what makes 150,000 pods decode in a second
(design/architecture.md). Whatever Go can write as `null` is accepted as `None`. Scheduling constraints and resources
stay raw JSON: pods of one workload send the same bytes, so they are parsed once per distinct text
(`slack.cluster.interning`). Conditions stay raw, too, until somebody asks for them, which for most pods nobody does.
A `Raw` points into the message that it came from, which may be a page of 500 pods; what may be kept is `bytes(raw)`,
or a whole object after `detach`.

Structs are built by decoding (`msgspec.json.decode(data, type=Pod)`) or by `msgspec.convert`; they are values and
owned by whoever decoded them. gc=False is safe: none of them can be part of a reference cycle.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Self, TypedDict

import msgspec

Quantities = dict[str, str | int | float]
"""A ResourceList. The API server sends text; numbers occur in hand-written files only."""

ABSENT = msgspec.Raw(b"")


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Base of all wire structs: camelCase on the wire, snake_case here."""

    def detach(self) -> Self:
        """Copy what points into the message that it came from, in place; for objects that are kept as they are."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, msgspec.Raw):
                setattr(self, name, value.copy())
            else:
                for one in value if isinstance(value, list) else (value,):
                    if isinstance(one, _Wire):
                        one.detach()
        return self


class OwnerReference(_Wire):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(_Wire):
    """ObjectMeta as far as it is read."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def controller(self) -> OwnerReference | None:
        """Return the owner that controls the object; a single owner counts as such, as old tools omit the flag."""
        owners = self.owner_references
        if not owners:
            return None
        for owner in owners:
            if owner.controller:
                return owner
        return owners[0] if len(owners) == 1 and owners[0].controller is None else None

    def annotation(self, key: str) -> str:
        """Return an annotation's text, `''` when it is absent."""
        return self.annotations.get(key, "") if self.annotations else ""

    def label(self, key: str) -> str:
        """Return a label's value, `''` when it is absent."""
        return self.labels.get(key, "") if self.labels else ""


# To build all labels and annotations of a pod takes a tenth of its decoding. The others look absent to a reader, so a
# key that is read anew must be put here.
_PodLabels = TypedDict(
    "_PodLabels",
    {
        "pod-template-hash": str,
        "resource-slack.io/placeholder": str,
        "resource-slack.io/policy": str,
        "resource-slack.io/shape": str,
    },
    total=False,
)
_PodAnnotations = TypedDict(
    "_PodAnnotations",
    {
        "controller.kubernetes.io/pod-deletion-cost": str,
        "kubernetes.io/config.mirror": str,
        "resource-slack.io/exclude": str,
        "resource-slack.io/reserve": str,
    },
    total=False,
)

if TYPE_CHECKING:
    PodMetadata = Metadata  # a TypedDict is a dict when it runs, but mypy does not let it stand for one
else:

    class PodMetadata(Metadata):
        """ObjectMeta of a pod; its labels and annotations are dictionaries with fewer keys."""

        labels: _PodLabels | None = None
        annotations: _PodAnnotations | None = None


class Container(_Wire):
    """A container or init container."""

    name: msgspec.Raw = ABSENT
    """Only ever compared with that of its status, so it stays as it came, quotes and all."""
    resources: msgspec.Raw = ABSENT
    restart_policy: str | None = None
    """`Always` on an init container makes it a native sidecar."""


class PodSpec(_Wire):
    """Of pods and of pod templates."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    """Pod-level resources (1.34+)."""
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT


class Condition(_Wire):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class ContainerStatus(_Wire):
    """What the kubelet has granted to a container (in-place resize)."""

    name: msgspec.Raw = ABSENT
    allocated_resources: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT


_conditions_decoder = msgspec.json.Decoder(list[Condition] | None)


class PodStatus(_Wire):
    """status of a pod."""

    phase: str | None = None
    nominated_node_name: str | None = None
    conditions_json: msgspec.Raw = msgspec.field(default=ABSENT, name="conditions")
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT

    @property
    def conditions(self) -> list[Condition]:
        """The pod's conditions, decoded anew each time.

        Raises:
            ValueError: when they have another form than the API's.
        """
        raw = self.conditions_json
        if raw == ABSENT:
            return []
        try:
            return _conditions_decoder.decode(raw) or []
        except msgspec.DecodeError as error:
            raise ValueError(f"status.conditions: {error}") from None


class Pod(_Wire):
    """v1 Pod."""

    metadata: PodMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class NodeTaint(_Wire):
    """spec.taints[]."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(_Wire):
    """spec of a node."""

    unschedulable: bool | None = None
    taints: list[NodeTaint] | None = None


class NodeStatus(_Wire):
    """status of a node."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(_Wire):
    """v1 Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class PriorityClass(_Wire):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Metadata
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class PodTemplate(_Wire):
    """spec.template of a workload."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class ReplicatedSpec(_Wire):
    """spec of Deployment, ReplicaSet and StatefulSet."""

    replicas: int | None = None
    template: PodTemplate | None = None


class ReplicatedStatus(_Wire):
    """status of Deployment, ReplicaSet and StatefulSet."""

    replicas: int | None = None
    ready_replicas: int | None = None
    observed_generation: int | None = None


class Deployment(_Wire):
    """apps/v1 Deployment."""

    metadata: Metadata
    spec: ReplicatedSpec | None = None
    status: ReplicatedStatus | None = None


class ReplicaSet(_Wire):
    """apps/v1 ReplicaSet."""

    metadata: Metadata
    spec: ReplicatedSpec | None = None
    status: ReplicatedStatus | None = None


class StatefulSet(_Wire):
    """apps/v1 StatefulSet."""

    metadata: Metadata
    spec: ReplicatedSpec | None = None
    status: ReplicatedStatus | None = None


class JobSpec(_Wire):
    """spec of a Job."""

    parallelism: int | None = None
    suspend: bool | None = None
    template: PodTemplate | None = None


class Job(_Wire):
    """batch/v1 Job."""

    metadata: Metadata
    spec: JobSpec | None = None


class JobTemplate(_Wire):
    """spec.jobTemplate of a CronJob."""

    metadata: Metadata | None = None
    spec: JobSpec | None = None


class CronJobSpec(_Wire):
    """spec of a CronJob."""

    suspend: bool | None = None
    job_template: JobTemplate | None = None


class CronJob(_Wire):
    """batch/v1 CronJob."""

    metadata: Metadata
    spec: CronJobSpec | None = None


class ObjectReference(_Wire):
    """What an event is about."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class EventSource(_Wire):
    """Who wrote an event, in the old field."""

    component: str | None = None


class Event(_Wire):
    """v1 Event."""

    metadata: Metadata
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    involved_object: ObjectReference | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


Workload = Deployment | ReplicaSet | StatefulSet | Job | CronJob
"""The workload objects that can be reserved for or excluded."""
