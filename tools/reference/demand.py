"""The reference of the lines that `demand decide` reads and writes, and of the table that it decides by."""

import ast
import inspect
from typing import Any, get_args

import msgspec

from slack.demand.decision import ROWS
from slack.demand.lines import DecisionLine, Line
from tools.reference.markdown import head, table

_TEXT = """
`resource-slack demand decide --lines FILE` reads a queue's figures from each line, a JSON object, and writes the
decision about it as a line. The rules are those by which the controller decides, and need no cluster.
"""
_GUARDS = (
    ("`G1`", "while the first container is being created, for up to twice as long as that takes, nothing is stale"),
    ("`G2`", "a starving queue takes the place of another's idle container; not seen in one queue alone"),
    ("`G3`", "a container held for the hold time makes way for a starving queue; not seen in one queue alone"),
    ("`G4`", "a queue that is throttled for its length gets containers as any other"),
    ("`G5`", "what nodes have no room for is told as `unmet`"),
)


def lines_page() -> str:
    """Return the whole page."""
    return "".join(
        (
            head("Lines of `demand decide`", "slack/demand/lines.py", _TEXT),
            f"\n## A line in\n\n{_fields(Line, defaults=True)}",
            f"\n## A line out\n\n{_fields(DecisionLine, defaults=False)}",
            "\n## The table\n\nRows are asked in this order; the first that fits decides.\n\n",
            table(("row", "what it finds"), ((str(number), text) for number, text in ROWS.items())),
            f"\n## Guards\n\n{table(('guard', 'what it does'), _GUARDS)}",
        )
    )


def _fields(kind: type[msgspec.Struct], *, defaults: bool) -> str:
    described = _docstrings(kind)
    rows = []
    for field in msgspec.structs.fields(kind):
        default = "required" if field.required else msgspec.json.encode(field.default).decode()
        told = described[field.name]
        rows.append((f"`{field.name}`", _type(field.type), *([default] if defaults else []), told))
    return table(("field", "type", *(["default"] if defaults else []), "meaning"), rows)


def _type(kind: Any) -> str:
    names = {int: "integer", float: "number", bool: "boolean", str: "text", type(None): "null"}
    parts = [part for part in get_args(kind) if not isinstance(part, msgspec.Meta)]
    return " or ".join(_type(part) for part in parts) if parts else names.get(kind, "text")


def _docstrings(kind: type) -> dict[str, str]:
    """Return what stands under each field."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    told = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(field.target, ast.Name):
            told[field.target.id] = str(ast.literal_eval(text.value))
    return told
