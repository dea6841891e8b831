"""`audit agent` and `audit controller`: the processes that watch a cluster. Flags win over environment and file."""

import os
from pathlib import Path

import typer

from slack.cli.inputs.process_command import process_command
from slack_operator.auditor.agent.settings import AgentSettings
from slack_operator.auditor.controller.settings import ControllerSettings


@process_command(AgentSettings)
def agent(flags: dict[str, object], config: Path | None) -> None:
    """Watch this node's cgroups: metrics, and a report a minute to the controller. Asks no API server.

    Each flag is also an environment variable, such as RESOURCE_SLACK_AUDIT_PUSH_INTERVAL, and a key of --config.

    [bold]Examples[/bold]

        resource-slack audit agent                        # only metrics, at http://127.0.0.1:8080/metrics

        resource-slack audit agent --root /host --controller https://resource-slack-audit.resource-slack.svc:8443
    """
    from slack.process.settings import load

    load(AgentSettings, flags, os.environ, file=config)  # so that mistakes are told here, as everywhere
    from slack_operator.auditor.agent.process import become

    become(flags, config)


@process_command(ControllerSettings)
def controller(flags: dict[str, object], config: Path | None) -> None:
    """Gather the agents' reports: names, findings, a CpuAuditReport a namespace, Events, and what policies allow.

    Each flag is also an environment variable, such as RESOURCE_SLACK_AUDIT_REPORTS_LISTEN, and a key of --config.

    [bold]Examples[/bold]

        resource-slack audit controller --context test --no-leader-elect

        resource-slack audit controller --reports-listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-key-file tls.key
    """
    from slack.process.settings import load

    settings = load(ControllerSettings, flags, os.environ, file=config)
    from slack_operator.auditor.controller.process import run

    raise typer.Exit(run(settings))
