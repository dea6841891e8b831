"""What a pod is given so that its containers' starts are gated: a volume, the gate, and a variable for each container.

A pod in, a JSON patch out (RFC 6902), empty where nothing is to be added: applied twice it changes nothing, and a
container that another webhook has added meanwhile is gated the next time. Nothing of a container is changed but its
environment, so images without a shell, probes, commands and Pod Security's level *restricted* are as they were.

The variable is from a file (`fileKeyRef`) that is not there until the gate writes it, or from a ConfigMap's key that is
not there until the controller does: the kubelet then cannot create this one container, and goes on with the others.
What a user has under a name of ours is never written over: such a pod is refused, with the field. What another webhook
has lost of ours is put back: one that is built with an older API writes pods without the fields that it does not know,
such as a sidecar's restartPolicy (amazon-eks-pod-identity-webhook 208) and fileKeyRef.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from slack.cluster.labels import ANNOTATION_STATIC_POD, OS
from slack.errors import InvalidInput
from slack.throttler.graph import parse_depends_on
from slack.throttler.podspec.gate_container import (
    FIRST_DOORBELL_PORT,
    GATE,
    PERMITS,
    TOKEN,
    TOLD,
    GateOptions,
    free_port,
    gate_container,
    volumes,
)
from slack.throttler.podspec.shape import check
from slack.throttler.protocol import AUDIENCE, MAX_POD_CONTAINERS

__all__ = [
    "DEPENDS_ON",
    "ENABLED",
    "FIRST_DOORBELL_PORT",
    "GATE",
    "KEY",
    "NEVER_GATED",
    "NOT_GATED",
    "PERMITS",
    "PERMITS_IN",
    "TOKEN",
    "VARIABLE",
    "Backend",
    "GateOptions",
    "NameTaken",
    "exempt",
    "gate_container",
    "gated",
    "patch",
    "patch_by_config_map",
    "variable",
    "variable_by_config_map",
]

Json = dict[str, Any]

VARIABLE: Final = "RESOURCE_SLACK_START_PERMIT"
KEY: Final = "GO"
ENABLED: Final = "throttler.resource-slack.io/enabled"
"""A namespace's label, or a pod's annotation, which may say `false` in such a namespace."""
DEPENDS_ON: Final = "throttler.resource-slack.io/depends-on"
"""A pod's annotation: which of its containers wait for which, `{"app_b": ["app_a"]}`."""
PERMITS_IN: Final = "throttler.resource-slack.io/permits"
"""A pod's annotation, of the webhook's: the ConfigMap that has its permits, a key a container."""
NOT_GATED: Final = "throttler.resource-slack.io/not-gated"
"""A pod's annotation, of the chart's admission policy: why its gate was taken away again."""
NEVER_GATED: Final = "system-node-critical"
_LINUX: Final = "linux"
_SYSTEM_LABELS: Final = (OS, "beta.kubernetes.io/os")
_REQUIRED_NODES: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Backend(StrEnum):
    """Where permits are."""

    FILE = "file"
    """In the pod, written by its gate; the API server and kubelets of Kubernetes 1.35 and newer know such variables."""
    CONFIGMAP = "configmap"
    """In a ConfigMap, written by the controller; for any version."""


class NameTaken(InvalidInput):
    """A pod has something of its own under a name of ours; each problem names the field."""


def exempt(pod: Mapping[str, Any]) -> str | None:
    """Say why a pod is never gated; None where it can be.

    Raises:
        InvalidManifest: the pod is none.
    """
    check(pod)
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if annotations.get(ENABLED, "").lower() == "false":
        return f"its annotation {ENABLED} is false"
    if ANNOTATION_STATIC_POD in annotations:
        return "it is the API server's copy of a static pod, which starts from its own file"
    if spec.get("priorityClassName") == NEVER_GATED:
        return f"its priority class is {NEVER_GATED}"
    if spec.get("hostNetwork"):
        return "it is on its node's network, where the gate's port might be another's"
    if _is_for_another_system(spec):
        return "it is not for Linux"
    if len(spec.get("containers") or ()) > MAX_POD_CONTAINERS:
        return f"it has more than {MAX_POD_CONTAINERS} containers"
    if free_port(spec) is None:
        return f"its containers name every port from {FIRST_DOORBELL_PORT} on"
    return None


