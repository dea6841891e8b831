"""Placeholders as Kubernetes objects, field by field for a reason.

One ReplicaSet per shape, owned by its policy: the stock controller refills exactly the displaced pods, with the
operator down too (S4). Labels and spec are equal on all its pods, so the autoscaler treats them as one group (R1-1).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from slack.cluster.classes import Requirement, Toleration
from slack.cluster.labels import (
    ANNOTATION_RETIRING,
    ANNOTATION_ROLE,
    ANNOTATION_SPEC,
    LABEL_MANAGED_BY,
    LABEL_PLACEHOLDER,
    LABEL_POLICY,
    LABEL_RESERVED_FOR,
    LABEL_SHAPE,
    LABELS_AGAINST_INJECTION,
    MANAGED_BY,
    PRIORITY_CLASS,
)
from slack.cluster.quantity import format_quantity
from slack.cluster.snapshot import Amounts
from slack.planner.model.shape import Role, Shape
from slack.planner.policy.placeholders import Placeholders
from slack.planner.wanted.mirror_template import label_value

DEFAULT_IMAGE = "registry.k8s.io/pause:3.10"
PLACEHOLDER_USER = 65535
"""The pause image's own, said outright: another image that would run as root is made to run as nobody, too."""
PRIORITY = -10
"""The lowest that the Cluster Autoscaler still scales for (--expendable-pods-priority-cutoff)."""
LONGEST_NAME = 57
"""Pod names add six characters, and a pod's name should stay a DNS label."""
NO_EXTRAS = Placeholders()


def replica_set_name(policy: str, shape: Shape) -> str:
    """Return `slack-<policy>-<shape>`, the policy shortened by a hash where it is long."""
    room = LONGEST_NAME - len("slack--") - len(shape.name)
    plain = policy.replace(".", "-")
    if len(plain) > room or plain != policy:
        plain = f"{plain[: room - 7].rstrip('-')}-{hashlib.sha256(policy.encode()).hexdigest()[:6]}"
    return f"slack-{plain}-{shape.name}"


def _toleration(toleration: Toleration) -> dict[str, str]:
    fields = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in fields.items() if value}


def _requirement(requirement: Requirement) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        expression["values"] = list(requirement.values)
    return expression


def _affinity(shape: Shape) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: dict[str, Any] = {}
    if node_terms := shape.form.node_terms(shape.node_affinity):
        terms = []
        for term in node_terms:
            parts = {
                "matchExpressions": [_requirement(r) for r in term if not r.field],
                "matchFields": [_requirement(r) for r in term if r.field],
            }
            terms.append({name: part for name, part in parts.items() if part})
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
    own = json.loads(shape.anti_affinity) if shape.anti_affinity else []
    if apart := [*own, *shape.form.anti_affinity()]:
        affinity["podAntiAffinity"] = {required: apart}
    if shape.pod_affinity:
        affinity["podAffinity"] = {required: json.loads(shape.pod_affinity)}
    return affinity


def _spread(policy: str, shape: Shape) -> list[dict[str, Any]]:
    hard = json.loads(shape.topology_spread) if shape.topology_spread else []
    hard_keys = {constraint["topologyKey"] for constraint in hard}
    return [*hard, *shape.form.soft_spread({LABEL_POLICY: policy}, hard_keys)]


_LEAST_MEMORY_LIMIT = 16 << 20
"""With less a container runtime may not get the container up."""


def _resources(amounts: Amounts, extras: Placeholders) -> dict[str, dict[str, str]]:
    """Requests only, unless the policy says otherwise: with limits the pod is Guaranteed and may take exclusive cores.

    Extended resources need both.
    """
    requests = {name: format_quantity(name, amount) for name, amount in amounts}
    if extras.limits == "Requests":
        both = {
            name: format_quantity(name, max(amount, _LEAST_MEMORY_LIMIT) if name == "memory" else amount)
            for name, amount in amounts
        }
    else:
        both = {name: text for name, text in requests.items() if "/" in name or name.startswith("hugepages-")}
    return {"requests": requests} | ({"limits": both} if both else {})


def pod_labels(policy: str, shape: Shape) -> dict[str, str]:
    """Return the labels of every placeholder pod of a shape; never the workload's."""
    labels = {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_PLACEHOLDER: "true",
        LABEL_POLICY: policy,
        LABEL_SHAPE: shape.name,
    }
    if shape.reserved_for:
        labels[LABEL_RESERVED_FOR] = label_value(shape.reserved_for)
    return labels | shape.form.labels()


