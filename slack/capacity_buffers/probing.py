"""Who serves CapacityBuffers on a cluster: told by what becomes of a buffer of ours with `replicas: 0`.

It costs nothing, no node comes for it, and each server gives other reasons. That the CRD is there says nothing, as
Karpenter's chart brings it with the gate off.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from slack.capacity_buffers.api import ACTIVE_CAPACITY, OWN_STRATEGY, BufferCondition, CapacityBuffer, Serve
from slack.cluster.labels import FIELD_MANAGER

PROBE_NAME = "resource-slack-probe"
"""Of the buffer and of its PodTemplate."""
PROBE_SECONDS = 15.0
"""After so long without a status nobody serves: Cluster Autoscaler and Karpenter answer within seconds."""
PROBE_AGAIN_SECONDS = 3600.0


class BufferServer(StrEnum):
    """Who serves."""

    UNKNOWN_YET = "Probing"
    NO_CRD = "NoCRD"
    UNUSABLE_CRD = "UnusableCRD"
    """It is cluster-scoped, or has no version that we know."""
    NOBODY = "Nobody"
    CLUSTER_AUTOSCALER = "ClusterAutoscaler"
    CLUSTER_AUTOSCALER_CONTROLLER = "ClusterAutoscalerController"
    """Its controller writes sizes, and its injection of pods is off: no buffer holds anything."""
    KARPENTER = "Karpenter"
    OTHER = "Other"


_NAMES = {
    BufferServer.UNKNOWN_YET: "nobody knows whom",
    BufferServer.NO_CRD: "nobody",
    BufferServer.UNUSABLE_CRD: "nobody",
    BufferServer.NOBODY: "nobody else",
    BufferServer.CLUSTER_AUTOSCALER: "Cluster Autoscaler",
    BufferServer.CLUSTER_AUTOSCALER_CONTROLLER: "Cluster Autoscaler's controller, which holds nothing",
    BufferServer.KARPENTER: "Karpenter",
    BufferServer.OTHER: "a server that is not known",
}


@dataclass(frozen=True, slots=True)
class ServerFinding:
    """Who serves, and how that is known."""

    server: BufferServer
    evidence: str

    def __str__(self) -> str:
        """Say both."""
        return f"CapacityBuffers here are served by {_NAMES[self.server]}: {self.evidence}"


def judge(status: Mapping[str, Any] | None, managers: Iterable[str]) -> ServerFinding:
    """Judge by the status of the probe, after `PROBE_SECONDS`.

    Args:
        status: of the probe.
        managers: field managers that have written it, ours left out.
    """
    writers = ", ".join(sorted({name for name in managers if name})) or "an unknown field manager"
    conditions = {c.get("type"): c for c in (status or {}).get("conditions") or () if isinstance(c, Mapping)}
    if not status or (not conditions and not managers_of_others(managers)):
        return ServerFinding(BufferServer.NOBODY, f"the probe has no status after {PROBE_SECONDS:.0f} s")
    ready = (conditions.get(BufferCondition.READY_FOR_PROVISIONING) or {}).get("reason")
    provisioning = (conditions.get(BufferCondition.PROVISIONING) or {}).get("reason")
    said = f"{writers} wrote {ready or 'no ReadyForProvisioning'}" + (f", {provisioning}" if provisioning else "")
    match ready, provisioning:
        case "AttributesSetSuccessfully", "BufferIsEmpty":
            return ServerFinding(BufferServer.CLUSTER_AUTOSCALER, said)
        case "AttributesSetSuccessfully", None:
            text = f"{said} and no Provisioning: --capacity-buffer-pod-injection-enabled is off"
            return ServerFinding(BufferServer.CLUSTER_AUTOSCALER_CONTROLLER, text)
        case "Resolved", _ if "karpenter" in managers_of_others(managers) or provisioning in (None, "BufferEmpty"):
            return ServerFinding(BufferServer.KARPENTER, said)
    return ServerFinding(BufferServer.OTHER, said)


def managers_of_others(managers: Iterable[str]) -> frozenset[str]:
    """Return the field managers that are not ours."""
    return frozenset(managers) - {FIELD_MANAGER, ""}


def serves(serve: Serve, server: BufferServer, strategy: str) -> bool:
    """Say whether a buffer of a strategy is ours to serve.

    Karpenter serves every strategy, so nothing is left for us. Cluster Autoscaler leaves a strategy that it does not
    know alone. An unknown server may do either.
    """
    if serve is Serve.OFF:
        return False
    if strategy == OWN_STRATEGY:
        return server in (
            BufferServer.NOBODY,
            BufferServer.CLUSTER_AUTOSCALER,
            BufferServer.CLUSTER_AUTOSCALER_CONTROLLER,
        )
    return strategy == ACTIVE_CAPACITY and serve is Serve.UNSERVED and server is BufferServer.NOBODY


def status_managers(buffer: CapacityBuffer) -> dict[str, float]:
    """Return who has written a buffer's status, and when last (Unix seconds)."""
    found: dict[str, float] = {}
    for entry in buffer.metadata.managed_fields or ():
        if entry.subresource == "status":
            at = entry.time.timestamp() if entry.time else 0.0
            found[entry.manager] = max(found.get(entry.manager, 0.0), at)
    return found


def rivals(buffer: CapacityBuffer, since: float) -> tuple[str, ...]:
    """Name the others who have written a buffer's status since a time (Unix seconds).

    Times of field managers are whole seconds, cut: one of our own write's second is evidence only if the strategy in
    the status is no longer ours, as every server writes its own.
    """
    written = status_managers(buffer)
    is_ours = (buffer.status or {}).get("provisioningStrategy") == OWN_STRATEGY
    others = {name: at for name, at in written.items() if name and name != FIELD_MANAGER}
    return tuple(sorted(name for name, at in others.items() if at > since or (at == since and not is_ours)))