def _is_for_another_system(spec: Mapping[str, Any]) -> bool:
    """Whether a pod can run on no Linux node: `spec.os` says so, or the nodes that it selects. Many say only these."""
    told = (spec.get("os") or {}).get("name") or _selected_system(spec.get("nodeSelector") or {})
    if told is not None:
        return bool(told != _LINUX)
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED_NODES) or {}
    terms = required.get("nodeSelectorTerms") or ()
    return bool(terms) and all(_leaves_linux_out(term) for term in terms)


def _selected_system(selector: Mapping[str, Any]) -> str | None:
    return next((selector[label] for label in _SYSTEM_LABELS if label in selector), None)


def _leaves_linux_out(term: Mapping[str, Any]) -> bool:
    for asked in term.get("matchExpressions") or ():
        if asked.get("key") in _SYSTEM_LABELS:
            listed = _LINUX in (asked.get("values") or ())
            if (asked.get("operator") == "In" and not listed) or (asked.get("operator") == "NotIn" and listed):
                return True
    return False


def patch(pod: Mapping[str, Any], options: GateOptions) -> list[Json]:
    """Return what is to be added to a pod as it is sent to the API server; nothing for one that is exempt.

    Raises:
        InvalidManifest: the pod is none.
        InvalidGraph: its annotation names what is not there, or a cycle.
        NameTaken: it has something else under a name of ours.
    """
    names = _names(pod)
    if not names:
        return []
    spec = pod["spec"]
    _refuse(
        [
            *_foreign_volumes(spec),
            *_foreign_gate(spec),
            *_foreign_variables(spec, lambda name: variable(name)["valueFrom"]),
        ]
    )
    operations: list[Json] = []
    _append(operations, "/spec/volumes", spec.get("volumes"), volumes())
    _gate(operations, spec, names, options)
    _variables(operations, spec, variable)
    return operations


def patch_by_config_map(pod: Mapping[str, Any], config_map: str) -> list[Json]:
    """Return what makes a pod wait for keys of a ConfigMap: a variable for each container, and the ConfigMap's name.

    Args:
        pod: as it is sent to the API server.
        config_map: to be made by the controller; a pod that has been given one keeps that.

    Raises:
        InvalidManifest, InvalidGraph, NameTaken: as for `patch`.
    """
    names = _names(pod)
    if not names:
        return []
    annotations = (pod.get("metadata") or {}).get("annotations")
    named = (annotations or {}).get(PERMITS_IN)
    config_map = named or config_map
    spec = pod["spec"]
    problems = _foreign_variables(spec, lambda name: variable_by_config_map(name, config_map)["valueFrom"])
    if named is not None and not any(
        entry.get("name") == VARIABLE for container in spec["containers"] for entry in container.get("env") or ()
    ):
        problems.append(f"metadata.annotations[{PERMITS_IN}]: is the throttler's own; leave it out")
    _refuse(problems)
    operations: list[Json] = []
    if named is None:
        escaped = PERMITS_IN.replace("/", "~1")
        operations.append(
            {"op": "add", "path": f"/metadata/annotations/{escaped}", "value": config_map}
            if annotations
            else {"op": "add", "path": "/metadata/annotations", "value": {PERMITS_IN: config_map}}
        )
    _variables(operations, spec, lambda name: variable_by_config_map(name, config_map))
    return operations


def variable(container: str) -> Json:
    """Return the environment variable that holds a container back until its permit is there."""
    reference = {"volumeName": PERMITS, "path": f"{container}.env", "key": KEY, "optional": False}
    return {"name": VARIABLE, "valueFrom": {"fileKeyRef": reference}}


def variable_by_config_map(container: str, config_map: str) -> Json:
    """Return the same for a permit that is a ConfigMap's key, the container's name."""
    return {
        "name": VARIABLE,
        "valueFrom": {"configMapKeyRef": {"name": config_map, "key": container, "optional": False}},
    }


