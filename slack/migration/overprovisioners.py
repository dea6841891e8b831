"""Reads Deployments that keep room by pause pods: those of the cluster-overprovisioner charts, and hand-made ones.

Beside one there may be a cluster-proportional-autoscaler that sets its replicas by a ladder or a line, a PriorityClass,
and CronJobs that switch the ladder. Replicas of a fixed size become a floor; what follows the cluster's size, a rate.
"""

import json
from collections.abc import Mapping, Sequence

from slack.cluster.labels import HOSTNAME
from slack.migration.findings import (
    Json,
    KeepsNothing,
    KeptRoom,
    Remarks,
    named,
    namespace_of,
    object_named,
    placement_of,
    requests_of,
    template_of,
    times,
)
from slack.migration.proportional_autoscaler import Size, is_proportional, settings_for, size_of_ladder, size_of_line
from slack.planner.model.amount_text import resources_text
from slack.planner.policy.spec import NamespaceSelector

_MARKS = ("overprovision", "over-provision", "placeholder", "headroom", "balloon", "capacity-buffer")
_AUTOSCALER_CUTOFF = -10


def is_placeholder(manifest: Json, manifests: Sequence[Json]) -> bool:
    """Whether a Deployment is there to keep room: it runs pause, has a negative priority, or says so in its name."""
    if manifest.get("kind") not in ("Deployment", "ReplicaSet", "StatefulSet") or is_proportional(manifest):
        return False
    if _belongs_to_another(manifest, manifests):
        return False
    spec = template_of(manifest)
    images = [str(container.get("image") or "") for container in spec.get("containers") or ()]
    if images and all(map(_is_pause, images)):
        return True
    value = _priority(spec, manifests)
    if value is not None and value < 0:
        return True
    meta = manifest.get("metadata") or {}
    words = [
        str(meta.get("name")),
        str(spec.get("priorityClassName") or ""),
        *map(str, (meta.get("labels") or {}).values()),
    ]
    return any(mark in word for mark in _MARKS for word in words)


def _is_pause(image: str) -> bool:
    """Whether an image is pause by its name, also as mirrors and older releases call it: mirrored-pause."""
    name = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    return "pause" in name.split("-")


def _belongs_to_another(manifest: Json, manifests: Sequence[Json]) -> bool:
    """Whether a listed Deployment has made this ReplicaSet: its pods are the Deployment's, and count once."""
    meta = manifest.get("metadata") or {}
    return any(
        owner.get("controller") is not False
        and object_named(manifests, str(owner.get("kind")), str(owner.get("name")), namespace_of(manifest)) is not None
        for owner in meta.get("ownerReferences") or ()
    )


def room_of_deployment(manifest: Json, manifests: Sequence[Json], node_cpu_millis: int | None) -> KeptRoom:
    """Read a placeholder Deployment.

    Args:
        manifest: the Deployment.
        manifests: all that was given with it: PriorityClasses, the proportional autoscaler and its ConfigMap, CronJobs.
        node_cpu_millis: cpu of a node, for ladders that count nodes; None when it was not told.

    Raises:
        KeepsNothing: when it requests nothing, or has no replicas.
        CannotMigrate: when it requests something that cannot be read.
    """
    spec, remarks = template_of(manifest), Remarks(named(manifest))
    requests = requests_of(spec, remarks.source)
    if not requests.get("cpu") and not requests.get("memory"):
        raise KeepsNothing(
            f"{remarks.source}: its pods request neither cpu nor memory, so they keep no room; nothing to migrate"
        )
    if not requests.get("cpu") or not requests.get("memory"):
        missing, given = ("cpu", "memory") if requests.get("memory") else ("memory", "cpu")
        remarks.warn(
            f"its pods request no {missing}; placeholders are cut like pods and nodes, so the policy keeps some "
            f"{missing} beside the {given}"
        )
    placement = placement_of(spec, remarks)
    _note_priority(spec, manifests, remarks)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None or int(grace) > 0:
        given = "30 (the default)" if grace is None else str(grace)
        remarks.notes.append(
            f"terminationGracePeriodSeconds {given} -> 0: a real pod does not wait for a placeholder to end"
        )
    size, shown = _size(manifest, manifests, requests, remarks, node_cpu_millis)
    remarks.warnings += _schedules(manifests)
    nodes = None
    if not size.ladder and size.rate is None and _is_one_per_node(manifest):
        replicas = manifest["spec"].get("replicas")
        nodes = _nodes(1 if replicas is None else int(replicas), requests, remarks, node_cpu_millis)
    if not any(size.room.values()) and size.rate is None and not size.ladder:
        raise KeepsNothing(
            f"{remarks.source}: it has no replicas, so it keeps no room; give the manifest as it runs in the cluster"
        )
    return KeptRoom(
        source=f"{remarks.source} ({shown})",
        name=str(manifest["metadata"]["name"]),
        placement=placement,
        room=size.room,
        ceiling=size.ceiling,
        ladder=size.ladder,
        rate=size.rate,
        nodes=nodes,
        namespace=namespace_of(manifest),
        notes=tuple(remarks.notes),
        warnings=tuple(remarks.warnings),
    )


