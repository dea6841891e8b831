"""Tables of many columns and sentences that fit any reader: stacked and wrapped at the console's width, nothing cut."""

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slack.cli.terminal.console import console, pipe_columns, print_table

_GAP = 2
"""Blanks between columns."""
_PIPE_COLUMNS = 80
"""Of a pipe or a file without COLUMNS, which may be read anywhere."""


def stacking_console() -> Console:
    """Return the console, as narrow as any reader's where nobody says how wide a pipe may be."""
    out = console()
    if in_plain_pipe(out):
        out.width = _PIPE_COLUMNS
    return out


def in_plain_pipe(out: Console) -> bool:
    """Whether nobody says how wide lines may be: then there is room for all figures, one table below the other."""
    return not out.is_terminal and pipe_columns() is None


def say(out: Console, text: str, style: str = "") -> None:
    """Print a sentence on as many lines as it takes; a word that is longer than a line is not broken."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    lines = textwrap.wrap(text, out.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    out.print(Text("\n".join(lines), style=style), soft_wrap=True)


def print_stacked(out: Console, stub: list[list[str]], columns: list[list[str]]) -> None:
    """Print columns beside their stub, in several tables where one would be wider than the console."""
    for some in _side_by_side(stub, columns, out.width):
        table = _table()
        for i, (heading, *_) in enumerate(some):
            table.add_column(heading, justify="right" if i else "left", no_wrap=True)
        for cells in zip(*(column[1:] for column in some), strict=True):
            table.add_row(*cells)
        print_table(out, table)


def _side_by_side(stub: list[list[str]], columns: list[list[str]], width: int) -> list[list[list[str]]]:
    """Return columns in as many tables as it takes for each to be as wide as the terminal at most."""

    def wide(column: list[str]) -> int:
        return max(len(line) for cell in column for line in cell.splitlines()) + _GAP

    tables: list[list[list[str]]] = []
    room = 0
    for column in columns:
        if not tables or wide(column) > room:
            tables.append(list(stub))
            room = width - sum(map(wide, stub))
        tables[-1].append(column)
        room -= wide(column)
    return tables


def _table() -> Table:
    return Table(box=None, pad_edge=True, header_style="bold", padding=(0, _GAP, 0, 0))
