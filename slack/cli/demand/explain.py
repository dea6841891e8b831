"""`demand explain`: the last decision about a pool, what it was given, and what kept it from more. Reads only."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, context_namespace
from slack.cli.inputs.flags import namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, Output, print_document, printable
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.cli.demand.pool_view import PoolStatusView

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
    from slack.cluster.labels import API_VERSION

    inside = namespace or context_namespace(access)
    with api_server(access) as connection:
        found = read_pools(connection, inside, name=name)
    if not found:
        raise UserError(f"there is no ActivationPool {name} in the namespace {inside}")
    try:
        status = read_status(found[0])
        text, conditions = (
            status_sentences(f"{inside}/{name}", status),
            (found[0].get("status") or {}).get("conditions"),
        )
    except InvalidPoolStatus as error:
        status, text, conditions = read_status({}), [f"{inside}/{name}: {error}"], None
    shown = {
        "apiVersion": API_VERSION,
        "kind": "DemandExplanation",
        "pool": row(found[0]),
        "decision": _snake_case(status.decision),
        "throttle": _snake_case(status.throttle),
        "conditions": [_snake_case(entry) for entry in conditions or ()],
        "text": text,
    }
    if output.for_machines:
        print_document(shown, output)
        return
    for line in text:
        typer.echo(printable(line))


def status_sentences(name: str, status: "PoolStatusView") -> list[str]:
    """Return a pool's standing in sentences."""
    decision = status.decision
    lines = []
    if decision is None:
        lines.append(f"{name}: nothing has been decided about it yet")
    else:
        row = decision.get("row", 0)
        which = f"row {row} of the table" if row else f"guard {decision.get('guard', '?')}, before the table"
        lines.append(f"{name}: at {decision.get('at', '?')}, by {which}: {_added_text(decision)}")
        if decision.get("reason"):
            lines.append(f"  because {decision['reason']}")
        if decision.get("clippedBy"):
            lines.append(f"  clipped by {decision['clippedBy']}: it would have had more")
        if row and decision.get("guard"):
            lines.append(f"  guard {decision['guard']} changed what the table says")
        lines.append("  it was given:")
        lines += [
            f"    {key:<20} {decision[key]}"
            for key in (
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
            if key in decision
        ]
    throttle = status.throttle or {}
    if throttle.get("reject"):
        lines.append(
            f"  new messages are refused ({throttle.get('reason', '')}): {throttle.get('containers')} of "
            f"{throttle.get('limit')} containers, {throttle.get('ratePerSecond')} messages a second come, "
            f"{throttle.get('speedPerSecond')} are done"
        )
    for entry in status.conditions or ():
        if (entry.status == "True") != (entry.type in ("Ready", "BrokerReachable")):
            lines.append(f"  {entry.type} is {entry.status} ({entry.reason}): {entry.message}")
    return lines


def _snake_case(part: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a part of a status with names as documents of commands have them."""
    return None if part is None else {re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in part.items()}


def _added_text(decision: Mapping[str, Any]) -> str:
    count = decision.get("add", 0)
    return "no container was added" if not count else f"{count} container{'' if count == 1 else 's'} added"
