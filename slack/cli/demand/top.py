"""`demand top`: pools live, the worst off first. Reads their statuses, with the rights of whoever asks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, chosen_namespace
from slack.cli.inputs.flags import AllNamespaces, Selector, namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document, printable, watch_document
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from rich.table import Table

    from slack.cli.documents.demand import PoolRow

_HEADINGS = ("POOL", "WANTED", "READY", "CREATING", "UNMET", "LAG", "OLDEST", "IN/S", "OUT/S", "THROTTLED", "STATE")


@with_kubectl_flags
def top(
    namespace: Annotated[str | None, namespace_option("Namespace of the pools.")] = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")] = False,
    output: Annotated[Output, ListedRows("items", "activationpool.resource-slack.io")] = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show the pools as they are: messages that arrive and are done, how long they wait, and which pools starve.

    Starving pools come first, then those whose oldest message waits longest. Figures are those of the pools' statuses,
    which the controller writes every two seconds.

    [bold]Examples[/bold]

        resource-slack demand top -A

        resource-slack demand top -n media --watch

        resource-slack demand top -A -l team=media -o name
    """
    from slack.cli.demand.pool_view import read_pools, row
    from slack.kube.errors import KubeError

    inside = chosen_namespace(namespace, access, everywhere=all_namespaces)

    def look() -> list["PoolRow"]:
        with api_server(access) as connection:
            rows = [row(pool) for pool in read_pools(connection, inside, selector=selector)]
        return sorted(rows, key=lambda r: (not r.starving, -(r.oldest_ms or 0), r.namespace, r.name))

    def document(rows: list["PoolRow"]) -> dict[str, Any]:
        from slack.cli.documents.demand import DemandTop
        from slack.cli.documents.record import API_VERSION

        return DemandTop(api_version=API_VERSION, kind="DemandTop", items=rows).document()

    def show(rows: list["PoolRow"]) -> None:
        if output.for_machines:
            print_document(document(rows), output)
        else:
            _print(rows, headers=output.headers)

    if watch:
        watch_document(look, show, document, output, passing=(KubeError,))
    show(look())


def _print(rows: list["PoolRow"], *, headers: bool) -> None:
    from slack.cli.terminal.console import console, print_table

    out = console()
    if not rows:
        out.print("no ActivationPools")
        return
    print_table(out, _table(rows), headers=headers)
    for row in rows:
        if row.problem:
            out.print(printable(f"{row.namespace}/{row.name}: {row.problem}"), markup=False)


def _table(rows: list["PoolRow"]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in ("POOL", "STATE", "THROTTLED") else "right")
    for row in rows:
        oldest = "" if not row.oldest_ms else _age(row.oldest_ms)
        state = "starving" if row.starving else row.ready_reason
        cells = [row.wanted, row.ready, row.creating, row.unmet, row.queued]
        table.add_row(
            f"{row.namespace}/{row.name}",
            *("-" if cell is None else str(cell) for cell in cells),
            oldest or "-",
            *("-" if rate is None else f"{rate:g}" for rate in (row.arrivals, row.completions)),
            "yes" if row.throttled else "no",
            Text(printable(state)),
        )
    return table


def _age(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
