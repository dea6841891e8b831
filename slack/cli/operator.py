"""`operator`: runs the kopf operator, in or out of a cluster. Flags win over environment, file and defaults."""

import os
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.inputs import Context, Kubeconfig


def _flag(name: str, text: str, metavar: str = "TEXT") -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=text, metavar=metavar, show_default=False)
    return option


def operator(
    extra_capacity_min_rate: Annotated[
        str | None,
        _flag("--extra-capacity-min-rate", "Rate of policies that name none. Default 0.1, ten percent.", "RATE"),
    ] = None,
    namespace: Annotated[
        str | None, _flag("--namespace", "Namespace of the placeholders and the lease. Default: the pod's own.", "NAME")
    ] = None,
    image: Annotated[str | None, _flag("--image", "Image of the placeholders; it only has to wait.", "IMAGE")] = None,
    interval: Annotated[
        str | None, _flag("--interval", "How often to plan at the least. Default 10s.", "DURATION")
    ] = None,
    listen: Annotated[
        str | None, _flag("--listen", "Address of /healthz, /readyz, /metrics. Default 127.0.0.1:8080.", "HOST:PORT")
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option("--leader-elect/--no-leader-elect", help="Act only while holding the lease. Default: yes."),
    ] = None,
    lease_name: Annotated[
        str | None, _flag("--lease-name", "Name of the lease. Default resource-slack.", "NAME")
    ] = None,
    web: Annotated[
        bool | None,
        typer.Option("--web/--no-web", help="Serve the web page: read-only, what is seen and planned. Default: no."),
    ] = None,
    web_listen: Annotated[
        str | None, _flag("--web-listen", "Address of the web page. Default 127.0.0.1:8081.", "HOST:PORT")
    ] = None,
    web_token_file: Annotated[
        Path | None,
        _flag("--web-token-file", "File with the token that the page asks for; needed off loopback.", "FILE"),
    ] = None,
    rescue_stuck_preemptors: Annotated[
        bool | None,
        typer.Option(
            "--rescue-stuck-preemptors/--no-rescue-stuck-preemptors",
            help="Free real pods that the scheduler leaves hanging after preemption. Default: yes.",
        ),
    ] = None,
    log_format: Annotated[str | None, _flag("--log-format", "console or json. Default console.", "FORMAT")] = None,
    log_level: Annotated[
        str | None, _flag("--log-level", "debug, info, warning or error. Default info.", "LEVEL")
    ] = None,
    config: Annotated[
        Path | None, _flag("--config", "YAML file with these flags' names as keys, without the dashes.", "FILE")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run the operator until it is told to stop (SIGTERM, Ctrl-C).

    Each flag is also an environment variable, such as RESOURCE_SLACK_LOG_FORMAT, and a key of --config. Flags win over
    the environment, the environment over the file.

    [bold]Examples[/bold]

        resource-slack operator --extra-capacity-min-rate=0.1

        resource-slack operator --context test --log-level debug --no-rescue-stuck-preemptors

        resource-slack operator --web          # then open http://127.0.0.1:8081
    """
    from slack.process.settings import load

    flags: dict[str, object] = {
        "extra_capacity_min_rate": extra_capacity_min_rate,
        "namespace": namespace,
        "image": image,
        "interval": interval,
        "listen": listen,
        "leader_elect": leader_elect,
        "lease_name": lease_name,
        "web": web,
        "web_listen": web_listen,
        "web_token_file": web_token_file,
        "rescue_stuck_preemptors": rescue_stuck_preemptors,
        "log_format": log_format,
        "log_level": log_level,
        "kubeconfig": kubeconfig,
        "context": context,
    }
    settings = load(flags, os.environ, file=config)
    from slack_operator.app import run

    raise typer.Exit(run(settings))
