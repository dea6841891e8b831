"""Sections of a reference page from the schema that the API server has: what it refuses and what it prints."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from slack.cluster.duration import fine_text
from slack.cluster.quantity import format_cpu
from tools.reference.markdown import table

Schema = dict[str, Any]

_COLUMNS = """
`kubectl get {resource}` prints these columns, `-o wide` those marked *wide* too.
"""
_PRIMITIVE = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def columns(printed: Iterable[Schema], resource: str) -> str:
    """Return the section about what kubectl prints; `resource` is what one writes after `kubectl get`."""
    rows = [
        (column["name"], "wide" if column.get("priority") else "", column.get("description", "")) for column in printed
    ]
    text = _COLUMNS.format(resource=resource).strip()
    return f"\n## Columns\n\n{text}\n\n{table(('column', '', 'meaning'), rows)}"


def sections(path: str, schema: Schema, model: type[BaseModel] | None) -> Iterator[str]:
    """Yield a section for an object and then for each object below it."""
    below: list[tuple[str, Schema, type[BaseModel] | None]] = []
    rows = []
    fields = {info.alias or name: info for name, info in model.model_fields.items()} if model is not None else {}
    for name, field in schema["properties"].items():
        inner = field.get("items", field)
        if "properties" in inner:
            listed = "[]" if inner is not field else ""
            below.append((f"{path}.{name}{listed}", inner, _model(fields.get(name))))
        needed = name in schema.get("required", ())
        row = [f"`{name}`", _type(path, name, field), field.get("description", "")]
        if model is not None:
            row.insert(2, "**required**" if needed else _default(fields.get(name)))
        rows.append(row)
    titles = ("field", "type", *(("default",) if model is not None else ()), "meaning")
    text = f"\n## {path}\n\n"
    if schema.get("description"):
        text += f"{' '.join(schema['description'].split())}\n\n"
    text += table(titles, rows)
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    if rules:
        text += "\nRefused otherwise:\n\n" + "".join(f"- {rule}\n" for rule in rules)
    yield text
    for one_below in below:
        yield from sections(*one_below)


def _model(info: FieldInfo | None) -> type[BaseModel] | None:
    """Return the model behind a field: itself, or what its list holds."""
    for kind in (info.annotation, *get_args(info.annotation)) if info is not None else ():
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _type(path: str, name: str, schema: Schema) -> str:
    inner = schema.get("items", schema)
    many = "list of " if inner is not schema else ""
    if "properties" in inner:
        section = f"{path}.{name}{'[]' if many else ''}"
        return f"{many}[{section}](#{section.lower().replace('.', '').replace('[]', '')})"
    if "additionalProperties" in inner:
        value = inner["additionalProperties"]
        if value.get("type") == "integer":
            return many + "whole numbers by name"
        if value.get("type") == "number":
            return many + "numbers by name"
        return many + ("quantities" if value.get("x-kubernetes-int-or-string") or path == "status" else "labels")
    if inner.get("x-kubernetes-int-or-string"):
        return many + ("amount of memory" if "memory" in name.lower() else "amount of CPU")
    if "enum" in inner:
        return many + ", ".join(f"`{value}`" if value else "`''`" for value in inner["enum"])
    if "h)?([0-9]+m)?" in inner.get("pattern", ""):
        return many + "duration"
    if inner.get("format") == "date-time":
        return many + "time (RFC 3339)"
    return many + _PRIMITIVE.get(inner.get("type", ""), "text") + _bounds(inner)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return ""
    if high is None:
        return f", {low:g} or more"
    return f", {'more than ' if schema.get('exclusiveMinimum') else ''}{low:g} to {high:g}"


def _default(info: FieldInfo | None) -> str:
    if info is None or info.is_required():
        return ""
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ((), {}, ""):
        return ""
    if isinstance(value, timedelta):
        if value.microseconds:
            return f"`{fine_text(value.total_seconds())}`"
        minutes, seconds = divmod(int(value.total_seconds()), 60)
        return f"`{minutes}m`" if not seconds else f"`{int(value.total_seconds())}s`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("format") == "quantity":
        return f"`{format_cpu(value)}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"
