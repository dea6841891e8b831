"""The gate's container: what it is told, and how its pod keeps its security level and class of quality of service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slack.cluster.quantity import QuantityError, thousandths

Json = dict[str, Any]

GATE: Final = "throttler-gate"
"""The gate's container; who has one is gated."""
PERMITS: Final = "throttler-permits"
TOKEN: Final = "throttler-token"  # a volume's name
FOLDER: Final = "/permits"
TOKEN_FOLDER: Final = "/var/run/secrets/throttler"  # a folder
TOKEN_SECONDS: Final = 3600
TOLD: Final = "THROTTLER_CONTAINERS"
"""The variable of the gate with the names of those that it asks for."""
FIRST_DOORBELL_PORT: Final = 7473
PROBE_SECONDS: Final = 5
"""A gate on a node that is short of CPU answers late, and one late answer would make a pod that runs unready."""
_NOBODY = 65532
_REQUESTS = {"cpu": "10m", "memory": "32Mi"}
"""The least that LimitRanges commonly ask of a container."""
_LIMITS = {"cpu": "100m", "memory": "32Mi"}
"""Of each resource that all of the pod's own containers limit."""
_GUARANTEED = {"cpu": "50m", "memory": "32Mi"}
_PORTS = 65_536


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
    requests: Mapping[str, str] = field(default_factory=dict)
    """What gates request; empty, with `limits`: what the pod's own containers call for."""
    limits: Mapping[str, str] = field(default_factory=dict)


def gate_container(spec: Mapping[str, Any], names: Sequence[str], options: GateOptions) -> Json:
    """Return the gate of a pod with these containers."""
    port = free_port(spec) or FIRST_DOORBELL_PORT
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
            {"name": TOLD, "value": ",".join(names)},
            {"name": "THROTTLER_FAIL_OPEN_AFTER", "value": f"{options.fail_open_after_seconds:g}"},
            {"name": "THROTTLER_DOORBELL_PORT", "value": str(port)},
        ],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": port},
            "periodSeconds": 1,
            "timeoutSeconds": PROBE_SECONDS,
            "failureThreshold": 1,
            "successThreshold": 1,
        },
        "securityContext": _security(spec),
        "volumeMounts": [
            {"name": PERMITS, "mountPath": FOLDER},
            {"name": TOKEN, "mountPath": TOKEN_FOLDER, "readOnly": True},
        ],
    }
    resources = _resources(spec, options)
    return container | ({"resources": resources} if resources else {})


def volumes() -> list[Json]:
    """Return where permits are, and the token by which the gate says whose it is."""
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


def _resources(spec: Mapping[str, Any], options: GateOptions) -> Json:
    """Return what the gate requests, and its limits.

    1. A pod with resources of its own, as a whole, needs none of its containers.
    2. A Guaranteed pod stays so: requests equal limits.
    3. What the options say.
    4. A pod of class BestEffort stays so.
    5. Else small requests, and a limit for each resource that all of the pod's own containers limit: a ResourceQuota
       on limits, or an admission policy, may demand one of every container.
    """
    if spec.get("resources"):
        return {}
    every = [
        entry.get("resources") or {} for kind in ("containers", "initContainers") for entry in spec.get(kind) or ()
    ]
    if all(_is_guaranteed(resources) for resources in every):
        amounts = {**_GUARANTEED, **options.requests, **options.limits}
        return {"requests": amounts, "limits": dict(amounts)}
    if options.requests or options.limits:
        given = {"requests": dict(options.requests), "limits": dict(options.limits)}
        return {side: amounts for side, amounts in given.items() if amounts}
    if not any(resources.get("requests") or resources.get("limits") for resources in every):
        return {}
    limits = {
        kind: amount
        for kind, amount in _LIMITS.items()
        if all(kind in (resources.get("limits") or {}) for resources in every)
    }
    return {"requests": dict(_REQUESTS)} | ({"limits": limits} if limits else {})


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


def free_port(spec: Mapping[str, Any]) -> int | None:
    """Return a port for the doorbell that no container names; None where all are taken."""
    taken = {
        port.get("containerPort")
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for port in container.get("ports") or ()
    }
    return next((port for port in range(FIRST_DOORBELL_PORT, _PORTS) if port not in taken), None)
