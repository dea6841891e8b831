"""Plain reads from an API server for the commands that look at a few objects: whole lists, and what may be absent."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slack.kube.connection import Connection

Json = dict[str, Any]


def items(connection: "Connection", path: str, selector: str = "") -> list[Json]:
    """Return every object of a collection, page by page."""
    found: list[Json] = []
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": 500, "continue": token}
        page = json.loads(connection.request("GET", path, query=query, verb="list"))
        found += page.get("items") or []
        token = str(page.get("metadata", {}).get("continue") or "")
        if not token:
            return found


def item(connection: "Connection", path: str) -> Json | None:
    """Return one object, None when it is not there."""
    from slack.kube.errors import ApiError

    try:
        found: Json = json.loads(connection.request("GET", path, verb="get"))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return found
