"""`load`: flags, the question before, and the answer after."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from slack.cli.inputs.api_server import context_namespace
from slack.cli.inputs.flag_values import duration
from slack.cli.inputs.flags import namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess
from slack.loadtest.shape import LoadShape
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.cli.load.run import LoadRequest

_IMAGE = "registry.k8s.io/pause:3.10"
_MOST_PODS = 5000
_DIGITS = 9
_LONGEST_NAME = 63


_Pods = Annotated[
    str, typer.Option("--pods", help=f"How many pods, up to {_MOST_PODS}.", metavar="NUMBER", show_default=False)
]
_Namespace = Annotated[str | None, namespace_option("Namespace of the Deployment.")]
_Cpu = Annotated[str, typer.Option("--cpu", help="What a pod requests.", metavar="QUANTITY")]
_Memory = Annotated[str, typer.Option("--memory", help="What a pod requests.", metavar="QUANTITY")]
_Shape = Annotated[
    LoadShape,
    typer.Option("--shape", help="All together, more and more, or up and down twice."),
]
_Span = Annotated[
    str | None,
    typer.Option(
        "--for",
        help="How long the load goes on. Default: a burst until its pods are Ready, the others 10m.",
        metavar="DURATION",
        show_default=False,
    ),
]
_Patience = Annotated[
    str,
    typer.Option(
        "--patience",
        help="End when for so long no pod got a node or was Ready, and no node came, as at a quota.",
        metavar="DURATION",
    ),
]
_WatchNodes = Annotated[
    str,
    typer.Option(
        "--watch-nodes",
        help="After the load ends, watch this long for the extra nodes to be removed; 0s turns this off.",
        metavar="DURATION",
    ),
]
_Name = Annotated[str, typer.Option("--name", help="Of the Deployment.", metavar="NAME")]
_Image = Annotated[str, typer.Option("--image", help="Of its pods; it only has to wait.", metavar="IMAGE")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]


@with_kubectl_flags
def load(
    pods: _Pods,
    namespace: _Namespace = None,
    cpu: _Cpu = "500m",
    memory: _Memory = "512Mi",
    shape: _Shape = LoadShape.BURST,
    span: _Span = None,
    patience: _Patience = "5m",
    watch_nodes: _WatchNodes = "15m",
    name: _Name = "resource-slack-load",
    image: _Image = _IMAGE,
    yes: _Yes = False,
    output: Output = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Load a cluster with pods for a while: how fast they start, and whether the extra nodes are removed.

    Asks first, makes one Deployment whose pods only wait, and removes it in the end, also after Ctrl-C, SIGTERM and a
    closed terminal. If the command is killed, a Job without pods removes the Deployment after ten minutes; without the
    right to create jobs the next load of that name does, or `uninstall`. An autoscaler may start nodes for it, which
    cost money. Needs the right to create, get, patch and delete deployments and to watch pods in the
    namespace. With the right to watch pods and nodes everywhere it also reports placeholders and nodes.

    Exit code 0: every pod got a node; 3: some did not; 2: bad input or no cluster; 130: Ctrl-C.

    [bold]Examples[/bold]

        resource-slack load -n shop --pods 50 --cpu 500m --memory 512Mi

        resource-slack load -n shop --pods 200 --shape ramp --for 10m --yes -o json
    """
    from slack.cli.load.run import LoadRequest

    asked = LoadRequest(
        namespace=namespace or context_namespace(access),
        name=_name(name),
        image=image,
        pods=_pods(pods),
        requests={"cpu": _quantity("--cpu", "cpu", cpu), "memory": _quantity("--memory", "memory", memory)},
        shape=shape,
        span_seconds=_seconds("--for", span) if span is not None else None,
        patience_seconds=_seconds("--patience", patience),
        nodes_seconds=0.0 if watch_nodes.strip() in ("0", "0s") else _seconds("--watch-nodes", watch_nodes),
    )
    _run(asked, access, output, yes=yes)


def _run(asked: "LoadRequest", access: ClusterAccess, output: Output, *, yes: bool) -> None:
    """Ask the user, run the load, print the report, and end with its exit code."""
    from slack.cli.inputs.api_server import api_server
    from slack.cli.load.report_text import print_report, question
    from slack.cli.load.run import LoadRun
    from slack.cli.terminal.interrupts import INTERRUPTED

    with api_server(access) as connection:
        run = LoadRun(connection, asked)
        run.check()
        if not yes:
            _ask(question(asked, connection.address))
        connection.deadline = None  # from now on silence is a watch's right
        finished = run.play()
    print_report(finished, output)
    if finished.interrupted:
        raise typer.Exit(INTERRUPTED)
    if finished.report.unbound or finished.missing:
        raise typer.Exit(INFEASIBLE)


def _ask(text: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise UserError(f"{text}\nnobody is there to say yes; add --yes to do it")
    if not typer.confirm(f"{text}\nGo on?", err=True):
        raise typer.Exit(0)


def _quantity(flag: str, resource: str, text: str) -> str:
    from slack.cluster.amounts import slip_in
    from slack.cluster.quantity import QuantityError, amount

    try:
        value, slip = amount(resource, text), slip_in(resource, text)
    except QuantityError as error:
        raise UserError(f"{flag}: {error}") from None
    if value <= 0:
        raise UserError(
            f"{flag}: {text!r} is no request of a pod; write such as {'500m' if resource == 'cpu' else '512Mi'}"
        )
    if slip is not None:
        raise UserError(f"{flag}: {slip}")
    return text


def _name(text: str) -> str:
    if len(text) > _LONGEST_NAME or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text):
        raise UserError(
            f"--name: {text!r} is no name of a Deployment whose pods have it as a label: up to {_LONGEST_NAME} of a-z, "
            "0-9 and -, such as shop-load"
        )
    return text


def _pods(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:_DIGITS]) <= _MOST_PODS:
        raise UserError(f"--pods: {text!r} is no number of pods from 1 to {_MOST_PODS}, such as 50")
    return int(text)


def _seconds(flag: str, text: str) -> float:
    return duration(flag, text).total_seconds()
