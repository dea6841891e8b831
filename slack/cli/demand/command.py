"""`demand`: container pools that follow their queues.

The subcommands are gathered here, with the short ones; each loads what it needs when it runs.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.demand.explain import explain
from slack.cli.demand.replay import replay
from slack.cli.demand.top import top
from slack.cli.inputs.files import name_of, read_bytes
from slack.cli.inputs.process_command import process_command
from slack.cli.terminal.problems import Command, CommandGroup, UserError
from slack_operator.demand.controller_settings import DemandControllerSettings
from slack_operator.demand.proxy.settings import DemandProxySettings

_EXAMPLE = '{"namespace_limit": 20, "action_limit": 10, "queued": 37, "stale": 12, "containers": 1}'
_Lines = Annotated[
    Path | None,
    typer.Option("--lines", help="Queues, a JSON object a line (docs/reference/demand-lines.md); - is stdin."),
]
_Guards = Annotated[
    str,
    typer.Option("--guards", help="Guards that hold: all, none, or a list such as G1,G4.", metavar="LIST"),
]


def decide(lines: _Lines = None, guards: _Guards = "all") -> None:
    """Decide about queues whose figures are given, offline: a JSON line in, its decision out.

    G2 and G3 weigh queues against each other, and change nothing of a queue that stands alone. Exit code 0; 2: a line
    is no queue's figures, and is named with its field. The decisions about the lines before it are printed.

    [bold]Examples[/bold]

        resource-slack demand decide --lines examples/queues.jsonl

        resource-slack demand decide --lines examples/queues.jsonl --guards none
    """
    from slack.demand.lines import InvalidQueueLine, decision_line
    from slack.demand.model import Guards, InvalidGuards

    if lines is None:
        raise UserError(f"--lines: give a file with a queue a line, such as {_EXAMPLE}")
    try:
        held = Guards.parse(guards)
    except InvalidGuards as error:
        raise UserError(f"--guards: {error}") from None
    out = sys.stdout.buffer
    for number, line in enumerate(read_bytes(lines).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            out.write(decision_line(line, held))
        except InvalidQueueLine as error:
            out.flush()
            raise UserError(f"{name_of(lines)}, line {number}: {error}") from None
    out.flush()


@process_command(DemandControllerSettings)
def controller(flags: dict[str, object], config: Path | None) -> None:
    """Run the controller: containers of ActivationPools follow their queues, and publishers hear when to wait.

    Each flag is also an environment variable, such as RESOURCE_SLACK_DEMAND_BROKER_URL, and a key of --config.

    [bold]Examples[/bold]

        resource-slack demand controller --broker-url nats://127.0.0.1:4222 --proxy-image example.com/slack

        resource-slack demand controller --config controller.yaml --throttle-listen 127.0.0.1:8082
    """
    from slack.process.settings import load

    settings = load(DemandControllerSettings, flags, os.environ, file=config)
    from slack_operator.demand.controller import run

    raise typer.Exit(run(settings))


@process_command(DemandProxySettings)
def proxy(flags: dict[str, object], config: Path | None) -> None:
    """Pull messages of a queue, a message a free slot, have them run, and ack them after the run.

    At least once: a message whose run is not acked is given to another. SIGTERM drains: it pulls no more, finishes, and
    ends with 0. Each flag is also an environment variable, such as RESOURCE_SLACK_DEMAND_PROXY_BROKER_URL, and a key of
    --config.

    [bold]Examples[/bold]

        resource-slack demand proxy --broker-url nats://127.0.0.1:4222 --queues act.media.thumbnail.256

        resource-slack demand proxy --broker-url redis://127.0.0.1 --queues act.media.thumbnail.256 --mode process \
          --command 'python3 -m thumbnail'
    """
    from slack.process.settings import load

    load(DemandProxySettings, flags, os.environ, file=config)  # so that mistakes are told here, as everywhere
    from slack_operator.demand.proxy.process import become

    become(flags, config)


app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def demand() -> None:
    """Scale container pools by queue length: show pools, explain decisions, replay, run the controller."""


app.command(cls=Command)(decide)
app.command(cls=Command)(proxy)
app.command(cls=Command)(explain)
app.command(cls=Command)(replay)
app.command(cls=Command)(top)
app.command(cls=Command)(controller)
