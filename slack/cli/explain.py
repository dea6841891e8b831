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
    from slack.planner.explain import Explanation, Room


def explain(
    workload: Annotated[str, typer.Argument(help="deploy/api, sts/db, job/x, cronjob/x, pod/x", metavar="KIND/NAME")],
    name: Annotated[
        str | None, typer.Argument(help="As in: explain deploy api", metavar="[NAME]", show_default=False)
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
        typer.echo("\n".join(_lines(found)))


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


def _lines(found: "Explanation") -> list[str]:
    from slack.cli.tables import resources_text

    pods = "1 pod" if found.pods == 1 else f"{found.pods} pods"
    lines = [f"{found.workload}: {pods}, {resources_text(found.requests)} each"]
    for policy in dict.fromkeys(room.policy for room in found.rooms):
        lines.append(f"  policy {policy} makes room for it:")
        lines += [f"    {_room_line(room)}" for room in found.rooms if room.policy == policy]
    if not found.rooms:
        lines.append("  no room is kept for it")
    elif found.ready:
        lines.append("  its next pod starts there at once")
    elif not any(room.bound or room.pending for room in found.rooms):
        lines.append("  none of it stands yet; the operator would make it")
    lines += [f"  because {reason}" for reason in found.reasons]
    lines += [f"  but {warning}" for warning in found.warnings]
    return lines


def _room_line(room: "Room") -> str:
    from slack.cli.tables import resources_text
    from slack.planner.explain import shown_nodes

    line = f"{room.count} x {room.shape} ({room.role}), {resources_text(room.requests)} each"
    if room.bound:
        line += f"; {room.bound} on {shown_nodes(room)}"
    if room.pending:
        line += f"; {room.pending} pending"
    return line
