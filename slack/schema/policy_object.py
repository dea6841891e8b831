"""A policy of ours with its identity: what models of specs have in common, and how a document becomes a value."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from slack.cluster.labels import API_VERSION
from slack.schema.documents import InvalidDocument, header, problem_text
from slack.schema.structural import Schema, structural


def bound_problems(model: type[BaseModel], value: object, path: str) -> list[str]:
    """Return what of a document, as it was decoded, is beyond the bounds of a model's schema.

    Models do not have these bounds: how many items, and how many characters. The API server holds them before an object
    is stored; files are held to them in the same words, so that no command takes a policy that the API server refuses.

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


class SpecModel(BaseModel):
    """Part of a spec: fields are camelCase as users write them, none is unknown, and docstrings are the CRD's texts.

    What checks values is made for the model that is asked, with all below it, and not for each of them once more.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )


class PolicyObject(SpecModel):
    """A policy with its identity; each kind adds its `spec`. `uid` is empty for a file and for a built-in policy."""

    name: str
    """metadata.name"""
    namespace: str = ""
    """metadata.namespace; empty for kinds that are in none"""
    uid: str = ""
    """metadata.uid"""
    generation: int = 0
    """metadata.generation"""
    created_seconds: float = 0.0
    """metadata.creationTimestamp as Unix time, 0 for a file and for a built-in policy."""

    @classmethod
    def parse(cls, document: object, *, kind: str, source: str, such_as: str, bad: type[InvalidDocument]) -> Self:
        """Check one document, as decoded from YAML or JSON; arguments as `slack.schema.documents.header`'s.

        Raises:
            InvalidDocument: `bad`, with every problem found, each naming the field's path.
        """
        found = header(document, api_version=API_VERSION, kind=kind, source=source, such_as=such_as, bad=bad)
        identity = {
            "namespace": found.namespace,
            "uid": found.uid,
            "generation": found.generation,
            "createdSeconds": found.created_seconds,
        }
        try:
            # Python's own names are for code: the API server drops them, for the CRD knows none.
            value = cls.model_validate(
                {"name": found.name, "spec": found.spec} | identity, by_alias=True, by_name=False
            )
        except ValidationError as error:
            raise bad(tuple(problem_text(dict(e), "", cls) for e in error.errors()), source) from None
        if beyond := bound_problems(_model_of(cls), found.spec, "spec"):
            raise bad(tuple(beyond), source)
        return value


def _model_of(kind: type[PolicyObject]) -> type[BaseModel]:
    """Return the model of a kind's spec."""
    model = kind.model_fields["spec"].annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"{kind.__name__}.spec is no model")
    return model
