"""Runs and tunings as people read them. Nothing is decided here; `-o json` has everything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from slack.cli.tables import console, print_table

if TYPE_CHECKING:
    from slack.simulator.result import Result
    from slack.simulator.tune import Point, Tuned

_WORKLOADS_SHOWN = 12
_WIDE = 110
"""Columns of a terminal from which on the less important ones are shown too."""


def percent(share: float) -> str:
    """Return a share with one digit; 99.96 is not 100."""
    text = f"{share * 100:.1f} %"
    return "> 99.9 %" if share < 1 and text == "100.0 %" else text


def seconds(value: float) -> str:
    """Return a time to bind as people say it."""
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


_COLUMNS: "tuple[tuple[str, Callable[[Result], str], bool], ...]" = (
    ("AT ONCE", lambda run: percent(run.total.instant_start_ratio), False),
    ("P50", lambda run: seconds(run.total.p50_seconds), True),
    ("P95", lambda run: seconds(run.total.p95_seconds), False),
    ("P99", lambda run: seconds(run.total.p99_seconds), False),
    ("WAITED", lambda run: f"{run.total.pending_pod_seconds / 60:.1f} min", False),
    ("NODE HOURS", lambda run: f"{run.node_hours:.1f}", True),
    ("COST", lambda run: f"{run.cost:.2f}", False),
    ("UNUSED", lambda run: percent(run.waste), False),
    ("UP/DOWN", lambda run: f"{run.scale_ups}/{run.scale_downs}", True),
    ("DISPLACED", lambda run: str(run.placeholders_displaced), True),
)
"""Heading, what stands under it, whether only a wide terminal shows it."""


def print_runs(runs: "Sequence[tuple[str, Result]]", currency: str, instant_seconds: float) -> None:
    """Print runs side by side, and how the workloads of each fared."""
    out = console()
    table = _table()
    columns = [column for column in _COLUMNS if out.width >= _WIDE or not column[2]]
    table.add_column("  SLACK", no_wrap=True)
    for heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, run in runs:
        table.add_row(f"  {name}", *(show(run) for _, show, _ in columns))
    first = runs[0][1]
    out.print(Text(f"{first.scenario}: {first.total.pods} pods in {_span(first.measured_seconds)}", style="bold"))
    print_table(out, table)
    cost = f"in {currency} (the scenario has no pricePerHour)" if currency else "as the scenario's pricePerHour"
    out.print(
        f"  AT ONCE: bound within {instant_seconds:g} s. WAITED: all pods together. COST {cost}. UNUSED: paid, "
        f"not requested.",
        style="dim",
        soft_wrap=True,
    )
    _workloads(runs)


def _workloads(runs: "Sequence[tuple[str, Result]]") -> None:
    names = [one.workload for one in runs[0][1].workloads]
    if len(names) < 2:
        return
    out = console()
    table = _table()
    table.add_column("  WORKLOAD", no_wrap=True)
    table.add_column("PODS", justify="right", no_wrap=True)
    for name, _ in runs:
        table.add_column(name, justify="right", no_wrap=True)
    for row, name in enumerate(names[:_WORKLOADS_SHOWN]):
        found = [run.workloads[row] for _, run in runs]
        texts = [
            f"{percent(one.instant_start_ratio)}, {seconds(one.p99_seconds)}" if one.pods else "no pods"
            for one in found
        ]
        table.add_row(f"  {name}", str(found[0].pods), *texts)
    out.print("\nBy workload: started at once, p99", style="bold")
    print_table(out, table)
    if len(names) > _WORKLOADS_SHOWN:
        out.print(f"  and {len(names) - _WORKLOADS_SHOWN} more (-o json has them all)")


def print_tuned(tuned: "Tuned", currency: str) -> None:
    """Print the curve, and the choice with what it is expected to bring."""
    out = console()
    table = _table()
    for heading in ("  RATE", "AT ONCE", "95 % INTERVAL", "P99", "NODES", "COST A MONTH", "UNUSED", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in tuned.curve:
        table.add_row(
            f"  {point.rate:g}",
            percent(point.instant_start_ratio),
            interval_text(point),
            seconds(point.p99_seconds),
            f"{point.nodes:.1f}",
            f"{point.cost_per_month:.2f}",
            percent(point.waste),
            "<- chosen" if point is tuned.chosen else "",
        )
    runs = f"{len(tuned.seeds)} runs a rate" if len(tuned.seeds) > 1 else "1 run a rate"
    out.print(Text(f"Instant start of {percent(tuned.goal)} wanted; {runs}", style="bold"))
    print_table(out, table)
    unit = f" {currency}" if currency else ""
    chosen, without = tuned.chosen, tuned.without()
    if chosen is None:
        best = tuned.best
        out.print(
            f"No rate up to {tuned.curve[-1].rate:g} reaches it. The best is {best.rate:g} with "
            f"{percent(best.instant_start_ratio)}.",
            style="yellow",
            soft_wrap=True,
        )
        return
    out.print(
        f"Rate {chosen.rate:g}: {percent(chosen.instant_start_ratio)} of pods start at once ({interval_text(chosen)}), "
        f"instead of {percent(without.instant_start_ratio)} at rate {without.rate:g}.",
        soft_wrap=True,
    )
    more = chosen.cost_per_month - without.cost_per_month
    out.print(f"It costs {chosen.cost_per_month:.2f}{unit} a month, {more:.2f} more.", soft_wrap=True)


def interval_text(point: "Point") -> str:
    """Return the confidence interval; of one seed there is none."""
    if len(point.outcomes) < 2:
        return "one run"
    return f"{point.low * 100:.1f} to {point.high * 100:.1f} %"


def _table() -> Table:
    return Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))


def _span(value: float) -> str:
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"
