"""kubectl's `-o jsonpath=...`, `-o custom-columns=...` and `-o name`, over the document that a command prints.

The paths are evaluated by python-jsonpath. Here is what kubectl puts around them: braces in a text, `range` and `end`,
quoted texts, names with escaped dots, and columns.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slack.errors import InvalidInput

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')      # a quoted text, left as it is
    |(?P<number>(?<![\w\])])-?\d+\.\d+)                     # 1.5 is no field
    |(?P<dots>\.\.?)(?P<name>\*|(?:[\w/-]|\\.)+)            # .name, ..name, .*""",
    re.VERBOSE,
)
_PART = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}""")
_ITEM = re.compile(r"""(?:[^\s"'\[(]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\[(?:[^\]"']|"[^"]*"|'[^']*')*\])+""")
_GAP = "   "
_NONE = "<none>"
_GROUPS = {
    "deployment": "apps",
    "replicaset": "apps",
    "statefulset": "apps",
    "job": "batch",
    "lease": "coordination.k8s.io",
    "priorityclass": "scheduling.k8s.io",
}
"""API groups of kinds that commands list, as `-o name` shows them."""


class InvalidTemplate(InvalidInput):
    """A template that cannot be read."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that is printed as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """Values that are printed."""

    compiled: Any


@dataclass(frozen=True, slots=True)
class Range:
    """Parts that are printed for each value of a path."""

    compiled: Any
    parts: "tuple[Part, ...]"


Part = Literal | Path | Range


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `-o custom-columns`."""

    heading: str
    compiled: Any


def parse_template(text: str) -> tuple[Part, ...]:
    """Read the template of `-o jsonpath`; one without braces is a path.

    Raises:
        InvalidTemplate: with what is wrong, and the correct form.
    """
    if not text.strip():
        raise InvalidTemplate("the template is empty; write jsonpath='{.kind}'")
    if "{" not in text:
        return (Path(_compile(text)),)
    stack: list[tuple[Any, list[Part]]] = [(None, [])]
    at = 0
    for found in _PART.finditer(text):
        _take_text(text[at : found.start()], stack[-1][1])
        at = found.end()
        words = found[1].strip()
        if words == "end":
            if len(stack) == 1:
                raise InvalidTemplate("{end} without {range}")
            compiled, parts = stack.pop()
            stack[-1][1].append(Range(compiled, tuple(parts)))
        elif words == "range" or words.startswith("range "):
            stack.append((_compile(words.removeprefix("range")), []))
        else:
            stack[-1][1].extend(_items(words))
    _take_text(text[at:], stack[-1][1])
    if len(stack) > 1:
        raise InvalidTemplate("{range} without {end}; write {range .items[*]}{.name}{'\\n'}{end}")
    return tuple(stack[0][1])


def _take_text(text: str, parts: list[Part]) -> None:
    if "{" in text or "}" in text:
        raise InvalidTemplate(f"a brace has no partner at {text[:40]!r}")
    if text:
        parts.append(Literal(text))


def _items(words: str) -> Iterator[Part]:
    """Yield what one pair of braces has: paths and quoted texts."""
    if rest := _ITEM.sub("", words).strip():
        raise InvalidTemplate(f"{rest[:40]!r} is no part of a path such as .items[*].name")
    for word in _ITEM.findall(words):
        yield Literal(_unquote(word)) if word[0] in "\"'" else Path(_compile(word))


def _unquote(word: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), word[1:-1])


def parse_columns(text: str) -> tuple[Column, ...]:
    """Read the columns of `-o custom-columns`.

    Raises:
        InvalidTemplate: with what is wrong, and the correct form.
    """
    columns = []
    for part in re.findall(r"""(?:[^,\["']|"[^"]*"|'[^']*'|\[[^\]]*\])+""", text):
        heading, colon, path = part.partition(":")
        if not colon or not heading.strip() or not path.strip():
            raise InvalidTemplate(f"{part!r} is no HEADING:PATH, such as NAME:.name")
        columns.append(Column(heading.strip(), _compile(path.strip().removeprefix("{").removesuffix("}"))))
    if not columns:
        raise InvalidTemplate("no column is named; write custom-columns=NAME:.name")
    return tuple(columns)


def _compile(path: str) -> Any:
    """Return kubectl's path as the library's: from `$`, every name in brackets, as dots may be escaped."""
    import jsonpath

    def rewrite(found: "re.Match[str]") -> str:
        name = found["name"]
        if name is None:
            return found[0]
        inner = "*" if name == "*" else "'" + re.sub(r"\\(.)", r"\1", name).replace("'", "\\'") + "'"
        return f"{'..' if found['dots'] == '..' else ''}[{inner}]"

    text = _TOKEN.sub(rewrite, path.strip())
    if text.startswith("@"):
        text = text[1:]
    if not text.startswith("$"):
        text = f"${text}"
    try:
        return jsonpath.compile(text)
    except jsonpath.JSONPathError as error:
        raise InvalidTemplate(f"{path.strip()!r} is no path such as .items[*].name: {error.args[0]}") from None


def template_text(parts: Iterable[Part], document: Any) -> str:
    """Return what a template prints; a path without a value prints nothing."""
    written = []
    for part in parts:
        if isinstance(part, Literal):
            written.append(part.text)
        elif isinstance(part, Path):
            written.append(" ".join(_value(value) for value in part.compiled.findall(document)))
        else:
            written += [template_text(part.parts, value) for value in part.compiled.findall(document)]
    return "".join(written)


def columns_text(columns: Sequence[Column], rows: Sequence[Any], *, headers: bool) -> list[str]:
    """Return the lines of a table of columns, padded as kubectl pads them."""
    table = [[column.heading for column in columns]] if headers else []
    table += [[",".join(map(_value, column.compiled.findall(row))) or _NONE for column in columns] for row in rows]
    widths = [max((len(line[at]) for line in table), default=0) for at in range(len(columns))]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def object_names(rows: Iterable[Mapping[str, Any]], resource: str, name: str) -> list[str]:
    """Return what `-o name` prints: a line per object."""
    return [f"{resource or _resource(str(row['kind']))}/{row[name]}" for row in rows]


def _resource(kind: str) -> str:
    group = _GROUPS.get(kind.lower())
    return f"{kind.lower()}.{group}" if group else kind.lower()


def _value(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
