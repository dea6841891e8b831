"""Runs and tunings as people read them. Nothing is decided here; `-o json` has everything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from slack.cli.terminal.stacked import in_plain_pipe, print_stacked, say, stacking_console
from slack.simulator.runs.baselines import CORE_HOURS, NODE_HOURS

if TYPE_CHECKING:
    from slack.cli.simulation.comparison import Compared
    from slack.simulator.model.result import Churn, Result, WorkloadResult
    from slack.simulator.runs.curve import Point
    from slack.simulator.runs.repeated import Repeated, Starts
    from slack.simulator.runs.tune import Tuned

_WORKLOADS_SHOWN = 12
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
    return lambda runs: "/".join(number(runs.mean(figure)) for figure in of)


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
    _Column("P50", _wait(lambda workload: workload.p50_seconds), wide=True),
    _Column("P95", _wait(lambda workload: workload.p95_seconds), spared=True),
    _Column("P99", _wait(lambda workload: workload.p99_seconds)),
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
            lambda run: run.placeholders_other,
        ),
        wide=True,
    ),
)


def print_runs(lines: "Sequence[Compared]", currency: str, instant_seconds: float) -> None:
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
    say(out, f"{first.scenario}: {_pods(found)} in {_span(first.measured_seconds)}{runs}", "bold")
    print_stacked(out, [["  SLACK", *(f"  {label}" for label in labels)]], columns)
    for text in _legend(currency, instant_seconds, wide=wide):
        say(out, f"  {text}", "dim")
    _churn(out, lines)
    _recreated(out, lines)
    _workloads(out, lines)


def _legend(currency: str, instant_seconds: float, *, wide: bool) -> list[str]:
    cost = cost_text(currency)
    first = (
        f"AT ONCE: bound within {instant_seconds:g} s. WAITED: all pods together. COST {cost}. UNUSED: paid, not "
        f"requested."
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
    return f"{number(most)} pods" if least == most else f"{number(least)} to {number(most)} pods"


def _churn(out: Console, lines: "Sequence[Compared]") -> None:
    """Print what an hour does to placeholders, on average and in the busiest one, where there are any."""
    texts = []
    for line in lines:
        hours = [hour for run in line.found.runs for hour in run.churn_by_hour]
        if not any(hour.created for hour in hours):
            continue
        sums = [sum(figures) / len(hours) for figures in zip(*(_figures(hour) for hour in hours), strict=True)]
        most = max(hours, key=lambda hour: hour.created)
        texts.append(f"{line.label} {_slashed(sums)}, at most {_slashed(_figures(most))}")
    if texts:
        say(out, f"  Churn an hour, created/displaced/drained/other: {'; '.join(texts)}.", "dim")
    made = [(line.label, line.found.mean(lambda run: run.placeholders_made_way)) for line in lines]
    texts = [f"{label} {number(count)}" for label, count in made if count]
    if texts:
        how = "made way for bursts before the scheduler preempted them"
        say(out, f"  Of the displaced ones, {how}: {', '.join(texts)}.", "dim")


def _figures(hour: "Churn") -> tuple[int, int, int, int]:
    return hour.created, hour.displaced, hour.drained, hour.other


def _slashed(figures: "Sequence[float]") -> str:
    return "/".join(number(figure) for figure in figures)


def _recreated(out: Console, lines: "Sequence[Compared]") -> None:
    """Print how those fared that took the place of evicted and preempted pods, where there are any."""
    texts = []
    for line in lines:
        share = line.found.total.recreated_at_once
        if share is not None:
            texts.append(f"{line.label} {number(line.found.total.recreated)} ({percent(share.mean)} at once)")
    if texts:
        say(out, f"  Pods recreated after a drain or preemption, not in AT ONCE: {', '.join(texts)}.", "dim")


def _workloads(out: Console, lines: "Sequence[Compared]") -> None:
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
    out.print(f"\nBy workload: started at once{'' if same else ', of how many'}, p99", style="bold")
    print_stacked(out, stub, columns)
    if len(names) > _WORKLOADS_SHOWN:
        out.print(f"  and {len(names) - _WORKLOADS_SHOWN} more (-o json has them all)")


def _name(workload: str) -> str:
    """Return a workload's name, a long one on two lines."""
    where, slash, name = workload.rpartition("/")
    return f"{where}{slash}\n    {name}" if slash and len(workload) > _LABEL else workload


def _workload(starts: "Starts", *, counted: bool) -> str:
    if not starts.pods:
        return "no pods"
    of = f" of {number(starts.pods)}" if counted else ""
    return f"{at_once(starts)}{of}, {seconds(starts.mean(lambda workload: workload.p99_seconds))}"


def _heading(label: str) -> str:
    """Return a label on two lines where it has brackets: columns are narrower then."""
    return label.replace(" (", "\n(", 1)


