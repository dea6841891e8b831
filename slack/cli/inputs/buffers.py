"""CapacityBuffers as an API server has them, and what the operator's probe has found."""

from typing import TYPE_CHECKING

import msgspec

from slack.cli.inputs.objects import items
from slack.cluster.labels import ANNOTATION_SERVED_BY

if TYPE_CHECKING:
    from slack.capacity_buffers.api import CapacityBuffer
    from slack.capacity_buffers.probing import ServerFinding
    from slack.kube.connection import Connection


def read_buffers(
    connection: "Connection", placeholder_namespace: str
) -> "tuple[list[CapacityBuffer], ServerFinding | None] | None":
    """Return all buffers but the probe, and the probe's finding; None where there is no such kind, or no right to it.

    Raises:
        KubeError: there is no answer.
    """
    from slack.capacity_buffers.answer import read_finding
    from slack.capacity_buffers.api import GROUP, PLURAL, VERSIONS, CapacityBuffer
    from slack.capacity_buffers.probing import PROBE_NAME
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    for version in VERSIONS:
        try:
            found = items(connection, resource_path(f"{GROUP}/{version}", PLURAL))
        except ApiError as error:
            if error.not_found:
                continue
            if error.status == 403:
                return None
            raise
        buffers = [msgspec.json.decode(msgspec.json.encode(each), type=CapacityBuffer) for each in found]
        probe = f"{placeholder_namespace}/{PROBE_NAME}"
        noted = next((own.metadata.annotation(ANNOTATION_SERVED_BY) for own in buffers if own.name == probe), "")
        return sorted((own for own in buffers if own.name != probe), key=lambda own: own.name), read_finding(noted)
    return None


def chunk_sets(connection: "Connection", placeholder_namespace: str, uid: str) -> frozenset[str]:
    """Return the names of the ReplicaSets that hold a buffer's chunks.

    Raises:
        KubeError: there is no answer, or no permission.
    """
    from slack.cluster.labels import LABEL_BUFFER
    from slack.kube.paths import resource_path

    path = resource_path("apps/v1", "replicasets", namespace=placeholder_namespace)
    return frozenset(each["metadata"]["name"] for each in items(connection, path, f"{LABEL_BUFFER}={uid}"))
