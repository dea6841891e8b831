"""What a pod is given so that its containers' starts are gated: a volume, the gate, and a variable for each container.

A pod in, a JSON patch out (RFC 6902), empty where nothing is to be added: applied twice it changes nothing, and a
container that another webhook has added meanwhile is gated the next time. Nothing of a container is changed but its
environment, so images without a shell, probes, commands and Pod Security's level *restricted* are as they were.

The variable is from a file (`fileKeyRef`) that is not there until the gate writes it: the kubelet then cannot create
this one container, and goes on with the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slack.cluster.quantity import QuantityError, thousandths
from slack.throttler.graph import parse_depends_on

Json = dict[str, Any]

GATE: Final = "throttler-gate"
"""The gate's container; who has one is gated."""
VARIABLE: Final = "RESOURCE_SLACK_START_PERMIT"
PERMITS: Final = "throttler-permits"
TOKEN: Final = "throttler-token"  # a volume's name
KEY: Final = "GO"
FOLDER: Final = "/permits"
TOKEN_FOLDER: Final = "/var/run/secrets/throttler"  # a folder
TOKEN_SECONDS: Final = 3600
ENABLED: Final = "throttler.resource-slack.io/enabled"
"""A namespace's label, or a pod's annotation, which may say `false` in such a namespace."""
DEPENDS_ON: Final = "throttler.resource-slack.io/depends-on"
"""A pod's annotation: which of its containers wait for which, `{"app_b": ["app_a"]}`."""
FIRST_DOORBELL_PORT: Final = 7473
NEVER_GATED: Final = "system-node-critical"
_NOBODY = 65532
_SMALL = {"cpu": "1m", "memory": "24Mi"}
_GUARANTEED = {"cpu": "50m", "memory": "32Mi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What every gate of a cluster is told."""

    image: str
    agent_port: int
    agent_name: str
    """What the agents' certificate is for."""
    authority: str
    """PEM of who signs it."""
    fail_open_after_seconds: float = 60.0
    image_pull_policy: str = "IfNotPresent"


def exempt(pod: Mapping[str, Any]) -> str | None:
    """Say why a pod is never gated; None where it can be."""
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if str(annotations.get(ENABLED, "")).lower() == "false":
        return f"its annotation {ENABLED} is false"
    if spec.get("priorityClassName") == NEVER_GATED:
        return f"its priority class is {NEVER_GATED}"
    if spec.get("hostNetwork"):
        return "it is on its node's network, where the gate's port might be another's"
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        return "it is not for Linux"
    return None


def patch(pod: Mapping[str, Any], options: GateOptions) -> list[Json]:
    """Return what is to be added to a pod as it is sent to the API server; nothing for one that is exempt.

    Raises:
        BadGraph: its annotation names what is not there, or a cycle.
    """
    if exempt(pod) is not None:
        return []
    spec = pod.get("spec") or {}
    containers = [container for container in spec.get("containers") or () if container.get("name")]
    if not containers:
        return []
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(DEPENDS_ON)
    if text is not None:
        parse_depends_on(text, [container["name"] for container in containers])
    operations: list[Json] = []
    _append(operations, "/spec/volumes", spec.get("volumes"), _volumes())
    _gate(operations, spec, [container["name"] for container in containers], options)
    for place, container in enumerate(spec["containers"]):
        if container.get("name"):
            path = f"/spec/containers/{place}/env"
            _append(operations, path, container.get("env"), [variable(container["name"])])
    return operations


def variable(container: str) -> Json:
    """Return the environment variable that holds a container back until its permit is there."""
    reference = {"volumeName": PERMITS, "path": f"{container}.env", "key": KEY, "optional": False}
    return {"name": VARIABLE, "valueFrom": {"fileKeyRef": reference}}


def gated(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has a gate."""
    return any(entry.get("name") == GATE for entry in (pod.get("spec") or {}).get("initContainers") or ())


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
    for at, entry in enumerate(there[place].get("env") or ()):
        if entry.get("name") == "THROTTLER_CONTAINERS" and set(entry.get("value", "").split(",")) != set(names):
            path = f"/spec/initContainers/{place}/env/{at}/value"
            operations.append({"op": "replace", "path": path, "value": ",".join(names)})


def gate_container(spec: Mapping[str, Any], names: Sequence[str], options: GateOptions) -> Json:
    """Return the gate of a pod with these containers."""
    port = _free_port(spec)
    container: Json = {
        "name": GATE,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "restartPolicy": "Always",
        "command": ["python", "-P", "-m", "slack_operator.throttler.gate"],
        "env": [
            {"name": "THROTTLER_AGENT_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "THROTTLER_AGENT_PORT", "value": str(options.agent_port)},
            {"name": "THROTTLER_AGENT_NAME", "value": options.agent_name},
            {"name": "THROTTLER_AGENT_CA", "value": options.authority},
            {"name": "THROTTLER_CONTAINERS", "value": ",".join(names)},
            {"name": "THROTTLER_FAIL_OPEN_AFTER", "value": f"{options.fail_open_after_seconds:g}"},
            {"name": "THROTTLER_DOORBELL_PORT", "value": str(port)},
        ],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": port},
            "periodSeconds": 1,
            "failureThreshold": 1,
            "successThreshold": 1,
        },
        "securityContext": _security(spec),
        "volumeMounts": [
            {"name": PERMITS, "mountPath": FOLDER},
            {"name": TOKEN, "mountPath": TOKEN_FOLDER, "readOnly": True},
        ],
    }
    resources = _resources(spec)
    return container | ({"resources": resources} if resources else {})


def _volumes() -> list[Json]:
    token = {"audience": "throttler", "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    return [
        {"name": PERMITS, "emptyDir": {}},
        {"name": TOKEN, "projected": {"sources": [{"serviceAccountToken": token}]}},
    ]


def _security(spec: Mapping[str, Any]) -> Json:
    root = (spec.get("securityContext") or {}).get("runAsUser") == 0
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        # the image's own user, but where the pod's would take its place
        **({"runAsUser": _NOBODY} if root else {}),
    }


def _resources(spec: Mapping[str, Any]) -> Json:
    """Return what keeps the pod in its class of quality of service."""
    if spec.get("resources"):
        return {}  # of the pod as a whole
    every = [
        entry.get("resources") or {} for kind in ("containers", "initContainers") for entry in spec.get(kind) or ()
    ]
    if not any(resources.get("requests") or resources.get("limits") for resources in every):
        return {}
    if all(_is_guaranteed(resources) for resources in every):
        return {"requests": dict(_GUARANTEED), "limits": dict(_GUARANTEED)}
    return {"requests": dict(_SMALL)}


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        kind in limits and _same(str(requests.get(kind, limits[kind])), str(limits[kind])) for kind in ("cpu", "memory")
    )


def _same(left: str, right: str) -> bool:
    try:
        return thousandths(left) == thousandths(right)
    except QuantityError:  # the API server says what is wrong with it
        return left == right


def _free_port(spec: Mapping[str, Any]) -> int:
    taken = {
        port.get("containerPort")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for port in container.get("ports") or ()
    }
    return next(port for port in range(FIRST_DOORBELL_PORT, 65_536) if port not in taken)
