"""`throttler status`: who starts on each node, who waits, since when and why. Reads only."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.cluster_names import node_names
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document, watch_document, wide_columns
from slack.cli.throttler.view_flags import (
    DEFAULT_NAME,
    CaFile,
    Controller,
    ControllerName,
    ThrottlerName,
    ThrottlerNamespace,
    TokenFile,
)
from slack.kube.access import ClusterAccess
from slack.process.exit_codes import INFEASIBLE

if TYPE_CHECKING:
    from slack.cli.throttler.controller_view import ControllerView
    from slack.kube.connection import Connection

_Node = Annotated[
    str | None,
    typer.Option("--node", help="Only this node, with all its rows.", metavar="NAME", autocompletion=node_names),
]


@with_kubectl_flags
def status(
    node: _Node = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")] = False,
    output: Annotated[Output, ListedRows("nodes", "node", text="wide has all nodes and rows.")] = TABLE,
    throttler_namespace: ThrottlerNamespace = "resource-slack",
    throttler_name: ThrottlerName = DEFAULT_NAME,
    controller: Controller = None,
    controller_name: ControllerName = None,
    ca_file: CaFile = None,
    token_file: TokenFile = None,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Show who starts on each node, who waits, since when and why, and how ThrottlePolicies fare.

    Asks the throttler's controller through the API server. The release's Role NAME-viewer has the rights for that: get
    of its lease, create of serviceaccounts/token, get of pods/proxy. Policies need the right to list them.

    Exit code 0: success; 3: an agent is silent or sees no pods, or a policy does not work; 2: bad input, or no
    controller
    answers.

    [bold]Examples[/bold]

        resource-slack throttler status

        resource-slack throttler status --node node-1 --watch

        resource-slack throttler status --controller https://127.0.0.1:7473 --ca-file ca.crt -o json
    """
    from slack.cli.throttler.controller_view import ControllerAddress, ControllerView, NoView
    from slack.kube.errors import KubeError

    where = ControllerAddress(throttler_namespace, throttler_name, controller, controller_name, ca_file, token_file)
    looking = _look(ControllerView(where), node, access)
    if watch:
        watch_document(
            looking, lambda shown: _print(shown, output, node), dict, output, passing=(KubeError, NoView), key=_key
        )
    shown = looking()
    _print(shown, output, node)
    if not shown["good"]:
        raise typer.Exit(INFEASIBLE)


def _look(view: "ControllerView", node: str | None, access: ClusterAccess) -> Callable[[], dict[str, Any]]:
    from slack.cli.throttler.status_document import document

    def look() -> dict[str, Any]:
        query = {} if node is None else {"node": node}
        not_seen: list[str] = []
        with ExitStack() as stack:
            if view.where.needs_api_server:
                connection = stack.enter_context(api_server(access))
                found = view.read(connection, query)
                policies = _policies(connection, not_seen)
            else:
                found = view.read(None, query)
                policies = _policies_if_any(access, not_seen)
        return document(found, policies, not_seen)

    return look


def _policies(connection: "Connection", not_seen: list[str]) -> list[dict[str, Any]]:
    from slack.cli.inputs.objects import items
    from slack.cluster.labels import API_VERSION
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path
    from slack.throttler.crd import PLURAL

    try:
        return items(connection, resource_path(API_VERSION, PLURAL))
    except ApiError as error:
        if error.status == 403:
            not_seen.append("policies: not allowed to list throttlepolicies")
        elif error.not_found:
            not_seen.append("policies: the API server does not know the kind ThrottlePolicy")
        else:
            raise
    return []


def _policies_if_any(access: ClusterAccess, not_seen: list[str]) -> list[dict[str, Any]]:
    """Ask the API server too, where there is one; the controller has answered without."""
    from slack.kube.errors import KubeError

    try:
        with api_server(access) as connection:
            return _policies(connection, not_seen)
    except KubeError as error:
        not_seen.append(f"policies: {error}")
    return []


def _key(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out what changes always: the time of the answer, and of agents' reports."""
    return {**shown, "at_unix_seconds": 0, "nodes": [{**node, "at_unix_seconds": 0} for node in shown["nodes"]]}


def _print(shown: dict[str, Any], output: Output, node: str | None) -> None:
    if output.for_machines:
        print_document(shown, output)
        return
    from slack.cli.throttler.status_tables import print_status

    with wide_columns(output):
        print_status(shown, wide=output.is_wide, whole=node is not None, headers=output.headers)
