"""`explain`: which placeholder makes room for a workload, or why none does. Reads only."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import context_namespace
from slack.cli.inputs.dry_run import gather
from slack.cli.inputs.flag_values import rate
from slack.cli.inputs.flags import (
    At,
    MinRate,
    PlaceholderNamespace,
    PolicyFiles,
    SnapshotFile,
    TransientTaints,
    namespace_option,
)
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, wide_columns
from slack.cli.terminal.problems import UserError
from slack.cluster.labels import API_VERSION
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.cluster.snapshot import Workload
    from slack.cluster.start_stages import PodStart
    from slack.planner.explain import WorkloadExplanation
    from slack.planner.model.result import Plan


@with_kubectl_flags
def explain(
    workload: Annotated[
        str, typer.Argument(help="deploy/api, sts/db, job/x, cronjob/x, pod/x, cb/buffer", metavar="KIND/NAME")
    ],
    name: Annotated[
        str | None, typer.Argument(help="As in: explain deploy api", metavar="NAME", show_default=False)
    ] = None,
    namespace: Annotated[str | None, namespace_option("Namespace of the workload.")] = None,
    filename: PolicyFiles = None,
    snapshot: SnapshotFile = None,
    output: Output = TABLE,
    extra_capacity_min_rate: MinRate = "0.1",
    at: At = None,
    placeholder_namespace: PlaceholderNamespace = "resource-slack",
    transient_taints: TransientTaints = "",
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show which placeholder has the capacity for a workload's next pod, or why none does.

    [bold]Examples[/bold]

        resource-slack explain -n shop deploy/api

        resource-slack explain -n shop cb/web

        resource-slack explain -n db sts/postgres --snapshot cluster.json -f policy.yaml -o wide
    """
    kind, rest = _kind_and_name(workload, name)
    inside = namespace or context_namespace(access)
    if kind in _BUFFERS:
        _explain_buffer(rest, inside, snapshot, output, placeholder_namespace, access)
        return
    from slack.planner.explain import explain as explained
    from slack.planner.explain import target

    wanted = target(kind, rest, inside)
    inputs = gather(
        filename or [],
        snapshot,
        access,
        at,
        placeholder_namespace,
        quotas_of=inside,
        transient_taints=transient_taints,
    )
    if inputs.built_in:
        typer.echo(
            "note: there is no SlackPolicy: the answer is for the built-in one, which needs --built-in-policy", err=True
        )
    planned = inputs.plan(rate(extra_capacity_min_rate))
    found = explained(
        inputs.snapshot,
        planned,
        inputs.policies,
        wanted,
        priorities=inputs.priority_classes.values,
        quotas=inputs.quotas_of,
    )
    _print_explanation(found, planned, output, _start_of(wanted, access) if inputs.live else None)


def _start_of(wanted: "Workload", access: ClusterAccess) -> "PodStart | None":
    """Return how the workload's newest pod started; None if it has none, or if that cannot be read."""
    from slack.cli.inputs.pod_starts import newest_start
    from slack.kube.errors import KubeError

    try:
        return newest_start(access, wanted)
    except (KubeError, ValueError) as error:
        typer.echo(f"note: how its pods started is not known: {error}", err=True)
        return None


def _print_explanation(
    found: "WorkloadExplanation", planned: "Plan", output: Output, start: "PodStart | None" = None
) -> None:
    if output.for_machines:
        print_document(_document(found, start), output)
    else:
        from slack.planner.explain_text import lines
        from slack.planner.model.whys import whys

        typer.echo("\n".join(lines(found, whys(planned))))
        if start is not None:
            typer.echo(f"  start: pod {start.pod}: {start}")
        if output.is_wide and found.rooms:
            _print_rooms(found, output)


def _kind_and_name(workload: str, name: str | None) -> tuple[str, str]:
    """Return what `deploy/api`, `deploy api` or a pod's name mean."""
    kind, slash, rest = workload.partition("/")
    if not slash and name is None:
        kind, rest = "pod", workload
    elif not slash:
        rest = str(name)
    elif name is not None or not rest:
        raise UserError(f"{workload}: write KIND/NAME, such as deploy/api")
    return kind, rest


