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

from slack.cfs.finding import Finding, Severity, lost_cores_total
from slack.cfs.kernel import KernelState
from slack.cfs.sample import Level, Target
from slack.cfs.window import LEAST_PERIODS, State
from slack.cli.audit_look import Look, states
from slack.cli.audit_options import Kind, Where
from slack.cli.audit_words import bugs, clean, cores, counted, milliseconds, percent, span, use_of_limit, verdict, who
from slack.cli.audit_words import shown as name_shown
from slack.cli.audit_words import state as state_text

if TYPE_CHECKING:
    from slack.cfs.advise import Advice

_ADVICE_SHOWN = 5
_SPARE, _STEP_SECONDS = 1.2, 5
_NODES_SHOWN = 5
_ID_SHOWN = 12
_LONGEST_NAME = 63 + 253 + 63
"""Signs of a namespace, a pod and a container."""
_BLOCK_LINES, _LINES_BELOW = 4, 14
_WORTH_TELLING_CORES = 0.005
_SUMMED = " (threads that would have run, summed over CPUs)"
"""The kernel sums throttled time so: it may be more than the machine has."""
_PIPE_WIDTH = 100_000
"""Nothing is wrapped in a pipe or a file."""
_STYLES = {Severity.HIGH: "bold red", Severity.WARN: "yellow", Severity.INFO: "", Severity.NONE: "dim"}
_COLUMNS = (
    ("THROTTLED", "right"),
    ("TIME LOST", "right"),
    ("STOP", "right"),
    ("USE/LIMIT", "right"),
    ("LEVEL", "left"),
    ("WHO", "left"),
    ("VERDICT", "left"),
    ("ADVICE", "left"),
)


def print_look(look: Look, asked: Sequence[Finding], shown: Sequence[Finding], *, where: Where, program: str) -> None:
    """Print one look on stdout."""
    from slack.cli.tables import console, pipe_columns

    out = console()
    if out.is_terminal:
        # Not cropped: the command below the table is one line, which the terminal wraps and a mouse takes as a whole.
        out.print(render(look, asked, shown, where=where, width=out.width, program=program), crop=False)
        return
    sys.stdout.write(plain(look, asked, shown, where=where, width=pipe_columns() or _PIPE_WIDTH, program=program))


