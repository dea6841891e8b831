"""The reference of SlackPolicy, from the schema that the API server has: what it refuses and what it prints."""

from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from slack.cli.reference_text import head, table
from slack.planner.crd import crd
from slack.planner.policy import PolicySpec

Schema = dict[str, Any]

_TEXT = """
`kubectl explain slackpolicy.spec --recursive` prints the same. Start with
[a policy with comments](../../examples/slackpolicy.yaml); `spec: {}` is a good policy too: ten percent of what real
pods request, cut so that the pods that come most often each fit the room of one placeholder.

- A *duration* is text such as `90s`, `10m`, `1h30m`.
- *Quantities* are Kubernetes': `{cpu: 500m, memory: 1Gi, nvidia.com/gpu: 1}`.
- A *rate* is a number: 0.1 is ten percent.

`kubectl slack plan -f policy.yaml` shows what a policy would do before you apply it.
"""
_COLUMNS = """
`kubectl get slackpolicies` prints these columns, `-o wide` those marked *wide* too.
"""
_PRIMITIVE = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def page() -> str:
    """Return the whole page."""
    version = crd()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [head("SlackPolicy", "slack/planner/policy.py and slack/planner/status_schema.py", _TEXT)]
    parts += _sections("spec", schema["properties"]["spec"], PolicySpec)
    parts += _sections("status", schema["properties"]["status"], None)
    rows = [
        (one["name"], "wide" if one.get("priority") else "", one.get("description", ""))
        for one in version["additionalPrinterColumns"]
    ]
    parts.append(f"\n## Columns\n\n{_COLUMNS.strip()}\n\n{table(('column', '', 'meaning'), rows)}")
    return "".join(parts)


def _sections(path: str, schema: Schema, model: type[BaseModel] | None) -> Iterator[str]:
    """Yield a section for an object and then for each object below it."""
    below: list[tuple[str, Schema, type[BaseModel] | None]] = []
    rows = []
    fields = {info.alias or name: info for name, info in model.model_fields.items()} if model is not None else {}
    for name, one in schema["properties"].items():
        inner = one.get("items", one)
        if "properties" in inner:
            listed = "[]" if inner is not one else ""
            below.append((f"{path}.{name}{listed}", inner, _model(fields.get(name))))
        needed = name in schema.get("required", ())
        row = [f"`{name}`", _type(path, name, one), one.get("description", "")]
        if model is not None:
            row.insert(2, "**required**" if needed else _default(fields.get(name)))
        rows.append(row)
    columns = ("field", "type", *(("default",) if model is not None else ()), "meaning")
    text = f"\n## {path}\n\n"
    if schema.get("description"):
        text += f"{' '.join(schema['description'].split())}\n\n"
    text += table(columns, rows)
    rules = [one["message"] for one in schema.get("x-kubernetes-validations", ())]
    if rules:
        text += "\nRefused otherwise:\n\n" + "".join(f"- {rule}\n" for rule in rules)
    yield text
    for one_below in below:
        yield from _sections(*one_below)


def _model(info: FieldInfo | None) -> type[BaseModel] | None:
    """Return the model behind a field: itself, or what its list holds."""
    for one in (info.annotation, *get_args(info.annotation)) if info is not None else ():
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def _type(path: str, name: str, schema: Schema) -> str:
    inner = schema.get("items", schema)
    many = "list of " if inner is not schema else ""
    if "properties" in inner:
        section = f"{path}.{name}{'[]' if many else ''}"
        return f"{many}[{section}](#{section.lower().replace('.', '').replace('[]', '')})"
    if "additionalProperties" in inner:
        value = inner["additionalProperties"]
        return many + ("quantities" if value.get("x-kubernetes-int-or-string") or path == "status" else "labels")
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
        minutes, seconds = divmod(int(value.total_seconds()), 60)
        return f"`{minutes}m`" if not seconds else f"`{int(value.total_seconds())}s`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"
