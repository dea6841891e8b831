"""Which fields a model has at a path below it, as users write them."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def fields_at(root: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the names of fields, as users write them, that stand at a path below a model; [] where none is known."""
    types: list[Any] = [root]
    for part in path:
        if isinstance(part, str):
            types = [found for model in types for found in _models_below(model, part)]
    return [_type_text(name, field) for model in types for name, field in model.model_fields.items()]


def _models_below(model: type[BaseModel], part: str) -> Iterator[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part in (name, field.alias):
            yield from _models(field.annotation)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _type_text(name: str, field: Any) -> str:
    return str(field.alias or name)
