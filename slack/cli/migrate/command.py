"""`migrate`: reads what keeps room now (an overprovisioner release, a CapacityBuffer) and prints SlackPolicies for it.

Reads only. The policies go to stdout, with what became of what as comments; what a person has to look at, to stderr.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slack.cli.inputs.api_server import api_server, chosen_namespace
from slack.cli.inputs.files import name_of
from slack.cli.inputs.flag_values import refuse_given
from slack.cli.inputs.flags import AllNamespaces, Selector, namespace_option
from slack.cli.inputs.kubectl_flags import with_kubectl_flags
from slack.cli.terminal.formats import FileFormat
from slack.cli.terminal.problems import UserError
from slack.kube.access import ClusterAccess

if TYPE_CHECKING:
    from slack.kube.connection import Connection
    from slack.migration.findings import KeptRoom

Json = dict[str, Any]

_EXAMPLE = "the manifests of a release, as in: helm get manifest overprovisioner"
_KINDS = {
    name: kind
    for kind, names in {
        "Deployment": "deploy deployment deployments",
        "StatefulSet": "sts statefulset statefulsets",
        "Job": "job jobs",
        "CapacityBuffer": "cb capacitybuffer capacitybuffers",
    }.items()
    for name in names.split()
}
_KEEPERS = frozenset(_KINDS.values())
"""What can keep room, and is chosen by labels."""
_UNSURE_SHOWN = 3
_SUPPORTING = (
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("batch/v1", "Job", "jobs"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("keda.sh/v1alpha1", "ScaledObject", "scaledobjects"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "PodTemplate", "podtemplates"),
    ("batch/v1", "CronJob", "cronjobs"),
)


_Target = Annotated[
    str | None,
    typer.Argument(
        help="deploy/NAME, sts/NAME, job/NAME or capacitybuffer/NAME. Without it, all that keep capacity: those of a "
        "priority below other pods, and those whose name says so.",
        metavar="KIND/NAME",
        show_default=False,
    ),
]
_Filename = Annotated[
    list[Path] | None,
    typer.Option("--filename", "-f", help="Manifests, YAML or JSON; - is stdin. No cluster is asked.", metavar="FILE"),
]
_Namespace = Annotated[str | None, namespace_option("Namespace of what keeps capacity.")]
_NodeCpu = Annotated[
    str | None,
    typer.Option("--node-cpu", help="Cpu of a node, to read what counts nodes.", metavar="QUANTITY"),
]
_Output = Annotated[FileFormat, typer.Option("--output", "-o", help="json has no comments.")]


@with_kubectl_flags
def migrate(
    ctx: typer.Context,
    target: _Target = None,
    filename: _Filename = None,
    namespace: _Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    node_cpu: _NodeCpu = None,
    output: _Output = FileFormat.YAML,
    access: ClusterAccess = ClusterAccess(),
) -> None:
    """Print SlackPolicies that replace an overprovisioner or a CapacityBuffer.

    Reads Deployments, StatefulSets and Jobs of pause pods (those of the cluster-overprovisioner charts and hand-made
    ones, with their cluster-proportional-autoscaler) and CapacityBuffer objects with their PodTemplates. Nothing is
    written anywhere.

    [bold]Examples[/bold]

        helm get manifest overprovisioner -n overprovisioner | resource-slack migrate -f - > policy.yaml

        resource-slack migrate -n overprovisioner deploy/overprovisioner-default

        resource-slack migrate -f release.yaml --node-cpu 4 | kubectl apply -f -

        kubectl get capacitybuffers,podtemplates -n shop -o yaml | resource-slack migrate -f -
    """
    from slack.migration import policies

    node_cpu_millis = _node_cpu(node_cpu)
    if filename and access.is_chosen:
        raise UserError("--filename: give either manifests or a cluster (--kubeconfig, --context), not both")
    if filename:
        refuse_given(
            ctx, ("namespace", "all_namespaces", "selector"), "belongs to a cluster; manifests are taken as they are"
        )
        manifests, source = list(_from_files(filename)), ", ".join(name_of(path) for path in filename)
        chosen = None if target is None else _find_named(manifests, target, f"in {source}")
    else:
        inside = chosen_namespace(namespace, access, everywhere=all_namespaces)
        manifests, chosen = _from_api(target, inside, selector, access)
        source = "the cluster" if inside is None else f"namespace {inside}"
    rooms = policies.rooms_in(manifests, node_cpu_millis, chosen)
    unsure = [] if chosen is not None else policies.pause_pods_of_usual_priority(manifests)
    if not rooms:
        raise UserError(
            f"{source}: nothing in it keeps capacity: no Deployment of a priority below other pods', and no "
            f"CapacityBuffer{_hint_to_name(unsure)}"
        )
    if unsure:
        typer.echo(f"note: left out{_hint_to_name(unsure)}", err=True)
    groups = policies.group_by_nodes(rooms)
    documents = policies.policies_of(groups)
    for warning in policies.warnings_of(groups):
        typer.echo(f"warning: {warning}", err=True)
    if output is FileFormat.JSON:
        shown = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    _print_yaml(groups, documents)


def _print_yaml(groups: "Sequence[Sequence[KeptRoom]]", documents: Sequence[Json]) -> None:
    """Print each policy after comments that say what it is made of."""
    import yaml

    from slack.migration.policies import comments

    for number, (group, document) in enumerate(zip(groups, documents, strict=True)):
        if number:
            typer.echo("---")
        typer.echo("\n".join(comments(group)))
        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)


def _node_cpu(text: str | None) -> int | None:
    from slack.cluster.quantity import QuantityError, cpu_millis

    if text is None:
        return None
    try:
        millis = cpu_millis(text)
    except QuantityError as error:
        raise UserError(f"--node-cpu: {error}") from None
    if millis <= 0:
        raise UserError(f"--node-cpu: {text!r} is no size of a node; write its cores, such as 4")
    return millis


def _from_files(paths: Sequence[Path]) -> Iterator[Json]:
    from slack.cli.inputs import files

    for path in paths:
        source = name_of(path)
        for number, document in enumerate(files.documents(files.read_yaml(path), source=source, example=_EXAMPLE), 1):
            yield from _objects(document, f"{source} (document {number})")


def _objects(document: Any, where: str) -> Iterator[Json]:
    """Yield objects, those of lists too; what is none is told before anything is read from it."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise UserError(f"{where}: expected a Kubernetes object with kind and metadata; give {_EXAMPLE}")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        kind = document["kind"].removesuffix("List")
        for index, item in enumerate(document["items"]):
            named = {"kind": kind, "apiVersion": document.get("apiVersion")} if kind else {}
            yield from _objects({**named, **item} if isinstance(item, dict) else item, f"{where} items[{index}]")
        return
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("generateName"), str):
        metadata = document["metadata"] = {"name": metadata["generateName"].rstrip("-."), **metadata}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise UserError(f"{where}: metadata.name: is missing")
    for field in ("spec", "data", "template"):
        if document.get(field) is not None and not isinstance(document[field], dict):
            raise UserError(f"{where}: {field}: expected fields, found {type(document[field]).__name__}")
    yield document


