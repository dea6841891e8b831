"""`demand replay`: a recorded run decided again, with its own settings or others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.files import name_of, read_bytes
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document
from slack.cli.terminal.problems import UserError

if TYPE_CHECKING:
    from slack.demand.trace import RunTotals


_Trace = Annotated[Path, typer.Argument(help="What `demand controller --record FILE` has written; - is stdin.")]
_Guards = Annotated[
    str | None,
    typer.Option("--guards", help="Instead of the recorded ones: all, none, or some of G1,G2.", metavar="LIST"),
]
_MaxContainers = Annotated[
    int | None, typer.Option("--max-containers", help="Instead of each pool's own.", min=1, metavar="NUMBER")
]
_IdleTimeout = Annotated[
    str | None, typer.Option("--idle-timeout", help="Instead of each pool's own.", metavar="DURATION")
]
_Stale = Annotated[
    str | None, typer.Option("--stale", help="Instead of each pool's own timing.stale.", metavar="DURATION")
]


@with_kubectl_flags
def replay(
    trace: _Trace,
    guards: _Guards = None,
    max_containers: _MaxContainers = None,
    idle_timeout: _IdleTimeout = None,
    stale: _Stale = None,
    output: Output = TABLE,
) -> None:
    """Decide a recorded run again, with the same settings or with others, and sum up what was decided.

    With the recorded settings every tick has the recorded answer. With others it shows the decision at each tick from
    the same readings; the simulator shows the effect of other decisions.

    Exit code 0; 2: the file is no recording.

    [bold]Examples[/bold]

        resource-slack demand replay trace.jsonl

        resource-slack demand replay trace.jsonl --guards none -o json
    """
    from slack.cluster.duration import parse_fine_duration
    from slack.demand.model import Guards, InvalidGuards
    from slack.demand.trace import InvalidRecording, read
    from slack.demand.trace import replay as played

    changes: dict[str, object] = {} if max_containers is None else {"max_containers": max_containers}
    for flag, field, text in (
        ("--idle-timeout", "idle_timeout_seconds", idle_timeout),
        ("--stale", "stale_seconds", stale),
    ):
        if text is not None:
            try:
                changes[field] = parse_fine_duration(text).total_seconds()
            except ValueError as error:
                raise UserError(f"{flag}: {error}") from None

    def cut(number: int) -> None:
        typer.echo(f"warning: {name_of(trace)}: line {number}: was cut off while it was written: left out", err=True)

    try:
        held = None if guards is None else Guards.parse(guards)
        totals = played(read(read_bytes(trace).splitlines(keepends=True), cut), held, changes)
    except InvalidGuards as error:
        raise UserError(f"--guards: {error}") from None
    except InvalidRecording as error:
        raise UserError(f"{name_of(trace)}: {error}") from None
    if not totals.ticks:
        raise UserError(f"{name_of(trace)}: has no tick; a recording is made by demand controller --record FILE")
    if output.for_machines:
        print_document(_document(totals, guards or "as recorded"), output)
        return
    _print(totals)


def _document(totals: "RunTotals", guards: str) -> dict[str, Any]:
    from slack.cli.documents.demand import DemandReplay, ReplayedPool
    from slack.cli.documents.record import API_VERSION

    return DemandReplay(
        api_version=API_VERSION,
        kind="DemandReplay",
        ticks=totals.ticks,
        seconds=round(totals.seconds, 3),
        guards=guards,
        created=totals.created,
        ended=dict(sorted(totals.ended.items())),
        refused_ticks=totals.refused_ticks,
        differing_ticks=totals.differing_ticks,
        items=[
            ReplayedPool(
                namespace=key.namespace,
                name=key.action,
                created=found.created,
                ended=found.ended,
                refused_ticks=found.refused_ticks,
                unmet=found.unmet,
                queued=found.queued,
            )
            for key, found in sorted(totals.pools.items())
        ],
    ).document()


def _print(totals: "RunTotals") -> None:
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table

    out = console()
    ends = ", ".join(f"{count} {reason}" for reason, count in sorted(totals.ended.items())) or "none"
    out.print(f"{totals.ticks} ticks over {totals.seconds:.1f} s: {totals.created} containers created; ended: {ends}")
    out.print(f"{totals.differing_ticks} ticks are decided otherwise than in the recording")
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("POOL", "CREATED", "ENDED", "REFUSED TICKS", "MOST UNMET", "MOST QUEUED"):
        table.add_column(heading, justify="left" if heading == "POOL" else "right")
    for key, found in sorted(totals.pools.items()):
        cells = (found.created, found.ended, found.refused_ticks, found.unmet, found.queued)
        table.add_row(str(key), *(str(cell) for cell in cells))
    print_table(out, table)
