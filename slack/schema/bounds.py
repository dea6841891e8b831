"""Bounds of a CustomResourceDefinition that models do not have: how many items, and how many characters.

The API server holds them before an object is stored. Files are held to them too, in the same words, so that nobody
writes a policy that a command takes and the API server refuses.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from slack.schema.structural import Schema, structural


def bound_problems(model: type[BaseModel], value: object, path: str) -> list[str]:
    """Return what of a document, as it was decoded, is beyond the bounds of a model's schema.

    Args:
        model: of the value.
        value: as it is in the document.
        path: of the value, for the texts.
    """
    return list(_problems(_schema(model), value, path))


@lru_cache(maxsize=16)
def _schema(model: type[BaseModel]) -> Schema:
    return structural(model.model_json_schema(by_alias=True), model.__name__, {})


def _problems(schema: Schema, value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        yield from _too_many(schema.get("maxItems"), len(value), path)
        for number, item in enumerate(value[: schema.get("maxItems")]):
            yield from _problems(schema.get("items", {}), item, f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from _too_many(schema.get("maxProperties"), len(value), path)
        known: Any = schema.get("properties", {})
        for name, item in value.items():
            yield from _problems(known.get(name) or schema.get("additionalProperties") or {}, item, f"{path}.{name}")
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: Too long: may not be more than {schema['maxLength']} bytes"


def _too_many(most: int | None, number: int, path: str) -> Iterator[str]:
    if most is not None and number > most:
        yield f"{path}: Too many: {number}: must have at most {most} items"
