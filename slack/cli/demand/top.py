"""`demand top`: pools live, the worst off first. Reads their statuses, with the rights of whoever asks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.cluster_names import namespace_names
from slack.cli.inputs.flags import Context, Kubeconfig
from slack.cli.terminal.formats import OutputFormat, OutputKind, print_document, printable, watch_document

if TYPE_CHECKING:
    from rich.table import Table

_HEADINGS = ("POOL", "WANTED", "READY", "CREATING", "UNMET", "LAG", "OLDEST", "IN/S", "OUT/S", "THROTTLED", "STATE")


def top(
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Pools of one namespace only.", autocompletion=namespace_names),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")] = False,
    output: OutputFormat = OutputKind.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the pools as they are: what comes and is done, how long messages wait, who starves.

    Starving pools come first, then those whose oldest message waits longest. Figures are those of the pools' statuses,
    which the controller writes every two seconds.

    [bold]Examples[/bold]

        resource-slack demand top

        resource-slack demand top -n media --watch

        resource-slack demand top -o json
    """
    from slack.cli.demand.pool_view import read_pools, row
    from slack.kube.errors import KubeError

    def look() -> list[dict[str, Any]]:
        with api_server(kubeconfig, context) as connection:
            rows = [row(pool) for pool in read_pools(connection, namespace)]
        return sorted(rows, key=lambda r: (not r["starving"], -(r["oldest_ms"] or 0), r["namespace"], r["name"]))

    def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
        from slack.cluster.labels import API_VERSION

        return {"apiVersion": API_VERSION, "kind": "DemandTop", "items": rows}

    def show(rows: list[dict[str, Any]]) -> None:
        if output.for_machines:
            print_document(document(rows), output)
        else:
            _print(rows)

    if watch:
        watch_document(look, show, document, output, passing=(KubeError,))
    show(look())


def _print(rows: list[dict[str, Any]]) -> None:
    from slack.cli.terminal.console import console, print_table

    out = console()
    if not rows:
        out.print("no ActivationPools")
        return
    print_table(out, _table(rows))
    for row in rows:
        if row["problem"]:
            out.print(printable(f"{row['namespace']}/{row['name']}: {row['problem']}"), markup=False)


def _table(rows: list[dict[str, Any]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in ("POOL", "STATE", "THROTTLED") else "right")
    for row in rows:
        oldest = "" if not row["oldest_ms"] else _age(row["oldest_ms"])
        state = "starving" if row["starving"] else row["ready_reason"]
        cells = [row[name] for name in ("wanted", "ready", "creating", "unmet", "queued")]
        table.add_row(
            f"{row['namespace']}/{row['name']}",
            *("-" if cell is None else str(cell) for cell in cells),
            oldest or "-",
            *("-" if row[name] is None else f"{row[name]:g}" for name in ("arrivals", "completions")),
            "yes" if row["throttled"] else "no",
            Text(printable(state)),
        )
    return table


def _age(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
