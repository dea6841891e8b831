"""Plans as people read them. Colours and boxes only where a terminal shows them; nothing is decided here."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slack.cluster.snapshot import IntArray
from slack.planner.explain_text import resources_text
from slack.planner.outcome import ConditionType, Plan, PolicyPlan, ShapePlan

if TYPE_CHECKING:
    from slack.cli.inputs import Inputs

_WORKLOADS_SHOWN = 3
_UNCOVERED_SHOWN = 10
_GOOD_WHEN_FALSE = {
    ConditionType.PINS_NODES,
    ConditionType.LIMIT_REACHED,
    ConditionType.AUTOSCALER_IGNORES_PLACEHOLDERS,
}
_NOT_YET = "PlaceholdersPending"
"""Of a dry run that nobody has carried out this is no news."""
_PLAIN_WIDTH = 160
"""Columns of a pipe or a file without COLUMNS; a terminal has its own."""


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


def print_plan(plan: Plan, inputs: "Inputs", default_rate: float) -> None:
    """Print every policy's plan."""
    out = console()
    if inputs.built_in:
        text = (
            f"There is no SlackPolicy: this is the built-in policy with --extra-capacity-min-rate {default_rate:g}. "
            "Give the operator's, if it has another."
        )
        out.print(text, style="dim", soft_wrap=True)
    for number, item in enumerate(plan.items):
        if number:
            out.print()
        _policy(out, item)


def _vector(vector: IntArray, resources: Sequence[str]) -> str:
    return resources_text((name, int(value)) for name, value in zip(resources, vector, strict=True)).replace(
        "no requests", "nothing"
    )


def _policy(out: Console, item: PolicyPlan) -> None:
    mode = " (dryRun)" if item.dry_run else ""
    out.print(Text(f"Policy {item.policy}{mode}", style="bold"))
    base = f"  ({item.rate * 100:g} % of {_vector(item.base, item.resources)})" if item.base.any() else ""
    out.print(f"  nodes    {item.nodes}")
    out.print(f"  wanted   {_vector(item.desired, item.resources)}{base}")
    out.print(f"  planned  {_vector(item.planned, item.resources)}")
    shapes = [shape for shape in item.shapes if shape.count or shape.change.remove]
    if shapes:
        print_table(out, _shapes(shapes))
    if item.uncovered:
        out.print("  No room is kept for:")
        for one in item.uncovered[:_UNCOVERED_SHOWN]:
            out.print(Text(f"    {one.pod}: {one.reason}"), soft_wrap=True)
        if len(item.uncovered) > _UNCOVERED_SHOWN:
            out.print(f"    and {len(item.uncovered) - _UNCOVERED_SHOWN} more (-o json has them all)")
    # Where a policy is blocked, several conditions say so in the same words: once is enough for people.
    said: dict[str, list[str]] = {}
    for condition in item.conditions:
        if condition.reason != _NOT_YET and condition.status == (condition.type in _GOOD_WHEN_FALSE):
            said.setdefault(f"={condition.status} {condition.reason}: {condition.message}", []).append(condition.type)
    for text, types in said.items():
        out.print(Text(f"  {', '.join(types)}{text}", style="yellow"), soft_wrap=True)


def print_table(out: Console, table: Table) -> None:
    """Print a table without blanks at the ends of lines where no terminal shows it."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as capture:
        out.print(table)
    for line in capture.get().splitlines():  # rich fills every line up to the table's width
        out.print(Text(line.rstrip()), soft_wrap=True)


def _shapes(shapes: Sequence[ShapePlan]) -> Table:
    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("  SHAPE", no_wrap=True)
    table.add_column("ROLE", no_wrap=True)
    table.add_column("COUNT", justify="right", no_wrap=True)
    table.add_column("EACH", no_wrap=True)
    table.add_column("CHANGE", no_wrap=True)
    table.add_column("FOR")
    for shape in shapes:
        table.add_row(
            f"  {shape.shape.name}",
            str(shape.role),
            str(shape.count),
            resources_text(shape.shape.requests),
            _change(shape),
            _workloads(shape.workloads),
        )
    return table


def _change(shape: ShapePlan) -> str:
    parts = [
        f"+{shape.change.add}" if shape.change.add else "",
        f"-{shape.change.remove}" if shape.change.remove else "",
    ]
    return " ".join(part for part in parts if part) or "none"


def _workloads(names: Sequence[str]) -> str:
    more = f" and {len(names) - _WORKLOADS_SHOWN} more" if len(names) > _WORKLOADS_SHOWN else ""
    return ", ".join(names[:_WORKLOADS_SHOWN]) + more
