"""Warm pods: each pulls one image on one node, ends at once, and is deleted."""

import base64
import hashlib
from typing import Any

from slack.cluster.labels import (
    ANNOTATION_DAEMON_POD,
    ANNOTATION_WHY_MARKER,
    ANNOTATIONS_AGAINST_INJECTION,
    LABEL_MANAGED_BY,
    LABEL_WARM,
    LABELS_AGAINST_INJECTION,
    MANAGED_BY,
)
from slack.planner.objects.manifests import NO_EXTRAS, PLACEHOLDER_USER, idle_spec
from slack.planner.policy.placeholders import Placeholders
from slack.planner.warm.choice import ImagePullOrder
from slack.planner.warm.program import ARCHITECTURES, exit_program

PROGRAM_MAP = "resource-slack-warm"
"""The ConfigMap with the program, a file for each processor."""
_FOLDER = "/resource-slack-warm"
_REQUESTS = (("cpu", 1), ("memory", 1 << 20))
"""Both, as a ResourceQuota may ask for them."""
LONGEST_SECONDS = 1800
"""A pull that takes longer is given up: the kubelet ends the pod."""
WHY_WARM = (
    "This pod pulls an image before the pods that need it arrive. It runs nothing of the image and ends at once.\n"
    "spec.warm of the SlackPolicy asks for it."
)


def warm_name(node: str, image: str) -> str:
    """Return `slack-warm-` with a hash of node and image: the same pull has the same name."""
    return f"slack-warm-{hashlib.sha256(f'{node} {image}'.encode()).hexdigest()[:16]}"


def program_map(namespace: str) -> dict[str, Any]:
    """Return what is applied to the ConfigMap, which the chart makes: the program for each processor."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROGRAM_MAP, "namespace": namespace},
        "binaryData": {name: base64.b64encode(exit_program(name)).decode() for name in sorted(ARCHITECTURES)},
    }


def warm_pod(
    order: ImagePullOrder,
    node_uid: str,
    *,
    namespace: str,
    priority_class_name: str,
    pull_secrets: tuple[str, ...] = (),
    user: int | None = PLACEHOLDER_USER,
    extras: Placeholders = NO_EXTRAS,
) -> dict[str, Any]:
    """Return the pod that pulls an image on a node. It passes Pod Security `restricted`.

    It belongs to its node, as a DaemonSet's pod does: it goes with it, autoscalers look for no other place for it, and
    no plan counts it as a real pod. It never restarts, and a failed pull ends with its deadline at the latest.

    Args:
        order: image and node.
        node_uid: of the node.
        namespace: the operator's.
        priority_class_name: the placeholders'.
        pull_secrets: Secrets in the namespace.
        user: that it runs as; None leaves that to the cluster.
        extras: what policy and operator give placeholders, as admission policies ask it of every pod.
    """
    spec = idle_spec("pull", priority_class_name, _REQUESTS, order.image, user, extras)
    container = spec["containers"][0] | {
        "command": [f"{_FOLDER}/exit"],
        "workingDir": "/",  # the image's own may be closed to this user
        "volumeMounts": [{"name": "program", "mountPath": _FOLDER, "readOnly": True}],
    }
    program = {
        "name": PROGRAM_MAP,
        "defaultMode": 0o555,
        "items": [{"key": order.architecture, "path": "exit"}],
    }
    secrets = [{"name": name} for name in pull_secrets]
    owner = {"apiVersion": "v1", "kind": "Node", "name": order.node, "uid": node_uid, "controller": True}
    annotations = {ANNOTATION_WHY_MARKER: WHY_WARM, ANNOTATION_DAEMON_POD: "true", **ANNOTATIONS_AGAINST_INJECTION}
    labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_WARM: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": warm_name(order.node, order.image),
            "namespace": namespace,
            "labels": extras.labels | labels | LABELS_AGAINST_INJECTION,
            "annotations": extras.annotations | annotations,
            "ownerReferences": [owner],
        },
        "spec": spec
        | {
            "restartPolicy": "Never",
            "nodeName": order.node,
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "program", "configMap": program}],
            **({"imagePullSecrets": [*spec.get("imagePullSecrets", ()), *secrets]} if secrets else {}),
        },
    }
