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
from slack.throttler.injection import PERMITS_IN

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
    whose: Json = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": pod.uid}
    if not owned:
        whose = {"op": "add", "path": "/metadata/ownerReferences/-", "value": _owner(pod)}
    return [
        {"op": "test", "path": f"/metadata/labels/{_escaped(LABEL_MANAGED_BY)}", "value": THROTTLER_FIELD_MANAGER},
        whose,
        *({"op": "add", "path": f"/data/{_escaped(container)}", "value": GO} for container in containers),
    ]


def poke(pod: HeldPod, at: str, *, proves: bool = False) -> list[Json]:
    """Return the JSON patch of a pod that has its kubelet look at it, and of no other pod that has its name by now.

    Args:
        pod: the one that was meant.
        at: a time, other than that before.
        proves: it also fails where the pod is on another node, or its permits are in another ConfigMap.
    """
    tests = {"/metadata/uid": pod.uid}
    if proves:
        tests |= {"/spec/nodeName": pod.node, f"/metadata/annotations/{_escaped(PERMITS_IN)}": pod.config_map}
    return [
        *({"op": "test", "path": path, "value": value} for path, value in tests.items()),
        {"op": "add", "path": f"/metadata/annotations/{_escaped(PERMITTED_AT)}", "value": at},
    ]


def _escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _owner(pod: HeldPod) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