def gated(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has a gate."""
    return any(entry.get("name") == GATE for entry in (pod.get("spec") or {}).get("initContainers") or ())


def _names(pod: Mapping[str, Any]) -> list[str]:
    """Return the containers to gate; none where the pod is exempt, or where one has no name, which is refused later."""
    if exempt(pod) is not None:
        return []
    names = [container.get("name") or "" for container in (pod.get("spec") or {}).get("containers") or ()]
    if not all(names):
        return []
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(DEPENDS_ON)
    if text is not None:
        init = [str(entry.get("name") or "") for entry in (pod.get("spec") or {}).get("initContainers") or ()]
        parse_depends_on(text, names, init)
    return names


def _variables(operations: list[Json], spec: Mapping[str, Any], wanted: Any) -> None:
    for place, container in enumerate(spec["containers"]):
        path, ours = f"/spec/containers/{place}/env", wanted(container["name"])
        _append(operations, path, container.get("env"), [ours])
        operations += [
            {"op": "replace", "path": f"{path}/{at}", "value": ours}
            for at, entry in enumerate(container.get("env") or ())
            if entry.get("name") == VARIABLE and _is_emptied(entry)
        ]


def _is_emptied(entry: Mapping[str, Any]) -> bool:
    """Whether another webhook has written a variable without its source, which it does not know."""
    return not entry.get("value") and not any((entry.get("valueFrom") or {}).values())


def _append(operations: list[Json], path: str, there: Sequence[Json] | None, wanted: Iterable[Json]) -> None:
    """Add those whose names are not there yet."""
    names = {entry.get("name") for entry in there or ()}
    missing = [entry for entry in wanted if entry["name"] not in names]
    if missing and not there:
        operations.append({"op": "add", "path": path, "value": missing})
    else:
        operations += [{"op": "add", "path": f"{path}/-", "value": entry} for entry in missing]


def _gate(operations: list[Json], spec: Mapping[str, Any], names: Sequence[str], options: GateOptions) -> None:
    there = spec.get("initContainers") or []
    place = next((at for at, entry in enumerate(there) if entry.get("name") == GATE), None)
    if place is None:
        container = gate_container(spec, names, options)
        operations.append(
            # the first: what comes before it would be waited for before it begins
            {"op": "add", "path": "/spec/initContainers/0", "value": container}
            if there
            else {"op": "add", "path": "/spec/initContainers", "value": [container]}
        )
        return
    if (
        there[place].get("restartPolicy") is None
    ):  # as an init container that has to end, it would hold the pod for ever
        operations.append({"op": "add", "path": f"/spec/initContainers/{place}/restartPolicy", "value": "Always"})
    for at, entry in enumerate(there[place].get("env") or ()):
        if entry.get("name") == TOLD and set((entry.get("value") or "").split(",")) != set(names):
            path = f"/spec/initContainers/{place}/env/{at}/value"
            operations.append({"op": "replace", "path": path, "value": ",".join(names)})


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise NameTaken(tuple(problems))


def _foreign_volumes(spec: Mapping[str, Any]) -> list[str]:
    """Say which volumes have our names and are not ours; a user may bound the size of ours."""
    problems = []
    for at, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("name") == PERMITS and volume.get("emptyDir") is None:
            problems.append(f"spec.volumes[{at}].name: {PERMITS} is the throttler's own, an emptyDir; use another")
        if volume.get("name") == TOKEN and not any(
            (source.get("serviceAccountToken") or {}).get("audience") == AUDIENCE
            for source in (volume.get("projected") or {}).get("sources") or ()
        ):
            problems.append(f"spec.volumes[{at}].name: {TOKEN} is the throttler's own; use another")
    return problems


def _foreign_gate(spec: Mapping[str, Any]) -> list[str]:
    problems = [
        f"spec.containers[{at}].name: {GATE} is the throttler's own; use another"
        for at, container in enumerate(spec["containers"])
        if container.get("name") == GATE
    ]
    for at, container in enumerate(spec.get("initContainers") or ()):
        ours = container.get("restartPolicy") in ("Always", None) and any(
            entry.get("name") == TOLD for entry in container.get("env") or ()
        )
        if container.get("name") == GATE and not ours:
            problems.append(f"spec.initContainers[{at}].name: {GATE} is the throttler's own; use another")
    return problems


def _foreign_variables(spec: Mapping[str, Any], ours: Any) -> list[str]:
    return [
        f"spec.containers[{at}].env[{place}].name: {VARIABLE} is the throttler's own; leave it out"
        for at, container in enumerate(spec["containers"])
        for place, entry in enumerate(container.get("env") or ())
        if entry.get("name") == VARIABLE
        and not _is_emptied(entry)
        and not _same_source(entry.get("valueFrom"), ours(container["name"]))
    ]


def _same_source(there: Any, ours: Json) -> bool:
    """Whether a variable has the source that ours has; `optional: false` may be left out."""
    (kind, reference), *_ = ours.items()
    found = (there or {}).get(kind) or {}
    return bool({"optional": False, **found} == reference)
