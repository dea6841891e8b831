"""An audit as people read it: a line a finding, the kernels, what could not be read, and what to do first.

Where a terminal is too narrow for the table, each finding is a few short lines instead. Nothing is decided here.
"""

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slack.audit.findings.finding import Finding, Severity
from slack.audit.findings.pressure import CROWDED, has_pressure
from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.findings.throttling import lost_cores_total
from slack.audit.findings.window import LEAST_PERIODS, WindowState
from slack.audit.kernel.quota_bugs import KernelState
from slack.audit.results.audit_result import AuditResult, counts_by_verdict
from slack.audit.results.source_kind import SourceKind
from slack.cli.audit.formats import (
    bugs,
    clean,
    cores,
    milliseconds,
    percent,
    span,
    target_name,
    use_of_limit,
    verdict,
)
from slack.cli.audit.formats import shown as name_shown
from slack.cli.audit.formats import state as state_text
from slack.cli.audit.options import SourceOptions
from slack.cli.terminal.counts import count_text

if TYPE_CHECKING:
    from slack.audit.advice.rules import Advice

_ADVICE_SHOWN = 5
_SPARE, _STEP_SECONDS = 1.2, 5
_NODES_SHOWN = 5
_ID_SHOWN = 12
_LONGEST_NAME = 63 + 253 + 63
"""Signs of a namespace, a pod and a container."""
_BLOCK_LINES, _LINES_BELOW = 4, 14
"""Each one more where neighbours are known."""
_WORTH_TELLING_CORES = 0.005
_SUMMED = " (threads that would have run, summed over CPUs)"
"""The kernel sums throttled time so: it may be more than the machine has."""
_PIPE_WIDTH = 100_000
"""Nothing is wrapped in a pipe or a file."""
_STYLES = {Severity.HIGH: "bold red", Severity.WARN: "yellow", Severity.INFO: "", Severity.NONE: "dim"}
_COLUMNS = (
    ("THROTTLED", "right"),
    ("TIME LOST", "right"),
    (_NEIGHBOURS := "NEIGHBOURS", "right"),
    ("STOP", "right"),
    ("USE/LIMIT", "right"),
    ("LEVEL", "left"),
    ("WHO", "left"),
    ("VERDICT", "left"),
    ("ADVICE", "left"),
)


def print_result(
    result: AuditResult,
    asked: Sequence[Finding],
    shown: Sequence[Finding],
    *,
    options: SourceOptions,
    program: str,
    headers: bool = True,
) -> None:
    """Print one look on stdout."""
    from slack.cli.terminal.console import console, pipe_columns

    out = console()
    if out.is_terminal:
        # Not cropped: the command below the table is one line, which the terminal wraps and a mouse takes as a whole.
        out.print(
            render(result, asked, shown, options=options, width=out.width, program=program, headers=headers), crop=False
        )
        return
    width = pipe_columns() or _PIPE_WIDTH
    sys.stdout.write(plain(result, asked, shown, options=options, width=width, program=program, headers=headers))


