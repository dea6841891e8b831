"""A pod's containers and what each waits for, out of its manifest: ours by annotation, the study's by `dependsOn`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slack.schema.documents import BadDocument
from slack.throttler.graph import BadGraph, Graph, parse_depends_on
from slack.throttler.injection import DEPENDS_ON

_TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController", "PodTemplate")


class BadPod(BadDocument):
    """A pod whose containers cannot be put in order; each problem names the field and what would be right."""


@dataclass(frozen=True, slots=True)
class PodOrder:
    """Who starts when, if nothing else held anybody back."""

    name: str
    graph: Graph


def read_pod(document: object, *, source: str) -> PodOrder:
    """Read a Pod, a workload with its template, or a pod of v1beta1 as the study prints it.

    Raises:
        BadPod: with every problem found.
    """
    if not isinstance(document, Mapping):
        raise BadPod(source, (f"expected a Pod, found {type(document).__name__}",))
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind == "Pod" and version == "v1beta1":
        return _study(document, source)
    if kind == "Pod":
        return _pod(document, "", source)
    if kind in _TEMPLATED:
        inner, path = _inside(document, "spec.template" if kind != "PodTemplate" else "template", source)
        return _pod({"metadata": document.get("metadata")} | dict(inner), f"{path}.", source)
    if kind == "CronJob":
        inner, path = _inside(document, "spec.jobTemplate.spec.template", source)
        return _pod({"metadata": document.get("metadata")} | dict(inner), f"{path}.", source)
    raise BadPod(source, (f"kind: {kind!r} is no Pod, nor a workload with a template of one",))


def _inside(document: Mapping[str, Any], path: str, source: str) -> tuple[Mapping[str, Any], str]:
    found: Any = document
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise BadPod(source, (f"{path}: is missing",))
    return found, path


def _pod(pod: Mapping[str, Any], path: str, source: str) -> PodOrder:
    spec, metadata = pod.get("spec"), pod.get("metadata")
    names = _names(spec.get("containers") if isinstance(spec, Mapping) else None, f"{path}spec.containers", source)
    metadata = metadata if isinstance(metadata, Mapping) else {}
    annotations = metadata.get("annotations")
    text = annotations.get(DEPENDS_ON) if isinstance(annotations, Mapping) else None
    field = f"{path}metadata.annotations[{DEPENDS_ON}]"
    if text is not None and not isinstance(text, str):
        raise BadPod(source, (f"{field}: is no text; write it in quotes",))
    try:
        graph = Graph.of(names, {}) if text is None else parse_depends_on(text, names)
    except BadGraph as error:
        raise BadPod(source, tuple(f"{field}: {problem}" for problem in error.problems)) from None
    return PodOrder(str(metadata.get("name") or metadata.get("generateName") or ""), graph)


def _study(pod: Mapping[str, Any], source: str) -> PodOrder:
    manifest, path = _inside(pod, "desiredState.manifest", source)
    containers = manifest.get("containers")
    names = _names(containers, f"{path}.containers", source)
    needs: dict[str, list[str]] = {}
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        needed = container.get("dependsOn", [])
        if not isinstance(needed, list) or not all(isinstance(other, str) for other in needed):
            raise BadPod(source, (f"{path}.containers[{index}].dependsOn: is no list of containers",))
        needs[container["name"]] = needed
    try:
        return PodOrder(str(pod.get("id") or manifest.get("id") or ""), Graph.of(names, needs))
    except BadGraph as error:
        problems = tuple(f"{path}.containers: dependsOn: {problem}" for problem in error.problems)
        raise BadPod(source, problems) from None


def _names(containers: object, path: str, source: str) -> list[str]:
    if not isinstance(containers, list) or not containers:
        raise BadPod(source, (f"{path}: is no list of containers",))
    names: list[str] = []
    for index, container in enumerate(containers):
        name = container.get("name") if isinstance(container, Mapping) else None
        if not isinstance(name, str) or not name:
            raise BadPod(source, (f"{path}[{index}].name: is missing",))
        names.append(name)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadPod(source, tuple(f"{path}: {name}: two containers are called so" for name in twice))
    return names
