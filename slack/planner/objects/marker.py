"""Marker pods: each releases its node from unbound placeholders, where the operator may not label nodes."""

import hashlib
from typing import Any

from slack.cluster.labels import (
    ANNOTATION_DAEMON_POD,
    ANNOTATION_WHY_MARKER,
    ANNOTATIONS_AGAINST_INJECTION,
    LABEL_MANAGED_BY,
    LABEL_RELEASE,
    LABELS_AGAINST_INJECTION,
    MANAGED_BY,
)
from slack.planner.objects.manifests import DEFAULT_IMAGE, LONGEST_NAME, NO_EXTRAS, PLACEHOLDER_USER, idle_spec
from slack.planner.policy.placeholders import Placeholders

_REQUESTS = (("cpu", 1), ("memory", 1 << 20))
"""Both, as a ResourceQuota may ask for them."""
MARKER_SECONDS = 6 * 3600
"""Longer than any release lasts. A marker that is older has been forgotten, and its kubelet ends it."""
WHY_MARKER = (
    "This pod keeps unbound placeholders off its node, so that the autoscaler can take the node away.\n"
    "Real pods are not affected. It goes with the node."
)


def marker_name(node: str) -> str:
    """Return `slack-release-<node>`, shortened by a hash where the node's name is long or no DNS label."""
    room = LONGEST_NAME - len("slack-release-")
    plain = node.replace(".", "-")
    if len(plain) > room or plain != node:
        plain = f"{plain[: room - 7].rstrip('-')}-{hashlib.sha256(node.encode()).hexdigest()[:6]}"
    return f"slack-release-{plain}"


def marker_pod(
    node: str,
    node_uid: str,
    value: str,
    *,
    namespace: str,
    priority_class_name: str,
    image: str = DEFAULT_IMAGE,
    user: int | None = PLACEHOLDER_USER,
    extras: Placeholders = NO_EXTRAS,
) -> dict[str, Any]:
    """Return the pod that releases a node as the label would. It passes Pod Security `restricted`.

    It belongs to its node: it goes with it, and Karpenter and `kubectl drain` look for no other place for it. Cluster
    Autoscaler does so for pods of DaemonSets only, and takes an annotation for one.

    Args:
        node: where it is; no scheduler is asked.
        node_uid: of that node.
        value: as the label would have it.
        namespace: that of the placeholders, whose anti-affinity looks for markers there only.
        priority_class_name: the placeholders'.
        image: of the pause container.
        user: that it runs as; None leaves that to image and cluster.
        extras: what policy and operator give placeholders, as admission policies ask it of every pod.
    """
    spec = idle_spec("marker", priority_class_name, _REQUESTS, image, user, extras)
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_RELEASE: value}
    annotations = {ANNOTATION_WHY_MARKER: WHY_MARKER, ANNOTATION_DAEMON_POD: "true", **ANNOTATIONS_AGAINST_INJECTION}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": marker_name(node),
            "namespace": namespace,
            "labels": extras.labels | labels | LABELS_AGAINST_INJECTION,
            "annotations": extras.annotations | annotations,
            "ownerReferences": [owner],
        },
        "spec": spec
        | {
            "nodeName": node,
            "activeDeadlineSeconds": MARKER_SECONDS,
            "tolerations": [{"operator": "Exists"}],
        },
    }
