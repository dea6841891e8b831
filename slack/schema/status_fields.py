"""Fields that the status of every kind has, as OpenAPI, and the columns that kubectl prints of it."""

from typing import Final

from slack.schema.structural import Schema

TIME: Final[Schema] = {"type": "string", "format": "date-time"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}


def text(description: str, longest: int = 1024) -> Schema:
    """Return the schema of a text of so many characters at the most."""
    return {"type": "string", "maxLength": longest, "description": description}


def column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> Schema:
    """Return a printed column; a wide one shows with `-o wide` only."""
    printed: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return printed | ({"priority": 1} if wide else {})
