"""Objects as text with slots: built once, filled per pod or node with one formatting.

A manifest holds `slot("name")` where text differs and `number("restarts")` where a whole JSON value does.
Values are put in as they are: they must need no escaping.
"""

import json
import re
from collections.abc import Mapping

# Nothing that JSON escapes: managedFields hold keys with JSON in them.
_VALUE = re.compile(r'"@\[#(\w+)]@"')
_TEXT = re.compile(r"@\[(\w+)]@")


def slot(name: str) -> str:
    """Return a mark for text; it may stand within other text."""
    return f"@[{name}]@"


def number(name: str) -> str:
    """Return a mark for a whole JSON value, quotes and all."""
    return f"@[#{name}]@"


class Template:
    """Compact JSON in the manifest's order, as the API server sends it.

    Usage:
        Template({"name": slot("name"), "count": number("count")}).fill({"name": "a", "count": 3})
    """

    def __init__(self, manifest: object) -> None:
        text = json.dumps(manifest, separators=(",", ":")).replace("%", "%%")
        self._format = _TEXT.sub(r"%(\1)s", _VALUE.sub(r"%(\1)s", text))

    def fill(self, values: Mapping[str, object]) -> str:
        """Return the text with its slots filled; values that it has no slot for are left out."""
        return self._format % values
