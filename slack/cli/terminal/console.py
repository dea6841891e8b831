"""A console on stdout: colours and boxes only where a terminal shows them, plain lines in pipes and files."""

import os
import sys

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_PLAIN_WIDTH = 160
"""Columns of a pipe or a file without COLUMNS; a terminal has its own."""
_UNBOUNDED = 100_000


def console() -> Console:
    """Return a console on stdout that writes plain text into pipes."""
    terminal = sys.stdout.isatty()
    return _Console(
        file=sys.stdout, width=None if terminal else pipe_columns() or _PLAIN_WIDTH, highlight=False, soft_wrap=False
    )


def pipe_columns() -> int | None:
    """Return COLUMNS where somebody exports it: so wide may lines in a pipe be."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


class _Console(Console):
    """One that leaves a reader who has gone (`| head`) to those who handle it for all commands; rich ends with 1."""

    def on_broken_pipe(self) -> None:
        """Let the error through."""
        raise BrokenPipeError


def print_table(out: Console, table: Table, *, headers: bool = True) -> None:
    """Print a table, in which names are never cut: where a terminal is too narrow for them its lines go on below.

    No line ends with blanks where no terminal shows it.
    """
    table.show_header = table.show_header and headers
    before, least = out.width, _least_columns(out, table)
    out.width = max(before, least)
    try:
        with out.capture() as capture:
            out.print(table)
    finally:
        out.width = before
    for line in capture.get().splitlines():  # rich fills every line up to the table's width
        shown = line if out.is_terminal else line.rstrip()
        out.print(Text.from_ansi(shown), soft_wrap=True)


def _least_columns(out: Console, table: Table) -> int:
    """Return how wide a table is in which no word is broken."""
    unbounded = out.options.update(width=_UNBOUNDED)
    unbounded.max_width = _UNBOUNDED
    _, right, _, left = table.padding
    total = 0
    for column in table.columns:
        measured = [Measurement.get(out, unbounded, cell) for cell in (column.header, *column.cells)]
        total += left + right + max(found.maximum if column.no_wrap else found.minimum for found in measured)
    return total
