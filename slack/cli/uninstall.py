"""`uninstall`: takes away what the operator has made, and says so line by line. Needs --yes.

Touches only objects labelled as ours: ReplicaSets with their placeholder pods, the PriorityClass, the lease. The
SlackPolicies and the CRD are the user's; the last line tells how to delete them.
"""

import threading
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
        str, typer.Option("--namespace", help="Namespace of the placeholders and the lease.", metavar="NAME")
    ] = "resource-slack",
    lease_name: Annotated[
        str, typer.Option("--lease-name", help="Name of the lease.", metavar="NAME")
    ] = "resource-slack",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Delete the placeholders, their PriorityClass and the lease. Stop the operator first.

    [bold]Example[/bold]

        resource-slack uninstall --yes
    """
    from slack.kube.apply import Writer
    from slack.kube.kubeconfig import connect

    connection = connect(kubeconfig, context)
    try:
        writer = Writer(connection, threading.Event())
        holder = _holder(writer, namespace, lease_name)
        if holder:
            raise UserError(
                f"the operator still runs: {holder} holds the lease {namespace}/{lease_name} and would make "
                f"everything again; stop it first"
            )
        found = [*_targets(connection), *_lease(writer, namespace, lease_name)]
        for target in found:
            gone = writer.delete(target.path, uid=target.uid) if yes else None
            typer.echo(
                f"{target.text} {'would be deleted' if gone is None else 'deleted' if gone else 'was gone already'}"
            )
    finally:
        connection.close()
    if not found:
        typer.echo("nothing of resource-slack is left in the cluster", err=True)
    elif not yes:
        typer.echo("nothing was deleted; add --yes to do it", err=True)
    typer.echo("SlackPolicies stay; to delete them: kubectl delete crd slackpolicies.resource-slack.io", err=True)


def _items(connection: "Connection", api_version: str, plural: str, selector: str) -> list[dict[str, Any]]:
    import json

    from slack.kube.paths import resource_path

    items: list[dict[str, Any]] = []
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": 500, "continue": token}
        page = json.loads(connection.request("GET", resource_path(api_version, plural), query=query, verb="list"))
        items += page.get("items") or []
        token = str(page.get("metadata", {}).get("continue") or "")
        if not token:
            return items


def _targets(connection: "Connection") -> Iterator[_Target]:
    """Yield ReplicaSets first (their pods go with them), then pods without one, then the PriorityClass."""
    from slack.kube.paths import resource_path
    from slack.planner.manifests import LABEL_MANAGED_BY, LABEL_PLACEHOLDER, MANAGED_BY

    ours = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
    placeholders = f"{ours},{LABEL_PLACEHOLDER}=true"
    for api_version, plural, selector in (
        ("apps/v1", "replicasets", placeholders),
        ("v1", "pods", placeholders),
        ("scheduling.k8s.io/v1", "priorityclasses", ours),
    ):
        for item in _items(connection, api_version, plural, selector):
            meta = item["metadata"]
            if plural == "pods" and meta.get("ownerReferences"):
                continue  # leaves with its ReplicaSet
            where = meta.get("namespace")
            name = f"{where}/{meta['name']}" if where else meta["name"]
            path = resource_path(api_version, plural, namespace=where, name=meta["name"])
            yield _Target(f"{plural[:-2] if plural.endswith('ses') else plural[:-1]} {name}", path, meta["uid"])


def _read_lease(writer: "Writer", namespace: str, name: str) -> tuple[dict[str, Any], str] | None:
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    path = resource_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)
    try:
        return writer.get(path), path
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _holder(writer: "Writer", namespace: str, name: str) -> str:
    """Return who holds the lease now; '' when nobody has renewed it in its time."""
    found = _read_lease(writer, namespace, name)
    spec = (found[0].get("spec") or {}) if found else {}
    holder, renewed = str(spec.get("holderIdentity") or ""), spec.get("renewTime")
    if not holder or not renewed:
        return ""
    age = (datetime.now(UTC) - datetime.fromisoformat(renewed)).total_seconds()
    return holder if age < float(spec.get("leaseDurationSeconds") or 15) else ""


def _lease(writer: "Writer", namespace: str, name: str) -> Iterator[_Target]:
    found = _read_lease(writer, namespace, name)
    if found:
        yield _Target(f"lease {namespace}/{name}", found[1], found[0]["metadata"]["uid"])
