"""Pods as the kubelet's /pods, lists of the API server and objects of a watch have them.

The same structs decode all three; only fields that an audit reads are built.
"""

from typing import TYPE_CHECKING, TypedDict

import msgspec

from slack.cluster.labels import (
    ANNOTATION_CONFIG_HASH,
    ANNOTATION_FORMER_LIMITS,
    ANNOTATION_LATENCY,
    ANNOTATION_STATIC_POD,
    LABEL_ROLLOUT_HASH,
    LABEL_TEMPLATE_HASH,
)


class _Wire(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Base of all structs here: camelCase on the wire; what Go can write as null is accepted."""


class Owner(_Wire):
    """metadata.ownerReferences[]."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


_ANNOTATIONS = (ANNOTATION_LATENCY, ANNOTATION_FORMER_LIMITS, ANNOTATION_CONFIG_HASH, ANNOTATION_STATIC_POD)

if TYPE_CHECKING:
    _Annotations = dict[str, str]
    _Labels = dict[str, str]
else:
    _Annotations = TypedDict("_Annotations", dict.fromkeys(_ANNOTATIONS, str), total=False)
    _Labels = TypedDict("_Labels", {LABEL_TEMPLATE_HASH: str, LABEL_ROLLOUT_HASH: str}, total=False)


class AuditedMetadata(_Wire):
    """ObjectMeta as far as it is read; annotations and labels have only the keys that are."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    annotations: _Annotations | None = None
    labels: _Labels | None = None
    owner_references: list[Owner] | None = None


class Cpu(_Wire):
    """The cpu of a ResourceList."""

    cpu: str | int | float | None = None


class AuditedResources(_Wire):
    """Limits and requests."""

    limits: Cpu | None = None
    requests: Cpu | None = None


class ResizePolicy(_Wire):
    """resizePolicy[] of a container."""

    resource_name: str = ""
    restart_policy: str = ""


class Variable(_Wire):
    """env[] of a container."""

    name: str = ""
    value: str | None = None
    """None: it comes from elsewhere, or is empty."""
    value_from: dict[str, object] | None = None


class AuditedContainer(_Wire):
    """A container or init container of a spec."""

    name: str = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    resources: AuditedResources | None = None
    resize_policy: list[ResizePolicy] | None = None
    restart_policy: str | None = None
    env: list[Variable] | None = None
    env_from: list[dict[str, object]] | None = None


class Spec(_Wire):
    """spec of a pod."""

    node_name: str | None = None
    containers: list[AuditedContainer] | None = None
    init_containers: list[AuditedContainer] | None = None
    resources: AuditedResources | None = None
    """Pod-level resources (1.34+)."""
    overhead: Cpu | None = None
    """What its RuntimeClass adds to the pod's quota."""


class AuditedContainerStatus(_Wire):
    """What the kubelet says of a container."""

    name: str = ""
    container_id: str | None = msgspec.field(default=None, name="containerID")
    resources: AuditedResources | None = None
    """What the kubelet has in force; differs from the spec while a resize is under way."""


class AuditedPodCondition(_Wire):
    """status.conditions[]; PodResizePending and PodResizeInProgress tell of a resize."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class AuditedPodStatus(_Wire):
    """status of a pod."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: list[AuditedPodCondition] | None = None
    container_statuses: list[AuditedContainerStatus] | None = None
    init_container_statuses: list[AuditedContainerStatus] | None = None


class AuditedPod(_Wire):
    """v1 Pod."""

    metadata: AuditedMetadata
    spec: Spec | None = None
    status: AuditedPodStatus | None = None


class _PodList(_Wire):
    items: list[AuditedPod] | None = None


_list_decoder = msgspec.json.Decoder(_PodList)


def decode_pods(body: bytes) -> list[AuditedPod]:
    """Decode the kubelet's /pods or a list of an API server.

    Raises:
        ValueError: when the body is no list of pods; the message says where.
    """
    try:
        return _list_decoder.decode(body).items or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no list of pods: {error}") from None
