"""Whether an API server still has a kind, in any version: what a 404 of its collection does not tell.

A collection answers 404 when its CRD is deleted, and also when only the version that we ask for is served no more. In
the second case all objects are still there. Discovery may be read by everybody who is authenticated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slack.kube.errors import ApiError, KubeError, decoded

if TYPE_CHECKING:
    from slack.kube.connection import Connection

GONE_SECONDS = 600.0
"""How long a kind that was there must be in no version before its objects count as gone."""
_MOST_VERSIONS = 20


class _Version(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] | None = None


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_GROUP = msgspec.json.Decoder(_Group)
_RESOURCES = msgspec.json.Decoder(_Resources)


def is_served(connection: Connection, path: str) -> bool | None:
    """Say whether the kind of a collection is served in any version of its group; None where that cannot be told.

    Args:
        connection: to the API server.
        path: of the collection, which has answered 404: `/apis/example.com/v1/things`, or in a namespace.
    """
    _, group, _, *_, plural = path.strip("/").split("/")
    try:
        found = decoded(f"GET /apis/{group}", connection.request("GET", f"/apis/{group}"), _GROUP)
        versions = (found.versions or [])[:_MOST_VERSIONS]
        return any(_has(connection, version.group_version, plural) for version in versions)
    except ApiError as error:
        return False if error.not_found else None
    except KubeError:
        return None


def _has(connection: Connection, group_version: str, plural: str) -> bool:
    path = f"/apis/{group_version}"
    found = decoded(f"GET {path}", connection.request("GET", path), _RESOURCES)
    return any(resource.name == plural for resource in found.resources or ())
