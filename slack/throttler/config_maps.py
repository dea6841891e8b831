"""Permits in ConfigMaps, for Kubernetes before 1.35: one for each pod, a key for each of its containers.

Only what is written is here. A pod's annotation says which ConfigMap is its own, and who may make pods may say so too:
so nothing is ever written into a ConfigMap that has not our label, and a pod is changed only if it is the one that was
meant. Keys stay once they are there, and with them restarts are free. The ConfigMap goes with its pods.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slack.cluster.labels import LABEL_MANAGED_BY, THROTTLER_FIELD_MANAGER

Json = dict[str, Any]

PREFIX: Final = "permits-"
PERMITTED_AT: Final = "throttler.resource-slack.io/permitted-at"
"""A pod's annotation, whose change has its kubelet look at once: else it does every ten seconds or so."""
GO: Final = "true"
_NAME: Final = re.compile(rf"{PREFIX}[0-9a-z]([-0-9a-z]{{0,61}}[0-9a-z])?")


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod on a node, some of whose containers may wait for keys."""

    uid: str
    namespace: str
    name: str
    node: str
    config_map: str
    containers: tuple[str, ...]


def name_for(review: str) -> str:
    """Return the name of the ConfigMap of a pod that is being made, by the uid of the API server's review."""
    return f"{PREFIX}{review}"


def is_name(text: str) -> bool:
    """Whether a ConfigMap of ours may be called so."""
    return _NAME.fullmatch(text) is not None


def manifest(pod: HeldPod, containers: Sequence[str]) -> Json:
    """Return the ConfigMap that lets these containers start."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": pod.config_map,
            "namespace": pod.namespace,
            "labels": {LABEL_MANAGED_BY: THROTTLER_FIELD_MANAGER},
            "ownerReferences": [_owner(pod)],
        },
        "data": dict.fromkeys(containers, GO),
    }


def additions(pod: HeldPod, containers: Sequence[str], *, owned: bool) -> list[Json]:
    """Return the JSON patch that lets further containers start, of a ConfigMap of ours.

    Args:
        pod: whose containers they are.
        containers: their names.
        owned: it is to be this pod's; if not, the pod is made one of its owners, as a copy of another pod must be.
    """
    label = LABEL_MANAGED_BY.replace("/", "~1")
    whose: Json = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": pod.uid}
    if not owned:
        whose = {"op": "add", "path": "/metadata/ownerReferences/-", "value": _owner(pod)}
    return [
        {"op": "test", "path": f"/metadata/labels/{label}", "value": THROTTLER_FIELD_MANAGER},
        whose,
        *({"op": "add", "path": f"/data/{container}", "value": GO} for container in containers),
    ]


def poke(pod: HeldPod, at: str) -> list[Json]:
    """Return the JSON patch of a pod that has its kubelet look at it, and of no other pod that has its name by now.

    Args:
        pod: the one that was meant.
        at: a time, other than that before.
    """
    annotation = PERMITTED_AT.replace("/", "~1")
    return [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "add", "path": f"/metadata/annotations/{annotation}", "value": at},
    ]


def _owner(pod: HeldPod) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
