"""`audit agent` and `audit controller`: the processes that watch a cluster. Flags win over environment and file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from slack.cli.inputs import Context, Kubeconfig


def _flag(name: str, text: str, metavar: str = "TEXT") -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=text, metavar=metavar, show_default=False)
    return option


_LogFormat = Annotated[str | None, _flag("--log-format", "console or json. Default console.", "FORMAT")]
_LogLevel = Annotated[str | None, _flag("--log-level", "debug, info, warning or error. Default info.", "LEVEL")]
_Config = Annotated[
    Path | None, _flag("--config", "YAML file with these flags' names as keys, without the dashes.", "FILE")
]
_Listen = Annotated[
    str | None, _flag("--listen", "Address of /healthz, /readyz, /metrics. Default 127.0.0.1:8080.", "HOST:PORT")
]


def agent(
    node: Annotated[
        str | None, _flag("--node", "Name of the node. Default: NODE_NAME, or the host's name.", "NAME")
    ] = None,
    root: Annotated[
        str | None, _flag("--root", "Root of the node's file system. Default /; /host where it is mounted so.", "DIR")
    ] = None,
    interval: Annotated[
        str | None, _flag("--interval", "How often all cgroups are sampled. Default 10s.", "DURATION")
    ] = None,
    push_interval: Annotated[
        str | None, _flag("--push-interval", "How often the controller is told. Default 60s.", "DURATION")
    ] = None,
    controller: Annotated[
        str | None, _flag("--controller", "Address of the controller. Without: only metrics.", "URL")
    ] = None,
    ca_file: Annotated[
        str | None, _flag("--ca-file", "Certificates that sign the controller's. Default: the system's.", "FILE")
    ] = None,
    token_file: Annotated[
        str | None, _flag("--token-file", "Service account token for the controller; read anew each time.", "FILE")
    ] = None,
    listen: _Listen = None,
    write_burst: Annotated[
        bool | None,
        typer.Option(
            "--write-burst/--no-write-burst", help="Write the CPU bursts that the controller orders. Default: no."
        ),
    ] = None,
    state_dir: Annotated[
        str | None, _flag("--state-dir", "Where the bursts that were there before are remembered.", "DIR")
    ] = None,
    log_format: _LogFormat = None,
    log_level: _LogLevel = None,
    config: _Config = None,
) -> None:
    """Watch this node's cgroups: metrics, and a report a minute to the controller. Asks no API server.

    Each flag is also an environment variable, such as RESOURCE_SLACK_AUDIT_PUSH_INTERVAL, and a key of --config.

    [bold]Examples[/bold]

        resource-slack audit agent                        # only metrics, at http://127.0.0.1:8080/metrics

        resource-slack audit agent --root /host --controller https://resource-slack-audit.resource-slack.svc:8443
    """
    from slack.process.audit_settings import AgentSettings, load

    flags: dict[str, object] = {
        "node": node,
        "root": root,
        "interval": interval,
        "push_interval": push_interval,
        "controller": controller,
        "ca_file": ca_file,
        "token_file": token_file,
        "listen": listen,
        "write_burst": write_burst,
        "state_dir": state_dir,
        "log_format": log_format,
        "log_level": log_level,
    }
    load(AgentSettings, flags, os.environ, file=config)  # so that mistakes are told here, as everywhere
    from slack_operator.audit.agent import become

    become(flags, config)


def controller(
    namespace: Annotated[
        str | None,
        _flag("--namespace", "Namespace of lease and agents. Default: POD_NAMESPACE, resource-slack.", "NAME"),
    ] = None,
    lease_name: Annotated[
        str | None, _flag("--lease-name", "Name of the lease. Default resource-slack-audit.", "NAME")
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option("--leader-elect/--no-leader-elect", help="Act only while holding the lease. Default: yes."),
    ] = None,
    agent_service_account: Annotated[
        str | None,
        _flag(
            "--agent-service-account", "Service account that may report. Default resource-slack-audit-agent.", "NAME"
        ),
    ] = None,
    interval: Annotated[
        str | None, _flag("--interval", "How often reports are judged. Default 10s.", "DURATION")
    ] = None,
    reports_listen: Annotated[
        str | None,
        _flag("--reports-listen", "Where agents' reports are taken. Default 127.0.0.1:8443.", "HOST:PORT"),
    ] = None,
    tls_cert_file: Annotated[
        str | None, _flag("--tls-cert-file", "Certificate that agents check; needed off loopback.", "FILE")
    ] = None,
    tls_key_file: Annotated[str | None, _flag("--tls-key-file", "Key of the certificate.", "FILE")] = None,
    listen: _Listen = None,
    log_format: _LogFormat = None,
    log_level: _LogLevel = None,
    config: _Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Gather the agents' reports: names, findings, a CpuAuditReport a namespace, Events, and what policies allow.

    Each flag is also an environment variable, such as RESOURCE_SLACK_AUDIT_REPORTS_LISTEN, and a key of --config.

    [bold]Examples[/bold]

        resource-slack audit controller --context test --no-leader-elect

        resource-slack audit controller --reports-listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-key-file tls.key
    """
    from slack.process.audit_settings import ControllerSettings, load

    flags: dict[str, object] = {
        "namespace": namespace,
        "lease_name": lease_name,
        "leader_elect": leader_elect,
        "agent_service_account": agent_service_account,
        "interval": interval,
        "reports_listen": reports_listen,
        "tls_cert_file": tls_cert_file,
        "tls_key_file": tls_key_file,
        "listen": listen,
        "log_format": log_format,
        "log_level": log_level,
        "kubeconfig": kubeconfig,
        "context": context,
    }
    settings = load(ControllerSettings, flags, os.environ, file=config)
    from slack_operator.audit.controller import run

    raise typer.Exit(run(settings))