def _from_api(
    target: str | None, namespace: str | None, selector: str, access: ClusterAccess
) -> tuple[list[Json], Json | None]:
    if target is not None:
        _kind_and_name(target)
    with api_server(access) as connection:
        manifests = _read(connection, namespace, selector)
    where = "in the cluster" if namespace is None else f"in namespace {namespace}; name another with -n"
    return manifests, None if target is None else _find_named(manifests, target, where)


def _kind_and_name(target: str) -> tuple[str, str]:
    kind, slash, name = target.partition("/")
    wanted = _KINDS.get(kind.lower(), "")
    if not slash or not name or not wanted:
        raise UserError(f"{target}: write KIND/NAME, such as deploy/overprovisioner or capacitybuffer/web")
    return wanted, name


def _find_named(manifests: Sequence[Json], target: str, where: str) -> Json:
    wanted, name = _kind_and_name(target)
    for manifest in manifests:
        if manifest["kind"] == wanted and manifest["metadata"]["name"] == name:
            return manifest
    raise UserError(f"{target}: there is none of this name {where}")


def _hint_to_name(unsure: Sequence[str]) -> str:
    """Say which Deployments run pause at the priority of all pods, and how they are migrated all the same."""
    if not unsure:
        return ""
    named = ", ".join(unsure[:_UNSURE_SHOWN]) + (
        f" and {len(unsure) - _UNSURE_SHOWN} more" if unsure[_UNSURE_SHOWN:] else ""
    )
    return f": the pods of {named} run pause, but have the priority of other pods; if they keep capacity, add KIND/NAME"


def _read(connection: "Connection", namespace: str | None, selector: str) -> list[Json]:
    """Read what may keep room in a namespace, or in all, and what explains it. Labels choose only what keeps room."""
    from slack.migration.capacity_buffers import GROUP, KIND

    manifests: list[Json] = []
    for api_version, kind, plural in _SUPPORTING:
        labels = selector if kind in _KEEPERS else ""
        manifests += _list(connection, api_version, kind, plural, namespace, labels)
    manifests += _list(connection, "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", None)
    buffers: list[Json] = []
    for version in ("v1beta1", "v1alpha1"):  # what is served differs by autoscaler and age
        buffers = buffers or _list(connection, f"{GROUP}/{version}", KIND, "capacitybuffers", namespace, selector)
    return manifests + buffers


def _list(
    connection: "Connection", api_version: str, kind: str, plural: str, namespace: str | None, selector: str = ""
) -> list[Json]:
    """List one kind; what may not be read or is not served is left, but for Deployments."""
    from slack.cli.inputs.objects import items
    from slack.kube.errors import ApiError
    from slack.kube.paths import resource_path

    try:
        found = items(connection, resource_path(api_version, plural, namespace=namespace), selector)
    except ApiError as error:
        if kind == "Deployment" or error.status not in (403, 404):
            raise
        return []
    return [{"apiVersion": api_version, "kind": kind} | item for item in found]
