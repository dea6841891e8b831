"""Which version of CapacityBuffer the API server has, and which fields of a status: asked by discovery.

Everybody who is authenticated may read that, so no right to CRDs is needed. A status field that the schema lacks would
be dropped in silence, and we would write it for ever.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from slack.capacity_buffers.api import GET_CRD, GROUP, KIND, PLURAL, VERSIONS
from slack.capacity_buffers.conditions import STATUS_FIELDS
from slack.capacity_buffers.probing import BufferServer, ServerFinding
from slack.kube.connection import Connection
from slack.kube.errors import ApiError, KubeError, decode_answer

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class BufferApi:
    """The kind as it is served."""

    version: str
    fields: frozenset[str] = STATUS_FIELDS

    @property
    def api_version(self) -> str:
        """Return group and version."""
        return f"{GROUP}/{self.version}"


def discover(connection: Connection) -> BufferApi | ServerFinding:
    """Find the kind; a finding where it cannot be served.

    Raises:
        KubeError: when the API server does not say.
    """
    group = _get(connection, f"/apis/{GROUP}")
    served = [str(each.get("version")) for each in (group or {}).get("versions") or ()]
    found: list[str] = []
    for version in served:
        resources = _get(connection, f"/apis/{GROUP}/{version}") or {}
        kind = next((each for each in resources.get("resources") or () if each.get("name") == PLURAL), None)
        if kind is None:
            continue
        if not kind.get("namespaced"):
            text = f"the CRD of {KIND} is cluster-scoped, as in the first release of Cluster Autoscaler 1.34: {GET_CRD}"
            return ServerFinding(BufferServer.UNUSABLE_CRD, text)
        found.append(version)
    usable = next((version for version in VERSIONS if version in found), None)
    if usable is not None:
        return BufferApi(usable, _status_fields(connection, usable))
    if found:
        text = f"the CRD of {KIND} has version {', '.join(found)}, and neither of {', '.join(VERSIONS)}: {GET_CRD}"
        return ServerFinding(BufferServer.UNUSABLE_CRD, text)
    return ServerFinding(BufferServer.NO_CRD, f"there is no CRD of {KIND}: {GET_CRD}")


def _get(connection: Connection, path: str) -> dict[str, Any] | None:
    try:
        return decode_answer(f"GET {path}", connection.request("GET", path), _DOCUMENT)
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _status_fields(connection: Connection, version: str) -> frozenset[str]:
    """Return the fields of a status; those of upstream's first releases where no schema is published."""
    try:
        document = _get(connection, f"/openapi/v3/apis/{GROUP}/{version}") or {}
    except KubeError:
        return STATUS_FIELDS
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        kinds = [each.get("kind") for each in schema.get("x-kubernetes-group-version-kind") or ()]
        properties = ((schema.get("properties") or {}).get("status") or {}).get("properties")
        if KIND in kinds and properties:
            return frozenset(properties)
    return STATUS_FIELDS
