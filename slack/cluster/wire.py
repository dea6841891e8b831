"""What the API server sends, as slim structs: only the fields that somebody here reads.

Unknown fields are skipped by msgspec without being built, which is what makes 150,000 pods decode in a second
(docs/performance.md). Whatever Go can write as `null` is accepted as `None`. Scheduling constraints and resources stay
raw JSON: pods of one workload send the same bytes, so they are parsed once per distinct text
(`slack.cluster.tables.interning`). Conditions stay raw, too, until somebody asks for them, which for most pods nobody
does. A `Raw` points into the message that it came from, which may be a page of 500 pods; what may be kept is
`bytes(raw)`, or a whole object after `detach`.

Structs are built by decoding (`msgspec.json.decode(data, type=Pod)`) or by `msgspec.convert`; they are values and
owned by whoever decoded them. gc=False is safe: none of them can be part of a reference cycle.
"""

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypedDict, get_args

import msgspec
from msgspec import structs

from slack.cluster.labels import (
    ANNOTATION_BUFFER_CREATED,
    ANNOTATION_DAEMON_POD,
    ANNOTATION_DELETION_COST,
    ANNOTATION_EXCLUDE,
    ANNOTATION_RESERVE,
    ANNOTATION_RESERVED_FOR,
    ANNOTATION_STATIC_POD,
    API_VERSION,
    LABEL_DEPLOYMENT_CONFIG,
    LABEL_JOB_SET,
    LABEL_KNATIVE_SERVICE,
    LABEL_LEADER_WORKER_SET,
    LABEL_RAY_ORIGIN,
    LABEL_RAY_SERVE,
    LABEL_ROLLOUT_HASH,
    LABEL_RUNNER_SCALE_SET,
    LABEL_SPARK_APPLICATION,
    LABEL_SPARK_SCHEDULE,
    LABEL_TEKTON_PIPELINE,
    LABEL_TEKTON_TASK,
)

Quantities = dict[str, str | int | float | None]
"""A ResourceList. The API server sends text; numbers and null, which is 0, occur in hand-written files only."""

ABSENT = msgspec.Raw(b"")

_NO_GATES = (ABSENT, msgspec.Raw(b"null"), msgspec.Raw(b"[]"))

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""As the API has it: a file that has been edited is refused with the field, before a column overflows."""
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Base of all wire structs: camelCase on the wire, snake_case here."""

    def detach(self) -> Self:
        """Copy what points into the message that it came from, in place; for objects that are kept as they are."""
        raws, members = _parts_of(type(self))
        for name in raws:
            value = getattr(self, name)
            if value is not ABSENT:
                setattr(self, name, value.copy())
        for name in members:
            value = getattr(self, name)
            for member in value if isinstance(value, list) else (value,):
                if member is not None:
                    member.detach()
        return self

    def raw_bytes(self) -> int:
        """Return how many bytes of raw JSON the object holds: what `detach` would copy."""
        raws, members = _parts_of(type(self))
        size = sum(memoryview(getattr(self, name)).nbytes for name in raws)
        for name in members:
            value = getattr(self, name)
            for member in value if isinstance(value, list) else (value,):
                if member is not None:
                    size += member.raw_bytes()
        return size


