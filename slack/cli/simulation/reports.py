"""Runs as people read them, variants side by side. Nothing is decided here; `-o json` has everything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from slack.cli.simulation.figures import cost_text, number, percent, percents, seconds, span
from slack.cli.terminal.stacked import in_plain_pipe, print_stacked, say, stacking_console

if TYPE_CHECKING:
    from slack.cli.simulation.comparison import ComparedVariant
    from slack.simulator.model.result import Churn, Result, WorkloadResult
    from slack.simulator.runs.repeated import Repeated, StartFigures

_WORKLOADS_SHOWN = 12
_LABEL, _NARROW_LABEL = 36, 18
"""A longer label takes two lines."""
_WIDE = 110
"""Columns of a terminal from which on the less important ones are shown too."""


def instant_share(starts: "StartFigures") -> str:
    """Return the share of instant starts; of no pods there is none."""
    found = starts.instant_starts
    return percent(found.mean) if found is not None else "no pods"


def _wait(of: "Callable[[WorkloadResult], float]") -> "Callable[[Repeated], str]":
    return lambda runs: seconds(runs.total.mean(of)) if runs.total.pods else "-"


def _instant_interval(runs: "Repeated") -> str:
    found = runs.total.instant_starts
    return percents(found.low, found.high) if found is not None else "-"


def _counts(*of: "Callable[[Result], float]") -> "Callable[[Repeated], str]":
    return lambda runs: "/".join(number(runs.mean(figure)) for figure in of)


def _waiting_seconds(run: "Result") -> float:
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
    _Column("INSTANT", lambda runs: instant_share(runs.total)),
    _Column("95 % INTERVAL", _instant_interval, several=True),
    _Column("P50", _wait(lambda workload: workload.p50_seconds), wide=True),
    _Column("P95", _wait(lambda workload: workload.p95_seconds), spared=True),
    _Column("P99", _wait(lambda workload: workload.p99_seconds)),
    _Column("WAITED", lambda runs: f"{runs.mean(_waiting_seconds) / 60:.1f} min", spared=True),
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
            lambda run: run.placeholders_other,
        ),
        wide=True,
    ),
)


def print_runs(lines: "Sequence[ComparedVariant]", currency: str, instant_seconds: float) -> None:
    """Print variants side by side, and how the workloads of each fared."""
    out = stacking_console()
    found = [line.found for line in lines]
    several = len(found[0].runs) > 1
    wide = out.width >= _WIDE or in_plain_pipe(out)
    longest = _LABEL if out.width >= _WIDE else _NARROW_LABEL
    labels = [line.label if len(line.label) <= longest else line.label.replace(" (", "\n    (", 1) for line in lines]
    columns = [
        [column.heading, *(column.show(runs) for runs in found)]
        for column in _COLUMNS
        if column.shown(wide=wide, several=several)
    ]
    first = found[0].first
    runs = f"; means of {len(found[0].runs)} seeds" if several else ""
    say(out, f"{first.scenario}: {_pods(found)} in {span(first.measured_seconds)}{runs}", "bold")
    print_stacked(out, [["  SLACK", *(f"  {label}" for label in labels)]], columns)
    for text in _legend(currency, instant_seconds, wide=wide):
        say(out, f"  {text}", "dim")
    _churn(out, lines)
    _print_recreated(out, lines)
    _workloads(out, lines)


def _legend(currency: str, instant_seconds: float, *, wide: bool) -> list[str]:
    cost = cost_text(currency)
    first = (
        f"INSTANT: share of pods bound within {instant_seconds:g} s. WAITED: all pods together. COST {cost}. UNUSED: "
        f"paid, not requested."
    )
    second = (
        "UP/DOWN: nodes requested/removed. CHURN: placeholders created/displaced by pods/drained with their node/"
        "other: created though as much was there."
    )
    return [first, second] if wide else [first]


def _pods(found: "Sequence[Repeated]") -> str:
    """Return how many pods were measured; with an HPA the slack has a say in it."""
    counts = [runs.total.pods for runs in found]
    least, most = min(counts), max(counts)
    return (
        f"{number(most)} {'pod' if most == 1 else 'pods'}"
        if least == most
        else f"{number(least)} to {number(most)} pods"
    )


def _churn(out: Console, lines: "Sequence[ComparedVariant]") -> None:
    """Print what an hour does to placeholders, on average and in the busiest one, where there are any."""
    texts = []
    for line in lines:
        hours = [hour for run in line.found.runs for hour in run.churn_by_hour]
        if not any(hour.created for hour in hours):
            continue
        sums = [sum(figures) / len(hours) for figures in zip(*(_figures(hour) for hour in hours), strict=True)]
        most = max(hours, key=lambda hour: hour.created)
        texts.append(f"{line.label} {_slash_list(sums)}, at most {_slash_list(_figures(most))}")
    if texts:
        say(out, f"  Churn per hour, created/displaced/drained/other: {'; '.join(texts)}.", "dim")
    made = [(line.label, line.found.mean(lambda run: run.placeholders_made_way)) for line in lines]
    texts = [f"{label} {number(count)}" for label, count in made if count]
    if texts:
        how = "made way for bursts before the scheduler preempted them"
        say(out, f"  Of the displaced ones, {how}: {', '.join(texts)}.", "dim")


def _figures(hour: "Churn") -> tuple[int, int, int, int]:
    return hour.created, hour.displaced, hour.drained, hour.other


def _slash_list(figures: "Sequence[float]") -> str:
    return "/".join(number(figure) for figure in figures)


def _print_recreated(out: Console, lines: "Sequence[ComparedVariant]") -> None:
    """Print how those fared that took the place of evicted and preempted pods, where there are any."""
    texts = []
    for line in lines:
        share = line.found.total.recreated_instant_starts
        if share is not None:
            texts.append(f"{line.label} {number(line.found.total.recreated)} ({percent(share.mean)} instant)")
    if texts:
        say(out, f"  Pods recreated after a drain or preemption, not in INSTANT: {', '.join(texts)}.", "dim")


def _workloads(out: Console, lines: "Sequence[ComparedVariant]") -> None:
    found = [line.found.workloads for line in lines]
    names = [workload.workload for workload in found[0]]
    if len(names) < 2:
        return
    # one column for all, unless slack has changed the counts: an HPA sees other pods running then
    same = all(
        workload.pods == first.pods for of_line in found for workload, first in zip(of_line, found[0], strict=True)
    )
    stub = [["  WORKLOAD", *(f"  {_name(name)}" for name in names[:_WORKLOADS_SHOWN])]]
    if same:
        stub.append(["PODS", *(number(workload.pods) for workload in found[0][:_WORKLOADS_SHOWN])])
    columns = [
        [_heading(line.label), *(_workload(workload, counted=not same) for workload in of_line[:_WORKLOADS_SHOWN])]
        for line, of_line in zip(lines, found, strict=True)
    ]
    out.print(f"\nBy workload: instant starts{'' if same else ', of how many'}, p99", style="bold")
    print_stacked(out, stub, columns)
    if len(names) > _WORKLOADS_SHOWN:
        out.print(f"  and {len(names) - _WORKLOADS_SHOWN} more (-o json has them all)")


def _name(workload: str) -> str:
    """Return a workload's name, a long one on two lines."""
    where, slash, name = workload.rpartition("/")
    return f"{where}{slash}\n    {name}" if slash and len(workload) > _LABEL else workload


def _workload(starts: "StartFigures", *, counted: bool) -> str:
    if not starts.pods:
        return "no pods"
    of = f" of {number(starts.pods)}" if counted else ""
    return f"{instant_share(starts)}{of}, {seconds(starts.mean(lambda workload: workload.p99_seconds))}"


def _heading(label: str) -> str:
    """Return a label on two lines where it has brackets: columns are narrower then."""
    return label.replace(" (", "\n(", 1)
