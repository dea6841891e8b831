"""Whether an API server still has a kind, in any version: what a 404 of its collection does not tell.

A collection answers 404 when its CRD is deleted, and also when only the version that we ask for is served no more. In
the second case all objects are still there. Discovery may be read by everybody who is authenticated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from slack.kube.errors import ApiError, KubeError, decode_answer

if TYPE_CHECKING:
    from slack.kube.connection import Connection

GONE_SECONDS = 600.0
"""How long a kind that was there must be in no version before its objects count as gone."""
CONFIRM_SECONDS = 30.0
"""How long a kind of which nothing is known must be in no version: an API server may be just starting."""
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

    Only False is a reason to take a collection for empty. A version without an answer may have the kind.

    Args:
        connection: to the API server.
        path: of the collection, which has answered 404: `/apis/example.com/v1/things`, or in a namespace.
    """
    _, group, _, *_, plural = path.strip("/").split("/")
    try:
        found = decode_answer(f"GET /apis/{group}", connection.request("GET", f"/apis/{group}"), _GROUP)
    except ApiError as error:
        return False if error.not_found else None
    except KubeError:
        return None
    versions = found.versions or []
    answers = []
    for version in versions[:_MOST_VERSIONS]:
        answers.append(_has(connection, version.group_version, plural))
        if answers[-1]:
            return True
    return None if None in answers or len(versions) > _MOST_VERSIONS else False


def _has(connection: Connection, group_version: str, plural: str) -> bool | None:
    path = f"/apis/{group_version}"
    try:
        found = decode_answer(f"GET {path}", connection.request("GET", path), _RESOURCES)
    except ApiError as error:
        return False if error.not_found else None  # it went after the group was read
    except KubeError:
        return None
    return any(resource.name == plural for resource in found.resources or ())
