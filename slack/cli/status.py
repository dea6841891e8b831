"""`status`: is my slack there? Reads only; exit code 0 when all is there, 3 when something is wrong."""

import json
import sys
import time
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.completing import policy_names
from slack.cli.inputs import Context, Kubeconfig
from slack.cli.problems import INFEASIBLE, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from slack.cli.standing import Finding, PolicyStanding, Shape, Standing

_WORKLOADS_SHOWN = 3
_NODES_SHOWN = 4
_BUILT_IN = (
    "There is no SlackPolicy: the operator keeps its built-in one, which has no status. Its rate is the operator's own",
    "--extra-capacity-min-rate: 0.1, ten percent, unless it was started with another. What is kept with a rate:",
    "  kubectl slack plan --extra-capacity-min-rate 0.1",
    "A policy of the same rate that has a status:",
    """  echo '{"apiVersion": "resource-slack.io/v1alpha1", "kind": "SlackPolicy", "metadata": {"name": "default"}, """
    """"spec": {}}' | kubectl apply -f -""",
)
_CLEAR = "\x1b[H\x1b[2J"


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


def status(
    policy: Annotated[
        str | None,
        typer.Argument(
            help="Only this SlackPolicy.", metavar="POLICY", show_default=False, autocompletion=policy_names
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="wide adds nodes and pods that are not covered.")
    ] = Output.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of the placeholders and the lease. Default resource-slack; where nothing is there, the one "
            "where the operator is found.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    lease_name: Annotated[
        str | None,
        typer.Option(
            "--lease-name",
            help="Name of the operator's lease. Default resource-slack, or that of the operator that is found.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell whether slack is there, and what to do where it is not.

    Only reads. The right to list SlackPolicies is enough; with the right to see pods and leases in the operator's
    namespace it also tells where the placeholders are and whether the operator runs.

    Exit code 0: all is there; 3: something is wrong, or cannot be told; 2: bad input or no cluster.

    [bold]Examples[/bold]

        kubectl slack status

        kubectl slack status web -o wide

        kubectl slack status --watch

        resource-slack status -o json | jq .good
    """
    good = _watched(policy, output, namespace, lease_name, kubeconfig, context) if watch else None
    if good is None:
        shown = _look(policy, namespace, lease_name, kubeconfig, context)
        _print(shown, output)
        good = shown.good
    if not good:
        raise typer.Exit(INFEASIBLE)


def _look(
    policy: str | None, namespace: str | None, lease_name: str | None, kubeconfig: Path | None, context: str | None
) -> "Standing":
    from slack.cli.standing import judge, look_around
    from slack.kube.kubeconfig import connect

    connection = connect(kubeconfig, context)
    try:
        seen, at_namespace, at_lease = look_around(connection, policy, namespace=namespace, lease_name=lease_name)
    finally:
        connection.close()
    return judge(seen, now=time.time(), namespace=at_namespace, lease_name=at_lease)


def _watched(
    policy: str | None,
    output: Output,
    namespace: str | None,
    lease_name: str | None,
    kubeconfig: Path | None,
    context: str | None,
    every_seconds: float = 2.0,
) -> bool:
    """Look until Ctrl-C. The first look must succeed; a later one that fails is told once, and tried again."""
    from slack.kube.errors import KubeError

    terminal = sys.stdout.isatty() and output is not Output.JSON
    before = ""
    while True:
        try:
            shown = _look(policy, namespace, lease_name, kubeconfig, context)
        except (KubeError, UserError) as error:
            if not before:
                raise
            if before != str(error):
                typer.echo(f"error: {error}; trying again", err=True)
            before = str(error)
        else:
            text = json.dumps(document(shown), ensure_ascii=False)
            if text != before:
                if terminal:
                    typer.echo(_CLEAR, nl=False)
                elif before and output is not Output.JSON:
                    typer.echo("")
                typer.echo(text) if output is Output.JSON else _print(shown, output)
                sys.stdout.flush()
            before = text
        time.sleep(every_seconds)


def _print(shown: "Standing", output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(document(shown), indent=2, ensure_ascii=False))
        return
    from slack.cli.tables import console

    out = console()
    wide = output is Output.WIDE
    for finding in shown.operator_findings:
        _finding(out, finding, indent="")
        out.print()
    for one in shown.policies:
        _policy(out, one, wide=wide)
        out.print()
    if shown.built_in:
        for line in _BUILT_IN:
            out.print(line, markup=False, soft_wrap=True)
        out.print()
        for finding in shown.built_in_findings:
            _finding(out, finding, indent="")
            out.print()
    elif not shown.policies:
        out.print("There is no SlackPolicy.")
        out.print()
    out.print(f"operator  {shown.operator}", markup=False, soft_wrap=True)
    for text in shown.unseen:
        out.print(f"not seen  {text}", style="dim", markup=False, soft_wrap=True)
    _verdict(out, shown)


def _verdict(out: "Console", shown: "Standing") -> None:
    if shown.good:
        there = f"{_counted(shown.built_in_bound, 'placeholder')} on nodes, none waits; no more is known"
        text = there if shown.built_in else "your slack is there"
        out.print(f"verdict   {text}", style="bold green")
        return
    wrong = [one.name for one in shown.policies if not one.good]
    parts = [f"something is wrong with {', '.join(wrong)}"] if wrong else []
    parts += ["the operator does not run"] if shown.operator_findings else []
    parts += ["the built-in policy is not seen to do its work"] if shown.built_in_findings else []
    out.print(f"verdict   {'; '.join(parts)}", style="bold red", markup=False, soft_wrap=True)


def _policy(out: "Console", one: "PolicyStanding", *, wide: bool) -> None:
    from rich.text import Text

    status, summary = one.status, one.status.summary
    colour = "green" if one.good else "red"
    out.print(Text.assemble((one.name, "bold"), "  ", (one.headline, colour)))
    if status.conditions:
        rate = f"{summary['rate']} on {_counted(status.nodes, 'node')}" if summary.get("rate") else ""
        out.print(
            f"  slack     {summary.get('reserved', '?')} there of {summary.get('desired', '?')} wanted (cpu/memory)"
            f"{'; ' + rate if rate else ''}",
            markup=False,
            soft_wrap=True,
        )
        pending = f", {one.pending} waiting for one" if one.pending else ""
        out.print(f"  pods      {_counted(one.bound, 'placeholder')} on nodes{pending}")
        started = (
            f"{status.instant_start} of real pods had a node within 2 s" if status.instant_start else "none seen yet"
        )
        out.print(f"  starts    {started}")
        if status.displaced.total:
            since = f" since {status.displaced.since}" if status.displaced.since else ""
            out.print(f"  displaced {_counted(status.displaced.total, 'placeholder')}{since}")
        if wide:
            out.print(
                f"  burst     {_counted(status.burst, 'placeholder')} at once, {status.sustained or '?'} for long",
                markup=False,
            )
    shapes = [shape for shape in status.shapes if shape.count or shape.replicas or shape.bound]
    if shapes:
        _shapes(out, shapes, one, wide=wide)
    if wide and status.uncovered:
        out.print("  no room is kept for")
        for left in status.uncovered:
            out.print(f"    {left.pod}: {left.reason}", markup=False, soft_wrap=True)
    for finding in one.findings:
        _finding(out, finding, indent="  ")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _finding(out: "Console", finding: "Finding", *, indent: str) -> None:
    from slack.cli.standing import duration
    from slack.process.reasons import Level

    age = ""
    if finding.since:
        age = f" (for {duration(time.time() - datetime.fromisoformat(finding.since).timestamp())})"
    style = "yellow" if finding.level is Level.NOTE else "red"
    mark = "note" if finding.level is Level.NOTE else "!"
    out.print(f"{indent}{mark} {finding.text}{age}", style=style, markup=False, soft_wrap=True)
    if finding.advice:
        out.print(f"{indent}  -> {finding.advice}", markup=False, soft_wrap=True)


def _shapes(out: "Console", shapes: "list[Shape]", one: "PolicyStanding", *, wide: bool) -> None:
    from rich.table import Table

    from slack.cli.tables import print_table

    table = Table(box=None, pad_edge=True, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("  SHAPE", no_wrap=True)
    table.add_column("ROLE", no_wrap=True)
    table.add_column("EACH", no_wrap=True)
    table.add_column("ON NODES", justify="right", no_wrap=True)
    table.add_column("OF", justify="right", no_wrap=True)
    table.add_column("FOR")
    if wide:
        table.add_column("NODES")
    for shape in shapes:
        nodes = one.nodes_of_shape.get(shape.name, {})
        bound = sum(nodes.values()) if one.nodes_of_shape else shape.bound
        row = [
            f"  {shape.name}",
            shape.role,
            ", ".join(f"{amount} {name}" for name, amount in shape.requests.items()),
            str(bound),
            str(shape.replicas),
            _some(shape.workloads, _WORKLOADS_SHOWN),
        ]
        if wide:
            counted = [f"{name} x{count}" if count > 1 else name for name, count in sorted(nodes.items())]
            row.append(_some(counted, _NODES_SHOWN))
        table.add_row(*row)
    print_table(out, table)


def _some(names: list[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def document(shown: "Standing") -> dict[str, Any]:
    """Return the answer for machines: the same for people's eyes and for `jq`."""
    import msgspec

    return {
        "good": shown.good,
        "builtIn": shown.built_in,
        "operator": {"runs": shown.operator_runs, "text": shown.operator},
        "notSeen": list(shown.unseen),
        "findings": [_finding_document(one) for one in (*shown.operator_findings, *shown.built_in_findings)],
        "policies": [
            {
                "name": one.name,
                "good": one.good,
                "ready": one.ready,
                "text": one.headline,
                "bound": one.bound,
                "pending": one.pending,
                "nodes": {shape: dict(nodes) for shape, nodes in one.nodes_of_shape.items()},
                "findings": [_finding_document(finding) for finding in one.findings],
                "status": msgspec.to_builtins(one.status),
            }
            for one in shown.policies
        ],
    }


def _finding_document(finding: "Finding") -> dict[str, Any]:
    return {
        "level": str(finding.level),
        "reason": finding.reason,
        "text": finding.text,
        "advice": finding.advice,
        "since": finding.since,
    }
