"""`throttler release`: lets pods start that wait for permits in ConfigMaps, which nobody would write any more."""

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, chosen_namespace
from slack.cli.inputs.cluster_names import namespace_names
from slack.cli.inputs.flags import AllNamespaces, Selector
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.kube.apply import Writer
    from slack.kube.connection import Connection
    from slack.kube.errors import KubeError
    from slack.throttler.config_maps import HeldPod

_RETRY_SECONDS = 10.0
"""So long a write is tried again that a server has not taken."""

_Yes = Annotated[bool, typer.Option("--yes", help="Let them start; without it only who would start is printed.")]
_Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of the pods. May be repeated. Default: that of the kubeconfig's context.",
        metavar="NAME",
        autocompletion=namespace_names,
    ),
]


@with_kubectl_flags
def release(
    yes: _Yes = False,
    namespace: _Namespaces = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: Annotated[Output, ListedRows("items", "pod", "pod")] = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Let all pods start that wait for the throttler's permits in ConfigMaps (backend configmap).

    For when the throttler has gone, or its backend is another now: nobody would let them start any more. `helm
    uninstall` runs it. Pods with a gate need nothing: without an agent their gates open after failOpenAfter.
    Exit code 0; 2: some could not be let in.

    [bold]Examples[/bold]

        resource-slack throttler release -A       # only says who would start

        resource-slack throttler release --yes -n shop
    """
    from slack.kube.apply import Writer
    from slack.kube.errors import ApiError, KubeError
    from slack.kube.retry import retrying

    inside = namespace or []
    if all_namespaces or not inside:
        inside = [chosen_namespace(inside[0] if inside else None, access, everywhere=all_namespaces) or ""]
    items: list[dict[str, Any]] = []
    failed: KubeError | None = None
    with api_server(access) as connection:
        stopping = threading.Event()
        writer = Writer(connection, stopping, retry=retrying(stopping, deadline_seconds=_RETRY_SECONDS), pauses=False)
        for pod in [found for each in inside for found in _held(connection, each, selector)]:
            error = None
            if yes:
                # what one refusal is about another pod need not have; who does not answer need not be asked again
                error = failed if failed is not None and not isinstance(failed, ApiError) else _let_in(writer, pod)
                failed = error or failed
            outcome = "Left" if error is not None else "MayStart" if yes else "WouldStart"
            items.append(_row(pod, outcome, error))
            _say(items[-1], output)
        if output.for_machines:
            from slack.cluster.labels import API_VERSION

            print_document({"apiVersion": API_VERSION, "kind": "ThrottlerRelease", "yes": yes, "items": items}, output)
        if failed is not None:
            raise failed
    if not items:
        typer.echo("no pod waits for a ConfigMap of the throttler's", err=True)
    elif not yes:
        typer.echo("nothing was written; add --yes to do it", err=True)


def _held(connection: "Connection", namespace: str, selector: str) -> "Iterator[HeldPod]":
    from slack.kube.paging import list_all
    from slack.kube.paths import resource_path
    from slack_operator.throttler.controller.held_pods import SELECTOR, PodRow

    path = resource_path("v1", "pods", namespace=namespace or None)
    for row in list_all(connection, path, PodRow, field_selector=SELECTOR, label_selector=selector):
        if (pod := row.held()) is not None:
            yield pod


def _let_in(writer: "Writer", pod: "HeldPod") -> "KubeError | None":
    from slack.kube.errors import KubeError
    from slack_operator.runtime.conditions import rfc3339
    from slack_operator.throttler.controller.permit_writing import let_in

    try:
        let_in(writer, pod, pod.containers, rfc3339(time.time()))
    except KubeError as error:
        return error
    return None


def _row(pod: "HeldPod", outcome: str, error: "KubeError | None") -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "containers": list(pod.containers),
        "config_map": pod.config_map,
        "outcome": outcome,
        "reason": None if error is None else str(error),
    }


def _say(row: dict[str, Any], output: Output) -> None:
    words = {"WouldStart": "would start", "MayStart": "may start", "Left": "cannot be let in"}
    why = f": {row['reason']}" if row["reason"] else ""
    if not output.for_machines:
        typer.echo(f"pod {row['namespace']}/{row['pod']} {words[row['outcome']]}: {', '.join(row['containers'])}{why}")
