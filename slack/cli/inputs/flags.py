"""Flags that several commands have: which cluster, which files, which rate."""

from pathlib import Path
from typing import Annotated

import typer

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
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Which kubeconfig to use.", metavar="FILE")]
Context = Annotated[str | None, typer.Option("--context", help="Which context of the kubeconfig.", metavar="NAME")]
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
        help="What nodes cost an hour, by instance type or label: YAML or JSON, as the chart's `prices`. - is stdin.",
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
