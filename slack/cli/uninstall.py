"""`uninstall`: takes away what the operator has made, and says so line by line. Needs --yes.

Touches only objects labelled as ours: ReplicaSets with their placeholder pods, the PriorityClass, the lease. What the
chart made is the chart's (`helm uninstall` runs this command first); the SlackPolicies and the CRD are the user's, and
the last line tells how to delete them.
"""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs import Context, Kubeconfig
from slack.cli.problems import UserError

if TYPE_CHECKING:
    from slack.kube.apply import Writer
    from slack.kube.connection import Connection

_STANDBY_SECONDS = 3.0
"""A standby that was not told to stop yet takes a free lease within this time."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One object to delete."""

    text: str
    path: str
    uid: str


def uninstall(
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete; without it only what would be deleted is printed.")
    ] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the placeholders and the lease.", metavar="NAME")
    ] = "resource-slack",
    lease_name: Annotated[
        str, typer.Option("--lease-name", help="Name of the lease.", metavar="NAME")
    ] = "resource-slack",
    stop_deployment: Annotated[
        str | None,
        typer.Option(
            "--stop-deployment", help="First scale the operator's Deployment of this name to zero.", metavar="NAME"
        ),
    ] = None,
    wait_seconds: Annotated[
        int,
        typer.Option(
            "--wait-seconds", help="How long to wait for the operator to end, and for the placeholders.", min=0
        ),
    ] = 60,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete the placeholders, their PriorityClass and the lease. Stop the operator first, or name its Deployment.

    [bold]Examples[/bold]

        resource-slack uninstall          # only says what it would delete

        resource-slack uninstall --yes --stop-deployment resource-slack
    """
    from slack.kube.apply import Writer
    from slack.kube.kubeconfig import connect

    connection = connect(kubeconfig, context)
    try:
        writer = Writer(connection, threading.Event())
        if stop_deployment:
            _stop(writer, namespace, stop_deployment, yes=yes)
        if yes or not stop_deployment:
            _wait_for_free_lease(writer, namespace, lease_name, wait_seconds if stop_deployment else 0)
        found = [*_targets(connection, writer, namespace), *_lease(writer, namespace, lease_name)]
        for target in found:
            gone = writer.delete(target.path, uid=target.uid) if yes else None
            typer.echo(
                f"{target.text} {'would be deleted' if gone is None else 'deleted' if gone else 'was gone already'}"
            )
        if yes and found:
            _wait_for_placeholders(connection, namespace, wait_seconds)
    finally:
        connection.close()
    if not found:
        typer.echo(f"nothing of resource-slack is left in namespace {namespace}", err=True)
    elif not yes:
        typer.echo("nothing was deleted; add --yes to do it", err=True)
    typer.echo("SlackPolicies stay; to delete them: kubectl delete crd slackpolicies.resource-slack.io", err=True)


def _stop(writer: "Writer", namespace: str, name: str, *, yes: bool) -> None:
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    text = f"deployment {namespace}/{name}"
    if not yes:
        typer.echo(f"{text} would be scaled to zero")
        return
    path = resource_path("apps/v1", "deployments", namespace=namespace, name=name)
    try:
        writer.merge_patch(f"{path}/scale", {"spec": {"replicas": 0}})
        typer.echo(f"{text} scaled to zero")
    except ApiError as error:
        if not error.not_found:
            raise
        typer.echo(f"{text} was gone already")


def _wait_for_free_lease(writer: "Writer", namespace: str, name: str, wait_seconds: int) -> None:
    deadline = time.monotonic() + wait_seconds
    free_since: float | None = None
    while True:
        holder, now = _holder(writer, namespace, name), time.monotonic()
        free_since = None if holder else now if free_since is None else free_since
        if free_since is not None and (not wait_seconds or now - free_since >= _STANDBY_SECONDS):
            return
        if holder and now >= deadline:
            raise UserError(
                f"the operator still runs: {holder} holds the lease {namespace}/{name} and would make "
                f"everything again; stop it first"
            )
        time.sleep(0.5)


def _wait_for_placeholders(connection: "Connection", namespace: str, wait_seconds: int) -> None:
    deadline = time.monotonic() + wait_seconds
    while left := len(_items(connection, "v1", "pods", namespace, _placeholders())):
        if time.monotonic() >= deadline:
            typer.echo(f"{left} placeholder pods are still on their way out", err=True)
            return
        time.sleep(0.5)


def _placeholders() -> str:
    from slack.planner.manifests import LABEL_MANAGED_BY, LABEL_PLACEHOLDER, MANAGED_BY

    return f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_PLACEHOLDER}=true"


def _items(
    connection: "Connection", api_version: str, plural: str, namespace: str, selector: str
) -> list[dict[str, Any]]:
    from slack.kube.paths import resource_path

    items: list[dict[str, Any]] = []
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": 500, "continue": token}
        path = resource_path(api_version, plural, namespace=namespace)
        page = json.loads(connection.request("GET", path, query=query, verb="list"))
        items += page.get("items") or []
        token = str(page.get("metadata", {}).get("continue") or "")
        if not token:
            return items


def _targets(connection: "Connection", writer: "Writer", namespace: str) -> Iterator[_Target]:
    """Yield ReplicaSets first (their pods go with them), then pods without one, then the PriorityClass."""
    from slack.kube.paths import resource_path
    from slack.planner.manifests import LABEL_MANAGED_BY, MANAGED_BY, PRIORITY_CLASS

    for api_version, plural in (("apps/v1", "replicasets"), ("v1", "pods")):
        for item in _items(connection, api_version, plural, namespace, _placeholders()):
            meta = item["metadata"]
            if plural == "pods" and meta.get("ownerReferences"):
                continue  # leaves with its ReplicaSet
            path = resource_path(api_version, plural, namespace=namespace, name=meta["name"])
            yield _Target(f"{plural[:-1]} {namespace}/{meta['name']}", path, meta["uid"])
    path = resource_path("scheduling.k8s.io/v1", "priorityclasses", name=PRIORITY_CLASS)
    found = _find(writer, path)
    if not found:
        return
    maker = (found["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY)
    if maker == MANAGED_BY:
        yield _Target(f"priorityclass {PRIORITY_CLASS}", path, found["metadata"]["uid"])
    else:
        why = f"its label {LABEL_MANAGED_BY} is {maker}" if maker else f"it has no label {LABEL_MANAGED_BY}"
        typer.echo(f"priorityclass {PRIORITY_CLASS} is kept: {why}, so the operator did not make it", err=True)


def _find(writer: "Writer", path: str) -> dict[str, Any] | None:
    from slack.kube.errors import ApiError

    try:
        return writer.get(path)
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _lease_path(namespace: str, name: str) -> str:
    from slack.kube.paths import resource_path

    return resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)


def _holder(writer: "Writer", namespace: str, name: str) -> str:
    """Return who holds the lease now; '' when nobody has renewed it in its time."""
    found = _find(writer, _lease_path(namespace, name))
    spec = (found.get("spec") or {}) if found else {}
    holder, renewed = str(spec.get("holderIdentity") or ""), spec.get("renewTime")
    if not holder or not renewed:
        return ""
    age = (datetime.now(UTC) - datetime.fromisoformat(renewed)).total_seconds()
    return holder if age < float(spec.get("leaseDurationSeconds") or 15) else ""


def _lease(writer: "Writer", namespace: str, name: str) -> Iterator[_Target]:
    path = _lease_path(namespace, name)
    if found := _find(writer, path):
        yield _Target(f"lease {namespace}/{name}", path, found["metadata"]["uid"])
