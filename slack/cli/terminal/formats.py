"""How an answer is printed: as a table, a wider one, or as one document in JSON or YAML with the same fields."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, NoReturn, TypeVar

import typer


class OutputKind(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def for_machines(self) -> bool:
        """Whether a program is to read it."""
        return self in (OutputKind.JSON, OutputKind.YAML)


OutputFormat = Annotated[
    OutputKind, typer.Option("--output", "-o", help="How it is printed; json and yaml have the same fields.")
]


class FileFormat(StrEnum):
    """What `-o` takes where the answer is a file for another program: there is no table of it."""

    YAML = "yaml"
    JSON = "json"


YamlFile = Annotated[
    FileFormat, typer.Option("--output", "-o", help="As what it is printed; json has no comment at its head.")
]

T = TypeVar("T")

_WIDE_COLUMNS = "200"
_WATCH_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[2J"


@contextmanager
def wide_columns(output: OutputKind) -> Iterator[None]:
    """Let a wide table be so, whatever the terminal or the pipe is."""
    before = os.environ.get("COLUMNS")
    if output is OutputKind.WIDE:
        os.environ["COLUMNS"] = _WIDE_COLUMNS
    try:
        yield
    finally:
        if output is OutputKind.WIDE:
            if before is None:
                del os.environ["COLUMNS"]
            else:
                os.environ["COLUMNS"] = before


def print_document(document: Any, output: OutputKind | FileFormat) -> None:
    """Print a document as JSON or YAML."""
    if output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
    else:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def watch_document(
    look: Callable[[], T],
    show: Callable[[T], None],
    document: Callable[[T], Any],
    output: OutputKind,
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
    terminal = sys.stdout.isatty() and not output.for_machines
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
                elif before is not None and output is not OutputKind.JSON:
                    typer.echo("---" if output is OutputKind.YAML else "")
                typer.echo(json.dumps(machine, ensure_ascii=False)) if output is OutputKind.JSON else show(found)
                sys.stdout.flush()
            before = now
        time.sleep(_WATCH_SECONDS)


def printable(text: str) -> str:
    """Return a text of others' as a line that moves no cursor, rings no bell and sets no title."""
    return "".join(char if char.isprintable() else "?" for char in text)
