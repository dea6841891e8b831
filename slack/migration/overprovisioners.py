"""Reads Deployments that keep room by pause pods: those of the cluster-overprovisioner charts, and hand-made ones.

Beside one there may be a cluster-proportional-autoscaler that sets its replicas by a ladder or a line, a PriorityClass,
and CronJobs that switch the ladder. Replicas of a fixed size become a floor; what follows the cluster's size, steps.
A Job keeps its room once, as GKE's guide has it for an event to come.
"""

import json
from collections.abc import Mapping, Sequence

from slack.cluster.labels import HOSTNAME, LABEL_PLACEHOLDER
from slack.migration.findings import (
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
from slack.migration.proportional_autoscaler import (
    CountedSize,
    is_proportional,
    is_target,
    settings_for,
    size_of_ladder,
    size_of_line,
)
from slack.migration.scalers import warnings_of_scalers
from slack.planner.model.amount_text import resources_text
from slack.planner.policy.spec import NamespaceSelector

_MARKS = ("overprovision", "over-provision", "placeholder", "headroom", "balloon", "capacity-buffer", "capacity-res")
_LASTING = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_OTHERS = {
    "Job": "",
    "DaemonSet": "it keeps room on each node that there is, and brings none; a policy keeps room for pods to come: a "
    "rate of extraCapacity with base Allocatable is about as much",
    "CronJob": "its pods keep room from a moment on; write a window with cron, duration and floor into "
    "extraCapacity.schedule of a policy",
}
"""Kinds of which the pods must plainly do nothing but wait, as many others have a low priority too; why one that keeps
room is not migrated, '' for one that is."""
_AUTOSCALER_CUTOFF = -10


def is_placeholder(manifest: Json, manifests: Sequence[Json]) -> bool:
    """Whether a workload keeps capacity: by its priority, name or autoscaler; any other has to be named.

    Pods that run pause at the priority of all others are a demonstration or a stub, as in the quick start: no pod can
    take their place.
    """
    kind = manifest.get("kind")
    if kind not in (*_LASTING, *_OTHERS) or is_proportional(manifest) or _is_ours(manifest):
        return False
    spec = _pod_spec(manifest)
    containers = spec.get("containers") or ()
    if kind in _OTHERS and not (
        containers and all(map(_waits, containers)) and requests_of(spec, object_name(manifest))
    ):
        return False  # the most of Jobs, of which a namespace may have thousands: seen at once
    # A DaemonSet of pause containers alone is what pulls images.
    runs_pause = bool(containers) and kind != "DaemonSet" and all(map(_runs_pause, containers))
    value = _priority(spec, manifests)
    if runs_pause:
        yields = _yields(spec, value, manifests) or is_target(manifest, manifests)
    else:
        yields = value is not None and value < 0
    return (yields or _says_so(manifest, spec)) and not _belongs_to_another(manifest, manifests)


def only_runs_pause(manifest: Json, manifests: Sequence[Json]) -> bool:
    """Whether pods run pause, and nothing else says that they keep capacity: a person has to say it."""
    if manifest.get("kind") not in _LASTING or is_placeholder(manifest, manifests):
        return False
    containers = _pod_spec(manifest).get("containers") or ()
    waits = bool(containers) and all(map(_runs_pause, containers)) and not is_proportional(manifest)
    return waits and not _belongs_to_another(manifest, manifests)


def _yields(spec: Json, value: int | None, manifests: Sequence[Json]) -> bool:
    """Whether pods are below those that name no PriorityClass; a class that is not given is taken to be so."""
    if value is None:
        return bool(spec.get("priorityClassName"))
    usual = (
        int(manifest.get("value") or 0)
        for manifest in manifests
        if manifest.get("kind") == "PriorityClass" and manifest.get("globalDefault")
    )
    return value < next(usual, 0)


def _is_ours(manifest: Json) -> bool:
    """Whether it is a ReplicaSet of the operator's own placeholders, as a listing of all namespaces has them."""
    return LABEL_PLACEHOLDER in ((manifest.get("metadata") or {}).get("labels") or {})


def _says_so(manifest: Json, spec: Json) -> bool:
    meta = manifest.get("metadata") or {}
    words = [
        str(meta.get("name")),
        str(spec.get("priorityClassName") or ""),
        *map(str, (meta.get("labels") or {}).values()),
    ]
    return any(mark in word for mark in _MARKS for word in words)


def _waits(container: Json) -> bool:
    """Whether a container does nothing: it runs pause, or sleeps."""
    words = " ".join(map(str, [*(container.get("command") or ()), *(container.get("args") or ())])).split()
    return _runs_pause(container) or any(word.rpartition("/")[2] == "sleep" for word in words)


def _pod_spec(manifest: Json) -> Json:
    """Return the spec of the pods of a workload, of a CronJob too."""
    return template_of(((manifest.get("spec") or {}).get("jobTemplate") or {}) or manifest)


def _runs_pause(container: Json) -> bool:
    """Whether a container's image is pause by its name, also as mirrors and older releases call it: mirrored-pause."""
    name = str(container.get("image") or "").rpartition("/")[2].partition(":")[0].partition("@")[0]
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
    spec, remarks = template_of(manifest), Remarks(object_name(manifest))
    if why := _OTHERS.get(str(manifest.get("kind"))):
        raise KeepsNothing(f"{remarks.source}: {why}")
    requests = requests_of(spec, remarks.source)
    if not requests:
        raise KeepsNothing(f"{remarks.source}: its pods request nothing, so they keep no room; nothing to migrate")
    warn_of_missing(requests, remarks)
    placement = placement_of(spec, remarks)
    _note_priority(spec, manifests, remarks)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace != 0:
        given = "30 (the default)" if grace is None else str(grace)
        remarks.notes.append(
            f"terminationGracePeriodSeconds {given} -> 0: a real pod does not wait for a placeholder to end"
        )
    size, shown = _size(manifest, manifests, requests, placement, remarks, node_cpu_millis)
    remarks.warnings += _schedules(manifests)
    nodes = None
    if not size.ladder and _is_one_per_node(manifest):
        nodes = _nodes(_count(manifest), requests, remarks, node_cpu_millis)
    if not any(size.room.values()) and not size.ladder:
        scalers = warnings_of_scalers(manifest, manifests, "nothing, as it has 0 in its manifest")
        raise KeepsNothing(
            f"{remarks.source}: it has no replicas, so it keeps no room; give the manifest as it runs in the cluster"
            f"{''.join(f'. {text}' for text in scalers)}"
        )
    return KeptRoom(
        source=f"{remarks.source} ({shown})",
        name=str(manifest["metadata"]["name"]),
        placement=placement,
        room=size.room,
        ceiling=size.ceiling,
        ladder=size.ladder,
        nodes=nodes,
        namespace=namespace_of(manifest),
        notes=tuple(remarks.notes),
        warnings=tuple(remarks.warnings),
    )


def _size(
    manifest: Json,
    manifests: Sequence[Json],
    requests: Mapping[str, int],
    placement: PodPlacement,
    remarks: Remarks,
    node_cpu_millis: int | None,
) -> tuple[CountedSize, str]:
    """Return how much room it keeps, and what it is in their words."""
    replicas, count = (manifest.get("spec") or {}).get("replicas"), _count(manifest)
    if manifest.get("kind") == "Job":
        remarks.warn(
            "a Job keeps its room until it has been used once, or until the Job ends; the policy keeps it for good: "
            "delete the policy then, or write a window into extraCapacity.schedule"
        )
    each = resources_text(requests.items())
    size, shown = CountedSize(times(requests, count)), f"{count} x {each}"
    for settings in settings_for(manifest, manifests, placement.node_selector, remarks):
        if replicas is None:  # as a chart leaves it: what runs is the autoscaler's to say
            size, shown = CountedSize({}, size.ceiling, size.ladder), f"{each} each"
        if "linear" in settings:
            size = size_of_line(settings["linear"], requests, remarks, node_cpu_millis)
        elif "ladder" in settings:
            size = size_of_ladder(settings["ladder"], requests, size.room, remarks, node_cpu_millis)
    remarks.warnings += warnings_of_scalers(manifest, manifests, f"the {count} that it has in its manifest")
    if not size.ladder:
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


def _count(manifest: Json) -> int:
    """Return how many pods it has at a time."""
    spec = manifest.get("spec") or {}
    field = "parallelism" if manifest.get("kind") == "Job" else "replicas"
    given = spec.get(field)
    source = object_name(manifest)
    count = 1 if given is None else whole_number(given, f"spec.{field}", source)
    if manifest.get("kind") != "Job":
        return count
    completions = spec.get("completions")
    most = count if completions is None else whole_number(completions, "spec.completions", source)
    return 0 if spec.get("suspend") else min(count, most)


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
                f"{object_name(manifest)} ({when}) changes the size at that time; write a window with cron, duration "
                f"and minRate or floor into spec.extraCapacity.schedule"
            )
    return warnings
