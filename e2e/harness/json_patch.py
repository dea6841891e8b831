"""JSON patches (RFC 6902) as the API server applies them: `add`, `replace` and `test`, which are what we send."""

import copy
from collections.abc import Iterable

from e2e.harness.api import Json


def patched(document: Json, operations: Iterable[Json]) -> Json:
    """Return a document with a patch applied; the document stays as it is.

    Raises:
        LookupError: a path is not there, or a `test` does not hold.
    """
    result = copy.deepcopy(document)
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].removeprefix("/").split("/")
        ]
        target = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if operation["op"] == "test":
            if (target[int(last)] if isinstance(target, list) else target[last]) != operation["value"]:
                raise LookupError(f"testing path {operation['path']} failed")
        elif not isinstance(target, list):
            target[last] = operation["value"]
        elif operation["op"] == "replace":
            target[int(last)] = operation["value"]
        else:
            target.insert(len(target) if last == "-" else int(last), operation["value"])
    return result
