"""The pod of a pool's container as its owner writes it: kept whole, and judged as far as we must know it.

The API server judges the rest when the first pod is made. The first container is the action's: it gets the messages,
and its memory is part of the queue's name. What is ours in a pod is refused here, with the field.
"""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Self

import msgspec
from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from slack.cluster import wire
from slack.cluster.labels import LABEL_TEMPLATE_HASH
from slack.cluster.quantity import QuantityError, base_units
from slack.cluster.requests import RequestError, effective_requests
from slack.schema.policy_object import SpecModel
from slack.schema.values import label_key, label_value

PROXY: Final = "demand-proxy"
"""The container that is put beside the action's, and the volume with its credentials."""
PROXY_REQUESTS: Final[Mapping[str, str]] = MappingProxyType({"cpu": "10m", "memory": "48Mi"})
"""What it requests."""
OURS: Final = "resource-slack.io/"
FOREIGN_LABELS: Final = (
    LABEL_TEMPLATE_HASH,
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "scaledobject.keda.sh/name",
    "scaledjob.keda.sh/name",
)
"""Labels by which other controllers count pods as theirs."""
NO_LABEL_OF_OURS: Final = "labels of resource-slack.io are set by the controller"
NO_FOREIGN_LABEL: Final = "pod-template-hash, job-name and the like make another controller take the pods for its own"
NAME_TAKEN: Final = f"{PROXY} is the name of the proxy's container; choose another"
NO_CONTAINER: Final = "needs a container: the first one gets the messages"
ALWAYS_RESTARTED: Final = "restartPolicy must be Always, or left out: a container that ends takes no messages"
_MEBI: Final = 1 << 20


Amounts = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}})]
"""Quantities by resource, as they were written."""


class _Open(SpecModel):
    """Fields that are not named here are kept as they are."""

    model_config = ConfigDict(extra="allow")


class TemplateResources(_Open):
    """What a container asks for."""

    requests: Amounts = Field(default_factory=dict)
    """By resource."""
    limits: Amounts = Field(default_factory=dict)
    """By resource."""

    @model_validator(mode="after")
    def _quantities(self) -> Self:
        for kind in ("requests", "limits"):
            for name, amount in getattr(self, kind).items():
                if isinstance(amount, bool) or not isinstance(amount, str | int | float):
                    raise ValueError(f"{kind}.{name}: {amount!r} is no quantity")
                try:
                    base_units(str(amount))
                except QuantityError as error:
                    raise ValueError(f"{kind}.{name}: {error}") from None
        return self

    def asked(self, resource: str) -> str | None:
        """Return what is requested, as text; where nothing is, the limit, as Kubernetes takes it."""
        amount = self.requests.get(resource, self.limits.get(resource))
        return None if amount is None else str(amount)


class ContainerTemplate(_Open):
    """One container."""

    name: str = Field(max_length=63)
    """Its name."""
    resources: TemplateResources = TemplateResources()
    """What it asks for; the first container's memory is part of the queue's name."""

    @model_validator(mode="after")
    def _not_ours(self) -> Self:
        if self.name == PROXY:
            raise ValueError(NAME_TAKEN)
        return self


class TemplateMetadata(_Open):
    """Labels and annotations of the pods."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the pods, beside ours."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the pods."""

    @model_validator(mode="after")
    def _not_ours(self) -> Self:
        for key, text in self.labels.items():
            label_key(key)
            label_value(text, key)
        if any(key.startswith(OURS) for key in self.labels):
            raise ValueError(NO_LABEL_OF_OURS)
        if any(key in FOREIGN_LABELS for key in self.labels):
            raise ValueError(NO_FOREIGN_LABEL)
        return self


class TemplateSpec(_Open):
    """The spec of the pods."""

    containers: tuple[ContainerTemplate, ...]
    """The first is the action's."""
    restart_policy: str = "Always"
    """Always."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if not self.containers:
            raise ValueError(NO_CONTAINER)
        if self.restart_policy != "Always":
            raise ValueError(ALWAYS_RESTARTED)
        return self


class PoolPodTemplate(_Open):
    """A pod as a Deployment's template has it."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: TemplateSpec
    """The spec of the pods: all that a pod may have."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        try:
            requests_of(self.document, proxied=False)
        except (RequestError, msgspec.ValidationError) as error:
            raise ValueError(f"its requests cannot be read: {error}") from None
        return self

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The template as it was written."""
        return self.model_dump(by_alias=True, exclude_unset=True, mode="json")

    @property
    def memory_mib(self) -> int:
        """What the action's container asks for, in whole MiB, rounded up; 0 where it asks for none."""
        asked = self.spec.containers[0].resources.asked("memory")
        return 0 if asked is None else -(-base_units(asked) // _MEBI)

    def requests(self, *, proxied: bool) -> Mapping[str, int]:
        """Return what a pod requests as the scheduler counts it: cpu in millicores, memory in bytes, and so on.

        Args:
            proxied: whether the proxy stands beside its containers.
        """
        return requests_of(self.document, proxied=proxied)


def requests_of(template: Mapping[str, Any], *, proxied: bool) -> dict[str, int]:
    """Return what a pod of a template requests, with init containers, overhead and, if it has one, the proxy.

    Raises:
        RequestError: a quantity cannot be read.
        msgspec.ValidationError: a part of it has another form than the API's.
    """
    spec = dict(template.get("spec") or {})
    if proxied:
        beside = {"name": PROXY, "resources": {"requests": dict(PROXY_REQUESTS)}}
        spec = spec | {"containers": [*(spec.get("containers") or ()), beside]}
    return effective_requests(msgspec.json.decode(msgspec.json.encode(spec), type=wire.PodSpec))
