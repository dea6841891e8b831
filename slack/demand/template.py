"""The pod of a pool's container as its owner writes it: kept whole, and judged as far as we must know it.

The API server judges the rest when the first pod is made. The first container is the action's: it gets the messages,
and its memory is part of the queue's name. What is ours in a pod is refused here, with the field.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from slack.cluster.labels import LABEL_TEMPLATE_HASH
from slack.cluster.quantity import QuantityError, base_units, cpu_millis
from slack.schema.policy_object import SpecModel
from slack.schema.values import label_key, label_value

PROXY: Final = "demand-proxy"
"""The container that is put beside the action's, and the volume with its credentials."""
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


class Resources(_Open):
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
    resources: Resources = Resources()
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


class PodTemplate(_Open):
    """A pod as a Deployment's template has it."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: TemplateSpec
    """The spec of the pods: all that a pod may have."""

    @property
    def document(self) -> Mapping[str, Any]:
        """The template as it was written."""
        return self.model_dump(by_alias=True, exclude_unset=True, mode="json")

    @property
    def memory_mib(self) -> int:
        """What the action's container asks for, in whole MiB, rounded up; 0 where it asks for none."""
        asked = self.spec.containers[0].resources.asked("memory")
        return 0 if asked is None else -(-base_units(asked) // _MEBI)

    @property
    def cpu_millis(self) -> int:
        """What all containers ask for together."""
        return sum(cpu_millis(c.resources.asked("cpu") or "0") for c in self.spec.containers)

    @property
    def memory_bytes(self) -> int:
        """What all containers ask for together."""
        return sum(base_units(c.resources.asked("memory") or "0") for c in self.spec.containers)
