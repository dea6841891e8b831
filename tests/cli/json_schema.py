"""Judges a document by a published JSON schema, of which it knows the words that ours have, and refuses all others."""

import json
from collections.abc import Iterator
from typing import Any

_NOTED = {"$schema", "$id", "$defs", "title", "description", "default"}
_KNOWN = {"$ref", "anyOf", "oneOf", "type", "enum", "const", "properties", "required", "additionalProperties"}
_KNOWN |= {"items", "prefixItems", "minItems", "maxItems"}
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}


def problems(document: Any, schema: dict[str, Any]) -> list[str]:
    """Return what a schema has against a document, each with its path."""
    return list(_problems(document, schema, schema, "$"))


def _problems(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    assert set(schema) <= _NOTED | _KNOWN, f"{path}: this validator does not know {set(schema) - _NOTED - _KNOWN}"
    if "$ref" in schema:
        yield from _problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            fitting = [choice for choice in schema[word] if not list(_problems(value, choice, root, path))]
            if not fitting or (word == "oneOf" and len(fitting) > 1):
                yield f"{path}: {len(fitting)} of {word} fit"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        is_flag = isinstance(value, bool)
        if not any(isinstance(value, _TYPES[kind]) and (kind == "boolean") >= is_flag for kind in kinds):
            yield f"{path}: {json.dumps(value)[:60]} is no {schema['type']}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} is not {schema['const']!r}"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{path}.{name}: is missing" for name in schema.get("required", ()) if name not in value)
        more = schema.get("additionalProperties", True)
        for name, inner in value.items():
            if name in known or isinstance(more, dict):
                yield from _problems(inner, known.get(name, more), root, f"{path}.{name}")
            elif more is False:
                yield f"{path}.{name}: is not declared"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path}: has {len(value)} items"
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {})
        for index, inner in enumerate(value):
            wanted = first[index] if index < len(first) else rest
            if isinstance(wanted, dict):
                yield from _problems(inner, wanted, root, f"{path}[{index}]")
