"""A status as one msgspec struct: the operator builds it, commands decode it, and its CRD schema is made of it.

A field without a default is required. All others are None while there is nothing to say, and are left out of what is
written. A field is described by its annotation; one that holds a struct, by that struct's docstring; entries of a list
only by an annotation of their own. Bounds are for the API server alone: decoding refuses nothing that another version
has written.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Meta

from slack.schema.structural import Schema

_KEPT: Final = ("type", "format", "minimum", "maximum", "maxLength", "enum", "maxItems")
_KEPT_BEHIND: Final = ("required", "maxProperties")


Number = int | float
"""A number that stays whole where it was written whole."""


class StatusPart(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A status, or an object within one."""

    def document(self) -> dict[str, Any]:
        """Return it as the API has it."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def description_field(description: str) -> Meta:
    """Describe a field that has no bounds, or an entry of a list."""
    return Meta(description=description)


def text_field(description: str, longest: int = 1024) -> Meta:
    """Describe a text of at most this many characters."""
    return Meta(description=description, extra_json_schema={"maxLength": longest})


def count_field(description: str) -> Meta:
    """Describe a number that is not negative."""
    return Meta(description=description, extra_json_schema={"minimum": 0})


def percent_field(description: str) -> Meta:
    """Describe a share in percent."""
    return Meta(description=description, extra_json_schema={"minimum": 0, "maximum": 100})


def generation_field(description: str) -> Meta:
    """Describe a `metadata.generation`."""
    return Meta(description=description, extra_json_schema={"format": "int64"})


def time_field(description: str) -> Meta:
    """Describe a time, RFC 3339."""
    return Meta(description=description, extra_json_schema={"format": "date-time"})


def list_field(description: str, most: int, *, key: str | None = None) -> Meta:
    """Describe a list of at most this many entries; with a key, server-side apply merges it entry by entry."""
    merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else {}
    return Meta(description=description, extra_json_schema={"maxItems": most, **merged})


def map_field(description: str, most: int) -> Meta:
    """Describe an object whose keys are names, at most this many."""
    return Meta(description=description, extra_json_schema={"maxProperties": most})


def at_most(longest: int) -> Meta:
    """Bound the texts of a list or of an object by name."""
    return Meta(extra_json_schema={"maxLength": longest})


def choice_field(description: str, *choices: str) -> Meta:
    """Describe a text that is one of these."""
    return Meta(description=description, extra_json_schema={"enum": list(choices)})


def status_schema(kind: type[StatusPart]) -> Schema:
    """Return the structural schema of a status, for a CustomResourceDefinition."""
    (found,), definitions = msgspec.json.schema_components([kind])
    return _node(found, definitions)


def _node(node: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> Schema:
    """Return a node without references and without null."""
    if "anyOf" in node:
        # the last: of a number, which may be whole, the wider of both
        node = {**[choice for choice in node["anyOf"] if choice.get("type") != "null"][-1], **node}
    if "$ref" in node:
        node = {**definitions[str(node["$ref"]).rpartition("/")[2]], **node}
    result: Schema = {name: node[name] for name in _KEPT if name in node}
    if "items" in node:
        result["items"] = _item(node["items"], definitions)
    if "description" in node:
        result["description"] = " ".join(node["description"].split())
    result |= {name: node[name] for name in _KEPT_BEHIND if node.get(name)}
    if "properties" in node:
        result["properties"] = {name: _node(inner, definitions) for name, inner in node["properties"].items()}
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _node(node["additionalProperties"], definitions)
    return result | {name: value for name, value in node.items() if name.startswith("x-kubernetes-")}


def _item(node: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> Schema:
    """Return the entry of a list: its struct's docstring would say again what the list's description says."""
    found = _node(node, definitions)
    return found if "description" in node else {name: value for name, value in found.items() if name != "description"}


def column(name: str, path: str, description: str, *, kind: str = "string", wide: bool = False) -> Schema:
    """Return a printed column; a wide one shows with `-o wide` only."""
    printed: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return printed | ({"priority": 1} if wide else {})
