"""How benchmarks are asked and answer: a table for people or one JSON object, progress on stderr."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = str | int | float | None
Row = Mapping[str, Value]
_NUMBERS = {
    **{"x": "{:.1f}x", "ratio": "{:.2f}", "us": "{:.1f}", "ms": "{:.1f}", "s": "{:.2f}"},
    **{"MiB": "{:,.0f}", "KiB": "{:.1f}"},
}
"""By a column's unit, which is the last word of its name; other numbers have no fraction."""


@dataclass
class Report:
    """What a benchmark found. Columns are those of the first row; their names end with their unit."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return it as a table."""
        names = list(self.rows[0]) if self.rows else []
        cells = [names, *([_cell(name, row[name]) for name in names] for row in self.rows)]
        widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
        left = {place for place, name in enumerate(names) if any(isinstance(row[name], str) for row in self.rows)}
        lines = [
            "  ".join(
                cell.ljust(width) if place in left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in cells
        ]
        return "\n".join([self.title, *lines, *self.notes])


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option that all benchmarks have."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("-o", "--output", choices=("table", "json"), default="table", help="a table, or JSON")
    return found


def show(reports: Sequence[Report], output: str) -> None:
    """Print reports on stdout."""
    if output == "json":
        print(
            json.dumps(
                [{"title": report.title, "rows": report.rows, "notes": report.notes} for report in reports], indent=1
            )
        )
    else:
        print("\n\n".join(report.text() for report in reports))


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def _cell(name: str, value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    unit = name.rpartition(" ")[2]
    return _NUMBERS[unit].format(value) if unit in _NUMBERS else f"{value:,.0f}"
