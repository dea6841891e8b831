"""A pod's containers and what each waits for, out of its manifest: ours by annotation, the study's by `dependsOn`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slack.schema.documents import InvalidDocument
from slack.throttler.graph import Graph, InvalidGraph, parse_depends_on
from slack.throttler.injection import DEPENDS_ON, ENABLED, exempt
from slack.throttler.podspec.shape import InvalidManifest

SYSTEM_NAMESPACE: Final = "kube-system"
_TEMPLATES = {
    **dict.fromkeys(("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"), ("apps", "spec.template")),
    "Job": ("batch", "spec.template"),
    "CronJob": ("batch", "spec.jobTemplate.spec.template"),
    "ReplicationController": ("", "spec.template"),
    "PodTemplate": ("", "template"),
    "Rollout": ("argoproj.io", "spec.template"),
    "ScaledJob": ("keda.sh", "spec.jobTargetRef.template"),
}
"""By kind, its API group and where the template of its pods is. Other groups have kinds of these names too."""
_MOST_NESTED = 8
"""Lists in lists: tools that wrap manifests make two."""


class InvalidPod(InvalidDocument):
    """A pod whose containers cannot be put in order; each problem names the field and what would be right."""


@dataclass(frozen=True, slots=True)
class PodOrder:
    """The order in which the containers of a pod start, if nothing else holds them back."""

    kind: str
    name: str
    graph: Graph
    never_gated: str | None = None
    """Why they all start at once, whatever the order."""
    without_effect: tuple[str, ...] = ()
    """Annotations of a pod that is never gated, each with the field's path and what is wrong with it beside."""


def read_pod(document: object, *, source: str) -> PodOrder:
    """Read a Pod, a workload with its template, or a pod of v1beta1 as the study prints it.

    Raises:
        InvalidPod: with every problem found.
    """
    if not isinstance(document, Mapping):
        raise InvalidPod((f"expected a Pod, found {type(document).__name__}",), source)
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind == "Pod" and version == "v1beta1":
        return _study(document, source)
    if kind == "Pod":
        return _pod(document, document, "", source)
    path = _template_path(document)
    if path is None:
        raise InvalidPod((f"kind: {kind!r} is no Pod, nor a workload with a template of one",), source)
    if elsewhere := template_elsewhere(document):
        raise InvalidPod(
            (f"spec.workloadRef: the pods' template is in {elsewhere}; check that object instead",), source
        )
    inner, path = _inside(document, path, source)
    return _pod(document, inner, f"{path}.", source, _misplaced_annotations(document, path))


def documents_of(document: object, *, source: str, depth: int = 0) -> Iterator[tuple[object, str]]:
    """Yield a document, or those of a list such as `kubectl get -o json` prints, each with what to call it.

    Raises:
        InvalidPod: a list without items, or lists in lists in lists.
    """
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(kind, str) or not kind.endswith("List"):
        yield document, source
        return
    items = document.get("items")
    if not isinstance(items, list) or not items:
        raise InvalidPod(("items: is no list of objects, or has none",), source)
    if depth == _MOST_NESTED:
        raise InvalidPod((f"items: is in {depth} lists; write one list",), source)
    known = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        named = known | dict(item) if isinstance(item, Mapping) and known["kind"] else item
        yield from documents_of(named, source=f"{source}: items[{index}]", depth=depth + 1)


def has_pods(document: object) -> bool:
    """Say whether a document is a Pod or has a template of pods: a list of mixed objects has others, too."""
    return isinstance(document, Mapping) and (document.get("kind") == "Pod" or _template_path(document) is not None)


def template_elsewhere(document: object) -> str:
    """Return the object that has the template of a Rollout's pods; '' if it has its own."""
    if not isinstance(document, Mapping) or document.get("kind") != "Rollout":
        return ""
    reference = _at(document, "spec.workloadRef")
    return "" if reference is None else _called(reference)


