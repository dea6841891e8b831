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
_DISK = {"ephemeral-storage": "64Mi"}
"""Requested if all of the pod's own containers request it, and limited if all limit it: else a LimitRange gives the
gate what it gives to containers that say nothing, which may be its greatest amount."""
_CLASS_KINDS = ("cpu", "memory")
"""The resources that decide a pod's class of quality of service."""
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
    """What gates request. Kinds that are left out follow from the containers of the pod; so with `limits`."""
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
    3. A pod of class BestEffort stays so, unless the options give its gate something.
    4. Else what the options say. For what they leave out: small requests, and a limit for each resource that all of the
       pod's own containers limit. A ResourceQuota on limits, or an admission policy, may demand one of every container.
    """
    if spec.get("resources"):
        return {}
    every = [
        entry.get("resources") or {} for kind in ("containers", "initContainers") for entry in spec.get(kind) or ()
    ]
    disk = {side: _disk(every, side) for side in ("requests", "limits")}
    if all(_is_guaranteed(resources) for resources in every):
        amounts = {**disk["limits"], **_GUARANTEED, **options.requests, **options.limits}
        return {"requests": amounts, "limits": dict(amounts)}
    usual = {side: dict(amounts) for side, amounts in disk.items()}
    if any(_has_amount(resources, kind) for resources in every for kind in _CLASS_KINDS):
        usual["requests"] |= _REQUESTS
        usual["limits"] |= {kind: amount for kind, amount in _LIMITS.items() if _all_have(every, "limits", kind)}
    requests = _beside(usual["requests"], options.limits, least=True) | dict(options.requests)
    limits = _beside(usual["limits"], options.requests, least=False) | dict(options.limits)
    return {side: amounts for side, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _disk(every: Sequence[Mapping[str, Any]], side: str) -> dict[str, str]:
    return {kind: amount for kind, amount in _DISK.items() if _all_have(every, side, kind)}


def _all_have(every: Sequence[Mapping[str, Any]], side: str, kind: str) -> bool:
    """Whether all have it on this side; the API server requests what is only limited."""
    return all(
        kind in (resources.get(side) or {}) or (side == "requests" and kind in (resources.get("limits") or {}))
        for resources in every
    )


def _beside(usual: Mapping[str, str], given: Mapping[str, str], *, least: bool) -> dict[str, str]:
    """Return usual amounts of one side that go with the given ones of the other: no request is above its limit."""
    choose = min if least else max
    return {
        kind: choose(amount, given[kind], key=thousandths) if kind in given else amount
        for kind, amount in usual.items()
    }


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        kind in limits
        and _is_more_than_nothing(limits[kind])
        and _same(str(requests.get(kind, limits[kind])), str(limits[kind]))
        for kind in _CLASS_KINDS
    )


def _has_amount(resources: Mapping[str, Any], kind: str) -> bool:
    """Whether a container requests or limits something of it: an amount of 0 counts for no class."""
    amounts = [(resources.get(side) or {}).get(kind) for side in ("requests", "limits")]
    return any(amount is not None and _is_more_than_nothing(amount) for amount in amounts)


def _is_more_than_nothing(amount: object) -> bool:
    try:
        return thousandths(str(amount)) > 0
    except QuantityError:  # the API server says what is wrong with it
        return True


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