def _size(
    manifest: Json,
    manifests: Sequence[Json],
    requests: Mapping[str, int],
    remarks: Remarks,
    node_cpu_millis: int | None,
) -> tuple[Size, str]:
    """Return how much room it keeps, and what it is in their words."""
    replicas = (manifest.get("spec") or {}).get("replicas")
    count = 1 if replicas is None else int(replicas)
    each = resources_text(requests.items())
    size, shown = Size(times(requests, count)), f"{count} x {each}"
    for settings in settings_for(manifest, manifests, remarks):
        if replicas is None:  # as a chart leaves it: what runs is the autoscaler's to say
            size, shown = Size({}, size.ceiling, size.ladder, size.rate), f"{each} each"
        if "linear" in settings:
            size = size_of_line(settings["linear"], requests, remarks, node_cpu_millis)
        elif "ladder" in settings:
            size = size_of_ladder(settings["ladder"], requests, size.room, remarks, node_cpu_millis)
    if not size.ladder and size.rate is None:
        counted = f"{count} replica{'' if count == 1 else 's'} x requests"
        fixed = counted if size.room == times(requests, count) else "replicas"
        remarks.notes.insert(0, f"{fixed} -> spec.extraCapacity.floor")
    return size, shown


def _is_one_per_node(manifest: Json) -> bool:
    """Whether its pods must avoid one another on a node."""
    labels = ((manifest["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    terms = ((template_of(manifest).get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return any(
        term.get("topologyKey") == HOSTNAME
        and term.get("labelSelector") is not None
        and NamespaceSelector.model_validate(term["labelSelector"]).matches(labels)
        for term in terms or ()
    )


def _nodes(count: int, requests: Mapping[str, int], remarks: Remarks, node_cpu_millis: int | None) -> int | None:
    """Return how many whole spare nodes its pods are, one on each node; None where they may share a node."""
    if node_cpu_millis is not None and 2 * requests.get("cpu", 0) > node_cpu_millis:
        return count
    remarks.warn(
        f"it keeps each of its {count} pods on another node; the floor is the same amount, on fewer nodes perhaps. If "
        f"whole spare nodes are meant, write extraCapacity.nodes: {count} in place of it, or say the cpu of a node "
        "with --node-cpu"
    )
    return None


def _priority(spec: Json, manifests: Sequence[Json]) -> int | None:
    if spec.get("priority") is not None:
        return int(spec["priority"])
    name = spec.get("priorityClassName")
    for manifest in manifests:
        if manifest.get("kind") == "PriorityClass" and (manifest.get("metadata") or {}).get("name") == name:
            return int(manifest.get("value") or 0)
    return None


def _note_priority(spec: Json, manifests: Sequence[Json], remarks: Remarks) -> None:
    name, value = spec.get("priorityClassName"), _priority(spec, manifests)
    if name:
        shown = f" ({value})" if value is not None else ""
        remarks.notes.append(
            f"priorityClassName {name}{shown} -> the operator's own class resource-slack (-10, preempts nobody)"
        )
    if value is not None and value < _AUTOSCALER_CUTOFF:
        remarks.warn(
            f"its priority {value} is below the Cluster Autoscaler's cut-off of {_AUTOSCALER_CUTOFF}, so no node was "
            f"ever added for it; with the policy below nodes will be"
        )
    if value is not None and value >= 0:
        remarks.warn(f"its priority {value} is not below that of real pods, so it never made room for them")
    for manifest in manifests:
        if manifest.get("kind") == "PriorityClass" and manifest.get("globalDefault"):
            label = (manifest.get("metadata") or {}).get("name")
            remarks.warnings.append(
                f"PriorityClass {label} is the cluster's default with the value {manifest.get('value', 0)}; it goes "
                f"with the release, and new pods then have the priority 0"
            )


def _schedules(manifests: Sequence[Json]) -> list[str]:
    """CronJobs that switch a ladder's ConfigMap: theirs are moments, ours are windows, so a person has to say."""
    warnings = []
    for manifest in manifests:
        text = json.dumps(manifest.get("spec") or {})
        if manifest.get("kind") == "CronJob" and ("configmap" in text.lower() or "overprovision" in text):
            when = (manifest.get("spec") or {}).get("schedule")
            warnings.append(
                f"{named(manifest)} ({when}) changes the size at that time; write a window with cron, duration and "
                f"minRate or floor into spec.extraCapacity.schedule"
            )
    return warnings
