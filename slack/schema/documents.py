"""Documents of our kinds as users write them: what is checked of every kind, and complaints that name the field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from pydantic import BaseModel

from slack.errors import InvalidInput
from slack.schema.did_you_mean import did_you_mean

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LONGEST_NAME = 63
_NO_FIELDS = ("model_type", "model_attributes_type", "dict_type", "mapping_type")
_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


class InvalidDocument(InvalidInput):
    """A document that cannot be used; each problem names the field's path and what would be right."""


@dataclass(frozen=True, slots=True)
class Header:
    """What every document has around its spec."""

    name: str
    namespace: str
    """Empty for kinds that are in none, and where a file does not say."""
    uid: str
    generation: int
    created_seconds: float
    """metadata.creationTimestamp as Unix time, 0 for a file."""
    spec: Mapping[str, Any]


def problem_text(error: Mapping[str, Any], prefix: str, root: type[BaseModel] | None = None) -> str:
    """Say one of pydantic's errors in our words: the field's path after `prefix`, what is wrong, what was given.

    With the model that was asked for, a field that is none is told with the one that was meant.
    """
    path = prefix
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if error["type"] == "extra_forbidden":
        *above, name = error["loc"]
        return f"{path}: unknown field{did_you_mean(name, fields_at(root, above)) if root is not None else ''}"
    if error["type"] in _NO_FIELDS:
        fields = fields_at(root, error["loc"]) if root is not None else []
        such_as = f" such as {fields[0]}" if fields else ""
        given = error.get("input")
        if given is None:
            return f"{path}: is null; leave it out, or give it fields{such_as}"
        return f"{path}: expected fields{such_as}, found {type(given).__name__}"
    message = str(error["msg"])
    message = (
        message.removeprefix("Value error, ") if error["type"] == "value_error" else message[:1].lower() + message[1:]
    )
    given = error.get("input")
    if error["type"] not in ("value_error", "missing") and isinstance(given, str | int | float | bool):
        message += f", not {given!r}"
    return f"{path}: {message}"


def is_name(name: str) -> bool:
    """Say whether an object of our kinds can be called so."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def header(
    document: object,
    *,
    api_version: str,
    kind: str,
    source: str,
    such_as: str,
    bad: type[InvalidDocument] = InvalidDocument,
) -> Header:
    """Check what is around the spec.

    Args:
        document: as decoded from YAML or JSON.
        api_version: that it must have.
        kind: that it must have.
        source: what to call it in complaints: a file's name, `slackpolicy/web`.
        such_as: a field of the spec, for who gives something else.
        bad: what to raise.

    Raises:
        InvalidDocument: with every problem found, each naming the field's path.
    """
    if not isinstance(document, Mapping):
        raise bad((f"expected a {kind} object, found {type(document).__name__}",), source)
    found = document.get("apiVersion"), document.get("kind")
    if found != (api_version, kind):
        raise bad((f"expected apiVersion {api_version} and kind {kind}, found {found[0]!r}, {found[1]!r}",), source)
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise bad(("metadata.name: is missing",), source)
    if not is_name(name):
        problem = f"{name!r} is not a DNS subdomain of at most {_LONGEST_NAME} characters (it becomes a label's value)"
        raise bad((f"metadata.name: {problem}",), source)
    unknown = sorted(set(document) - set(_FIELDS))
    if unknown:
        raise bad(tuple(f"{field}: unknown field{did_you_mean(field, _FIELDS)}" for field in unknown), source)
    given = document.get("spec", {})
    if given is not None and not isinstance(given, Mapping):
        raise bad((f"spec: expected fields such as {such_as}, found {type(given).__name__}",), source)
    return Header(
        name=name,
        namespace=str(metadata.get("namespace") or ""),
        uid=str(metadata.get("uid") or ""),
        generation=int(metadata.get("generation") or 0),
        created_seconds=_seconds(metadata.get("creationTimestamp")),
        spec=given or {},
    )


def _seconds(timestamp: object) -> float:
    """Return an RFC 3339 time as Unix seconds, 0 for one that is absent or cannot be read."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp() if timestamp else 0.0
    except ValueError:
        return 0.0


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