def plain(
    result: AuditResult,
    asked: Sequence[Finding],
    shown: Sequence[Finding],
    *,
    options: SourceOptions,
    program: str,
    width: int = _PIPE_WIDTH,
    headers: bool = True,
) -> str:
    """Return one look as text without colours and blanks at the ends of lines; no line is broken without a width."""
    out = Console(width=width, color_system=None, force_terminal=False, highlight=False, no_color=True)
    with out.capture() as capture:
        seen = render(result, asked, shown, options=options, width=width, program=program, headers=headers)
        out.print(seen, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def render(
    result: AuditResult,
    asked: Sequence[Finding],
    shown: Sequence[Finding],
    *,
    options: SourceOptions,
    width: int,
    program: str,
    redrawn: bool = False,
    headers: bool = True,
) -> RenderableType:
    """Return one look for a console of so many columns.

    Args:
        result: what was found.
        asked: findings about what was asked for.
        shown: those of them that get a line.
        options: the source, for what to run next.
        width: columns of the terminal.
        program: how the program is called, for what to run next.
        redrawn: no line may be longer than the terminal is wide, not even a command.
        headers: the table has headings.
    """
    parts: list[RenderableType] = []
    if shown:
        table = _table(result, shown)
        table.show_header = headers
        parts.append(table if _wide(table) <= width else Group(*_blocks(result, shown)))
        parts.append(Text())
    parts += _summary(result, asked, shown)
    parts += _kernels(result)
    parts += _troubles(result)
    parts += _first_advice(result, shown)
    worst = next(
        (finding for finding in shown if finding.severity >= Severity.WARN and result.advice_for(finding)), None
    )
    if worst is not None:
        command = f"{program} audit explain {explain_arguments(result, worst, options)}"
        parts.append(_command(f"All of it, with patches: {command}", redrawn=redrawn))
    return Group(*parts)


def fitting(result: AuditResult, shown: Sequence[Finding], *, width: int, height: int) -> Sequence[Finding]:
    """Return as many findings as a terminal of this size has lines for, beside what is below them."""
    more = int(has_pressure(shown))
    each = 1 if not shown or _wide(_table(result, shown)) <= width else _BLOCK_LINES + more
    return shown[: max(1, (height - _LINES_BELOW - more) // each)]


def _wide(table: Table) -> int:
    out = Console(width=_PIPE_WIDTH, file=sys.stderr)
    return Measurement.get(out, out.options, table).maximum


def _table(result: AuditResult, shown: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    pressure = has_pressure(shown)
    columns = [column for column in _COLUMNS if pressure or column[0] != _NEIGHBOURS]
    for name, side in columns:
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for finding in shown:
        table.add_row(*_cells(result, finding, pressure=pressure), style=_STYLES[finding.severity])
    return table


def _cells(result: AuditResult, finding: Finding, *, pressure: bool) -> tuple[Text, ...]:
    advice = result.advice_for(finding)
    return tuple(
        Text(cell)
        for cell in (
            _figure(finding, finding.throttled_ratio),
            percent(finding.lost_ratio),
            *([percent(finding.neighbours_ratio)] if pressure else []),
            milliseconds(finding.stop_seconds),
            use_of_limit(finding),
            str(finding.window.target.level),
            target_name(finding.window.target, node=result.several_nodes),
            verdict(finding),
            advice[0].id if advice else "-",
        )
    )


def _figure(finding: Finding, ratio: float | None) -> str:
    """Return a share, or why there is none: a limit that is not there is not 0 % throttled."""
    return percent(ratio) if ratio is not None else state_text(finding.window.state)


def _blocks(result: AuditResult, shown: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield findings as short lines that wrap as words do."""
    for finding in shown:
        advice = result.advice_for(finding)
        yield Text.assemble(
            (target_name(finding.window.target, node=result.several_nodes), "bold"),
            f" ({finding.window.target.level}) ",
            (verdict(finding), _STYLES[finding.severity]),
            overflow="fold",
        )
        if finding.throttled_ratio is None:
            lost = "" if finding.lost_ratio is None else f", time lost {percent(finding.lost_ratio)}"
            yield Text(f"  {state_text(finding.window.state)}{lost}, use/limit {use_of_limit(finding)} cores")
        else:
            yield Text(f"  throttled {percent(finding.throttled_ratio)}, time lost {percent(finding.lost_ratio)}")
        if finding.neighbours_ratio is not None:
            yield Text(f"  neighbours {percent(finding.neighbours_ratio)}, pressure {percent(finding.pressure_ratio)}")
        if finding.throttled_ratio is not None:
            yield Text(f"  stop {milliseconds(finding.stop_seconds)}, use/limit {use_of_limit(finding)} cores")
        if advice:
            yield Text(f"  -> {advice[0].id}: {advice[0].title}", overflow="fold")


def _summary(result: AuditResult, asked: Sequence[Finding], shown: Sequence[Finding]) -> Iterator[Text]:
    if not asked:
        nothing = not result.windows.windows
        yield Text(
            "There is no cgroup of Kubernetes and none with a CPU limit here."
            if nothing
            else "Nothing of what was asked for is here.",
            style="yellow",
        )
        return
    told = ", ".join(f"{number:,} {name}" for name, number in counts_by_verdict(tuple(asked)).items())
    lost = lost_cores_total(asked)
    waste = f"; {cores(lost)} cores lost to throttling{_SUMMED}" if lost >= _WORTH_TELLING_CORES else ""
    yield Text(f"{count_text(len(asked), 'cgroup')} in {span(result.windows.seconds)}: {told}{waste}")
    hidden = sum(finding.severity >= Severity.INFO for finding in asked) - sum(
        finding.severity >= Severity.INFO for finding in shown
    )
    if hidden > 0:
        yield Text(f"{count_text(hidden, 'finding')} more (--limit)", style="dim")
    short = [
        finding
        for finding in asked
        if finding.window.state is WindowState.TOO_FEW and finding.severity is Severity.NONE
    ]
    throttled = [finding for finding in short if finding.window.throttled]
    measured = any(finding.window.state is WindowState.MEASURED for finding in asked)
    if short and not measured:
        text = (
            f"No cgroup with a limit had {LEAST_PERIODS} periods, so there is no verdict: {_longer(result, throttled)}."
        )
        yield Text(text, style="yellow")
    elif throttled:
        some = count_text(len(throttled), "cgroup")
        text = f"{some} with throttled periods had fewer than {LEAST_PERIODS}, too few to judge: "
        yield Text(f"{text}{_longer(result, throttled)}.", style="yellow")
    if not any(finding.severity >= Severity.WARN for finding in asked) and (measured or not short):
        judged = "Of what could be judged, nothing" if throttled else "Nothing"
        yield Text(f"{judged} is throttled enough to matter.", style="green")

    yield from _crowded_lines(result, asked)


def _crowded_lines(result: AuditResult, asked: Sequence[Finding]) -> Iterator[Text]:
    """Yield a line about containers whose CPUs others had: no limit of theirs does that, and none cures it."""
    crowded = [finding for finding in asked if (finding.neighbours_ratio or 0.0) >= CROWDED]
    if not crowded:
        return
    worst = max(crowded, key=lambda finding: finding.neighbours_ratio or 0.0)
    waits = "waits" if len(crowded) == 1 else "wait"
    yield Text(
        f"{count_text(len(crowded), 'container')} {waits} for CPUs that neighbours have, for {percent(CROWDED)} of the "
        f"time or more; the most {target_name(worst.window.target, node=result.several_nodes)}, "
        f"{percent(worst.neighbours_ratio)}. No limit does that: the node is full, or their requests are too low.",
        style="yellow",
    )


def _longer(result: AuditResult, throttled: Sequence[Finding]) -> str:
    """Return how to get a verdict; for how long to watch is worked out for the busiest of the throttled."""
    if result.kind is SourceKind.PROMETHEUS:
        return "take a longer --window"
    if not throttled:
        return "take a longer --interval"
    busiest = max((finding.window for finding in throttled), key=lambda window: window.periods / window.seconds)
    seconds = busiest.seconds * LEAST_PERIODS / busiest.periods * _SPARE
    return f"take a longer --interval, such as {math.ceil(seconds / _STEP_SECONDS) * _STEP_SECONDS}s"


def _kernels(result: AuditResult) -> Iterator[Text]:
    """Yield a line for each kernel that is there: nodes of one release share it."""
    style_of = {KernelState.AFFECTED: "bold red", KernelState.UNKNOWN: "yellow"}
    groups: dict[tuple[str, str], list[str]] = {}
    for node in sorted(result.kernels):
        facts = result.windows.nodes[node]
        groups.setdefault((facts.kernel_release or "unknown", facts.hierarchy), []).append(node)
    for (release, hierarchy), nodes in groups.items():
        kernel = result.kernels[nodes[0]]
        some = _some([node for node in nodes if node])
        cgroups = f", cgroup {hierarchy}" if hierarchy else ""
        more = f"{some}{'; ' if some else ''}audit kernel says why" if kernel.state in style_of else some
        told = f" ({more})" if more else ""
        yield Text(f"kernel {clean(release)}{cgroups}: {bugs(kernel)}{told}", style=style_of.get(kernel.state, ""))


def _some(nodes: Sequence[str]) -> str:
    more = len(nodes) - _NODES_SHOWN
    return ", ".join(map(name_shown, nodes[:_NODES_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _troubles(result: AuditResult) -> Iterator[Text]:
    for trouble, number in sorted(result.windows.troubles.items()):
        if not number:
            continue
        example = result.windows.examples.get(trouble, "")
        yield Text(
            f"not read: {number:,} {trouble}{f', such as {name_shown(example)}' if example else ''}",
            style="yellow",
            overflow="fold",
        )


def _command(text: str, *, redrawn: bool) -> Text:
    """Return a line that can be pasted: a break within it would be one in the shell."""
    return Text(text, no_wrap=not redrawn, overflow="fold" if redrawn else "ignore")


def _first_advice(result: AuditResult, shown: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield what to do first about what is bad, each advice once."""
    groups: dict[str, list[tuple[Finding, Advice]]] = {}
    for finding in shown:
        advice = result.advice_for(finding)
        if finding.severity >= Severity.WARN and advice:
            groups.setdefault(advice[0].id, []).append((finding, advice[0]))
    if not groups:
        return
    yield Text()
    yield Text("What to do first", style="bold")
    for same in list(groups.values())[:_ADVICE_SHOWN]:
        finding, first = same[0]
        more = f" and {count_text(len(same) - 1, 'other')}" if len(same) > 1 else ""
        told = f" for {target_name(finding.window.target, node=result.several_nodes)}{more}: {first.title}"
        yield Padding(Text.assemble((first.id, "bold"), told, overflow="fold"), (0, 0, 0, 2))
        yield Padding(Text(first.evidence, style="dim", overflow="fold"), (0, 0, 0, 4))


def explain_arguments(result: AuditResult, finding: Finding, options: SourceOptions) -> str:
    """Return what `explain` takes for a finding's target, with the same source, as a shell takes it.

    What no shell can be given (a name with control characters), or nobody would want to (a very long one), is called
    by its id.
    """
    target = finding.window.target
    words: list[str] = []
    node = ""
    if target.level in (CgroupLevel.POD, CgroupLevel.CONTAINER) and target.pod and _sayable(target):
        inside = f"/{target.container}" if target.level is CgroupLevel.CONTAINER and target.container else ""
        words = [*(("-n", target.namespace) if target.namespace else ()), f"pod/{target.pod}{inside}"]
    elif target.level is CgroupLevel.CONTAINER and target.container_id:
        words = [target.container_id[:_ID_SHOWN]]
    elif target.level is CgroupLevel.POD and target.pod_uid and not (target.path.isprintable() and target.path):
        words = [target.pod_uid]
    else:
        words, node = [target.path or "/"], target.node
    command = " ".join(map(shlex.quote, words))
    flags = options.flags(node if result.several_nodes else None)
    return clean(f"{command} {flags}" if flags else command)


def _sayable(target: CgroupTarget) -> bool:
    name = f"{target.namespace}{target.pod}{target.container}"
    return len(name) <= _LONGEST_NAME and name.isprintable() and not target.pod.startswith("-")
