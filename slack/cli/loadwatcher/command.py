"""`load-watcher serve` runs the watcher, `load-watcher show` prints what one knows, a line a node."""

import os
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.inputs.process_command import process_command
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document, wide_columns
from slack.cli.terminal.problems import Command, CommandGroup
from slack_operator.loadwatcher.settings import LoadWatcherSettings

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def load_watcher() -> None:
    """Show the measured use of nodes, to schedulers and to people."""


@app.command(cls=Command)
@process_command(LoadWatcherSettings)
def serve(flags: dict[str, object], config: Path | None) -> None:
    """Fetch nodes' use from Prometheus, Metrics Server or InfluxDB, and serve it at /watcher until stopped.

    Each flag is also an environment variable, such as RESOURCE_SLACK_LOAD_WATCHER_PROVIDER, and a key of --config.

    [bold]Examples[/bold]

        resource-slack load-watcher serve --context test      # Metrics Server of that cluster

        resource-slack load-watcher serve --provider prometheus --address http://127.0.0.1:9090

        curl http://127.0.0.1:2020/watcher/node-1?window=5m
    """
    from slack.process.settings import load

    settings = load(LoadWatcherSettings, flags, os.environ, file=config)
    from slack_operator.loadwatcher.process import run

    raise typer.Exit(run(settings))


@app.command(cls=Command)
@with_kubectl_flags
def show(
    address: Annotated[
        str, typer.Option("--address", help="Address at which a load watcher serves /watcher.", metavar="URL")
    ] = "http://127.0.0.1:2020",
    output: Annotated[Output, ListedRows("items", "node", "node")] = TABLE,
) -> None:
    """Show what a load watcher knows: one line per node with use and deviation by window, age, the analyser's verdict.

    Any load watcher will do, upstream's too; verdicts come from ours only.

    Exit code 0: success; 2: no load watcher answers, or it knows nothing.

    [bold]Examples[/bold]

        resource-slack load-watcher show

        resource-slack load-watcher show --address http://127.0.0.1:2020 -o json
    """
    from slack.cli.loadwatcher.show import ask, document, print_nodes

    seen = ask(address)
    if output.for_machines:
        print_document(document(seen), output)
        return
    with wide_columns(output):
        print_nodes(seen, wide=output.is_wide, headers=output.headers)
