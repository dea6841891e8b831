"""`throttler simulate`: start-ups of a scenario played under several limits, side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.files import documents, name_of, read_bytes
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, wide_columns
from slack.cli.terminal.pictures import PictureFile, checked_picture
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack.throttler.scenario import StartScenario
    from slack.throttler.simulate import Played

_EXAMPLE = "a scenario such as examples/starting/storm.yaml"
_MOST_BYTES = 4 << 20
_MOST_COMPARED = 16
_MOST_SLOTS = 100_000
_File = Annotated[Path | None, typer.Argument(help="The scenario; - is stdin.", metavar="FILE", show_default=False)]
_Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        help="How many may start at the same time, instead of the policy's number; none is without a gate.",
        metavar="none,2,4,6",
        show_default=False,
    ),
]


@with_kubectl_flags
def simulate(
    scenario: _File = None,
    compare: _Compare = None,
    picture: PictureFile = None,
    output: Output = TABLE,
) -> None:
    """Play a scenario of start-ups on one node, as it is or under several limits.

    The decision is the agent's own; CPUs, page cache, watchdog, probes and back-off are modelled. A picture has a bar
    for each container and start. What a scenario has: docs/reference/throttler.md. Exit code 0; 2: bad input.

    [bold]Examples[/bold]

        resource-slack throttler simulate examples/starting/storm.yaml --compare none,2,4,6

        resource-slack throttler simulate examples/starting/storm.yaml --compare none,6 --picture storm.svg
    """
    if scenario is None:
        raise UserError(f"FILE: give {_EXAMPLE}")
    limits = _compare(compare)
    target = checked_picture(picture)
    from slack.throttler.scenario import parse_scenario

    source = name_of(scenario)
    found = list(documents(read_bytes(scenario, _MOST_BYTES), source=source, example=_EXAMPLE))
    if len(found) != 1:
        raise UserError(f"{source}: it has {len(found)} documents; give {_EXAMPLE}")
    runs = _play(parse_scenario(found[0], source=source), limits)
    if target is not None:
        from slack.cli.throttler.picture import draw_runs

        target.save(draw_runs(runs, target.format))
    if output.for_machines:
        items = [_item(name, played) for name, played in runs]
        print_document({"apiVersion": API_VERSION, "kind": "StartSimulationList", "items": items}, output)
        return
    with wide_columns(output):
        _show(runs, wide=output.is_wide)


def _compare(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name != "none" and not (name.isascii() and name.isdecimal() and 0 < int(name[:9]) <= _MOST_SLOTS):
            raise UserError(f"--compare: {name[:40]!r} is neither none nor a whole number above 0, such as none,2,4,6")
    if len(names) > _MOST_COMPARED or len(set(names)) < len(names):
        raise UserError(f"--compare: give up to {_MOST_COMPARED} limits, each once")
    return names


def _play(scenario: "StartScenario", limits: list[str] | None) -> list[tuple[str, "Played"]]:
    from slack.cli.terminal.progress import ProgressSteps
    from slack.throttler.scenario import pods_of
    from slack.throttler.simulate import compared, play

    count = sum(len(members) for members in pods_of(scenario).values())
    runs = []
    with ProgressSteps() as steps:
        for name in limits or ["policy"]:
            tell = steps.add_step(name)
            chosen = compared(scenario, int(name)) if name not in ("none", "policy") else None

            def progress(ready: int, tell: Callable[[float], None] = tell) -> None:
                tell(ready / count)

            played = play(scenario, chosen, is_gated=name != "none", progress=progress)
            tell(1.0)
            runs.append((name, played))
    return runs


def _item(name: str, played: "Played") -> dict[str, Any]:
    return {
        "name": name,
        "limit": played.limit,
        "containers": played.containers,
        "ready": played.ready,
        "failures": played.failures,
        "most": played.most,
        "makespan_seconds": played.makespan,
        "mean_ready_seconds": played.mean_ready,
        "order": list(played.order),
        "events": [
            {
                "at": event.at,
                "pod": event.pod,
                "container": event.container,
                "event": event.event.value,
                "forced": event.forced,
                "reason": event.reason,
            }
            for event in played.events
        ],
    }


def _show(runs: "list[tuple[str, Played]]", *, wide: bool) -> None:
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("LIMIT", "READY", "FAILURES", "MOST AT ONCE", "ALL READY AFTER", "MEAN"):
        table.add_column(title, no_wrap=True)
    if wide:
        table.add_column("ORDER")
    for name, played in runs:
        row = [name, f"{played.ready}/{played.containers}", str(played.failures), str(played.most)]
        row += [_seconds(played.makespan), _seconds(played.mean_ready)]
        table.add_row(*row, *([" ".join(played.order)] if wide else []))
    print_table(console(), table)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
