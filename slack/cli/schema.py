"""`schema`: the JSON schema of what a command prints for machines."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import ListedRows, Output, OutputKind, print_document, wide_columns


class Printing(StrEnum):
    """Commands that print a document."""

    PLAN = "plan"
    EXPLAIN = "explain"
    STATUS = "status"
    SIMULATE = "simulate"
    TUNE = "tune"
    LOAD = "load"
    SCORE = "score"
    LOAD_WATCHER = "load-watcher"
    MIGRATE = "migrate"
    AUDIT = "audit"
    AUDIT_EXPLAIN = "audit-explain"
    AUDIT_KERNEL = "audit-kernel"
    UNINSTALL = "uninstall"
    UPGRADE_CRDS = "upgrade-crds"
    RECORD = "record"
    THROTTLER_STATUS = "throttler-status"
    THROTTLER_EXPLAIN = "throttler-explain"
    THROTTLER_CHECK = "throttler-check"
    THROTTLER_SIMULATE = "throttler-simulate"
    THROTTLER_RELEASE = "throttler-release"
    DEMAND_TOP = "demand-top"
    DEMAND_EXPLAIN = "demand-explain"
    DEMAND_REPLAY = "demand-replay"
    VERSION = "version"


@with_kubectl_flags
def schema(
    command: Annotated[Printing, typer.Argument(help="Whose document.", metavar="COMMAND")],
    output: Annotated[Output, ListedRows(text="table has one line per field, wide also its meaning.")] = Output(
        OutputKind.JSON
    ),
) -> None:
    """Print the JSON schema of what a command prints with `-o json` and `-o yaml`.

    Names are in snake_case, with their unit: memory_bytes, p99_seconds. Two exceptions. audit, audit-explain and
    audit-kernel are in camelCase, as CpuAuditReport is, and their keys are never renamed. Objects of Kubernetes
    (migrate's policies, a policy's status) are as Kubernetes has them.

    [bold]Examples[/bold]

        resource-slack schema plan > plan.schema.json

        resource-slack schema audit-explain -o table
    """
    from slack.cli.documents.registry import schema as schema_of

    if output.for_machines:
        print_document(schema_of(command), output)
    else:
        with wide_columns(output):
            _print_fields(schema_of(command), wide=output.is_wide)


def _print_fields(published: dict[str, Any], *, wide: bool) -> None:
    from rich.table import Table

    from slack.cli.documents.schema_fields import fields_of
    from slack.cli.terminal.console import console, print_table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("FIELD", no_wrap=True)
    table.add_column("HOLDS")
    if wide:
        table.add_column("MEANING")
    for field in fields_of(published):
        table.add_row(*(field if wide else field[:2]))
    print_table(console(), table)
