"""Flags that several commands have: which cluster, which files, which rate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from slack.cli.inputs.cluster_names import namespace_names

PolicyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--filename", "-f", help="SlackPolicy file, YAML or JSON; - is stdin. May be repeated.", metavar="FILE"
    ),
]
SnapshotFile = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        help="Output of: kubectl get nodes,pods -A -o json. - is stdin. No cluster is asked.",
        metavar="FILE",
    ),
]
MinRate = Annotated[
    str,
    typer.Option(
        "--extra-capacity-min-rate", help="Rate of policies that name none: 0.1 is ten percent.", metavar="RATE"
    ),
]
PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="What nodes cost per hour, by instance type or label: YAML or JSON, as the chart's `prices`. - is stdin.",
        metavar="FILE",
    ),
]
TransientTaints = Annotated[
    str,
    typer.Option(
        "--transient-taints",
        help="Keys of further taints that go once a node is up, as the operator's flag has them.",
        metavar="KEYS",
    ),
]
At = Annotated[
    str | None,
    typer.Option("--at", help="Plan for this instant (RFC 3339) instead of now, for schedules.", metavar="TIME"),
]
PlaceholderNamespace = Annotated[
    str,
    typer.Option(
        "--placeholder-namespace", help="Namespace of the operator's placeholders, if it runs.", metavar="NAME"
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Every namespace, instead of one.", show_default=False)
]
Selector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        help="Only objects with these labels, such as team=web.",
        metavar="LABELS",
        show_default=False,
    ),
]


def namespace_option(text: str) -> Any:
    """Return a command's `--namespace`; it gives None without the flag, which `chosen_namespace` reads.

    Args:
        text: what is in the namespace.
    """
    return typer.Option(
        "--namespace",
        "-n",
        help=f"{text} Default: that of the kubeconfig's context.",
        metavar="NAME",
        show_default=False,
        autocompletion=namespace_names,
    )