def print_curve(points: "Sequence[Point]", scenario: str, currency: str, instant_seconds: float) -> None:
    """Print rate against instant start and cost."""
    out = stacking_console()
    runs = len(points[0].results)
    counts = [sum(result.pods for result in point.results) / runs for point in points]
    least, most = min(counts), max(counts)
    pods = number(most) if least == most else f"{number(least)} to {number(most)}"
    each = f"{runs} seeds a rate" if runs > 1 else "1 seed a rate (--seeds 5 gives an interval)"
    say(out, f"{scenario}: {pods} pods; {each}", "bold")
    _print_curve_table(out, points, lambda _: "")
    cost = cost_text(currency)
    say(out, f"  AT ONCE: bound within {instant_seconds:g} s. COST {cost}. UNUSED: paid, not requested.", "dim")


def cost_text(currency: str) -> str:
    """Say what costs are in: money, or the hours that take its place."""
    if currency in (NODE_HOURS, CORE_HOURS):
        return f"in {currency} (there are no prices)"
    return f"in {currency}" if currency else "in the currency of the prices"


def _print_curve_table(out: Console, points: "Sequence[Point]", mark: "Callable[[Point], str]") -> None:
    rates = [f"  {point.rate:g} {mark(point)}".rstrip() for point in points]
    columns = [
        ["AT ONCE", *(percent(point.instant_start_ratio) for point in points)],
        ["95 % INTERVAL", *(map(interval_text, points))],
        ["P99", *(seconds(point.p99_seconds) for point in points)],
        ["NODES", *(f"{point.nodes:.1f}" for point in points)],
        ["COST A MONTH", *(f"{point.cost_per_month:.2f}" for point in points)],
        ["UNUSED", *(percent(point.waste) for point in points)],
    ]
    print_stacked(out, [["  RATE", *rates]], columns)


def print_tuned(tuned: "Tuned", currency: str) -> None:
    """Print the curve, and the choice with what it is expected to bring."""
    out = stacking_console()
    say(out, f"Instant start of {percent(tuned.goal)} wanted; {_runs_of(tuned)}", "bold")
    _print_curve_table(out, tuned.curve, lambda point: "(chosen)" if point is tuned.chosen else "")
    say(out, f"  COST A MONTH {cost_text(currency)}.", "dim")
    if tuned.given_up:
        rates = ", ".join(f"{rate:g}" for rate in tuned.given_up)
        say(out, f"  Given up before their end, as they cannot reach it: {rates}.", "dim")
    unit = f" {currency}" if currency else ""
    chosen, without = tuned.chosen, tuned.without()
    if chosen is None:
        best = tuned.best
        say(
            out,
            f"No rate up to {tuned.curve[-1].rate:g} reaches it. The best is {best.rate:g} with "
            f"{percent(best.instant_start_ratio)}.",
            "yellow",
        )
        return
    reached = f"Rate {chosen.rate:g}: {percent(chosen.instant_start_ratio)} of pods start at once"
    late = f"{number(chosen.late_per_day)} pods a day are late and all wait {_hours(chosen.waited_hours_per_day)}"
    if chosen is without:
        why = no_slack_needed(tuned) or "it is the least rate that was tried"
        say(out, f"{reached} ({interval_text(chosen)}): {why}.")
        say(out, f"It costs {chosen.cost_per_month:.2f}{unit} a month.")
        say(out, f"{late}.")
    else:
        instead = f"instead of {percent(without.instant_start_ratio)} at rate {without.rate:g}"
        more = chosen.cost_per_month - without.cost_per_month
        say(out, f"{reached} ({interval_text(chosen)}), {instead}.")
        say(out, f"It costs {chosen.cost_per_month:.2f}{unit} a month, {more:.2f}{unit} more.")
        waited = f"{number(without.late_per_day)} and {_hours(without.waited_hours_per_day)}"
        say(out, f"{late}, instead of {waited}.")
    said = caution(tuned)
    if said:
        say(out, said, "yellow")


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


def _runs_of(tuned: "Tuned") -> str:
    most, least = len(tuned.seeds), min(len(point.results) for point in tuned.curve)
    if most == least:
        return f"{most} runs a rate" if most > 1 else "1 run a rate"
    return f"1 run a rate, {most} where it is decided"


def no_slack_needed(tuned: "Tuned") -> str | None:
    """Return what a choice of rate 0 means, None for any other."""
    if tuned.chosen is None or tuned.chosen.rate:
        return None
    return "no slack is needed for the goal, and a policy with minRate 0 keeps none by its rate"


def caution(tuned: "Tuned") -> str | None:
    """Return what chance leaves open of a choice, None for nothing."""
    if tuned.chosen is None:
        return None
    if len(tuned.seeds) < 2:
        return "One run a rate: how far chance goes is not known; give --seeds 5 or more."
    if not tuned.unsure:
        return None
    surer = tuned.surer
    if surer is None and any(len(point.results) < len(tuned.seeds) for point in tuned.curve):
        other = "or take a larger rate, --exact tells which"
    elif surer is None:
        other = f"no rate up to {tuned.curve[-1].rate:g} has its whole interval there"
    else:
        other = f"or take rate {surer.rate:g}, whose interval begins at {percent(surer.low)}"
    return f"The interval reaches below the goal of {percent(tuned.goal)}: more --seeds make it narrower; {other}."


def interval_text(point: "Point") -> str:
    """Return the confidence interval; of one seed there is none."""
    if len(point.results) < 2:
        return "one run"
    return _percents(point.low, point.high)


def _span(value: float) -> str:
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"
