"""`demand controller`: the process that decides."""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack_operator.demand.controller_settings import DemandControllerSettings


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
