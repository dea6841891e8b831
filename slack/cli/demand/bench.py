"""`demand bench`: processes as containers on a real broker, the old scheduler's rules beside ours."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.terminal.formats import OutputFormat, OutputKind, print_document, wide_columns
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION

if TYPE_CHECKING:
    from slack_operator.demand.measuring.comparison import MeasuredPair, Setting

_DEFAULT_ACTIONS = "6,10,12,24"


def bench(
    broker: Annotated[
        str,
        typer.Option("--broker", help="Where its queues are made, and gone again.", metavar="URL"),
    ],
    credentials: Annotated[
        Path | None, typer.Option("--broker-credentials-file", help="Its credentials.", metavar="FILE")
    ] = None,
    actions: Annotated[
        str, typer.Option("--actions", help="Actions of each point of the curve, with commas.", metavar="NUMBERS")
    ] = _DEFAULT_ACTIONS,
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes that are played.", min=1, max=64)] = 3,
    slots: Annotated[int, typer.Option("--slots", help="Containers that each has room for.", min=1, max=64)] = 4,
    clients: Annotated[int, typer.Option("--clients", help="Clients that publish and wait.", min=1, max=1000)] = 10,
    seconds: Annotated[float, typer.Option("--seconds", help="Of each run.", min=2, max=3600)] = 20.0,
    cut: Annotated[float, typer.Option("--cut", help="First seconds that do not count.", min=0, max=3600)] = 8.0,
    creation: Annotated[
        str,
        typer.Option("--creation", help="Milliseconds of a creation, beside the start of a process.", metavar="A-B"),
    ] = "700-1300",
    seed: Annotated[int, typer.Option("--seed", help="Of what is drawn at random.")] = 1,
    output: OutputFormat = OutputKind.TABLE,
) -> None:
    """Measure messages a second with processes as containers: the old scheduler's rules beside ours, and the ratio.

    Containers are proxies of this machine; both sides have the same, and the same clients, which publish a message and
    wait until it was run. Where there are more actions than slots no rules can give each its container, and the ratio
    is what the last lines say. It asks and publishes only at the address given; its queues are gone afterwards.

    [bold]Examples[/bold]

        resource-slack demand bench --broker nats://127.0.0.1:4222

        resource-slack demand bench --broker redis://127.0.0.1 --actions 10 --creation 0-0 -o json
    """
    if cut >= seconds:
        raise UserError(f"--cut: {cut:g} s of {seconds:g} s would leave nothing to count")
    settings = _settings(_numbers(actions), nodes, slots, clients, seconds, cut, _range(creation), seed)
    found = asyncio.run(_compared(broker, credentials, settings))
    items = [_item(compared) for compared in found]
    if output.for_machines:
        print_document({"apiVersion": API_VERSION, "kind": "DemandBench", "items": items}, output)
        return
    with wide_columns(output):
        _show(items)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= 500 for number in numbers):
        raise UserError(f"--actions: should be numbers from 1 to 500 such as {_DEFAULT_ACTIONS}, not {text!r}")
    return numbers


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = (float(word) / 1000 for word in text.split("-"))
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 <= low <= high <= 60:
        raise UserError(f"--creation: should be milliseconds such as 700-1300, at most 60000, not {text!r}")
    return low, high


def _settings(
    actions: Sequence[int],
    nodes: int,
    slots: int,
    clients: int,
    seconds: float,
    cut: float,
    creation: tuple[float, float],
    seed: int,
) -> "list[Setting]":
    from slack_operator.demand.measuring.comparison import Setting

    return [
        Setting(
            actions=number,
            nodes=nodes,
            slots=slots,
            clients=clients,
            seconds=seconds,
            cut_seconds=cut,
            creation_seconds=creation,
            seed=seed,
        )
        for number in actions
    ]


async def _compared(broker: str, credentials: Path | None, settings: "Sequence[Setting]") -> "list[MeasuredPair]":
    from slack.cli.terminal.progress import ProgressSteps
    from slack.demand.broker import BrokerError
    from slack_operator.demand.measuring.comparison import compare

    found = []
    with ProgressSteps() as steps:
        for setting in settings:
            bars: dict[str, Callable[[float], None]] = {}

            def tell(
                side: str, passed: float, _: int, setting: "Setting" = setting, bars: dict[str, Any] = bars
            ) -> None:
                if side not in bars:
                    bars[side] = steps.add(f"{setting.actions} actions, {side}")
                bars[side](min(passed / setting.seconds, 1.0))

            try:
                found.append(await compare(broker, credentials, setting, tell))
            except BrokerError as error:
                raise UserError(f"--broker: {error}") from None
    return found


def _item(compared: "MeasuredPair") -> dict[str, Any]:
    from dataclasses import asdict

    setting = compared.setting
    return {
        "actions": setting.actions,
        "slots": setting.nodes * setting.slots,
        "actions_per_slot": setting.actions / (setting.nodes * setting.slots),
        "creation_seconds": list(setting.creation_seconds),
        "old": asdict(compared.old),
        "ours": asdict(compared.ours),
        "ratio": compared.ratio,
    }


def _show(items: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table

    table = Table("actions", "slots", "", "messages/s", "p50", "p99", "start p50", "started", "ratio")
    for item in items:
        for side, name in (("old", "old rules"), ("ours", "ours")):
            told = item[side]
            table.add_row(
                f"{item['actions']}" if side == "old" else "",
                f"{item['slots']}" if side == "old" else "",
                name,
                f"{told['per_second']:.1f}",
                f"{told['p50_ms']:.1f} ms",
                f"{told['p99_ms']:.1f} ms",
                f"{told['start_p50_ms']:.1f} ms",
                f"{told['containers']}",
                f"{item['ratio']:.1f} x" if side == "ours" else "",
            )
    print_table(console(), table)
