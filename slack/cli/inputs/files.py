"""Files that users name, `-` for stdin: whole, or decoded from YAML or JSON. A key given twice is refused."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    import yaml

    from slack.cluster.node_prices import NodePrices

STDIN = Path("-")
MOST_BYTES = 4 << 30
"""Of a snapshot or a trace; 150,000 pods are one GiB."""
MOST_YAML_BYTES = 8 << 20
"""What is written by hand is shorter; a longer file is JSON, which is read a hundred times faster."""
MOST_SCENARIO_BYTES = 512 << 20
"""One that was made of a trace has a line for each workload."""
_PIECE_BYTES = 1 << 20
_PATH = re.compile(r"^(?P<path>[\w\[\]./-]+): ")


class _Twice(ValueError):
    """A key that stands twice in an object of JSON."""


def name_of(path: Path) -> str:
    """Return what a file is called in complaints."""
    return "stdin" if path == STDIN else str(path)


def is_folder(path: Path) -> bool:
    """Tell whether there is a folder; a name that no file can have, too long say, is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_bytes(path: Path, most_bytes: int | None = None) -> bytes:
    """Return a file's content, or stdin's for `-`; of at most MOST_BYTES where nothing else is said.

    Raises:
        UserError: it cannot be read, or is longer than that; a device without an end is read no further.
    """
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    try:
        with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as file:
            known = 0 if path == STDIN else os.fstat(file.fileno()).st_size
            if known > most_bytes:
                raise UserError(_too_long(path, most_bytes))
            pieces: list[bytes] = []
            size = 0
            while piece := file.read(known + 1 if known and not pieces else _PIECE_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > most_bytes:
                    raise UserError(_too_long(path, most_bytes))
            return b"".join(pieces)
    except (OSError, ValueError) as error:  # a name with a NUL in it
        words = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: cannot be read: {words.lower()}") from None


def _too_long(path: Path, most_bytes: int) -> str:
    return f"{name_of(path)}: is longer than {most_bytes >> 20} MiB"


def read_yaml(path: Path) -> bytes:
    """Return what `documents` may be asked to decode, and no more of a file, or a device, than that.

    Raises:
        UserError: as `read_bytes`.
    """
    return read_bytes(path, MOST_YAML_BYTES)


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

    _check(data, source, example)
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


def _check(data: bytes, source: str, example: str) -> None:
    """Refuse YAML that would take without end to load."""
    from slack.cluster.yaml_bounds import UnboundedYaml, check_bounds

    if len(data) > MOST_YAML_BYTES:
        raise UserError(
            f"{source}: is longer than {MOST_YAML_BYTES >> 20} MiB, which is too much for YAML; give {example}"
        )
    try:
        check_bounds(data)
    except UnboundedYaml as error:
        raise UserError(f"{source}, {error}; give {example}") from None


def node_prices(path: Path) -> "NodePrices":
    """Read what nodes cost, as the chart's `prices` has it.

    Raises:
        UserError: naming the file and what is wrong.
    """
    from slack.cluster.node_prices import EXAMPLE, InvalidPrices, parse_prices

    name = name_of(path)
    found = list(documents(read_yaml(path), source=name, example=EXAMPLE))
    if len(found) != 1:
        raise UserError(f"{name}: expected one document with prices, such as {EXAMPLE}")
    try:
        prices = parse_prices(found[0])
    except InvalidPrices as error:
        raise UserError(f"{name}: {error}") from None
    if not prices:
        raise UserError(f"{name}: names no price; expected such as {EXAMPLE}")
    return prices


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
    except (ValueError, RecursionError) as error:  # as YAML it is told with its line and field
        if len(data) > MOST_YAML_BYTES:
            raise UserError(f"{source}: not JSON: {error or 'it is nested too deeply'}") from None
        return None
    nodes(data, source=source)  # knows the lines, unless tabs keep it from being YAML
    raise UserError(twice)


def nodes(data: bytes, *, source: str) -> "yaml.Node | None":
    """Return the first document's nodes, for their lines; None for JSON that is not YAML, such as with tabs.

    Raises:
        UserError: for a key given twice, with its line.
    """
    import yaml

    from slack.cluster.yaml_bounds import check_bounds

    if len(data) > MOST_YAML_BYTES:
        return None
    try:
        check_bounds(data)
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