_BUFFERS = ("cb", "capacitybuffer", "capacitybuffers")


def _explain_buffer(
    name: str,
    namespace: str,
    snapshot_file: Path | None,
    output: Output,
    placeholder_namespace: str,
    access: ClusterAccess,
) -> None:
    """Tell how many chunks a CapacityBuffer has, where they fit, what bounds them, who serves it, and who counts it."""
    from collections import Counter

    from slack.capacity_buffers.answer import answer_of, lines
    from slack.cli.inputs.api_server import api_server
    from slack.cli.inputs.buffers import chunk_sets, read_buffers
    from slack.planner.domain.buffered import counted_chunks
    from slack.planner.domain.membership import divided, node_view

    if snapshot_file is not None:
        raise UserError(f"cb/{name}: a CapacityBuffer is explained on a cluster only, not with --snapshot")
    with api_server(access) as connection:
        found = read_buffers(connection, placeholder_namespace)
        if found is None:
            raise UserError("capacitybuffers: the cluster has no such kind, or you may not list it")
        buffers, finding = found
        own = next((each for each in buffers if each.name == f"{namespace}/{name}"), None)
        if own is None:
            raise UserError(f"there is no CapacityBuffer {namespace}/{name}")
        sets = chunk_sets(connection, placeholder_namespace, own.uid)
    inputs = gather([], None, access, None, placeholder_namespace)
    snapshot = inputs.snapshot
    held = (pod for pod in snapshot.placeholders if pod.replica_set in sets and pod.node >= 0)
    nodes = Counter(snapshot.nodes.names[pod.node] for pod in held)
    counted = counted_chunks(snapshot, divided(node_view(snapshot), inputs.policies), sets, inputs.now)
    answer = answer_of(own, nodes, counted)
    if output.for_machines:
        document = {
            "apiVersion": API_VERSION,
            "kind": "BufferExplanation",
            "buffer": answer.name,
            "good": answer.good,
            "served_by": answer.served_by,
            "text": answer.headline,
            "nodes": dict(nodes),
            "counted_by": counted,
            "details": list(answer.details),
            "server": "" if finding is None else str(finding),
        }
        print_document(document, output)
        return
    typer.echo("\n".join(lines([answer], finding, details=True)))


def _print_rooms(found: "WorkloadExplanation", output: Output) -> None:
    """Print every room with all of its nodes, which the sentences above have only a few of."""
    from rich.table import Table

    from slack.cli.terminal.console import console, print_table
    from slack.planner.model.amount_text import resources_text

    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("  POLICY", "SHAPE", "ROLE", "EACH", "COUNT", "ON NODES", "PENDING", "NODES"):
        table.add_column(heading, no_wrap=heading != "NODES")
    for room in found.rooms:
        nodes = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in room.nodes)
        counts = map(str, (room.count, room.bound, room.pending))
        table.add_row(f"  {room.policy}", room.shape, room.role, resources_text(room.requests), *counts, nodes or "-")
    with wide_columns(output):
        print_table(console(), table)


def _document(found: "WorkloadExplanation", start: "PodStart | None") -> dict[str, Any]:
    from slack.planner.output import resources_document

    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
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
                "avoided": room.avoided,
                "made_as": room.made_as,
                "release_nodes": None if room.release_nodes is None else str(room.release_nodes),
            }
            for room in found.rooms
        ],
        "reasons": list(found.reasons),
        "warnings": list(found.warnings),
        "unknown": list(found.unknown),
        "cut": list(found.cut),
        "start": None
        if start is None
        else {
            "pod": start.pod,
            "bound_seconds": start.bound_seconds,
            "ready_seconds": start.ready_seconds,
            "pull_seconds": round(start.pull_seconds, 3),
            "pulled_bytes": start.pulled_bytes,
            "text": str(start),
        },
    }
