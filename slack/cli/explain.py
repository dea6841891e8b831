"""`explain`: which placeholder makes room for a workload, or why none does. Reads only."""

import json
from typing import TYPE_CHECKING, Annotated, Any

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
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.planner.explain import Explanation


def explain(
    workload: Annotated[str, typer.Argument(help="deploy/api, sts/db, job/x, cronjob/x, pod/x", metavar="KIND/NAME")],
    name: Annotated[
        str | None, typer.Argument(help="As in: explain deploy api", metavar="NAME", show_default=False)
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the workload.")] = "default",
    filename: PolicyFiles = None,
    snapshot: SnapshotFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.", metavar="FORMAT")] = "text",
    extra_capacity_min_rate: MinRate = "0.1",
    at: At = None,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell which placeholder makes room for a workload's next pod, or why none does.

    [bold]Examples[/bold]

        resource-slack explain -n shop deploy/api

        resource-slack explain -n db sts/postgres --snapshot cluster.json -f policy.yaml
    """
    if output not in ("text", "json"):
        raise UserError(f"--output: {output!r} is neither text nor json")
    kind, slash, rest = workload.partition("/")
    if not slash and name is None:
        kind, rest = "pod", workload
    elif not slash:
        rest = str(name)
    elif name is not None or not rest:
        raise UserError(f"{workload}: write KIND/NAME, such as deploy/api")
    from slack.planner.explain import explain as explained
    from slack.planner.explain import target

    wanted = target(kind, rest, namespace)
    inputs = gather(filename or [], snapshot, kubeconfig, context, at, placeholder_namespace)
    found = explained(
        inputs.snapshot,
        inputs.plan(rate(extra_capacity_min_rate)),
        inputs.policies,
        wanted,
        priorities=inputs.priorities,
    )
    if output == "json":
        typer.echo(json.dumps(_document(found), indent=2, ensure_ascii=False))
    else:
        from slack.planner.explain_text import lines

        typer.echo("\n".join(lines(found)))


def _document(found: "Explanation") -> dict[str, Any]:
    from slack.planner.output import resources_document

    return {
        "workload": found.workload,
        "pods": found.pods,
        "requests": resources_document(found.requests),
        "ready": found.ready,
        "rooms": [
            {
                "policy": room.policy,
                "shape": room.shape,
                "role": room.role,
                "requests": resources_document(room.requests),
                "count": room.count,
                "bound": room.bound,
                "pending": room.pending,
                "nodes": dict(room.nodes),
            }
            for room in found.rooms
        ],
        "reasons": list(found.reasons),
        "warnings": list(found.warnings),
    }
