"""What admission policies of a cluster demand of placeholders, beside what a shape is.

None of it says which room a placeholder holds, so none of it is in a shape's name. What would change which room it
holds, who may displace it, or its Pod Security level is refused, or cannot be said.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from slack.cluster.labels import ANNOTATIONS_AGAINST_INJECTION, LABEL_MANAGED_BY, LABELS_AGAINST_INJECTION
from slack.planner.policy.fields import WHOLE
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
LOCAL_PROFILE = "localhostProfile names a profile on the nodes: type Localhost needs it, RuntimeDefault takes none"
AnnotationText = Annotated[str, Field(max_length=253)]
_Id = Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE]
"""Of a user or a group; 0, root's, is not taken."""


class PullSecret(SpecModel):
    """A Secret with which the placeholders' image is pulled."""

    name: str
    """Name of the Secret in the operator's namespace."""

    @model_validator(mode="after")
    def _is_name(self) -> Self:
        if not re.fullmatch(SECRET_NAME, self.name):
            raise ValueError(NO_SECRET)
        return self


class SecurityProfile(SpecModel):
    """A profile of seccomp or AppArmor."""

    type: Literal["RuntimeDefault", "Localhost"] = "RuntimeDefault"
    """RuntimeDefault: that of the container runtime. Localhost: one on the nodes."""
    localhost_profile: str = ""
    """Localhost: the profile's path or name on the nodes."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.type == "Localhost") != bool(self.localhost_profile):
            raise ValueError(LOCAL_PROFILE)
        return self

    def manifest(self) -> dict[str, str]:
        """Return it as pods have it."""
        return self.model_dump(by_alias=True, exclude_defaults=True) | {"type": self.type}


class PodSecurity(SpecModel):
    """What of a pod's securityContext an admission policy may want otherwise. Nothing of it leaves Pod Security's level
    restricted; the rest of the securityContext stays as it is."""

    run_as_user: _Id | None = None
    """Number of the user, where an admission policy has a range; wins over the chart's operator.placeholderUser."""
    run_as_group: _Id | None = None
    """Number of the group; without it that of the user."""
    fs_group: _Id | None = None
    """Number of the group that would own volumes; placeholders have none, but some admission policies want it."""
    supplemental_groups: tuple[_Id, ...] = ()
    """Numbers of further groups."""
    seccomp_profile: SecurityProfile | None = None
    """The profile of seccomp; without it RuntimeDefault."""
    app_armor_profile: SecurityProfile | None = None
    """The profile of AppArmor; without it what the node does. Needs Kubernetes 1.30."""

    def manifest(self, user: int | None) -> dict[str, Any]:
        """Return a pod's securityContext.

        Args:
            user: whom it runs as where no number is given; None names nobody.
        """
        user = user if self.run_as_user is None else self.run_as_user
        given = {
            "runAsUser": user,
            "runAsGroup": user if self.run_as_group is None else self.run_as_group,
            "fsGroup": self.fs_group,
            "supplementalGroups": list(dict.fromkeys(self.supplemental_groups)) or None,
            "seccompProfile": (self.seccomp_profile or SecurityProfile()).manifest(),
            "appArmorProfile": None if self.app_armor_profile is None else self.app_armor_profile.manifest(),
        }
        return {"runAsNonRoot": True} | {name: value for name, value in given.items() if value is not None}


class Placeholders(SpecModel):
    """What the pods have beside their room, where admission policies demand it. Pods that are there stay as they are;
    new ones get it. The chart's operator.placeholders has the same fields for all policies: labels, annotations,
    secrets and fields of the securityContext are added to those, and win over them; limits replace them."""

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
    security_context: PodSecurity = PodSecurity()
    """Users, groups and profiles that an admission policy wants; the pods always keep Pod Security's level
    restricted."""

    @model_validator(mode="after")
    def _not_ours(self) -> Self:
        for key in self.annotations:
            label_key(key)
        if any(re.search(LABELS_NOT_TAKEN, key) for key in self.labels):
            raise ValueError(LABEL_TAKEN)
        if any(re.search(ANNOTATIONS_NOT_TAKEN, key) for key in self.annotations):
            raise ValueError(ANNOTATION_TAKEN)
        return self

    def added_to(self, defaults: "Placeholders") -> "Placeholders":
        """Return what the pods of a policy get.

        1. Labels, annotations and fields of the securityContext: both, the policy's where both name one.
        2. Secrets: both; the kubelet tries each.
        3. Limits: the policy's where it names them.
        """
        security = {name: getattr(self.security_context, name) for name in self.security_context.model_fields_set}
        return defaults.model_copy(
            update={
                "labels": defaults.labels | self.labels,
                "annotations": defaults.annotations | self.annotations,
                "limits": self.limits if "limits" in self.model_fields_set else defaults.limits,
                "image_pull_secrets": tuple(dict.fromkeys((*defaults.image_pull_secrets, *self.image_pull_secrets))),
                "security_context": defaults.security_context.model_copy(update=security),
            }
        )
