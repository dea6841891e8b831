"""What users write by hand, decoded: YAML or JSON with the lines of its keys. A key given twice is refused."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slack.cli.problems import UserError

if TYPE_CHECKING:
    import yaml

_PATH = re.compile(r"^(?P<path>[\w\[\]./-]+): ")


class _Twice(ValueError):
    """A key that stands twice in an object of JSON."""


def documents(data: bytes, *, source: str, example: str) -> Iterator[Any]:
    """Yield the documents of a YAML file; empty ones are left out.

    Args:
        data: the file.
        source: what to call it in complaints.
        example: what should be in it, and where there is one.

    Raises:
        UserError: for what is no YAML, and for a key given twice, with its line.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(data)
        while loader.check_node():
            node = loader.get_node()
            twice = _twice(node)
            if twice is not None:
                raise UserError(f"{source}, {twice}")
            value = loader.construct_document(node)
            if value is not None:
                yield value
    except yaml.YAMLError as error:
        raise UserError(_not_yaml(source, error)) from None
    except ValueError as error:  # PyYAML builds dates and numbers by itself, and 2026-13-45 is none
        raise UserError(f"{source}: not YAML: {error}") from None
    except RecursionError:
        raise UserError(f"{source}: it is nested too deeply; give {example}") from None


def json_object(data: bytes, *, source: str) -> Any:
    """Return a JSON object's value, a hundred times faster than as YAML; None for what is not JSON.

    Raises:
        UserError: for a key given twice.
    """
    if data.lstrip()[:1] != b"{":
        return None
    try:
        return json.loads(data, object_pairs_hook=_once)
    except _Twice as error:
        twice = f"{source}: {error} is given twice; keep one of them"
    except (ValueError, RecursionError):  # as YAML it is told with its line
        return None
    nodes(data, source=source)  # knows the lines, unless tabs keep it from being YAML
    raise UserError(twice)


def nodes(data: bytes, *, source: str) -> "yaml.Node | None":
    """Return the first document's nodes, for their lines; None for JSON that is not YAML, such as with tabs.

    Raises:
        UserError: for a key given twice, with its line.
    """
    import yaml

    try:
        root = yaml.compose(data, Loader=yaml.SafeLoader)
        twice = _twice(root)
    except (yaml.YAMLError, RecursionError):
        return None
    if twice is not None:
        raise UserError(f"{source}, {twice}")
    return root


def line_of(node: "yaml.Node | None", problem: str) -> str:
    """Return ` (line 12)` for a problem that begins with a field's path; '' when nothing of it is in the file."""
    match = _PATH.match(problem)
    rest, line = match["path"] if match else "", 0
    while rest and node is not None:
        node, found, rest = _child(node, rest)
        line = found or line
    return f" (line {line})" if line else ""


def _child(node: "yaml.Node", path: str) -> "tuple[yaml.Node | None, int, str]":
    """Return what a path's first part names, its line, and the path's rest. Keys may have dots: the longest wins."""
    import yaml

    path = path.removeprefix(".")
    if isinstance(node, yaml.SequenceNode) and (match := re.match(r"\[(\d+)\]", path)):
        index = int(match[1])
        if index < len(node.value):
            return node.value[index], node.value[index].start_mark.line + 1, path[match.end() :]
    elif isinstance(node, yaml.MappingNode):
        keys = [(key, value) for key, value in node.value if _begins(path, str(key.value))]
        if keys:
            key, value = max(keys, key=lambda pair: len(pair[0].value))
            return value, key.start_mark.line + 1, path[len(key.value) :]
    return None, 0, ""


def _begins(path: str, key: str) -> bool:
    return bool(key) and path.startswith(key) and path[len(key) : len(key) + 1] in ("", ".", "[")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(repr(key))
        found[key] = value
    return found


def _twice(root: "yaml.Node | None", path: str = "", seen: set[int] | None = None) -> str | None:
    """Return the first key that a mapping has twice, with its lines."""
    import yaml

    seen = set() if seen is None else seen
    if id(root) in seen:  # an alias
        return None
    seen.add(id(root))
    if isinstance(root, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in root.value:
            if isinstance(key, yaml.ScalarNode):
                here, line = f"{path}.{key.value}" if path else str(key.value), key.start_mark.line + 1
                before = lines.get((key.tag, key.value))
                if before is not None:
                    return f"line {line}: {here} is given twice, first in line {before}; keep one of them"
                lines[key.tag, key.value] = line
            else:
                here = path
            found = _twice(value, here, seen)
            if found is not None:
                return found
    elif isinstance(root, yaml.SequenceNode):
        for index, value in enumerate(root.value):
            found = _twice(value, f"{path}[{index}]", seen)
            if found is not None:
                return found
    return None


def _not_yaml(source: str, error: "yaml.YAMLError") -> str:
    import yaml

    if isinstance(error, yaml.reader.ReaderError):
        unit = "character" if error.encoding == "unicode" else "byte"
        return f"{source}: not YAML: the {unit} {error.character:#04x} at position {error.position} is no text"
    mark = getattr(error, "problem_mark", None)
    place = f", line {mark.line + 1}" if mark is not None else ""
    return f"{source}{place}: not YAML: {getattr(error, 'problem', None) or error}"
