"""The kind CapacityBuffer (autoscaling.x-k8s.io) as it is read, and the words of its status.

Other servers of the kind are Cluster Autoscaler and Karpenter. Reasons are Karpenter's, since consumers such as Kueue
wait for these; `Infeasible` is proposed there.
"""

from enum import StrEnum
from typing import Any

import msgspec

from slack.cluster import wire
from slack.cluster.wire import Quantities

GROUP = "autoscaling.x-k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
"""The first that an API server has is used."""
KIND = "CapacityBuffer"
PLURAL = "capacitybuffers"
CRD_NAME = f"{PLURAL}.{GROUP}"
OWN_STRATEGY = "buffer.resource-slack.io/placeholder-pods"
"""The strategy that is always ours to serve; also what the status of each buffer says that we serve."""
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""Upstream's strategy, and the default of the CRD."""
GET_CRD = (
    "kubectl apply --server-side --force-conflicts -f https://raw.githubusercontent.com/kubernetes/autoscaler/cluster-autoscaler-1.37.0/"
    "cluster-autoscaler/apis/config/crd/autoscaling.x-k8s.io_capacitybuffers.yaml"
)
"""What installs the kind: its vendors ship it, we never do."""


class Serve(StrEnum):
    """Which buffers a user wants to be served."""

    OFF = "Off"
    OWN = "Own"
    """Those of our strategy."""
    UNSERVED = "Unserved"
    """Those of upstream's strategy too, where nobody else serves them."""


class BufferCondition(StrEnum):
    """Types of a buffer's conditions."""

    READY_FOR_PROVISIONING = "ReadyForProvisioning"
    PROVISIONING = "Provisioning"
    LIMITED_BY_QUOTAS = "LimitedByQuotas"


class BufferReason(StrEnum):
    """Reasons of these."""

    RESOLVED = "Resolved"
    POD_TEMPLATE_NOT_FOUND = "PodTemplateNotFound"
    SCALABLE_REF_NOT_FOUND = "ScalableRefNotFound"
    RESOLUTION_FAILED = "ResolutionFailed"
    NOT_READY_FOR_PROVISIONING = "NotReadyForProvisioning"
    BUFFER_EMPTY = "BufferEmpty"
    FITS_EXISTING_CAPACITY = "FitsExistingCapacity"
    REQUIRES_NEW_CAPACITY = "RequiresNewCapacity"
    INFEASIBLE = "Infeasible"
    RESOURCE_QUOTAS_ALLOCATED = "ResourceQuotasAllocated"


CONFLICT, NO_CONFLICT = "Conflict", "NoConflict"
"""Type and reasons of the probe's condition about buffers that others write."""


class TemplateReference(msgspec.Struct, gc=False):
    """spec.podTemplateRef: a PodTemplate of the buffer's namespace."""

    name: str = ""


class ScalableReference(msgspec.Struct, rename="camel", gc=False):
    """spec.scalableRef: an object of the buffer's namespace with pods."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class BufferSpec(msgspec.Struct, rename="camel", gc=False):
    """spec of a CapacityBuffer."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Quantities | None = None


class CapacityBuffer(msgspec.Struct):
    """A CapacityBuffer, of either version: their specs are the same."""

    metadata: wire.OwnMetadata
    spec: BufferSpec = msgspec.field(default_factory=BufferSpec)
    status: dict[str, Any] | None = None

    @property
    def namespace(self) -> str:
        """Return its namespace."""
        return self.metadata.namespace or ""

    @property
    def uid(self) -> str:
        """Return its uid."""
        return self.metadata.uid or ""

    @property
    def name(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.metadata.name}"

    @property
    def strategy(self) -> str:
        """Return what it asks for; the API has a default, a file may not."""
        return self.spec.provisioning_strategy or ACTIVE_CAPACITY

    @property
    def order(self) -> tuple[float, str, str]:
        """Return what puts buffers in order: the earlier one is served before the later one."""
        created = self.metadata.creation_timestamp
        return (created.timestamp() if created else 0.0, self.namespace, self.metadata.name)


class PodTemplateObject(msgspec.Struct):
    """A v1 PodTemplate, which is an object of its own."""

    metadata: wire.Metadata
    template: wire.PodTemplate | None = None


class ScaledTarget(msgspec.Struct, gc=False):
    """What a scalableRef has come to."""

    replicas: int
    """How many pods the object asks for: what a percentage is of while it has no live pod."""
    spec: wire.PodSpec | None = None
    """Its template's, or its newest pod's; None where the kind has no template that is known, and no pod."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Its template's."""
    observed: int | None = None
    """How many pods it has by its status: what a percentage is of while one of them lives."""
    is_of_pod: bool = False
    """Whether `spec` is that of its newest pod."""
