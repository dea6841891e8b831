"""Where in the cluster resource-slack is: namespaces with its pods, and the lease that its leader holds. Reads only."""

from collections import Counter
from typing import TYPE_CHECKING

from slack.cli.inputs.objects import PLACEHOLDERS, Json, items
from slack.health.observation import DEFAULT_LEASE, OPERATOR_PODS, Installation
from slack.kube.errors import ApiError
from slack.kube.paths import resource_path

if TYPE_CHECKING:
    from slack.kube.connection import Connection


def installations(connection: "Connection") -> tuple[Installation, ...]:
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
            found.append(Installation(namespace, lease, placeholders[namespace], len(pods)))
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
    return DEFAULT_LEASE


def being_deleted(pod: Json) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def running(pod: Json) -> bool:
    """Whether a pod runs and is to stay."""
    return not being_deleted(pod) and pod.get("status", {}).get("phase") == "Running"