def plain(
    look: Look,
    asked: Sequence[Finding],
    shown: Sequence[Finding],
    *,
    where: Where,
    program: str,
    width: int = _PIPE_WIDTH,
) -> str:
    """Return one look as text without colours and blanks at the ends of lines; no line is broken without a width."""
    out = Console(width=width, color_system=None, force_terminal=False, highlight=False, no_color=True)
    with out.capture() as capture:
        out.print(render(look, asked, shown, where=where, width=width, program=program), crop=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def render(
    look: Look,
    asked: Sequence[Finding],
    shown: Sequence[Finding],
    *,
    where: Where,
    width: int,
    program: str,
    redrawn: bool = False,
) -> RenderableType:
    """Return one look for a console of so many columns.

    Args:
        look: what was found.
        asked: findings about what was asked for.
        shown: those of them that get a line.
        where: the source, for what to run next.
        width: columns of the terminal.
        program: how the program is called, for what to run next.
        redrawn: no line may be longer than the terminal is wide, not even a command.
    """
    parts: list[RenderableType] = []
    if shown:
        table = _table(look, shown)
        parts.append(table if _wide(table) <= width else Group(*_blocks(look, shown)))
        parts.append(Text())
    parts += _summary(look, asked, shown)
    parts += _kernels(look)
    parts += _troubles(look)
    parts += _first_advice(look, shown)
    worst = next((one for one in shown if one.severity >= Severity.WARN and look.of(one)), None)
    if worst is not None:
        command = f"{program} audit explain {explain_arguments(look, worst, where)}"
        parts.append(_command(f"All of it, with patches: {command}", redrawn=redrawn))
    return Group(*parts)


def fitting(look: Look, shown: Sequence[Finding], *, width: int, height: int) -> Sequence[Finding]:
    """Return as many findings as a terminal of this size has lines for, beside what is below them."""
    each = 1 if not shown or _wide(_table(look, shown)) <= width else _BLOCK_LINES
    return shown[: max(1, (height - _LINES_BELOW) // each)]


def _wide(table: Table) -> int:
    out = Console(width=_PIPE_WIDTH, file=sys.stderr)
    return Measurement.get(out, out.options, table).maximum


def _table(look: Look, shown: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in _COLUMNS:
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for one in shown:
        table.add_row(*_cells(look, one), style=_STYLES[one.severity])
    return table


def _cells(look: Look, one: Finding) -> tuple[Text, ...]:
    advice = look.of(one)
    return tuple(
        Text(cell)
        for cell in (
            _figure(one, one.throttled_ratio),
            percent(one.lost_ratio),
            milliseconds(one.stop_seconds),
            use_of_limit(one),
            str(one.window.target.level),
            who(one.window.target, node=look.several_nodes),
            verdict(one),
            advice[0].id if advice else "-",
        )
    )


def _figure(one: Finding, ratio: float | None) -> str:
    """Return a share, or why there is none: a limit that is not there is not 0 % throttled."""
    return percent(ratio) if ratio is not None else state_text(one.window.state)


def _blocks(look: Look, shown: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield findings as short lines that wrap as words do."""
    for one in shown:
        advice = look.of(one)
        yield Text.assemble(
            (who(one.window.target, node=look.several_nodes), "bold"),
            f" ({one.window.target.level}) ",
            (verdict(one), _STYLES[one.severity]),
            overflow="fold",
        )
        if one.throttled_ratio is None:
            lost = "" if one.lost_ratio is None else f", time lost {percent(one.lost_ratio)}"
            yield Text(f"  {state_text(one.window.state)}{lost}, use/limit {use_of_limit(one)} cores")
        else:
            yield Text(f"  throttled {percent(one.throttled_ratio)}, time lost {percent(one.lost_ratio)}")
            yield Text(f"  stop {milliseconds(one.stop_seconds)}, use/limit {use_of_limit(one)} cores")
        if advice:
            yield Text(f"  -> {advice[0].id}: {advice[0].title}", overflow="fold")


def _summary(look: Look, asked: Sequence[Finding], shown: Sequence[Finding]) -> Iterator[Text]:
    if not asked:
        nothing = not look.windows.windows
        yield Text(
            "There is no cgroup of Kubernetes and none with a CPU limit here."
            if nothing
            else "Nothing of what was asked for is here.",
            style="yellow",
        )
        return
    told = ", ".join(f"{number:,} {name}" for name, number in states(tuple(asked)).items())
    lost = lost_cores_total(asked)
    waste = f"; {cores(lost)} cores lost to throttling{_SUMMED}" if lost >= _WORTH_TELLING_CORES else ""
    yield Text(f"{counted(len(asked), 'cgroup')} in {span(look.windows.seconds)}: {told}{waste}")
    hidden = sum(one.severity >= Severity.INFO for one in asked) - sum(one.severity >= Severity.INFO for one in shown)
    if hidden > 0:
        yield Text(f"{counted(hidden, 'finding')} more (--limit)", style="dim")
    short = [one for one in asked if one.window.state is State.TOO_FEW and one.severity is Severity.NONE]
    throttled = [one for one in short if one.window.throttled]
    measured = any(one.window.state is State.MEASURED for one in asked)
    if short and not measured:
        text = (
            f"No cgroup with a limit had {LEAST_PERIODS} periods, so there is no verdict: {_longer(look, throttled)}."
        )
        yield Text(text, style="yellow")
    elif throttled:
        some = counted(len(throttled), "cgroup")
        text = f"{some} with throttled periods had fewer than {LEAST_PERIODS}, too few to judge: "
        yield Text(f"{text}{_longer(look, throttled)}.", style="yellow")
    if not any(one.severity >= Severity.WARN for one in asked) and (measured or not short):
        judged = "Of what could be judged, nothing" if throttled else "Nothing"
        yield Text(f"{judged} is throttled enough to matter.", style="green")


def _longer(look: Look, throttled: Sequence[Finding]) -> str:
    """Return how to get a verdict; for how long to watch is worked out for the busiest of the throttled."""
    if look.kind is Kind.PROMETHEUS:
        return "take a longer --window"
    if not throttled:
        return "take a longer --interval"
    busiest = max((one.window for one in throttled), key=lambda window: window.periods / window.seconds)
    seconds = busiest.seconds * LEAST_PERIODS / busiest.periods * _SPARE
    return f"take a longer --interval, such as {math.ceil(seconds / _STEP_SECONDS) * _STEP_SECONDS}s"


def _kernels(look: Look) -> Iterator[Text]:
    """Yield a line for each kernel that is there: nodes of one release share it."""
    style_of = {KernelState.AFFECTED: "bold red", KernelState.UNKNOWN: "yellow"}
    groups: dict[tuple[str, str], list[str]] = {}
    for node in sorted(look.kernels):
        facts = look.windows.nodes[node]
        groups.setdefault((facts.kernel_release or "unknown", facts.hierarchy), []).append(node)
    for (release, hierarchy), nodes in groups.items():
        one = look.kernels[nodes[0]]
        some = _some([node for node in nodes if node])
        cgroups = f", cgroup {hierarchy}" if hierarchy else ""
        more = f"{some}{'; ' if some else ''}audit kernel says why" if one.state in style_of else some
        told = f" ({more})" if more else ""
        yield Text(f"kernel {clean(release)}{cgroups}: {bugs(one)}{told}", style=style_of.get(one.state, ""))


def _some(nodes: Sequence[str]) -> str:
    more = len(nodes) - _NODES_SHOWN
    return ", ".join(map(name_shown, nodes[:_NODES_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _troubles(look: Look) -> Iterator[Text]:
    for trouble, number in sorted(look.windows.troubles.items()):
        if not number:
            continue
        example = look.windows.examples.get(trouble, "")
        yield Text(
            f"not read: {number:,} {trouble}{f', such as {name_shown(example)}' if example else ''}",
            style="yellow",
            overflow="fold",
        )


def _command(text: str, *, redrawn: bool) -> Text:
    """Return a line that can be pasted: a break within it would be one in the shell."""
    return Text(text, no_wrap=not redrawn, overflow="fold" if redrawn else "ignore")


def _first_advice(look: Look, shown: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield what to do first about what is bad, each advice once."""
    groups: dict[str, list[tuple[Finding, Advice]]] = {}
    for one in shown:
        advice = look.of(one)
        if one.severity >= Severity.WARN and advice:
            groups.setdefault(advice[0].id, []).append((one, advice[0]))
    if not groups:
        return
    yield Text()
    yield Text("What to do first", style="bold")
    for same in list(groups.values())[:_ADVICE_SHOWN]:
        one, first = same[0]
        more = f" and {counted(len(same) - 1, 'other')}" if len(same) > 1 else ""
        told = f" for {who(one.window.target, node=look.several_nodes)}{more}: {first.title}"
        yield Padding(Text.assemble((first.id, "bold"), told, overflow="fold"), (0, 0, 0, 2))
        yield Padding(Text(first.evidence, style="dim", overflow="fold"), (0, 0, 0, 4))


def explain_arguments(look: Look, finding: Finding, where: Where) -> str:
    """Return what `explain` takes for a finding's target, with the same source, as a shell takes it.

    What no shell can be given (a name with control characters), or nobody would want to (a very long one), is called
    by its id.
    """
    target = finding.window.target
    words: list[str] = []
    node = ""
    if target.level in (Level.POD, Level.CONTAINER) and target.pod and _sayable(target):
        inside = f"/{target.container}" if target.level is Level.CONTAINER and target.container else ""
        words = [*(("-n", target.namespace) if target.namespace else ()), f"pod/{target.pod}{inside}"]
    elif target.level is Level.CONTAINER and target.container_id:
        words = [target.container_id[:_ID_SHOWN]]
    elif target.level is Level.POD and target.pod_uid and not (target.path.isprintable() and target.path):
        words = [target.pod_uid]
    else:
        words, node = [target.path or "/"], target.node
    command = " ".join(map(shlex.quote, words))
    flags = where.flags(node if look.several_nodes else "")
    return clean(f"{command} {flags}" if flags else command)


def _sayable(target: Target) -> bool:
    name = f"{target.namespace}{target.pod}{target.container}"
    return len(name) <= _LONGEST_NAME and name.isprintable() and not target.pod.startswith("-")
