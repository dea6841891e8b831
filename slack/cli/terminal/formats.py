"""How an answer is printed: as a table, a wider one, or as one document in JSON or YAML with the same fields."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def for_machines(self) -> bool:
        """Whether a program is to read it."""
        return self in (Format.JSON, Format.YAML)


OutputFormat = Annotated[
    Format, typer.Option("--output", "-o", help="How it is printed; json and yaml have the same fields.")
]


class FileFormat(StrEnum):
    """What `-o` takes where the answer is a file for another program: there is no table of it."""

    YAML = "yaml"
    JSON = "json"


YamlFile = Annotated[
    FileFormat, typer.Option("--output", "-o", help="As what it is printed; json has no comment at its head.")
]

_WIDE_COLUMNS = "200"


@contextmanager
def wide_columns(output: Format) -> Iterator[None]:
    """Let a wide table be so, whatever the terminal or the pipe is."""
    before = os.environ.get("COLUMNS")
    if output is Format.WIDE:
        os.environ["COLUMNS"] = _WIDE_COLUMNS
    try:
        yield
    finally:
        if output is Format.WIDE:
            if before is None:
                del os.environ["COLUMNS"]
            else:
                os.environ["COLUMNS"] = before


def print_document(document: Any, output: Format | FileFormat) -> None:
    """Print a document as JSON or YAML."""
    if output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
    else:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