@cache
def _parts_of(kind: type[_Wire]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of a struct that point into a message, and those that hold structs with such fields."""
    raws, members = [], []
    for field in structs.fields(kind):
        inside = {field.type, *get_args(field.type), *(own for part in get_args(field.type) for own in get_args(part))}
        if msgspec.Raw in inside:
            raws.append(field.name)
        elif any(isinstance(own, type) and issubclass(own, _Wire) and any(_parts_of(own)) for own in inside):
            members.append(field.name)
    return tuple(raws), tuple(members)


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
    generation: Int64 | None = None
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


NAMING_LABELS = (
    LABEL_ROLLOUT_HASH,
    LABEL_KNATIVE_SERVICE,
    LABEL_JOB_SET,
    LABEL_LEADER_WORKER_SET,
    LABEL_SPARK_SCHEDULE,
    LABEL_SPARK_APPLICATION,
    LABEL_RAY_ORIGIN,
    LABEL_RAY_SERVE,
    LABEL_DEPLOYMENT_CONFIG,
    LABEL_RUNNER_SCALE_SET,
    LABEL_TEKTON_PIPELINE,
    LABEL_TEKTON_TASK,
)
"""Whose pod it is, beside its owner and the template's hash (`slack.cluster.identity`)."""
# To build all annotations of a pod takes a part of its decoding. The others look absent to a reader, so a key that is
# read anew must be put here. Labels are read whole: any of them may be what a selector asks for.
POD_ANNOTATIONS = (
    ANNOTATION_DELETION_COST,
    ANNOTATION_STATIC_POD,
    ANNOTATION_DAEMON_POD,
    ANNOTATION_EXCLUDE,
    ANNOTATION_RESERVE,
    ANNOTATION_BUFFER_CREATED,
    ANNOTATION_RESERVED_FOR,
)

if TYPE_CHECKING:
    PodMetadata = Metadata  # a TypedDict is a dict when it runs, but mypy does not let it stand for one
else:
    _PodAnnotations = TypedDict("_PodAnnotations", dict.fromkeys(POD_ANNOTATIONS, str), total=False)

    class PodMetadata(Metadata):
        """ObjectMeta of a pod; its annotations are a dictionary with fewer keys."""

        annotations: _PodAnnotations | None = None
        managed_fields_json: msgspec.Raw = msgspec.field(default=ABSENT, name="managedFields")
        """Who wrote what; read of placeholders that somebody has changed."""


class _Something(msgspec.Struct, gc=False):
    """An object of which only its presence is read."""


class Volume(TypedDict, total=False):
    """spec.volumes[]: what claims a volume, or names a disk itself; an empty dictionary for all other sources.

    It is read for each event, where `any` sees at once whether there is something in some of them. A named disk is on
    one node at a time (plugin VolumeRestrictions), or takes one of a node's attachments (plugin NodeVolumeLimits).
    """

    persistentVolumeClaim: _Something | None
    ephemeral: _Something | None
    awsElasticBlockStore: _Something | None
    azureDisk: _Something | None
    cinder: _Something | None
    gcePersistentDisk: _Something | None
    iscsi: _Something | None
    portworxVolume: _Something | None
    rbd: _Something | None
    vsphereVolume: _Something | None


class Port(TypedDict, total=False):
    """A port of a container: the port of the node that it takes, empty where it takes none."""

    hostPort: int | None


class Container(_Wire):
    """A container or init container."""

    name: msgspec.Raw = ABSENT
    """Only ever compared with that of its status, so it stays as it came, quotes and all."""
    resources: msgspec.Raw = ABSENT
    image: str | None = None
    restart_policy: str | None = None
    """`Always` on an init container makes it a native sidecar."""
    restart_policy_rules: msgspec.Raw = ABSENT
    ports: list[Port] | None = None


class SchedulingGroup(_Wire):
    """spec.schedulingGroup of a pod (1.36+)."""

    pod_group_name: str | None = None


class PodSpec(_Wire):
    """Of pods and of pod templates."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    """Pod-level resources (1.34+)."""
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    host_network: bool | None = None
    host_users: bool | None = None
    scheduling_gates: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    volumes: list[Volume] | None = None
    active_deadline_seconds: Int64 | None = None
    scheduling_group: SchedulingGroup | None = None
    """Whose gang the pod is of (1.36+); a pod's scheduling waits for the others of it."""
    workload_ref: msgspec.Raw = ABSENT
    """The same in 1.35, alpha."""

    def is_gated(self) -> bool:
        """Say whether scheduling gates hold the pod back: no scheduler considers it until all of them are removed."""
        return not self.node_name and self.scheduling_gates not in _NO_GATES


class ObjectCondition(_Wire):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class ContainerStatus(_Wire):
    """What the kubelet says of a container: what it has granted (in-place resize), and whether it has started."""

    name: msgspec.Raw = ABSENT
    allocated_resources: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    started: bool | None = None
    """It runs, and its start-up probe has passed."""


class ClaimedResource(_Wire):
    """status.extendedResourceClaimStatus.requestMappings[]: a resource for which the scheduler has made a claim."""

    resource_name: str = ""


class ExtendedResourceClaim(_Wire):
    """status.extendedResourceClaimStatus of a pod: the claim for its extended resources (KEP-5004)."""

    request_mappings: list[ClaimedResource] | None = None


_conditions_decoder = msgspec.json.Decoder(list[ObjectCondition] | None)


class PodStatus(_Wire):
    """status of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    nominated_node_name: str | None = None
    conditions_json: msgspec.Raw = msgspec.field(default=ABSENT, name="conditions")
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    extended_resource_claim_status: ExtendedResourceClaim | None = None
    """Of a claim that the scheduler has made for extended resources (1.34+)."""

    @property
    def claimed(self) -> tuple[str, ...]:
        """The extended resources that a device claim serves, sorted: no node offers them to this pod."""
        claim = self.extended_resource_claim_status
        return () if claim is None else tuple(sorted({own.resource_name for own in claim.request_mappings or ()}))

    @property
    def conditions(self) -> list[ObjectCondition]:
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
    conditions: list[ObjectCondition] | None = None
    declared_features: list[str] | None = None
    """What its kubelet can do that pods may ask for (1.36+)."""


class Node(_Wire):
    """v1 Node."""

    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NodeClaimSpec(_Wire):
    """spec of a NodeClaim."""

    expire_after: str | None = None


class NodeClaimStatus(_Wire):
    """status of a NodeClaim."""

    node_name: str | None = None
    conditions: list[ObjectCondition] | None = None


class NodeClaim(_Wire):
    """karpenter.sh/v1 NodeClaim: what Karpenter knows of one of its nodes."""

    metadata: Metadata
    spec: NodeClaimSpec | None = None
    status: NodeClaimStatus | None = None


class PriorityClass(_Wire):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: Metadata
    value: Int32 = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class Namespace(_Wire):
    """v1 Namespace: its labels."""

    metadata: Metadata


class PodTemplate(_Wire):
    """spec.template of a workload."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None


class RollingUpdate(_Wire):
    """spec.strategy.rollingUpdate of a Deployment: numbers, or percentages as text."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(_Wire):
    """spec.strategy of a Deployment."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None


class ReplicatedSpec(_Wire):
    """spec of Deployment, ReplicaSet and StatefulSet."""

    replicas: Int32 | None = None
    template: PodTemplate | None = None
    paused: bool | None = None
    """Of a Deployment: its rollout waits. It is scaled all the same."""
    strategy: Strategy | None = None
    """Of a Deployment."""
    pod_management_policy: str | None = None
    """Of a StatefulSet: OrderedReady or Parallel."""
    volume_claim_templates: msgspec.Raw = ABSENT
    """Of a StatefulSet."""


class ReplicatedStatus(_Wire):
    """status of Deployment, ReplicaSet and StatefulSet."""

    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    observed_generation: Int64 | None = None
    conditions: list[ObjectCondition] | None = None


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


class ManagedFields(_Wire):
    """metadata.managedFields[]: who holds which fields (server-side apply)."""

    manager: str = ""
    operation: str = ""
    subresource: str | None = None
    time: datetime | None = None
    fields_json: msgspec.Raw = msgspec.field(default=ABSENT, name="fieldsV1")


class OwnMetadata(Metadata):
    """ObjectMeta of what is ours."""

    managed_fields: list[ManagedFields] | None = None
    finalizers: list[str] | None = None


class ActivationPoolLimits(_Wire):
    """spec.limits of an ActivationPool."""

    max_containers: Int32 | None = None


class PoolPublishing(_Wire):
    """spec.demand of an ActivationPool."""

    publish: bool | None = None


class PoolProxy(_Wire):
    """spec.proxy of an ActivationPool."""

    mode: str | None = None


class PoolSpec(_Wire):
    """spec of an ActivationPool, as far as slack follows from it."""

    proxy: PoolProxy | None = None
    template: PodTemplate | None = None
    limits: ActivationPoolLimits | None = None
    demand: PoolPublishing | None = None


class PoolDemand(_Wire):
    """status.demand of an ActivationPool: what its controller expects."""

    wanted: Int32 = 0
    unmet: Int32 = 0
    growth: Int32 = 0
    peak_increment: Int32 = 0
    slack_pods: Int32 = 0
    observed_at: datetime | None = None


class PoolStatus(_Wire):
    """status of an ActivationPool, as far as slack follows from it."""

    demand: PoolDemand | None = None


_pool_spec_decoder = msgspec.json.Decoder(PoolSpec | None)
_pool_status_decoder = msgspec.json.Decoder(PoolStatus | None)


class ActivationPoolObject(_Wire):
    """An ActivationPool: its parts stay as they came, for whoever may write one pool must not hold up all others."""

    metadata: Metadata
    spec_json: msgspec.Raw = msgspec.field(default=ABSENT, name="spec")
    status_json: msgspec.Raw = msgspec.field(default=ABSENT, name="status")

    @property
    def spec(self) -> PoolSpec:
        """Its spec, decoded anew each time.

        Raises:
            msgspec.DecodeError: when it has another form than the API's.
        """
        return (None if self.spec_json == ABSENT else _pool_spec_decoder.decode(self.spec_json)) or PoolSpec()

    @property
    def status(self) -> PoolStatus:
        """Its status, decoded anew each time.

        Raises:
            msgspec.DecodeError: when it has another form than the API's.
        """
        return (None if self.status_json == ABSENT else _pool_status_decoder.decode(self.status_json)) or PoolStatus()


class SlackScaleSpec(_Wire):
    """spec of a SlackScale."""

    replicas: Int32 = 0


class SlackScale(_Wire):
    """The /scale of a policy within our namespace."""

    metadata: Metadata
    spec: SlackScaleSpec
    status: dict[str, Any] | None = None


_replicated_spec_decoder = msgspec.json.Decoder(ReplicatedSpec | None)


class OwnReplicaSet(_Wire):
    """apps/v1 ReplicaSet of placeholders: read as it is, for it is held to what was applied, field by field."""

    metadata: OwnMetadata
    spec_json: msgspec.Raw = msgspec.field(default=ABSENT, name="spec")
    status: ReplicatedStatus | None = None

    @property
    def spec(self) -> ReplicatedSpec | None:
        """What other ReplicaSets have of their spec; decoded anew each time."""
        return None if self.spec_json == ABSENT else _replicated_spec_decoder.decode(self.spec_json)

    @property
    def template(self) -> dict[str, Any]:
        """spec.template as it came; decoded anew each time."""
        spec = {} if self.spec_json == ABSENT else msgspec.json.decode(self.spec_json) or {}
        return spec.get("template") or {}


class StatefulSet(_Wire):
    """apps/v1 StatefulSet."""

    metadata: Metadata
    spec: ReplicatedSpec | None = None
    status: ReplicatedStatus | None = None


class JobSpec(_Wire):
    """spec of a Job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    """Who makes its pods, where that is not the Job controller."""
    pod_replacement_policy: str | None = None
    template: PodTemplate | None = None


class JobStatus(_Wire):
    """status of a Job."""

    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    conditions: list[ObjectCondition] | None = None


class Job(_Wire):
    """batch/v1 Job."""

    metadata: Metadata
    spec: JobSpec | None = None
    status: JobStatus | None = None


class JobTemplate(_Wire):
    """spec.jobTemplate of a CronJob."""

    metadata: Metadata | None = None
    spec: JobSpec | None = None


class CronJobSpec(_Wire):
    """spec of a CronJob."""

    job_template: JobTemplate | None = None


class CronJob(_Wire):
    """batch/v1 CronJob."""

    metadata: Metadata
    spec: CronJobSpec | None = None


class ScopeRequirement(_Wire):
    """spec.scopeSelector.matchExpressions[] of a ResourceQuota."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(_Wire):
    """spec.scopeSelector of a ResourceQuota."""

    match_expressions: list[ScopeRequirement] | None = None


class QuotaSpec(_Wire):
    """spec of a ResourceQuota."""

    hard: Quantities | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaStatus(_Wire):
    """status of a ResourceQuota."""

    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(_Wire):
    """v1 ResourceQuota."""

    metadata: Metadata
    spec: QuotaSpec | None = None
    status: QuotaStatus | None = None


class LimitRangeItem(_Wire):
    """spec.limits[] of a LimitRange: what a container gets that says nothing, and what admission refuses."""

    type: str = ""
    default: Quantities | None = None
    default_request: Quantities | None = None
    min: Quantities | None = None
    max: Quantities | None = None


class LimitRangeSpec(_Wire):
    """spec of a LimitRange."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(_Wire):
    """v1 LimitRange."""

    metadata: Metadata
    spec: LimitRangeSpec | None = None


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
    count: Int32 | None = None
    involved_object: ObjectReference | None = None
    source: EventSource | None = None
    reporting_component: str | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


Workload = Deployment | ReplicaSet | StatefulSet | Job | CronJob
"""The workload objects that can be reserved for or excluded."""
WORKLOADS: tuple[tuple[str, str, str, type[Workload]], ...] = (
    ("apps/v1", "deployments", "Deployment", Deployment),
    ("apps/v1", "replicasets", "ReplicaSet", ReplicaSet),
    ("apps/v1", "statefulsets", "StatefulSet", StatefulSet),
    ("batch/v1", "jobs", "Job", Job),
    ("batch/v1", "cronjobs", "CronJob", CronJob),
)
"""Their apiVersion, plural, kind and struct."""

Object = Pod | Node | PriorityClass | Namespace | Workload | ActivationPoolObject
"""What a view of the cluster is made of."""

KINDS: dict[str, type[Object]] = {
    "Pod": Pod,
    "Node": Node,
    "PriorityClass": PriorityClass,
    "Namespace": Namespace,
    **{kind: item_type for _, _, kind, item_type in WORKLOADS},
    "ActivationPool": ActivationPoolObject,
}
"""By kind."""
API_VERSIONS: dict[str, str] = {
    **dict.fromkeys(("Pod", "Node", "Namespace"), "v1"),
    "PriorityClass": "scheduling.k8s.io/v1",
    **{kind: version for version, _, kind, _ in WORKLOADS},
    "ActivationPool": API_VERSION,
}
"""By kind."""
API_GROUPS: dict[str, str] = {kind: version.rpartition("/")[0] for kind, version in API_VERSIONS.items()}
"""Of each kind, '' for the core: other groups have kinds of the same name."""

_GROUPS_OF_OTHERS = {"SlackPolicy": API_VERSION.partition("/")[0], "ResourceQuota": "", "LimitRange": ""}


def full_kind(kind: str, api_version: str | None) -> str:
    """Return the kind, with its API group where that is not the one that is read here: `Node.longhorn.io`."""
    group = (api_version or "").rpartition("/")[0]
    read = API_GROUPS.get(kind, _GROUPS_OF_OTHERS.get(kind))
    return kind if not group or read is None or group == read else f"{kind}.{group}"
