"""How a help text is laid out: nothing is cut at any width, also in a pipe. Only the standard library is loaded.

Names of flags, values and commands are never broken: where one is wider than its column its meaning begins on the next
line, and a word that is wider than the line stands out. Headings are bold where a terminal shows it.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NAMES_COLUMNS = 30
"""So wide the column of names may get; longer names have a line of their own."""
_MOST_COLUMNS = 120
"""Longer lines are harder to read."""
_LEAST_MEANING = 30
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_MARKUP = re.compile(r"\[(/?)bold\]")


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A flag, an argument or a command."""

    names: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a heading."""

    title: str
    rows: tuple[HelpRow, ...]


def render_help(usage: str, text: str, sections: Sequence[Section], epilog: str = "") -> str:
    """Return a help text as wide as the terminal; a pipe's is COLUMNS wide, or 80.

    Args:
        usage: how the command is written.
        text: what it does; paragraphs apart by blank lines, examples indented; `[bold]` marks a heading.
        sections: its flags and commands.
        epilog: what stands at the end, paragraph by paragraph.
    """
    columns = max(40, min(shutil.get_terminal_size().columns, _MOST_COLUMNS))
    tables = ("\n".join([f"[bold]{part.title}[/bold]", *_rows(part.rows, columns)]) for part in sections if part.rows)
    parts = [f"[bold]Usage:[/bold] {usage}", *_paragraphs(text, columns), *tables, *_paragraphs(epilog, columns)]
    marked = "\n\n".join(parts) + "\n"
    if _bold_is_shown():
        return _MARKUP.sub(lambda found: _PLAIN if found[1] else _BOLD, marked)
    return _MARKUP.sub("", marked)


def _bold_is_shown() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paragraphs(text: str, columns: int) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(" "):
            yield paragraph.rstrip()  # an example: to be copied as it is
        elif paragraph.strip():
            yield "\n".join(_wrap(paragraph, columns))


def _rows(rows: Sequence[HelpRow], columns: int) -> Iterator[str]:
    widest = max((len(row.names) for row in rows if len(row.names) <= _NAMES_COLUMNS), default=0)
    indent = " " * min(widest + 4, columns - _LEAST_MEANING)
    for row in rows:
        lines = list(_wrap(row.meaning, columns - len(indent)))
        if len(row.names) + 4 <= len(indent) and lines:
            yield f"  {row.names}".ljust(len(indent)) + lines.pop(0)
        else:
            yield f"  {row.names}"
        yield from (indent + line for line in lines)


def _wrap(text: str, columns: int) -> Iterator[str]:
    """Break at blanks only: what has none in it is a name, a flag, a path or an address."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > columns:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line
