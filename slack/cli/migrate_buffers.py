"""Reads CapacityBuffer objects (autoscaling.x-k8s.io), in both forms.

A buffer of pods from a PodTemplate becomes a floor; one that follows a workload becomes an annotation on that workload,
which is what this operator has for it. Sizes follow Cluster Autoscaler 1.37: the larger of replicas and percentage,
rounded up, within the limits.
"""

from collections.abc import Mapping, Sequence

from slack.cli.migrate_found import Found, Json, Where, named, namespace_of, one_named, requests_of, times, where_of
from slack.cli.problems import UserError
from slack.cluster.quantity import QuantityError, amount, format_quantity

GROUP = "autoscaling.x-k8s.io"
KIND = "CapacityBuffer"
_ACTIVE = ("", "buffer.x-k8s.io/active-capacity")
_SHORT = {"Deployment": "deployment", "StatefulSet": "statefulset", "ReplicaSet": "replicaset", "Job": "job"}


def is_buffer(manifest: Json) -> bool:
    """Whether it is a CapacityBuffer of any version."""
    return manifest.get("kind") == KIND and str(manifest.get("apiVersion", "")).startswith(f"{GROUP}/")


def found_in(manifest: Json, manifests: Sequence[Json]) -> Found:
    """Read one buffer.

    Args:
        manifest: the CapacityBuffer.
        manifests: all that was given with it; its PodTemplate or its workload must be among them.

    Raises:
        UserError: when its size or its pods cannot be told.
    """
    source, spec = named(manifest), manifest.get("spec") or {}
    template, scalable = spec.get("podTemplateRef") or {}, spec.get("scalableRef") or {}
    if bool(template) == bool(scalable):
        raise UserError(f"{source}: expected either spec.podTemplateRef or spec.scalableRef")
    warnings = []
    strategy = str(spec.get("provisioningStrategy") or "")
    if strategy not in _ACTIVE:
        warnings.append(f"{source}: its strategy {strategy} is not kept: placeholders hold nodes that run")
    if template:
        return _of_template(manifest, source, str(template.get("name")), manifests, warnings)
    return _of_workload(manifest, source, scalable, manifests, warnings)


def _of_template(manifest: Json, source: str, name: str, manifests: Sequence[Json], warnings: list[str]) -> Found:
    spec = manifest["spec"]
    found = one_named(manifests, "PodTemplate", name, namespace_of(manifest))
    if found is None:
        raise UserError(
            f"{source}: PodTemplate {name} is not here; give it too: "
            f"kubectl get capacitybuffers,podtemplates -n {namespace_of(manifest)} -o yaml"
        )
    pod_spec = (found.get("template") or {}).get("spec") or {}
    requests = requests_of(pod_spec, named(found))
    if not requests:
        raise UserError(f"{named(found)}: requests nothing, so its pods keep no room; nothing to migrate")
    size = _limited(spec, None if spec.get("replicas") is None else int(spec["replicas"]), requests, source)
    where = where_of(pod_spec, source)
    limits = f" within limits {_texts(spec['limits'])}" if spec.get("limits") else ""
    notes = (f"{size} pods of PodTemplate {name}{limits} -> spec.extraCapacity.floor", *where.notes)
    return Found(
        source=source,
        name=str(manifest["metadata"]["name"]),
        where=where,
        room=times(requests, size),
        notes=notes,
        warnings=(*warnings, *where.warnings),
    )


def _of_workload(
    manifest: Json, source: str, ref: Mapping[str, str], manifests: Sequence[Json], warnings: list[str]
) -> Found:
    spec, namespace = manifest["spec"], namespace_of(manifest)
    kind, name = str(ref.get("kind")), str(ref.get("name"))
    if kind not in _SHORT:
        raise UserError(f"{source}: spec.scalableRef.kind: {kind} cannot be annotated; one of {', '.join(_SHORT)} can")
    percentage, replicas = spec.get("percentage"), spec.get("replicas")
    if percentage is None and replicas is None:
        raise UserError(f"{source}: expected spec.percentage or spec.replicas beside spec.scalableRef")
    reserve = f"{percentage}%" if percentage is not None else str(replicas)
    if percentage is not None and replicas is not None:
        warnings.append(
            f"{source}: keeps the larger of {percentage} % and {replicas}; the annotation has one of the two: "
            f'"{percentage}%" is printed, "{replicas}" is the other'
        )
    ceiling: dict[str, int] = {}
    if spec.get("limits"):
        ceiling = _amounts(spec["limits"], f"{source}: spec.limits")
    workload = one_named(manifests, kind, name, namespace)
    if workload is None:
        where = Where({}, (), False, "default-scheduler", (), ())
        warnings.append(
            f"{source}: {kind} {namespace}/{name} is not here; where its pods may go (nodeSelector, tolerations) "
            f"is for you to write into the policy if they do not go everywhere"
        )
    else:
        where = where_of(((workload.get("spec") or {}).get("template") or {}).get("spec") or {}, named(workload))
    command = f'kubectl annotate {_SHORT[kind]} {name} -n {namespace} resource-slack.io/reserve="{reserve}"'
    asked = f"{percentage} % of" if percentage is not None else f"{replicas} pods like"
    notes = [
        f"{asked} {kind} {namespace}/{name} -> an annotation on it; run: {command}",
        "the policy only has to cover the nodes; its own rate is 0",
        *where.notes,
    ]
    return Found(
        source=source,
        name=str(manifest["metadata"]["name"]),
        where=where,
        ceiling=ceiling,
        mirrors=True,
        notes=tuple(notes),
        warnings=(*warnings, *where.warnings),
    )


def _limited(spec: Json, replicas: int | None, requests: Mapping[str, int], source: str) -> int:
    """Return how many pods a buffer of a template has."""
    if not spec.get("limits"):
        if replicas is None:
            raise UserError(f"{source}: expected spec.replicas or spec.limits beside spec.podTemplateRef")
        return replicas
    limits = _amounts(spec["limits"], f"{source}: spec.limits")
    fits = [limits[name] // requested for name, requested in requests.items() if name in limits and requested]
    if not fits:
        raise UserError(f"{source}: spec.limits: names nothing that the pods request ({', '.join(requests)})")
    return min(fits) if replicas is None else min(replicas, *fits)


def _amounts(limits: Mapping[str, object], path: str) -> dict[str, int]:
    try:
        return {name: amount(name, str(text)) for name, text in limits.items()}
    except QuantityError as error:
        raise UserError(f"{path}: {error}") from None


def _texts(limits: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {format_quantity(name, amount(name, str(text)))}" for name, text in limits.items())
