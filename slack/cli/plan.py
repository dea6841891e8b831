"""`plan`: a dry run. Prints what slack would be kept, changes nothing."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from slack.cli.inputs.dry_run import gather
from slack.cli.inputs.files import name_of
from slack.cli.inputs.flag_values import rate
from slack.cli.inputs.flags import (
    At,
    MinRate,
    PlaceholderNamespace,
    PolicyFiles,
    PricesFile,
    Selector,
    SnapshotFile,
    TransientTaints,
)
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.inputs.policy_labels import policies_with
from slack.cli.terminal.formats import TABLE, FileFormat, ListedRows, Output, OutputKind, print_document, wide_columns
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.cli.inputs.dry_run import Inputs
    from slack.planner.model.result import Plan

_LISTED = ListedRows("items", "slackpolicy.resource-slack.io", "policy", buffers=True)


@with_kubectl_flags
def plan(
    filename: PolicyFiles = None,
    snapshot: SnapshotFile = None,
    output: Annotated[Output, _LISTED] = TABLE,
    selector: Selector = "",
    extra_capacity_min_rate: MinRate = "0.1",
    at: At = None,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    transient_taints: TransientTaints = "",
    prices: PricesFile = None,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show what slack would be kept. A dry run: nothing is written anywhere.

    Policies come from -f; without it from the cluster or from the SlackPolicy items of the snapshot. Without any it
    shows what the built-in policy would keep, as an operator does with --built-in-policy. Exit code 0: feasible; 3:
    some policy cannot be fulfilled; 2: bad input. -l chooses policies of a cluster by their labels; they are planned
    together with the others.

    [bold]Examples[/bold]

        kubectl get nodes,pods -A -o json > cluster.json

        resource-slack plan --snapshot cluster.json

        resource-slack plan -f policy.yaml --snapshot cluster.json -o json

        resource-slack plan -f policy.yaml --context prod -o capacitybuffers

        resource-slack plan --context prod --extra-capacity-min-rate 0.2 --prices prices.yaml
    """
    default_rate = rate(extra_capacity_min_rate)
    if selector and (filename or snapshot is not None):
        raise UserError("--selector: it chooses policies of a cluster; leave out --filename and --snapshot")
    inputs = gather(
        filename or [], snapshot, access, at, placeholder_namespace, prices, transient_taints=transient_taints
    )
    result = inputs.plan(default_rate)
    if selector:
        result = _keep_policies(result, policies_with(access, selector))
    if prices is not None:
        from slack.planner.domain.costs import fits_no_node

        if unfit := fits_no_node(inputs.snapshot, inputs.prices):
            typer.echo(f"warning: {name_of(prices)}: {unfit}", err=True)
    _print(inputs, result, output, default_rate, placeholder_namespace)
    if not all(item.feasible for item in result.items):
        raise typer.Exit(INFEASIBLE)


def _keep_policies(result: "Plan", names: frozenset[str]) -> "Plan":
    """Return the plan with these policies only."""
    return replace(result, items=tuple(item for item in result.items if item.policy in names))


def _print(inputs: "Inputs", result: "Plan", output: Output, default_rate: float, namespace: str) -> None:
    if output.kind is OutputKind.CAPACITY_BUFFERS:
        from slack.capacity_buffers.written import buffer_list

        print_document(buffer_list(result, namespace), FileFormat.YAML)
    elif output.for_machines:
        from slack.cli.inputs.measured import spared_documents
        from slack.planner.output import document

        print_document(document(result, spared_documents(inputs.measured)), output)
    else:
        from slack.cli.inputs.measured import spared_text
        from slack.cli.terminal.plan_tables import print_plan

        spared = {item.policy: spared_text(inputs.measured.get(item.policy), live=inputs.live) for item in result.items}
        with wide_columns(output):
            print_plan(
                result,
                default_rate if inputs.built_in else None,
                spared=spared,
                wide=output.is_wide,
                headers=output.headers,
            )