def pod_spec(
    policy: str,
    shape: Shape,
    image: str,
    user: int | None = PLACEHOLDER_USER,
    extras: Placeholders = NO_EXTRAS,
) -> dict[str, Any]:
    """Return the spec of a placeholder pod. It passes Pod Security `restricted`.

    No user is named where the cluster gives one out: OpenShift's restricted SCC refuses any other.
    """
    spec = idle_spec("placeholder", shape.priority_class_name, shape.requests, image, user, extras)
    spec["schedulerName"] = shape.pod_scheduler
    if tolerations := [*(_toleration(t) for t in shape.tolerations), *shape.form.tolerations()]:
        spec["tolerations"] = tolerations
    if spread := _spread(policy, shape):
        spec["topologySpreadConstraints"] = spread
    if shape.node_selector:
        spec["nodeSelector"] = dict(shape.node_selector)
    if affinity := _affinity(shape):
        spec["affinity"] = affinity
    if shape.runtime_class:
        spec["runtimeClassName"] = shape.runtime_class
    return spec


def idle_spec(
    name: str, priority_class_name: str, requests: Amounts, image: str, user: int | None, extras: Placeholders
) -> dict[str, Any]:
    """Return the spec of a pod that only waits."""
    spec: dict[str, Any] = {
        "priorityClassName": priority_class_name,
        "terminationGracePeriodSeconds": 0,  # literally: left out it would be 30, and each preemption would wait
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": extras.security_context.manifest(user),
        "containers": [
            {
                "name": name,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "resources": _resources(requests, extras),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    if extras.image_pull_secrets:  # each once: the API server refuses a name twice
        spec["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(s.name for s in extras.image_pull_secrets)]
    return spec


def replica_set(
    policy: str,
    shape: Shape,
    role: Role,
    replicas: int,
    *,
    namespace: str,
    owner: Mapping[str, Any] | None,
    image: str = DEFAULT_IMAGE,
    user: int | None = PLACEHOLDER_USER,
    extras: Placeholders = NO_EXTRAS,
    retiring: bool = False,
) -> dict[str, Any]:
    """Return the ReplicaSet that keeps `replicas` placeholders of a shape.

    Args:
        policy: its name.
        shape: what each placeholder is.
        role: kept as an annotation, for the next operator.
        replicas: how many.
        namespace: the operator's own; never a tenant's, whose quota the placeholders would use up.
        owner: ownerReference to the SlackPolicy (to the PriorityClass for the built-in policy), so that nothing is left
            when it goes.
        image: of the pause container.
        user: that it runs as; None leaves that to image and cluster.
        extras: what policy and operator give the pods beside their room; no part of the shape, nor of the selector.
        retiring: the shape is being given up; a restarted operator must not take it up again.
    """
    labels = pod_labels(policy, shape)
    metadata: dict[str, Any] = {
        "name": replica_set_name(policy, shape),
        "namespace": namespace,
        "labels": labels,
        "annotations": {ANNOTATION_SPEC: shape.to_json(), ANNOTATION_ROLE: str(role)},
    }
    if retiring:
        metadata["annotations"][ANNOTATION_RETIRING] = "true"
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {LABEL_POLICY: policy, LABEL_SHAPE: shape.name}},
            "template": {
                "metadata": {
                    # Of pods only: who selects our ReplicaSets and pods goes by the others.
                    "labels": extras.labels | labels | LABELS_AGAINST_INJECTION,
                    "annotations": extras.annotations | shape.form.annotations(shape.reserved_for),
                },
                "spec": pod_spec(policy, shape, image, user, extras),
            },
        },
    }


def priority_class() -> dict[str, Any]:
    """Return the PriorityClass of placeholders; never the global default, and its pods preempt nobody.

    A chart that made the class before finds it without Helm's annotations and leaves it out. The annotation here keeps
    Helm from deleting it then.
    """
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {
            "name": PRIORITY_CLASS,
            "labels": {LABEL_MANAGED_BY: MANAGED_BY},
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "value": PRIORITY,
        "globalDefault": False,
        "preemptionPolicy": "Never",
        "description": "Placeholders of resource-slack: every real pod may take their place.",
    }
