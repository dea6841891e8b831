"""Runs and tunings as people read them. Nothing is decided here; `-o json` has everything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from slack.cli.tables import console, print_table

if TYPE_CHECKING:
    from slack.cli.comparing import Compared
    from slack.simulator.curve import Point
    from slack.simulator.repeated import Repeated, Starts
    from slack.simulator.result import Result, WorkloadResult
    from slack.simulator.tune import Tuned

_WORKLOADS_SHOWN = 12
_GAP = 2
"""Blanks between columns."""
_LABEL, _NARROW_LABEL = 36, 18
"""A longer label takes two lines."""
_WIDE = 110
"""Columns of a terminal from which on the less important ones are shown too."""


def percent(share: float) -> str:
    """Return a share with one digit; 99.96 is not 100."""
    text = f"{share * 100:.1f} %"
    return "> 99.9 %" if share < 1 and text == "100.0 %" else text


def seconds(value: float) -> str:
    """Return a time to bind as people say it."""
    value = round(value, 6)  # of sums: 0.04999... is 0.05
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"


def number(value: float) -> str:
    """Return a count; a small mean of counts has one digit."""
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def at_once(starts: "Starts") -> str:
    """Return the share of pods that started at once; of no pods there is none."""
    found = starts.at_once
    return percent(found.mean) if found is not None else "no pods"


def _wait(of: "Callable[[WorkloadResult], float]") -> "Callable[[Repeated], str]":
    return lambda runs: seconds(runs.total.mean(of)) if runs.total.pods else "-"


def _at_once_interval(runs: "Repeated") -> str:
    found = runs.total.at_once
    return _percents(found.low, found.high) if found is not None else "-"


def _percents(low: float, high: float) -> str:
    """Return an interval of shares; one that ends below 100 % does not read as 100.0."""
    texts = ("99.9" if share < 1 and f"{share * 100:.1f}" == "100.0" else f"{share * 100:.1f}" for share in (low, high))
    return f"{' to '.join(texts)} %"


def _counts(*of: "Callable[[Result], float]") -> "Callable[[Repeated], str]":
    return lambda runs: "/".join(number(runs.mean(one)) for one in of)


def _waited(run: "Result") -> float:
    return run.total.pending_pod_seconds


class _Column(NamedTuple):
    heading: str
    show: "Callable[[Repeated], str]"
    wide: bool = False
    """Only a wide terminal shows it."""
    spared: bool = False
    """A narrow terminal that must show intervals does not show it."""
    several: bool = False
    """Only where there are several seeds."""

    def shown(self, *, wide: bool, several: bool) -> bool:
        """Tell whether there is room and reason for it."""
        return (wide or not (self.wide or (several and self.spared))) and (several or not self.several)


_COLUMNS = (
    _Column("AT ONCE", lambda runs: at_once(runs.total)),
    _Column("95 % INTERVAL", _at_once_interval, several=True),
    _Column("P50", _wait(lambda one: one.p50_seconds), wide=True),
    _Column("P95", _wait(lambda one: one.p95_seconds), spared=True),
    _Column("P99", _wait(lambda one: one.p99_seconds)),
    _Column("WAITED", lambda runs: f"{runs.mean(_waited) / 60:.1f} min", spared=True),
    _Column("NODE HOURS", lambda runs: f"{runs.mean(lambda run: run.node_hours):.1f}", wide=True),
    _Column("COST", lambda runs: f"{runs.cost.mean:.2f}"),
    _Column("95 % INTERVAL", lambda runs: f"{runs.cost.low:.2f} to {runs.cost.high:.2f}", several=True),
    _Column("UNUSED", lambda runs: percent(runs.mean(lambda run: run.waste)), spared=True),
    _Column("UP/DOWN", _counts(lambda run: run.scale_ups, lambda run: run.scale_downs), wide=True),
    _Column(
        "CHURN",
        _counts(
            lambda run: run.placeholders_created,
            lambda run: run.placeholders_displaced,
            lambda run: run.placeholders_drained,
        ),
        wide=True,
    ),
)


def print_runs(lines: "Sequence[Compared]", currency: str, instant_seconds: float) -> None:
    """Print variants side by side, and how the workloads of each fared."""
    out = console()
    table = _table()
    found = [line.found for line in lines]
    several = len(found[0].runs) > 1
    wide = out.width >= _WIDE
    columns = [column for column in _COLUMNS if column.shown(wide=wide, several=several)]
    table.add_column("  SLACK", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for line in lines:
        label = (
            line.label
            if len(line.label) <= (_LABEL if wide else _NARROW_LABEL)
            else line.label.replace(" (", "\n    (", 1)
        )
        table.add_row(f"  {label}", *(column.show(line.found) for column in columns))
    first = found[0].first
    runs = f"; means of {len(found[0].runs)} seeds" if several else ""
    out.print(Text(f"{first.scenario}: {_pods(found)} in {_span(first.measured_seconds)}{runs}", style="bold"))
    print_table(out, table)
    for text in _legend(currency, instant_seconds, wide=wide):
        out.print(Text(f"  {text}"), style="dim", soft_wrap=True)
    _recreated(lines)
    _workloads(lines)


def _legend(currency: str, instant_seconds: float, *, wide: bool) -> list[str]:
    cost = f"in {currency} (the scenario has no pricePerHour)" if currency else "as the scenario's pricePerHour"
    first = (
        f"AT ONCE: bound within {instant_seconds:g} s. WAITED: all pods together. COST {cost}. UNUSED: paid, not "
        f"requested."
    )
    second = "UP/DOWN: nodes requested/removed. CHURN: placeholders created/displaced by pods/drained with their node."
    return [first, second] if wide else [first]


def _pods(found: "Sequence[Repeated]") -> str:
    """Return how many pods were measured; with an HPA the slack has a say in it."""
    counts = [runs.total.pods for runs in found]
    least, most = min(counts), max(counts)
    return f"{number(most)} pods" if least == most else f"{number(least)} to {number(most)} pods"


def _recreated(lines: "Sequence[Compared]") -> None:
    """Print how those fared that took the place of evicted and preempted pods, where there are any."""
    texts = []
    for line in lines:
        share = line.found.total.recreated_at_once
        if share is not None:
            texts.append(f"{line.label} {number(line.found.total.recreated)} ({percent(share.mean)} at once)")
    if texts:
        said = f"  Pods recreated after a drain or preemption, not in AT ONCE: {', '.join(texts)}."
        console().print(Text(said), style="dim", soft_wrap=True)


def _workloads(lines: "Sequence[Compared]") -> None:
    found = [line.found.workloads for line in lines]
    names = [one.workload for one in found[0]]
    if len(names) < 2:
        return
    out = console()
    # one column for all, unless slack has changed the counts: an HPA sees other pods running then
    same = all(one.pods == first.pods for of_line in found for one, first in zip(of_line, found[0], strict=True))
    stub = [["  WORKLOAD", *(f"  {name}" for name in names[:_WORKLOADS_SHOWN])]]
    if same:
        stub.append(["PODS", *(number(one.pods) for one in found[0][:_WORKLOADS_SHOWN])])
    columns = [
        [_heading(line.label), *(_workload(one, counted=not same) for one in of_line[:_WORKLOADS_SHOWN])]
        for line, of_line in zip(lines, found, strict=True)
    ]
    out.print(f"\nBy workload: started at once{'' if same else ', of how many'}, p99", style="bold")
    for some in _side_by_side(stub, columns, out.width):
        table = _table()
        for i, (heading, *_) in enumerate(some):
            table.add_column(heading, justify="right" if i else "left", no_wrap=True)
        for cells in zip(*(column[1:] for column in some), strict=True):
            table.add_row(*cells)
        print_table(out, table)
    if len(names) > _WORKLOADS_SHOWN:
        out.print(f"  and {len(names) - _WORKLOADS_SHOWN} more (-o json has them all)")


def _workload(starts: "Starts", *, counted: bool) -> str:
    if not starts.pods:
        return "no pods"
    of = f" of {number(starts.pods)}" if counted else ""
    return f"{at_once(starts)}{of}, {seconds(starts.mean(lambda one: one.p99_seconds))}"


def _heading(label: str) -> str:
    """Return a label on two lines where it has brackets: columns are narrower then."""
    return label.replace(" (", "\n(", 1)


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


def print_curve(points: "Sequence[Point]", scenario: str, currency: str, instant_seconds: float) -> None:
    """Print rate against instant start and cost."""
    out = console()
    runs = len(points[0].outcomes)
    counts = [sum(one.pods for one in point.outcomes) / runs for point in points]
    least, most = min(counts), max(counts)
    pods = number(most) if least == most else f"{number(least)} to {number(most)}"
    each = f"{runs} seeds a rate" if runs > 1 else "1 seed a rate (--seeds 5 gives an interval)"
    out.print(Text(f"{scenario}: {pods} pods; {each}", style="bold"))
    print_table(out, _curve_table(points, lambda _: ""))
    cost = f"in {currency} (the scenario has no pricePerHour)" if currency else "as the scenario's pricePerHour"
    out.print(
        f"  AT ONCE: bound within {instant_seconds:g} s. COST {cost}. UNUSED: paid, not requested.",
        style="dim",
        soft_wrap=True,
    )


def _curve_table(points: "Sequence[Point]", mark: "Callable[[Point], str]") -> Table:
    table = _table()
    for heading in ("  RATE", "AT ONCE", "95 % INTERVAL", "P99", "NODES", "COST A MONTH", "UNUSED", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        table.add_row(
            f"  {point.rate:g}",
            percent(point.instant_start_ratio),
            interval_text(point),
            seconds(point.p99_seconds),
            f"{point.nodes:.1f}",
            f"{point.cost_per_month:.2f}",
            percent(point.waste),
            mark(point),
        )
    return table


def print_tuned(tuned: "Tuned", currency: str) -> None:
    """Print the curve, and the choice with what it is expected to bring."""
    out = console()
    runs = f"{len(tuned.seeds)} runs a rate" if len(tuned.seeds) > 1 else "1 run a rate"
    out.print(Text(f"Instant start of {percent(tuned.goal)} wanted; {runs}", style="bold"))
    print_table(out, _curve_table(tuned.curve, lambda point: "<- chosen" if point is tuned.chosen else ""))
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
    said = caution(tuned)
    if said:
        out.print(Text(said), style="yellow", soft_wrap=True)


def caution(tuned: "Tuned") -> str:
    """Return what chance leaves open of a choice, '' for nothing."""
    if tuned.chosen is None:
        return ""
    if len(tuned.seeds) < 2:
        return "One run a rate: how far chance goes is not known; give --seeds 5 or more."
    if not tuned.unsure:
        return ""
    surer = tuned.surer
    if surer is None:
        other = f"no rate up to {tuned.curve[-1].rate:g} has its whole interval there"
    else:
        other = f"or take rate {surer.rate:g}, whose interval begins at {percent(surer.low)}"
    return f"The interval reaches below the goal of {percent(tuned.goal)}: more --seeds make it narrower; {other}."


def interval_text(point: "Point") -> str:
    """Return the confidence interval; of one seed there is none."""
    if len(point.outcomes) < 2:
        return "one run"
    return _percents(point.low, point.high)


def _table() -> Table:
    return Table(box=None, pad_edge=True, header_style="bold", padding=(0, _GAP, 0, 0))


def _span(value: float) -> str:
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"