def _template_path(document: Mapping[str, Any]) -> str | None:
    """Return where the template is; a kind that is not known has it where a Deployment has it, or has none."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if isinstance(kind, str) and kind in _TEMPLATES:
        group, path = _TEMPLATES[kind]
        if not isinstance(version, str) or group == version.rpartition("/")[0]:
            return path
    return "spec.template" if isinstance(_at(document, "spec.template.spec.containers"), list) else None


def _at(document: object, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


def _called(reference: object) -> str:
    kind, name = (_at(reference, field) for field in ("kind", "name"))
    return f"{kind} {name}" if kind and name else "another object"


def _misplaced_annotations(document: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return annotations that stand on a workload, or on the Job of a CronJob: only its template's reach the pods."""
    parts = path.split(".")
    places = [".".join((*parts[:count], "metadata.annotations")) for count in range(len(parts))]
    return tuple(
        f"{place}[{name}]: has no effect on a {document['kind']}; put it into {path}.metadata.annotations"
        for place in places
        for name in (DEPENDS_ON, ENABLED)
        if isinstance(annotations := _at(document, place), Mapping) and name in annotations
    )


def _inside(document: Mapping[str, Any], path: str, source: str) -> tuple[Mapping[str, Any], str]:
    found = _at(document, path)
    if not isinstance(found, Mapping):
        raise InvalidPod((f"{path}: is missing",), source)
    return found, path


def _pod(
    document: Mapping[str, Any], pod: Mapping[str, Any], path: str, source: str, misplaced: tuple[str, ...] = ()
) -> PodOrder:
    """Read a pod; whether it is gated at all comes first, for the webhook looks at nothing else of one that is not."""
    spec = pod.get("spec")
    names = _names(spec.get("containers") if isinstance(spec, Mapping) else None, f"{path}spec.containers", source)
    annotations = _at(pod, "metadata.annotations")
    text = annotations.get(DEPENDS_ON) if isinstance(annotations, Mapping) else None
    field = f"{path}metadata.annotations[{DEPENDS_ON}]"
    if text is not None and not isinstance(text, str):
        raise InvalidPod((f"{field}: is no text; write it in quotes",), source)
    try:
        never_gated = exempt(pod) or _never_in(document)
    except InvalidManifest as error:
        raise InvalidPod((f"{path}{error}",), source) from None
    graph, problems = Graph.from_dependencies(names, {}), misplaced
    try:
        if text is not None:
            graph = parse_depends_on(text, names, _init_names(spec))
    except InvalidGraph as error:
        problems = (*problems, *(f"{field}: {problem}" for problem in error.problems))
    if never_gated:
        unused = () if text is None or problems else (f"{field}: has no effect on a pod that is never gated",)
        return PodOrder(str(document["kind"]), _name(document), graph, never_gated, (*problems, *unused))
    if problems:
        raise InvalidPod(problems, source)
    return PodOrder(str(document["kind"]), _name(document), graph)


def _init_names(spec: object) -> list[str]:
    found = _at(spec, "initContainers")
    return [str(_at(entry, "name")) for entry in found] if isinstance(found, list) else []


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _never_in(document: Mapping[str, Any]) -> str | None:
    metadata = document.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return f"pods of namespace {namespace} never are" if namespace == SYSTEM_NAMESPACE else None


def _study(pod: Mapping[str, Any], source: str) -> PodOrder:
    manifest, path = _inside(pod, "desiredState.manifest", source)
    containers = manifest.get("containers")
    names = _names(containers, f"{path}.containers", source)
    needs: dict[str, list[str]] = {}
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        needed = container.get("dependsOn", [])
        if not isinstance(needed, list) or not all(isinstance(other, str) for other in needed):
            raise InvalidPod((f"{path}.containers[{index}].dependsOn: is no list of containers",), source)
        needs[container["name"]] = needed
    try:
        return PodOrder("Pod", str(pod.get("id") or manifest.get("id") or ""), Graph.from_dependencies(names, needs))
    except InvalidGraph as error:
        problems = tuple(f"{path}.containers: dependsOn: {problem}" for problem in error.problems)
        raise InvalidPod(problems, source) from None


def _names(containers: object, path: str, source: str) -> list[str]:
    if not isinstance(containers, list) or not containers:
        raise InvalidPod((f"{path}: is no list of containers",), source)
    names: list[str] = []
    for index, container in enumerate(containers):
        name = container.get("name") if isinstance(container, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidPod((f"{path}[{index}].name: is missing",), source)
        names.append(name)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidPod(tuple(f"{path}: {name}: two containers are called so" for name in twice), source)
    return names
