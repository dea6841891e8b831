"""A JSON schema as people read it: one line a field, with its path and what it holds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


class SchemaField(NamedTuple):
    """One field of a document, `[]` for each of a list, `{name}` for each of what users name."""

    path: str
    holds: str
    meaning: str


def fields_of(schema: dict[str, Any]) -> Iterator[SchemaField]:
    """Yield the fields of a published schema, those of each document where a command has several."""
    for document in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        yield from _below("", document, schema["$defs"])


def _below(path: str, found: dict[str, Any], definitions: dict[str, Any]) -> Iterator[SchemaField]:
    found = _resolved(found, definitions)
    for name, inner in found.get("properties", {}).items():
        yield from _field(f"{path}.{name}" if path else name, inner, definitions)


def _field(path: str, found: dict[str, Any], definitions: dict[str, Any]) -> Iterator[SchemaField]:
    """Yield a field and what is below it."""
    choices = [_resolved(choice, definitions) for choice in found.get("anyOf", [found])]
    holds = " or ".join(_holds(choice, definitions) for choice in choices)
    yield SchemaField(path, holds, next((choice["description"] for choice in choices if "description" in choice), ""))
    for choice in choices:
        inner, below = _inner(path, choice)
        while inner is not None and inner.get("type") == "array":
            below, inner = f"{below}[]", inner.get("items") or None
        if inner is not None:
            yield from _below(below, inner, definitions)


def _inner(path: str, found: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return what has fields of its own within a value, and the path of it."""
    if found.get("type") == "array":
        return found.get("items") or None, f"{path}[]"
    if isinstance(found.get("additionalProperties"), dict):
        return found["additionalProperties"], f"{path}.{{name}}"
    return found, path


def _holds(found: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "const" in found:
        return str(found["const"])
    if "enum" in found:
        return ", ".join(map(str, found["enum"]))
    if found.get("type") == "array":
        if found.get("prefixItems"):
            return f"list of {len(found['prefixItems'])} numbers"
        inner = _resolved(found.get("items") or {}, definitions)
        return f"list of {_holds(inner, definitions)}"
    if found.get("type") == "object":
        named = found.get("additionalProperties")
        return f"{_holds(_resolved(named, definitions), definitions)} by name" if isinstance(named, dict) else "fields"
    return _WORDS.get(str(found.get("type")), "anything")


def _resolved(found: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference stands for."""
    name = found.get("$ref", "").removeprefix("#/$defs/")
    return definitions[name] if name else found
