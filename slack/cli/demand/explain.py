"""`demand explain`: the last decision about a pool, what it was given, and what kept it from more. Reads only."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, context_namespace
from slack.cli.inputs.flags import namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, printable
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.documents.activation_status import ActivationPoolStatus
    from slack.schema.status_struct import StatusPart

_GIVEN = (
    "state",
    "queued",
    "stale",
    "inFlight",
    "containers",
    "creating",
    "actionLimit",
    "namespaceLimit",
    "namespaceContainers",
    "namespaceCreating",
    "meanDurationMs",
)
_KINDS = ("", "pool", "pools", "activationpool", "activationpools", "actpool")


@with_kubectl_flags
def explain(
    pool: Annotated[str, typer.Argument(help="As in: explain -n media pool/thumbnail", metavar="pool/NAME")],
    namespace: Annotated[str | None, namespace_option("Namespace of the pool.")] = None,
    output: Output = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show the last decision about a pool: its input, the row of the table, and what limited it.

    It is the last one that changed something, or was kept from it, as the pool's status has it. A status that cannot
    be read is reported with its field.

    Exit code 0: success; 2: there is no such pool, or no cluster.

    [bold]Examples[/bold]

        resource-slack demand explain -n media pool/thumbnail

        resource-slack demand explain -n media pool/thumbnail -o json
    """
    kind, _, name = pool.rpartition("/")
    if kind not in _KINDS or not name:
        raise UserError(f"{pool}: is no pool; write one such as pool/thumbnail")
    from slack.cli.demand.pool_view import InvalidPoolStatus, read_pools, read_status, row
    from slack.cli.documents.record import API_VERSION

    inside = namespace or context_namespace(access)
    with api_server(access) as connection:
        found = read_pools(connection, inside, name=name)
    if not found:
        raise UserError(f"there is no ActivationPool {name} in the namespace {inside}")
    try:
        status = read_status(found[0])
        text = status_sentences(f"{inside}/{name}", status)
    except InvalidPoolStatus as error:
        status, text = read_status({}), [f"{inside}/{name}: {error}"]
    from slack.cli.documents.demand import DemandExplanation

    shown = DemandExplanation(
        api_version=API_VERSION,
        kind="DemandExplanation",
        pool=row(found[0]),
        decision=_snake_case(status.decision),
        throttle=_snake_case(status.throttle),
        conditions=[_fields(entry) for entry in status.conditions or ()],
        text=text,
    )
    if output.for_machines:
        print_document(shown.document(), output)
        return
    for line in text:
        typer.echo(printable(line))


def status_sentences(name: str, status: "ActivationPoolStatus") -> list[str]:
    """Return a pool's standing in sentences."""
    decision = status.decision
    lines = []
    if decision is None:
        lines.append(f"{name}: nothing has been decided about it yet")
    else:
        which = (
            f"row {decision.row} of the table" if decision.row else f"guard {decision.guard or '?'}, before the table"
        )
        lines.append(f"{name}: at {decision.at or '?'}, by {which}: {_added_text(decision.add or 0)}")
        if decision.reason:
            lines.append(f"  because {decision.reason}")
        if decision.clipped_by:
            lines.append(f"  clipped by {decision.clipped_by}: it would have had more")
        if decision.row and decision.guard:
            lines.append(f"  guard {decision.guard} changed what the table says")
        lines.append("  it was given:")
        given = decision.document()
        lines += [f"    {key:<20} {given[key]}" for key in _GIVEN if key in given]
    throttle = status.throttle
    if throttle is not None and throttle.reject:
        lines.append(
            f"  new messages are refused ({throttle.reason or ''}): {throttle.containers} of "
            f"{throttle.limit} containers, {throttle.rate_per_second} messages a second come, "
            f"{throttle.speed_per_second} are done"
        )
    for entry in status.conditions or ():
        if (entry.status == "True") != (entry.type in ("Ready", "BrokerReachable")):
            lines.append(f"  {entry.type} is {entry.status} ({entry.reason}): {entry.message}")
    return lines


def _snake_case(part: "StatusPart | None") -> dict[str, Any] | None:
    return None if part is None else _fields(part)


def _fields(part: "StatusPart") -> dict[str, Any]:
    """Return a part of a status with names as documents of commands have them."""
    return {name: value for name in part.__struct_fields__ if (value := getattr(part, name)) is not None}


def _added_text(count: int) -> str:
    return "no container was added" if not count else f"{count} container{'' if count == 1 else 's'} added"
