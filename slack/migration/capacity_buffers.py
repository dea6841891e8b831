"""Reads CapacityBuffer objects (autoscaling.x-k8s.io), in both forms.

A buffer of pods from a PodTemplate becomes a floor; one that follows a workload becomes an annotation on that workload,
which is what this operator has for it. Sizes follow Cluster Autoscaler 1.37: the larger of replicas and percentage,
rounded up, within the limits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slack.cluster.labels import ANNOTATION_RESERVE
from slack.cluster.quantity import QuantityError, amount, format_quantity, manifest_text
from slack.migration.findings import (
    CannotMigrate,
    Json,
    KeepsNothing,
    KeptRoom,
    PodPlacement,
    Remarks,
    namespace_of,
    object_name,
    object_named,
    placement_of,
    requests_of,
    template_of,
    times,
    warn_of_missing,
    whole_number,
)

GROUP = "autoscaling.x-k8s.io"
KIND = "CapacityBuffer"
_MOST_SHARE = 10.0
"""Of spec.reserve.maxShare: a buffer of a fixed number does not shrink with its workload."""
_GROWTH = 10
"""So many times as large as now a workload may be before the ceiling of its reservation cuts a percentage."""
_ACTIVE = ("", "buffer.x-k8s.io/active-capacity")
_SHORT = {"Deployment": "deployment", "StatefulSet": "statefulset", "ReplicaSet": "replicaset", "Job": "job"}


def is_buffer(manifest: Json) -> bool:
    """Whether it is a CapacityBuffer of any version."""
    return manifest.get("kind") == KIND and str(manifest.get("apiVersion", "")).startswith(f"{GROUP}/")


def room_of_buffer(manifest: Json, manifests: Sequence[Json]) -> KeptRoom:
    """Read a buffer.

    Args:
        manifest: the CapacityBuffer.
        manifests: all that was given with it; its PodTemplate or its workload must be among them.

    Raises:
        CannotMigrate: when its size or its pods cannot be told.
    """
    spec, remarks = manifest.get("spec") or {}, Remarks(object_name(manifest))
    template, scalable = spec.get("podTemplateRef") or {}, spec.get("scalableRef") or {}
    if bool(template) == bool(scalable):
        raise CannotMigrate(f"{remarks.source}: expected either spec.podTemplateRef or spec.scalableRef")
    strategy = str(spec.get("provisioningStrategy") or "")
    if strategy not in _ACTIVE:
        remarks.warn(f"its strategy {strategy} is not kept: placeholders hold nodes that run")
    if template:
        return _of_template(manifest, str(template.get("name")), manifests, remarks)
    return _of_workload(manifest, scalable, manifests, remarks)


def _of_template(manifest: Json, name: str, manifests: Sequence[Json], remarks: Remarks) -> KeptRoom:
    spec, source = manifest["spec"], remarks.source
    template = object_named(manifests, "PodTemplate", name, namespace_of(manifest))
    if template is None:
        raise CannotMigrate(
            f"{source}: PodTemplate {name} is not here; give it too: "
            f"kubectl get capacitybuffers,podtemplates -n {namespace_of(manifest)} -o yaml"
        )
    pod_spec = (template.get("template") or {}).get("spec") or {}
    requests = requests_of(pod_spec, object_name(template))
    if not requests:
        raise CannotMigrate(f"{object_name(template)}: requests nothing, so its pods keep no room; nothing to migrate")
    warn_of_missing(requests, remarks)
    size = _limited(spec, _number(spec, "replicas", source), requests, source)
    if not size:
        raise KeepsNothing(f"{source}: it has no pods, so it keeps no room")
    limits = f" within limits {_texts(spec['limits'])}" if spec.get("limits") else ""
    remarks.notes.append(f"{size} pods of PodTemplate {name}{limits} -> spec.extraCapacity.floor")
    return KeptRoom(
        source=source,
        name=str(manifest["metadata"]["name"]),
        placement=placement_of(pod_spec, remarks),
        room=times(requests, size),
        namespace=namespace_of(manifest),
        notes=tuple(remarks.notes),
        warnings=tuple(remarks.warnings),
    )


def _of_workload(manifest: Json, ref: Mapping[str, str], manifests: Sequence[Json], remarks: Remarks) -> KeptRoom:
    spec, namespace, source = manifest["spec"], namespace_of(manifest), remarks.source
    kind, name = str(ref.get("kind")), str(ref.get("name"))
    workload = object_named(manifests, kind, name, namespace)
    requests = {} if workload is None else requests_of(template_of(workload), object_name(workload))
    percentage, replicas = _number(spec, "percentage", source), _number(spec, "replicas", source)
    if percentage is None and replicas is None and spec.get("limits") and workload is not None and requests:
        replicas = _limited(spec, None, requests, source)
        remarks.notes.append(f"as many pods as its limits hold ({_texts(spec['limits'])}) -> {replicas} pods")
    if percentage is None and replicas is None:
        raise CannotMigrate(f"{source}: expected spec.percentage or spec.replicas beside spec.scalableRef")
    if not percentage and not replicas:
        raise KeepsNothing(f"{source}: it has no pods, so it keeps no room")
    reserve = f"{percentage}%" if percentage is not None else str(replicas)
    if percentage is not None and replicas is not None:
        larger = replicas > -(-percentage * _replicas_of(workload) // 100)
        remarks.warn(
            f"keeps the larger of {percentage} % and {replicas}; the annotation has one of the two: "
            f"{replicas if larger else f'{percentage} %'} is printed, the larger for the pods that there are now"
        )
        reserve = str(replicas) if larger else reserve
    ceiling = _amounts(spec["limits"], f"{source}: spec.limits") if spec.get("limits") else {}
    asked = f"{percentage} % of" if reserve.endswith("%") else f"{replicas} pods like"
    remarks.notes += [
        f"{asked} {kind} {namespace}/{name} -> {_annotation(kind, name, namespace, reserve)}",
        "the policy only has to cover the nodes; its own rate is 0",
    ]
    if workload is None:
        placement = PodPlacement()
        remarks.warn(
            f"{kind} {namespace}/{name} is not here; where its pods may go (nodeSelector, tolerations) "
            f"is for you to write into the policy if they do not go everywhere"
        )
    else:
        placement = placement_of(template_of(workload), remarks, object_name(workload))
    return KeptRoom(
        source=source,
        name=str(manifest["metadata"]["name"]),
        placement=placement,
        ceiling=ceiling,
        mirrors=True,
        reserve=_reserve(requests, _replicas_of(workload), percentage, replicas, ceiling, remarks),
        most_share=_MOST_SHARE if replicas is not None else max(1.0, (percentage or 0) / 100),
        namespace=namespace,
        notes=tuple(remarks.notes),
        warnings=tuple(remarks.warnings),
    )


def _annotation(kind: str, name: str, namespace: str, reserve: str) -> str:
    """Say how a workload gets its annotation: those of other projects are not watched, but their pods are."""
    if kind in _SHORT:
        command = f'kubectl annotate {_SHORT[kind]} {name} -n {namespace} {ANNOTATION_RESERVE}="{reserve}"'
        return f"an annotation on it; run: {command}"
    return (
        f'an annotation on its pods: write {ANNOTATION_RESERVE}: "{reserve}" into the annotations of its pod template, '
        "which rolls it out once"
    )


def _replicas_of(workload: Json | None) -> int:
    spec = (workload or {}).get("spec") or {}
    replicas = spec.get("replicas", spec.get("parallelism"))
    return 1 if replicas is None else whole_number(replicas, "spec.replicas", object_name(workload or {}))


def _reserve(
    requests: Mapping[str, int],
    pods: int,
    percentage: int | None,
    replicas: int | None,
    limits: Mapping[str, int],
    remarks: Remarks,
) -> dict[str, int]:
    """Return the most that the annotation is to take; nothing where the pods' requests are not known."""
    if not requests:
        remarks.warn(
            "what its pods request is not here, so spec.reserve.ceiling is left at a tenth of the real pods' requests; "
            "write the amount there where that is too little"
        )
        return {}
    most = replicas or 0
    if percentage is not None:
        most = max(most, -(-percentage * max(pods, 1) * _GROWTH // 100))
        remarks.notes.append(
            f"spec.reserve.ceiling holds the placeholders of {_GROWTH} times the {pods} pods that there are now"
        )
    if replicas:
        fixed = f"{replicas} placeholders while it has {-(-replicas // 10)} pods or more"
        remarks.notes.append(f"spec.reserve.maxShare: {fixed}")
    amounts = {**times(requests, most), "pods": most}
    return {name: min(amount, limits.get(name, amount)) for name, amount in amounts.items()}


def _limited(spec: Json, replicas: int | None, requests: Mapping[str, int], source: str) -> int:
    """Return how many pods a buffer of a template has."""
    if not spec.get("limits"):
        if replicas is None:
            raise CannotMigrate(f"{source}: expected spec.replicas or spec.limits beside spec.podTemplateRef")
        return replicas
    limits = _amounts(spec["limits"], f"{source}: spec.limits")
    fits = [limits[name] // requested for name, requested in requests.items() if name in limits and requested]
    if not fits:
        raise CannotMigrate(f"{source}: spec.limits: names nothing that the pods request ({', '.join(requests)})")
    return min(fits) if replicas is None else min(replicas, *fits)


def _number(spec: Json, field: str, source: str) -> int | None:
    return None if spec.get(field) is None else whole_number(spec[field], f"spec.{field}", source)


def _amounts(limits: Mapping[str, Any], path: str) -> dict[str, int]:
    try:
        return {name: amount(name, manifest_text(value)) for name, value in limits.items()}
    except QuantityError as error:
        raise CannotMigrate(f"{path}: {error}") from None


def _texts(limits: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {format_quantity(name, amount(name, manifest_text(value)))}" for name, value in limits.items()
    )
