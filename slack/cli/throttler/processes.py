"""`throttler agent` and `throttler controller`: the processes of the start-up throttler."""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack_operator.throttler.agent.settings import ThrottlerAgentSettings
from slack_operator.throttler.controller.settings import ThrottlerControllerSettings


@process_command(ThrottlerAgentSettings)
def agent(flags: dict[str, object], config: Path | None) -> None:
    """Pace the starts of this node's gated containers: serves their gates, and reads the node's load.

    Each flag is also an environment variable, such as RESOURCE_SLACK_THROTTLER_GATES_LISTEN, and a key of --config.

    [bold]Examples[/bold]

        resource-slack throttler agent --tls-cert-file tls.crt --tls-key-file tls.key --state-dir /tmp/throttler

        resource-slack throttler agent --gates-listen 0.0.0.0:7472 --tls-cert-file tls.crt --tls-key-file tls.key
    """
    from slack.process.settings import load

    load(ThrottlerAgentSettings, flags, os.environ, file=config)  # so that mistakes are told here, as everywhere
    from slack_operator.throttler.agent.process import become

    become(flags, config)


@process_command(ThrottlerControllerSettings)
def controller(flags: dict[str, object], config: Path | None) -> None:
    """Give pods their gates, as the API server's webhook, and say how ThrottlePolicies fare.

    Each flag is also an environment variable, such as RESOURCE_SLACK_THROTTLER_WEBHOOK_LISTEN, and a key of --config.

    [bold]Examples[/bold]

        resource-slack throttler controller --gate-image registry.example.com/resource-slack --agent-ca-file ca.crt

        resource-slack throttler controller --config controller.yaml --webhook-listen 0.0.0.0:8443
    """
    from slack.process.settings import load

    settings = load(ThrottlerControllerSettings, flags, os.environ, file=config)
    from slack_operator.throttler.controller.process import run

    raise typer.Exit(run(settings))
