"""`scorer scheduler-config`: what one's own kube-scheduler needs to ask the scorer."""

from typing import Annotated

import typer

from slack.cli.terminal.problems import UserError
from slack.scorer.configuration.scheduler_config import CLIENT_BURST, CLIENT_QPS

_URL = "The scorer's address as the scheduler reaches it; https needs the three files."


_Url = Annotated[str, typer.Option("--url", help=_URL, metavar="URL")]
_SchedulerName = Annotated[
    str, typer.Option("--scheduler-name", help="The profile's; pods name it in spec.schedulerName.", metavar="NAME")
]
_CaFile = Annotated[
    str | None,
    typer.Option("--ca-file", help="Signs the scorer's certificate; on the scheduler's machine.", metavar="FILE"),
]
_CertFile = Annotated[
    str | None, typer.Option("--cert-file", help="The scheduler's own certificate, there.", metavar="FILE")
]
_KeyFile = Annotated[str | None, typer.Option("--key-file", help="Its key, there.", metavar="FILE")]
_ServerName = Annotated[
    str | None, typer.Option("--server-name", help="Name in the scorer's certificate.", metavar="NAME")
]
_Filters = Annotated[
    bool, typer.Option("--filter", help="Ask /filter and /preempt too (`scorer serve --filter-above`).")
]
_TimeoutMs = Annotated[int, typer.Option("--timeout-ms", help="No pod waits longer for the scorer.", min=10, max=5000)]
_Percentage = Annotated[
    int | None,
    typer.Option(
        "--percentage-of-nodes", help="percentageOfNodesToScore; the scheduler's own where absent.", min=1, max=100
    ),
]
_Kubeconfig = Annotated[
    str | None, typer.Option("--scheduler-kubeconfig", help="The scheduler's kubeconfig, there.", metavar="FILE")
]
_ClientQps = Annotated[
    int, typer.Option("--client-qps", help="Requests per second that the scheduler sends to the API server.", min=1)
]
_ClientBurst = Annotated[
    int, typer.Option("--client-burst", help="Requests that it may send in a burst above that.", min=1)
]
_Replicas = Annotated[
    int, typer.Option("--replicas", help="Replicas of this scheduler; more than one elect a leader.", min=1)
]
_LeaseNamespace = Annotated[
    str, typer.Option("--lease-namespace", help="Namespace of the leader's Lease.", metavar="NAME")
]


def scheduler_config(
    url: _Url = "http://127.0.0.1:8888",
    scheduler_name: _SchedulerName = "resource-slack",
    ca_file: _CaFile = None,
    cert_file: _CertFile = None,
    key_file: _KeyFile = None,
    server_name: _ServerName = None,
    filters: _Filters = False,
    timeout_ms: _TimeoutMs = 200,
    percentage: _Percentage = None,
    kubeconfig: _Kubeconfig = None,
    client_qps: _ClientQps = CLIENT_QPS,
    client_burst: _ClientBurst = CLIENT_BURST,
    replicas: _Replicas = 1,
    lease_namespace: _LeaseNamespace = "kube-system",
) -> None:
    """Print a KubeSchedulerConfiguration with the scorer as an extender, for `kube-scheduler --config`.

    Plugins that score by requests are off in it. An extender applies to all profiles of a scheduler.

    One replica needs no leader election. Several replicas use a Lease with the scheduler's name: give their account the
    verbs create, get and update for it.

    [bold]Examples[/bold]

        resource-slack scorer scheduler-config > scheduler.yaml

        resource-slack scorer scheduler-config --url https://scorer:8888 --ca-file c --cert-file s.crt --key-file s.key
    """
    import yaml

    from slack.scorer.configuration.scheduler_config import ExtenderTls, SchedulerOptions, scheduler_configuration

    files = {"--ca-file": ca_file, "--cert-file": cert_file, "--key-file": key_file}
    missing = [flag for flag, file in files.items() if not file]
    https = url.startswith("https://")
    if not https and not url.startswith("http://"):
        raise UserError(f"--url: {url!r} should begin with https:// or http://")
    if https and missing:
        raise UserError(f"{', '.join(missing)}: needed with https: the scorer answers only who has a certificate")
    if not https and len(missing) < len(files):
        raise UserError("--url: should begin with https:// where certificates are given")
    tls = ExtenderTls(ca_file, cert_file, key_file, server_name) if ca_file and cert_file and key_file else None
    options = SchedulerOptions(
        url=url,
        scheduler_name=scheduler_name,
        tls=tls,
        filters=filters,
        http_timeout=f"{timeout_ms}ms",
        percentage_of_nodes=percentage,
        kubeconfig=kubeconfig,
        client_qps=client_qps,
        client_burst=client_burst,
        lease_name=scheduler_name if replicas > 1 else None,
        lease_namespace=lease_namespace,
    )
    typer.echo(yaml.safe_dump(scheduler_configuration(options), sort_keys=False), nl=False)
