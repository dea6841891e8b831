"""Where in the cluster resource-slack is: namespaces with its pods, and the lease that its leader holds. Reads only."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slack.cli.items import Json, items
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path
from slack.planner.manifests import LABEL_MANAGED_BY, LABEL_PLACEHOLDER, MANAGED_BY

if TYPE_CHECKING:
    from slack.kube.connection import Connection

DEFAULT_PLACE = ("resource-slack", "resource-slack")
"""Namespace and lease where nothing else is said."""
PLACEHOLDERS = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_PLACEHOLDER}=true"
OPERATOR_PODS = "app.kubernetes.io/name=resource-slack,app.kubernetes.io/component=operator"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an installation is, or what is left of one."""

    namespace: str
    lease_name: str
    placeholders: int
    operator_pods: int


def places(connection: "Connection") -> tuple[Place, ...]:
    """Find installations by the labels of their pods, and the lease that one of them holds; () without the rights."""
    try:
        everywhere = resource_path("v1", "pods")
        placeholders = Counter(str(pod["metadata"]["namespace"]) for pod in items(connection, everywhere, PLACEHOLDERS))
        operators: dict[str, set[str]] = {}
        for pod in items(connection, everywhere, OPERATOR_PODS):
            if running(pod):
                operators.setdefault(str(pod["metadata"]["namespace"]), set()).add(str(pod["metadata"]["name"]))
        found = []
        for namespace in sorted({*placeholders, *operators}):
            pods = operators.get(namespace, set())
            lease = _lease_of(connection, namespace, pods)
            found.append(Place(namespace, lease, placeholders[namespace], len(pods)))
        return tuple(found)
    except ApiError as error:
        if error.status != 403:
            raise
        return ()


def _lease_of(connection: "Connection", namespace: str, operators: set[str]) -> str:
    """Return the lease whose holder is one of these pods; a holder's name is that of its pod, `_` and more."""
    for lease in items(connection, resource_path("coordination.k8s.io/v1", "leases", namespace=namespace)):
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if holder.rpartition("_")[0] in operators:
            return str(lease["metadata"]["name"])
    return DEFAULT_PLACE[1]


def described(places: Sequence[Place]) -> str:
    """Say what is at each place, and how to look there."""
    found = []
    for one in places:
        parts = [(one.operator_pods, "operator pod"), (one.placeholders, "placeholder")]
        counted = " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in parts if count)
        lease = f" --lease-name {one.lease_name}" if one.lease_name != DEFAULT_PLACE[1] else ""
        found.append(f"{counted} in {one.namespace}: kubectl slack status -n {one.namespace}{lease}")
    return "; ".join(found)


def leaving(pod: Json) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def running(pod: Json) -> bool:
    """Whether a pod runs and is to stay."""
    return not leaving(pod) and pod.get("status", {}).get("phase") == "Running"
