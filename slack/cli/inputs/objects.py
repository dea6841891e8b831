"""Plain reads from an API server for the commands that look at a few objects: whole lists, and what may be absent.

Objects are handed out as JSON, and the fields that somebody looks into are of the API's types: another answer than an
API server's is refused here, and nobody behind has to think of it.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from slack.cluster.labels import LABEL_MANAGED_BY, LABEL_PLACEHOLDER, MANAGED_BY

if TYPE_CHECKING:
    from slack.kube.connection import Connection

Json = dict[str, Any]

PLACEHOLDERS = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_PLACEHOLDER}=true"
"""A label selector."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Json] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    """What each object of the API has."""

    metadata: _Metadata
    spec: Json | None = None
    status: Json | None = None


_OBJECT = msgspec.json.Decoder(_Object)
_JSON = msgspec.json.Decoder(Json)


def items(connection: "Connection", path: str, selector: str = "") -> list[Json]:
    """Return every object of a collection.

    Raises:
        KubeError: there is no answer, no permission, or what comes is no list of objects.
    """
    from slack.kube.paging import list_all

    raws = list_all(connection, path, msgspec.Raw, label_selector=selector)
    return [_check_object(f"GET {path}", bytes(raw)) for raw in raws]


def item(connection: "Connection", path: str) -> Json | None:
    """Return one object, None when it is not there.

    Raises:
        KubeError: there is no answer, no permission, or what comes is no object.
    """
    from slack.kube.errors import ApiError

    try:
        return _check_object(f"GET {path}", connection.request("GET", path, verb="get"))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _check_object(request: str, raw: bytes) -> Json:
    from slack.kube.errors import decode_answer

    decode_answer(request, raw, _OBJECT)
    return decode_answer(request, raw, _JSON)
