"""What admission policies of a cluster demand of placeholders, beside what a shape is.

None of it says which room a placeholder holds, so none of it is in a shape's name. What would change which room it
holds, who may displace it, or its Pod Security level is refused, or cannot be said.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slack.cluster.labels import ANNOTATIONS_AGAINST_INJECTION, LABEL_MANAGED_BY, LABELS_AGAINST_INJECTION
from slack.schema.policy_object import SpecModel
from slack.schema.values import Labels, label_key

_LABEL_COMPONENT = "app.kubernetes.io/component"
"""By it the Services of the chart select: a placeholder would get their requests."""


def _any_of(keys: Iterable[str]) -> str:
    return f"^({'|'.join(map(re.escape, keys))})$"


_LABELS = (LABEL_MANAGED_BY, _LABEL_COMPONENT, *LABELS_AGAINST_INJECTION)
_INSTRUMENTATION = "instrumentation.opentelemetry.io/"
_ANNOTATIONS = [key for key in ANNOTATIONS_AGAINST_INJECTION if not key.startswith(_INSTRUMENTATION)]
LABELS_NOT_TAKEN = rf"^([^/]*\.)?(resource-slack\.io|karpenter\.sh|x-k8s\.io)/|{_any_of(_LABELS)}"
ANNOTATIONS_NOT_TAKEN = (
    r"^([^/]*\.)?(resource-slack\.io|karpenter\.sh|x-k8s\.io|kubernetes\.io)/|"
    rf"^{re.escape(_INSTRUMENTATION)}|{_any_of(_ANNOTATIONS)}"
)
LABEL_TAKEN = (
    "labels: resource-slack.io, karpenter.sh, x-k8s.io, app.kubernetes.io/managed-by and component, and the labels "
    "against sidecars are not the policy's; leave them out"
)
ANNOTATION_TAKEN = (
    "annotations: resource-slack.io, karpenter.sh, x-k8s.io, kubernetes.io, and the annotations against sidecars are "
    "not the policy's; leave them out"
)
SECRET_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
NO_SECRET = "name is the name of a Secret: lower-case letters, digits, - and ."
AnnotationText = Annotated[str, Field(max_length=253)]


class PullSecret(SpecModel):
    """A Secret with which the placeholders' image is pulled."""

    name: str
    """Name of the Secret in the operator's namespace."""

    @model_validator(mode="after")
    def _is_name(self) -> Self:
        if not re.fullmatch(SECRET_NAME, self.name):
            raise ValueError(NO_SECRET)
        return self


class Placeholders(SpecModel):
    """What the pods have beside their room, where admission policies demand it. Pods that are there stay as they are;
    new ones get it. The securityContext is always that of Pod Security's level restricted."""

    labels: Labels = Field(default_factory=dict)
    """Labels of the pods, such as {team: platform}, beside those that the operator needs."""
    annotations: dict[str, AnnotationText] = Field(default_factory=dict)
    """Annotations of the pods, beside those that the operator needs."""
    limits: Literal["None", "Requests"] = "None"
    """Requests: limits equal to the requests, of memory at least 16Mi. Such pods are Guaranteed: where the kubelet has
    the static CPU manager policy, those with whole cores take them for themselves. None: limits only where a resource
    needs them."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets in the operator's namespace with which the image is pulled. Without any, those of the namespace's account
    default."""

    @model_validator(mode="after")
    def _not_ours(self) -> Self:
        for key in self.annotations:
            label_key(key)
        if any(re.search(LABELS_NOT_TAKEN, key) for key in self.labels):
            raise ValueError(LABEL_TAKEN)
        if any(re.search(ANNOTATIONS_NOT_TAKEN, key) for key in self.annotations):
            raise ValueError(ANNOTATION_TAKEN)
        return self
