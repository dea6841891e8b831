"""What a CPU limit does, drawn with letters: a bar a busy CPU over one or two enforcement periods.

Nothing is decided here; the figures come from `slack.audit.findings.period_shape` and the findings.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from math import floor
from typing import TYPE_CHECKING

from rich.text import Text

from slack.audit.findings.finding import Finding, Mark, Severity
from slack.audit.findings.period_shape import PeriodShape
from slack.audit.results.explanation import CgroupExplanation
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.export import lines_of
from slack.cli.audit.formats import (
    clean,
    cores,
    milliseconds,
    percent,
    short_marks,
    source_name,
    span,
    state,
    target_name,
    verdict,
)
from slack.cli.terminal.counts import count_text

if TYPE_CHECKING:
    from rich.console import Console

    from slack.audit.advice.rules import Advice

RUNS, STOPS = "█", "░"
_MOST_CPUS = 12
_PERIOD_COLUMNS = 40
_NARROW = 70
_PIPE_WIDTH = 160
_LEAST_PROSE = 20
"""Columns; in fewer nothing can be read anyway."""
_LABEL = re.compile(r" *(?:\d+\. |(?:quota|burst credit|threads|busy CPUs) +)?")
_STYLES = {Severity.HIGH: "bold red", Severity.WARN: "yellow", Severity.INFO: "", Severity.NONE: "green"}


def print_explanation(explanation: CgroupExplanation, *, program: str) -> None:
    """Print the explanation on stdout."""
    from slack.cli.terminal.console import console

    out = console()
    if not out.is_terminal:
        for line in lines(explanation, width=_PIPE_WIDTH, program=program):
            sys.stdout.write(f"{line.plain.rstrip()}\n")
        return
    for line in lines(explanation, width=out.width, program=program):
        for row in fit_rows(line, out):
            out.print(row, soft_wrap=True)  # whatever is still wider is to be copied as it is


def fit_rows(line: Text, out: "Console") -> Iterator[Text]:
    """Yield the rows of a line for a terminal: prose keeps its indent, commands and patches are never broken."""
    hang = _hang(line.plain)
    if line.no_wrap or line.cell_len <= out.width or out.width - hang < _LEAST_PROSE:
        yield line
        return
    head, rest = line.divide([hang])
    for number, row in enumerate(rest.wrap(out, out.width - hang)):
        row.rstrip()
        yield Text.assemble(head if number == 0 else " " * hang, row, style=line.style)


def _hang(text: str) -> int:
    """Return where prose goes on: under its beginning, after a number or a label."""
    found = _LABEL.match(text)
    return found.end() if found else 0


def _whole(text: str, style: str = "") -> Text:
    """Return a line that is to be copied: it is never broken."""
    return Text(text, style=style, no_wrap=True)


def lines(explanation: CgroupExplanation, *, width: int, program: str = "") -> Iterator[Text]:
    """Yield the whole explanation, for a console of so many columns."""
    yield from _head(explanation)
    yield Text()
    yield from _limit(explanation)
    yield Text()
    if explanation.shape is not None:
        yield from picture(explanation.shape, width=width)
        yield Text()
        yield from _period_texts(explanation, explanation.shape)
        yield Text()
    yield from _chain(explanation, width=width)
    yield from _advice(explanation)


def _head(explanation: CgroupExplanation) -> Iterator[Text]:
    subject, result = explanation.subject, explanation.result
    target = subject.window.target
    node = f" on {target.node}" if target.node else ""
    yield Text.assemble(
        (target_name(target), "bold"), f" ({target.level}){node}: ", (verdict(subject), _STYLES[subject.severity])
    )
    alike = f"; the worst of {count_text(explanation.alike, 'pod')}" if explanation.alike > 1 else ""
    yield _whole(f"  {clean(target.path)}", "dim")
    if explanation.nearest_of:
        yield Text(f"  of the limits in {clean(explanation.nearest_of)} this one is the nearest to being used up")
    yield Text(f"  {span(subject.window.seconds)} of {source_name(result.kind)}{alike}")
    if subject.throttled_ratio is not None:
        window = subject.window
        yield Text(
            f"  throttled in {percent(subject.throttled_ratio)} of its periods ({window.throttled:,} of "
            f"{window.periods:,}), time lost {percent(subject.lost_ratio)}{_use(subject)}"
        )
    else:
        lost = "" if subject.lost_ratio is None else f"; time lost {percent(subject.lost_ratio)}"
        yield Text(f"  {state(subject.window.state)} at this level{lost}{_use(subject)}")
    yield from _pressure(subject)


def _pressure(finding: Finding) -> Iterator[Text]:
    """Yield the second axis: what waiting for a CPU is left when time that quotas took is taken away."""
    if finding.pressure_ratio is None:
        return
    others = "how much of it for neighbours is not known"
    if finding.neighbours_ratio is not None:
        others = f"{percent(finding.neighbours_ratio)} of the time for neighbours"
    yield Text(f"  waited for a CPU {percent(finding.pressure_ratio)} of the time, for whatever reason; {others}")


def _use(finding: Finding) -> str:
    return "" if finding.use_cores is None else f", uses {cores(finding.use_cores)} cores"


def _limit(explanation: CgroupExplanation) -> Iterator[Text]:
    governing = explanation.governing
    if governing is None:
        yield _no_quota_text(explanation)
        return
    window = governing.window
    quota_us = window.quota_us or 0
    own = governing is explanation.subject
    whose = "its own" if own else f"that of its {window.target.level}, {target_name(window.target)}"
    yield Text(
        f"  quota        {_ms(quota_us)} of CPU time each {_ms(window.period_us)}: "
        f"{cores(quota_us / window.period_us)} cores; {whose}"
    )
    burst = "unknown" if window.burst_us is None else "none" if not window.burst_us else _ms(window.burst_us)
    used = f", used {count_text(window.bursts, 'time')}" if window.bursts else ""
    yield Text(f"  burst credit {burst}{used}")
    threads = "unknown (only the node itself sees them)" if explanation.threads is None else f"{explanation.threads:,}"
    yield Text(f"  threads      {threads}")
    if explanation.shape is not None:
        busy = f"{explanation.shape.busy_cpus:.1f}".removesuffix(".0")
        measured = "when the quota ran out"
        if explanation.assumed:
            measured = "if all ran that can" + ("" if explanation.throttled is None else "; nothing was throttled")
        yield Text(f"  busy CPUs    {busy}, {measured}")


def _no_quota_text(explanation: CgroupExplanation) -> Text:
    """Say what there is instead of a quota at the subject or above it."""
    if Mark.INHERITED in explanation.subject.marks:
        return Text("It stood still for the quota of a level above that is not seen from here.", style="yellow")
    limited = [finding for finding in explanation.levels if finding.window.limited]
    if not limited:
        return Text("No level has a CPU limit: no quota can stop it.", style="green")
    have = f"{count_text(len(limited), 'container')} of it {'has' if len(limited) == 1 else 'have'} a CPU limit"
    names = ", ".join(target_name(finding.window.target) for finding in limited)
    return Text(f"No quota stops it as a whole; {have}: {names}.", style="yellow")


def _ms(microseconds: float) -> str:
    value = microseconds / 1000
    return f"{value:.1f}".removesuffix(".0") + " ms"


def picture(shape: PeriodShape, *, width: int) -> Iterator[Text]:
    """Yield a time axis in milliseconds and a bar a busy CPU: what runs and what stands still."""
    periods = 2 if width >= 2 * _PERIOD_COLUMNS + 10 else 1
    columns = min(_PERIOD_COLUMNS, max(20, width - 10))
    runs = round(columns * shape.runs_us / shape.period_us)
    if shape.stops:
        runs = min(max(runs, 1), columns - 1)
    period = RUNS * runs + STOPS * (columns - runs)
    yield Text(_axis(shape, columns, periods), style="dim")
    yield Text("       " + ("|" + "-" * (columns - 1)) * periods + "|", style="dim")
    rows = max(1, round(shape.busy_cpus))
    for cpu in range(min(rows, _MOST_CPUS)):
        bar = Text(f"cpu {cpu:<3}")
        for _ in range(periods):
            bar.append(period[:runs], style="green")
            bar.append(period[runs:], style="red")
        yield bar
    if rows > _MOST_CPUS:
        yield Text(f"       and {rows - _MOST_CPUS} more alike")
    yield Text(f"       {RUNS} runs   {STOPS} stands still", style="dim")


def _axis(shape: PeriodShape, columns: int, periods: int) -> str:
    """Return the labels of the axis: the start, the stop, the end of each period."""
    total = columns * periods
    label = [" "] * (total + 12)
    stop = floor(columns * shape.runs_us / shape.period_us)
    ends = [_number(shape.period_us * count) for count in range(periods + 1)]
    marks = [(columns * count, ends[count]) for count in range(periods + 1)]
    if shape.stops:
        marks += [
            (columns * count + max(stop, 1), _number(shape.period_us * count + shape.runs_us))
            for count in range(periods)
        ]
    for place, text in marks:
        if all(char == " " for char in label[max(0, place - 1) : place + len(text) + 1]):
            label[place : place + len(text)] = text
    return "ms     " + "".join(label).rstrip()


def _number(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f}".removesuffix(".0")


def _period_texts(explanation: CgroupExplanation, shape: PeriodShape) -> Iterator[Text]:
    runs, stops = _ms(shape.runs_us), _ms(shape.stops_us)
    governing = explanation.governing
    if explanation.assumed:
        if explanation.unjudged:
            yield Text(f"{_capital(explanation.unjudged)}; {_longer(explanation)}.", style="yellow")
        else:
            yield Text("Nothing is throttled.", style="green")
        if not shape.stops:
            yield Text(f"The quota lasts for the whole period, also with {shape.busy_cpus:g} busy CPUs.")
            return
        yield Text(
            f"If {count_text(round(shape.busy_cpus), 'CPU')} were busy all the time, each would run {runs} of a period "
            f"and stand still for {stops}; more than {cores(shape.ending_limit_cores)} cores would never stop it."
        )
        return
    measured = governing.stop_seconds if governing is not None else None
    mean = f"; the mean stop was {milliseconds(measured)}" if measured else ""
    yield Text(f"Busy from a period's start, each CPU runs {runs} of it, then all stand still for {stops}{mean}.")
    facts = explanation.result.windows.nodes.get(explanation.subject.window.target.node)
    has = f" (the node has {facts.cpus})" if facts is not None and facts.cpus else ""
    limit = _rounded_up(shape.ending_limit_cores)
    yield Text(f"A limit of {limit} core{'' if limit == '1' else 's'}{has} would end it, for work as it is now.")
    if governing is not None and governing is not explanation.subject:
        yield Text(
            f"The quota of the {governing.window.target.level} {target_name(governing.window.target)} is to blame.",
            style="yellow",
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _longer(explanation: CgroupExplanation) -> str:
    """Say how to see more."""
    return f"take a longer {'--window' if explanation.result.kind is SourceKind.PROMETHEUS else '--interval'}"


def _rounded_up(value: float) -> str:
    """Return cores with two digits, never less than the value."""
    return f"{-floor(-value * 100 + 1e-6) / 100:.2f}".rstrip("0").rstrip(".")


def _chain(explanation: CgroupExplanation, *, width: int) -> Iterator[Text]:
    yield Text("Quotas from the top down", style="bold")
    rows = [_level(explanation, finding) for finding in explanation.levels]
    heads = ("LEVEL", "LIMIT", "THROTTLED", "TIME LOST", "WHO")
    widths = [max(len(row[column]) for row in (heads, *(cells for cells, _ in rows))) for column in range(5)]
    yield _whole(_row(heads, widths), "dim")
    for (cells, mark), finding in zip(rows, explanation.levels, strict=True):
        row = _row(cells, widths)
        told = Text(row, style="bold" if finding is explanation.subject else "", no_wrap=True)
        if not mark or len(row) + len(mark) <= width:
            yield told.append(mark, style="bold red")
        else:
            yield told
            yield _whole(f"  {cells[0]:<{widths[0]}}{mark}", "bold red")
    yield Text()


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    level, limit, throttled, lost, name = cells
    a, b, c, d, _ = widths
    return f"  {level:<{a}}  {limit:>{b}}  {throttled:>{c}}  {lost:>{d}}  {name}"


def _level(explanation: CgroupExplanation, finding: Finding) -> tuple[tuple[str, str, str, str, str], str]:
    target, window = finding.window.target, finding.window
    limit = f"{cores((window.quota_us or 0) / window.period_us)} cores" if window.limited else "no limit"
    throttled = state(window.state) if finding.throttled_ratio is None else percent(finding.throttled_ratio)
    blamed = explanation.subject.blamed
    to_blame = blamed is not None and blamed.key == target.key
    mark = "  <- this quota stops it" if to_blame else ""
    return (str(target.level), limit, throttled, percent(finding.lost_ratio), target_name(target)), mark


def _advice(explanation: CgroupExplanation) -> Iterator[Text]:
    found = explanation.result.advice_for(explanation.subject)
    if not found and explanation.throttled is None:
        yield Text(f"There is no advice: {explanation.unjudged}.", style="yellow")
        return
    governing = explanation.governing
    if not found and governing is not None and explanation.subject.severity is Severity.NONE is not governing.severity:
        whose = f"{governing.window.target.level} {target_name(governing.window.target)}"
        yield Text(f"It loses no time itself; the {whose} is stopped by that quota: explain that one.", style="yellow")
        return
    if not found:
        marks = short_marks(explanation.subject.marks)
        said = f" ({', '.join(marks)})" if marks else ""
        yield Text(f"Nothing needs to be done{said}.", style="green")
        return
    yield Text("What to do, in this order", style="bold")
    for number, advice in enumerate(found, 1):
        yield from _one_advice(number, advice)


def _one_advice(number: int, advice: "Advice") -> Iterator[Text]:
    yield Text()
    yield Text.assemble(f"{number}. ", (clean(advice.title), "bold"), f" ({advice.id})")
    yield Text(f"   {clean(advice.evidence)}")
    yield Text(f"   {clean(advice.reason)}")
    if advice.risk:
        yield Text(f"   Risk: {clean(advice.risk)}", style="yellow")
    if not advice.patches and advice.no_patch:
        yield Text(f"   No patch: {clean(advice.no_patch)}", style="dim")
    for patch in advice.patches:
        yield Text(f"   {clean(patch.about)}:", style="dim")
        for line in lines_of(patch):
            yield _whole(f"     {line}")
