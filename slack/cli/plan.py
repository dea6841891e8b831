"""`plan`: a dry run. Prints what slack would be kept, changes nothing."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from slack.cli.inputs import (
    At,
    Context,
    Kubeconfig,
    MinRate,
    PlaceholderNamespace,
    PolicyFiles,
    SnapshotFile,
    gather,
    rate,
)
from slack.cli.problems import INFEASIBLE


class Output(StrEnum):
    """How a plan is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    filename: PolicyFiles = None,
    snapshot: SnapshotFile = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the plan.")] = Output.TABLE,
    extra_capacity_min_rate: MinRate = "0.1",
    at: At = None,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what slack would be kept. A dry run: nothing is written anywhere.

    Policies come from -f; without it from the cluster or from the SlackPolicy items of the snapshot; without any, the
    built-in policy holds. Exit code 0: feasible; 3: some policy cannot be fulfilled; 2: bad input.

    [bold]Examples[/bold]

        kubectl get nodes,pods -A -o json > cluster.json

        resource-slack plan --snapshot cluster.json

        resource-slack plan -f policy.yaml --snapshot cluster.json -o json

        resource-slack plan --context prod --extra-capacity-min-rate 0.2
    """
    default_rate = rate(extra_capacity_min_rate)
    inputs = gather(filename or [], snapshot, kubeconfig, context, at, placeholder_namespace)
    result = inputs.plan(default_rate)
    if output is Output.TABLE:
        from slack.cli.tables import print_plan

        print_plan(result, inputs, default_rate)
    else:
        from slack.planner.output import document

        shown = document(result)
        if output is Output.JSON:
            typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        else:
            import yaml

            typer.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=120), nl=False)
    if not all(item.feasible for item in result.items):
        raise typer.Exit(INFEASIBLE)
