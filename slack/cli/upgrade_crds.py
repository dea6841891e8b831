"""`upgrade-crds`: writes the CRDs of this version into a cluster. The chart runs it as a Job before `helm upgrade`.

Helm creates what is in a chart's `crds/` with the first release and never changes it afterwards. The objects of users
stay: a CRD is changed in place and never deleted.
"""

import re
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.crd import ANNOTATION_DIGEST, ANNOTATION_GENERATION, ANNOTATION_VERSION, CrdKind, definition_of
from slack.cli.inputs.api_server import api_server
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.inputs.objects import item
from slack.cli.terminal.formats import TABLE, ListedRows, Output, print_document
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.kube.apply import Writer
    from slack.kube.connection import Connection

_FIELD_MANAGER = "resource-slack-crds"
_RETRY_SECONDS = 30.0
_WORDS = {
    "Created": "created",
    "Changed": "changed",
    "Unchanged": "is up to date",
    "Newer": "is kept: it belongs to a newer version of resource-slack",
}


@with_kubectl_flags
def upgrade_crds(
    output: Annotated[Output, ListedRows("items")] = TABLE,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Update the CustomResourceDefinitions of a cluster. Those of a newer version stay as they are.

    [bold]Examples[/bold]

        resource-slack upgrade-crds

        resource-slack upgrade-crds -o json | jq '.items[].outcome'
    """
    from slack.cluster.labels import API_VERSION
    from slack.kube.apply import Writer
    from slack.kube.retry import retrying

    outcomes = []
    with api_server(access) as connection:
        stopping = threading.Event()
        retry = retrying(stopping, deadline_seconds=_RETRY_SECONDS)
        writer = Writer(connection, stopping, field_manager=_FIELD_MANAGER, retry=retry, pauses=False)
        for kind in CrdKind:
            wanted = definition_of(kind)
            outcome = _bring_up_to_date(connection, writer, wanted)
            outcomes.append({"name": wanted["metadata"]["name"], "outcome": outcome})
            if not output.for_machines:
                typer.echo(f"customresourcedefinition {wanted['metadata']['name']} {_WORDS[outcome]}")
    if output.for_machines:
        print_document({"apiVersion": API_VERSION, "kind": "CrdUpgradeList", "items": outcomes}, output)


def _bring_up_to_date(connection: "Connection", writer: "Writer", wanted: dict[str, Any]) -> str:
    from slack.kube.paths import resource_path

    name = wanted["metadata"]["name"]
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=name)
    found = item(connection, path)
    if found is not None:
        there, ours = found["metadata"].get("annotations") or {}, wanted["metadata"]["annotations"]
        generation = found["metadata"].get("generation", 1)
        untouched = generation == 1 or there.get(ANNOTATION_GENERATION) == str(generation)
        if untouched and there.get(ANNOTATION_DIGEST) == ours[ANNOTATION_DIGEST]:
            return "Unchanged"
        if untouched and is_newer(there.get(ANNOTATION_VERSION, ""), ours[ANNOTATION_VERSION]):
            return "Newer"
    applied = writer.apply(path, wanted, force=True)
    writer.annotate(path, {ANNOTATION_GENERATION: str(applied["metadata"].get("generation", 1))})
    return "Created" if found is None else "Changed"


def is_newer(there: str, ours: str) -> bool:
    """Tell whether a version is a later release than ours; a pre-release is earlier than its release."""
    return _order(there) > _order(ours)


def _order(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return what versions are ordered by; a text that is not a version comes first."""
    found = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:(?:-|\.?(?=[a-z]))(.+))?", version)
    if found is None:
        return (), False, ""
    return tuple(int(part) for part in found.groups()[:3]), found[4] is None, found[4] or ""
