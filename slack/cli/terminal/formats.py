"""How an answer is printed: as a table, one document in JSON or YAML, or a part of that, as kubectl does."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NoReturn, TypeVar

import typer


class OutputKind(StrEnum):
    """The formats of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    NAME = "name"
    JSONPATH = "jsonpath"
    CUSTOM_COLUMNS = "custom-columns"
    CAPACITY_BUFFERS = "capacitybuffers"


_TEMPLATES = {OutputKind.JSONPATH: "TEMPLATE", OutputKind.CUSTOM_COLUMNS: "COLUMNS"}
"""Formats that take a value, and what a help text calls it."""


@dataclass(frozen=True, slots=True)
class ListedRows:
    """What a command lists, in an `Annotated[Output, ListedRows(...)]`; without fields it lists nothing."""

    rows: str = ""
    """Field of the document with the rows."""
    resource: str = ""
    """What `-o name` puts before each name; empty: each row has its kind."""
    name: str = "name"
    """Field of a row with the name of its object; empty: rows are no objects."""
    markdown: bool = False
    buffers: bool = False
    """Whether it prints PodTemplates and CapacityBuffers, for an autoscaler that serves these itself."""
    text: str = ""
    """What is particular about this command's formats."""

    @property
    def kinds(self) -> tuple[OutputKind, ...]:
        """The formats that the command has."""
        left_out = set() if self.markdown else {OutputKind.MARKDOWN}
        left_out |= set() if self.buffers else {OutputKind.CAPACITY_BUFFERS}
        left_out |= set() if self.rows else {OutputKind.NAME, OutputKind.CUSTOM_COLUMNS}
        left_out |= set() if self.name else {OutputKind.NAME}
        return tuple(kind for kind in OutputKind if kind not in left_out)


@dataclass(frozen=True, slots=True)
class Output:
    """What `-o` and `--no-headers` say."""

    kind: OutputKind = OutputKind.TABLE
    template: str = ""
    headers: bool = True
    listing: ListedRows = ListedRows()

    @property
    def is_wide(self) -> bool:
        """Whether a table shows all that it has."""
        return self.kind is OutputKind.WIDE

    @property
    def for_machines(self) -> bool:
        """Whether a program is to read it, or a part of it was chosen."""
        return self.kind not in (OutputKind.TABLE, OutputKind.WIDE, OutputKind.MARKDOWN)


TABLE = Output()


def formats_text(kinds: Sequence[OutputKind]) -> str:
    """Return the values of `-o` as a help text has them."""
    return "|".join(f"{kind}={_TEMPLATES[kind]}" if kind in _TEMPLATES else kind for kind in kinds)


def formats_that_begin(kinds: Sequence[OutputKind], incomplete: str) -> list[str]:
    """Return the values of `-o` that begin so."""
    words = [f"{kind}=" if kind in _TEMPLATES else str(kind) for kind in kinds]
    return [word for word in words if word.startswith(incomplete)]


def parse_output(kinds: Sequence[OutputKind], value: str) -> Output:
    """Read the value of `-o`; a template is read here, before any server is asked.

    Raises:
        typer.BadParameter: with the formats that there are.
    """
    text, equals, template = value.partition("=")
    kind = next((kind for kind in kinds if kind == text), None)
    if kind is None or (equals and kind not in _TEMPLATES):
        there = "', '".join(formats_text(kinds).split("|"))
        raise typer.BadParameter(f"{value!r} is not one of '{there}'")
    if kind in _TEMPLATES:
        from slack.cli.terminal.templates import InvalidTemplate, parse_columns, parse_template

        try:
            if kind is OutputKind.JSONPATH:
                parse_template(template)
            else:
                parse_columns(template)
        except InvalidTemplate as error:
            raise typer.BadParameter(f"{kind}: {error}") from None
    return Output(kind, template)


class FileFormat(StrEnum):
    """What `-o` takes where the answer is a file for another program: there is no table of it."""

    YAML = "yaml"
    JSON = "json"


YamlFile = Annotated[FileFormat, typer.Option("--output", "-o", help="Output format. json omits the header comment.")]

T = TypeVar("T")

_WIDE_COLUMNS = "200"
_WATCH_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[2J"


@contextmanager
def wide_columns(output: Output) -> Iterator[None]:
    """Let a wide table be so, whatever the terminal or the pipe is."""
    before = os.environ.get("COLUMNS")
    if output.is_wide:
        os.environ["COLUMNS"] = _WIDE_COLUMNS
    try:
        yield
    finally:
        if output.is_wide:
            if before is None:
                del os.environ["COLUMNS"]
            else:
                os.environ["COLUMNS"] = before


def print_document(document: Any, output: Output | FileFormat) -> None:
    """Print a document as JSON or YAML, or the part of it that was asked for."""
    kind = output.kind if isinstance(output, Output) else output
    if kind == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
    elif kind == "json":
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif isinstance(output, Output):
        _print_part(document, output)


def _print_part(document: Any, output: Output) -> None:
    from slack.cli.terminal.templates import columns_text, object_names, parse_columns, parse_template, template_text

    if output.kind is OutputKind.JSONPATH:
        text = template_text(parse_template(output.template), document)
        typer.echo(text, nl=not text.endswith("\n"))
        return
    rows = document[output.listing.rows]
    if output.kind is OutputKind.NAME:
        lines = object_names(rows, output.listing.resource, output.listing.name)
    else:
        lines = columns_text(parse_columns(output.template), rows, headers=output.headers)
    for line in lines:
        typer.echo(line)


def watch_document(
    look: Callable[[], T],
    show: Callable[[T], None],
    document: Callable[[T], Any],
    output: Output,
    *,
    passing: tuple[type[Exception], ...],
    key: Callable[[Any], Any] = lambda document: document,
) -> NoReturn:
    """Look until Ctrl-C. The first look must succeed; a later one that fails is told once, and tried again.

    Args:
        look: at what is watched.
        show: prints what a look has found.
        document: what it is for machines; in JSON each is a line here.
        output: how it is printed.
        passing: errors that may pass.
        key: what of the document has to change for it to be shown again; a terminal shows it anew each time, as ages
            go on.
    """
    terminal, in_json = sys.stdout.isatty() and not output.for_machines, output.kind is OutputKind.JSON
    before: str | None = None
    while True:
        try:
            found = look()
        except passing as error:
            if before is None:
                raise
            if before != str(error):
                typer.echo(f"error: {printable(str(error))}; trying again", err=True)
            before = str(error)
        else:
            machine = document(found)
            now = json.dumps(key(machine), ensure_ascii=False)
            if terminal or now != before:
                if terminal:
                    typer.echo(_CLEAR, nl=False)
                elif before is not None and not in_json:
                    typer.echo("---" if output.kind is OutputKind.YAML else "")
                typer.echo(json.dumps(machine, ensure_ascii=False)) if in_json else show(found)
                sys.stdout.flush()
            before = now
        time.sleep(_WATCH_SECONDS)


def printable(text: str) -> str:
    """Return a text of others' as a line that moves no cursor, rings no bell and sets no title."""
    return "".join(char if char.isprintable() else "?" for char in text)
