"""`throttler`: start-ups that are paced and ordered.

The subcommands are gathered here, with the short ones; each loads what it needs when it runs.
"""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack.cli.terminal.problems import Command, CommandGroup
from slack.cli.throttler.check import check
from slack.cli.throttler.explain import explain
from slack.cli.throttler.release import release
from slack.cli.throttler.simulate import simulate
from slack.cli.throttler.status import status
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


app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def throttler() -> None:
    """Limit and order container start-ups: show what waits, check policies, simulate, run the processes."""


app.command(cls=Command)(status)
app.command(cls=Command)(explain)
app.command(cls=Command)(check)
app.command(cls=Command)(simulate)
app.command(cls=Command)(release)
app.command(cls=Command)(agent)
app.command(cls=Command)(controller)
