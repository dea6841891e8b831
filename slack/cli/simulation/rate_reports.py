"""What each rate brings and costs, as people read it, and which one is chosen with what chance leaves open."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from slack.cli.simulation.figures import cost_text, hours_text, number, percent, percents, seconds
from slack.cli.terminal.stacked import print_stacked, say, stacking_console

if TYPE_CHECKING:
    from slack.simulator.runs.curve import CurvePoint
    from slack.simulator.runs.tune import Tuned


def print_curve(points: "Sequence[CurvePoint]", scenario: str, currency: str, instant_seconds: float) -> None:
    """Print rate against instant start and cost."""
    out = stacking_console()
    runs = len(points[0].results)
    counts = [sum(result.pods for result in point.results) / runs for point in points]
    least, most = min(counts), max(counts)
    pods = number(most) if least == most else f"{number(least)} to {number(most)}"
    each = f"{runs} seeds per rate" if runs > 1 else "1 seed per rate (--seeds 5 gives an interval)"
    say(out, f"{scenario}: {pods} {'pod' if pods == '1' else 'pods'}; {each}", "bold")
    _print_curve_table(out, points, lambda _: "")
    cost = cost_text(currency)
    say(
        out,
        f"  INSTANT: share of pods bound within {instant_seconds:g} s. COST {cost}. UNUSED: paid, not requested.",
        "dim",
    )


def _print_curve_table(out: Console, points: "Sequence[CurvePoint]", mark: "Callable[[CurvePoint], str]") -> None:
    rates = [f"  {point.rate:g} {mark(point)}".rstrip() for point in points]
    columns = [
        ["INSTANT", *(percent(point.instant_start_ratio) for point in points)],
        ["95 % INTERVAL", *(map(interval_text, points))],
        ["P99", *(seconds(point.p99_seconds) for point in points)],
        ["NODES", *(f"{point.nodes:.1f}" for point in points)],
        ["COST PER MONTH", *(f"{point.cost_per_month:.2f}" for point in points)],
        ["UNUSED", *(percent(point.waste) for point in points)],
    ]
    print_stacked(out, [["  RATE", *rates]], columns)


def print_tuned(tuned: "Tuned", currency: str) -> None:
    """Print the curve, and the choice with what it is expected to bring."""
    out = stacking_console()
    say(out, f"Instant start of {percent(tuned.goal)} wanted; {_runs_of(tuned)}", "bold")
    _print_curve_table(out, tuned.curve, lambda point: "(chosen)" if point is tuned.chosen else "")
    say(out, f"  COST PER MONTH {cost_text(currency)}.", "dim")
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
    reached = f"Rate {chosen.rate:g}: {percent(chosen.instant_start_ratio)} of pods start without waiting"
    late = f"{number(chosen.late_per_day)} pods per day are late and all wait {hours_text(chosen.waited_hours_per_day)}"
    if chosen is without:
        why = no_slack_needed(tuned) or "it is the least rate that was tried"
        say(out, f"{reached} ({interval_text(chosen)}): {why}.")
        say(out, f"It costs {chosen.cost_per_month:.2f}{unit} per month.")
        say(out, f"{late}.")
    else:
        instead = f"instead of {percent(without.instant_start_ratio)} at rate {without.rate:g}"
        more = chosen.cost_per_month - without.cost_per_month
        say(out, f"{reached} ({interval_text(chosen)}), {instead}.")
        say(out, f"It costs {chosen.cost_per_month:.2f}{unit} per month, {more:.2f}{unit} more.")
        waited = f"{number(without.late_per_day)} and {hours_text(without.waited_hours_per_day)}"
        say(out, f"{late}, instead of {waited}.")
    said = caution(tuned)
    if said:
        say(out, said, "yellow")


def _runs_of(tuned: "Tuned") -> str:
    most, least = len(tuned.seeds), min(len(point.results) for point in tuned.curve)
    if most == least:
        return f"{most} runs per rate" if most > 1 else "1 run per rate"
    return f"1 run per rate, {most} where it is decided"


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
        return "One run per rate: the confidence interval is unknown. Use --seeds 5 or more."
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


def interval_text(point: "CurvePoint") -> str:
    """Return the confidence interval; of one seed there is none."""
    if len(point.results) < 2:
        return "one run"
    return percents(point.low, point.high)
