"""What is written for buffers: the ReplicaSet that holds a buffer's chunks, and the probe.

The ReplicaSet lives in our namespace, so that the tenant's quotas, webhooks and NetworkPolicies do not see it. It
carries the buffer's uid, as an owner of another namespace is none.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from slack.capacity_buffers.api import GROUP, KIND, CapacityBuffer
from slack.capacity_buffers.probing import PROBE_NAME
from slack.cluster.labels import (
    ANNOTATION_BUFFER,
    ANNOTATION_BUFFER_CREATED,
    ANNOTATION_WHY_PENDING,
    LABEL_BUFFER,
    LABEL_MANAGED_BY,
    LABEL_PLACEHOLDER,
    LABEL_SHAPE,
    LABELS_AGAINST_INJECTION,
    MANAGED_BY,
)
from slack.planner.model.shape import Shape
from slack.planner.objects.decide import stamped
from slack.planner.objects.manifests import LONGEST_NAME, pod_spec
from slack.planner.policy.placeholders import Placeholders

Json = dict[str, Any]


def buffer_set_name(namespace: str, name: str, uid: str, shape: Shape) -> str:
    """Return `cb-<namespace>-<name>-<hash>-<shape>`, shortened where it is long; another uid is another name."""
    mark = hashlib.sha256(uid.encode()).hexdigest()[:6]
    room = LONGEST_NAME - len("cb---") - len(mark) - len(shape.name)
    plain = f"{namespace}-{name}".replace(".", "-")[:room].rstrip("-")
    return f"cb-{plain}-{mark}-{shape.name}"


def buffer_set(
    buffer: CapacityBuffer,
    shape: Shape,
    *,
    namespace: str,
    owner: Mapping[str, Any] | None,
    image: str,
    user: int | None,
    extras: Placeholders,
) -> Json:
    """Return the ReplicaSet of a buffer's chunks, stamped with its digest, without a count.

    Args:
        buffer: whose chunks these are.
        shape: of a chunk.
        namespace: the operator's own.
        owner: ownerReference to our PriorityClass, so that nothing is left when that goes.
        image: of the pause container.
        user: that it runs as; None leaves that to image and cluster.
        extras: what the operator gives all placeholders.
    """
    name, uid = buffer.metadata.name, buffer.uid
    labels = {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_PLACEHOLDER: "true",
        LABEL_BUFFER: uid,
        LABEL_SHAPE: shape.name,
    } | shape.form.labels()
    own = {ANNOTATION_WHY_PENDING: _why_pending(buffer.namespace, name)}
    if (created := buffer.metadata.creation_timestamp) is not None:
        own[ANNOTATION_BUFFER_CREATED] = created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = extras.annotations | shape.form.annotations(shape.reserved_for) | own
    metadata: Json = {
        "name": buffer_set_name(buffer.namespace, name, uid, shape),
        "namespace": namespace,
        "labels": labels,
        "annotations": {ANNOTATION_BUFFER: buffer.name},
    }
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return stamped(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {LABEL_BUFFER: uid, LABEL_SHAPE: shape.name}},
                "template": {
                    "metadata": {
                        "labels": extras.labels | labels | LABELS_AGAINST_INJECTION,
                        "annotations": annotations,
                    },
                    "spec": pod_spec("", shape, image, user, extras),
                },
            },
        }
    )


def _why_pending(namespace: str, name: str) -> str:
    return (
        "Pending on purpose. This is not an error, and nothing has to be done: this pod never runs.\n"
        f"It keeps capacity free for CapacityBuffer {namespace}/{name}.\n"
        f"Whether the capacity is there: kubectl get capacitybuffer -n {namespace} {name}"
    )


def with_count(manifest: Json, replicas: int) -> Json:
    """Return a manifest with its count."""
    return {**manifest, "spec": {**manifest["spec"], "replicas": replicas}}


def probe_template(namespace: str, owner: Mapping[str, Any] | None, image: str) -> Json:
    """Return the PodTemplate of the probe; no pod is ever made of it."""
    requests = {"cpu": "1m", "memory": "1Mi"}
    containers = [{"name": "probe", "image": image, "resources": {"requests": requests, "limits": requests}}]
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _probe_metadata(namespace, owner),
        "template": {"metadata": {"labels": {LABEL_MANAGED_BY: MANAGED_BY}}, "spec": {"containers": containers}},
    }


def probe_buffer(version: str, namespace: str, owner: Mapping[str, Any] | None) -> Json:
    """Return the probe: a buffer of no chunk."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": KIND,
        "metadata": _probe_metadata(namespace, owner),
        "spec": {"podTemplateRef": {"name": PROBE_NAME}, "replicas": 0},
    }


def _probe_metadata(namespace: str, owner: Mapping[str, Any] | None) -> Json:
    metadata: Json = {"name": PROBE_NAME, "namespace": namespace, "labels": {LABEL_MANAGED_BY: MANAGED_BY}}
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return metadata
