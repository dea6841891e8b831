"""`operator`: runs the kopf operator, in or out of a cluster. Flags win over environment, file and defaults."""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack_operator.settings import OperatorSettings


@process_command(OperatorSettings)
def operator(flags: dict[str, object], config: Path | None) -> None:
    """Run the operator until it is stopped (SIGTERM, Ctrl-C).

    Each flag is also an environment variable, such as RESOURCE_SLACK_LOG_FORMAT, and a key of --config. Flags win over
    the environment, the environment over the file.

    [bold]Examples[/bold]

        resource-slack operator --built-in-policy --extra-capacity-min-rate=0.1

        resource-slack operator --context test --log-level debug --no-rescue-stuck-preemptors

        resource-slack operator --web          # then open http://127.0.0.1:8081
    """
    from slack.process.settings import load

    settings = load(OperatorSettings, flags, os.environ, file=config)
    from slack_operator.app import run

    raise typer.Exit(run(settings))
