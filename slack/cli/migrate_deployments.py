"""Reads Deployments that keep room by pause pods: those of the cluster-overprovisioner charts, and hand-made ones.

Beside one there may be a cluster-proportional-autoscaler that sets its replicas by a ladder or a line, a PriorityClass,
and CronJobs that switch the ladder. Replicas of a fixed size become a floor; what follows the cluster's size, a rate.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from slack.cli.migrate_found import Found, Json, named, namespace_of, one_named, requests_of, times, where_of
from slack.cli.problems import UserError
from slack.cluster.quantity import format_cpu

_PROPORTIONAL = "proportional-autoscaler"
_MARKS = ("overprovision", "over-provision", "placeholder", "headroom", "balloon", "capacity-buffer")
_LOWEST = -10
_MOST_DIGITS = 4


def is_placeholder(manifest: Json, manifests: Sequence[Json]) -> bool:
    """Whether a Deployment is there to keep room: it runs pause, has a negative priority, or says so in its name."""
    if manifest.get("kind") not in ("Deployment", "ReplicaSet", "StatefulSet") or is_proportional(manifest):
        return False
    spec = _pod_spec(manifest)
    images = [str(one.get("image") or "") for one in spec.get("containers") or ()]
    if images and all(image.rpartition("/")[2].partition(":")[0].partition("@")[0] == "pause" for image in images):
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


def is_proportional(manifest: Json) -> bool:
    """Whether it is a cluster-proportional-autoscaler."""
    return manifest.get("kind") == "Deployment" and any(
        _PROPORTIONAL in str(one.get("image") or "") for one in _pod_spec(manifest).get("containers") or ()
    )


def found_in(manifest: Json, manifests: Sequence[Json], node_cpu_millis: int | None) -> Found:
    """Read one placeholder Deployment.

    Args:
        manifest: the Deployment.
        manifests: all that was given with it: PriorityClasses, the proportional autoscaler and its ConfigMap, CronJobs.
        node_cpu_millis: cpu of a node, for ladders that count nodes; None when it was not told.

    Raises:
        UserError: when it requests nothing, or something that cannot be read.
    """
    source = named(manifest)
    spec = _pod_spec(manifest)
    requests = requests_of(spec, source)
    if not requests.get("cpu") and not requests.get("memory"):
        raise UserError(f"{source}: its pods request neither cpu nor memory, so they keep no room; nothing to migrate")
    replicas = (manifest.get("spec") or {}).get("replicas")
    count = 1 if replicas is None else int(replicas)
    shown = f"{count} x {_shown(requests)}"
    where = where_of(spec, source)
    notes = list(where.notes)
    warnings = list(where.warnings)
    _priority_words(spec, manifests, notes, warnings, source)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None or int(grace) > 0:
        told = "30 (the default)" if grace is None else str(grace)
        notes.append(f"terminationGracePeriodSeconds {told} -> 0: a real pod does not wait for a placeholder to end")
    room, ceiling, ladder, rate = times(requests, count), dict[str, int](), tuple[Json, ...](), None
    for config in _proportional(manifest, manifests, warnings):
        if replicas is None:  # as a chart leaves it: what runs is the autoscaler's to say
            room, shown = {}, f"{_shown(requests)} each"
        if "linear" in config:
            room, ceiling, rate = _linear(config["linear"], requests, source, notes, warnings, node_cpu_millis)
        elif "ladder" in config:
            room, ladder = _ladder(config["ladder"], requests, room, source, notes, warnings, node_cpu_millis)
    if not ladder and rate is None:
        counted = f"{count} replica{'' if count == 1 else 's'} x requests"
        notes.insert(0, f"{counted if room == times(requests, count) else 'replicas'} -> spec.extraCapacity.floor")
    warnings += _schedules(manifests)
    if not any(room.values()) and rate is None and not ladder:
        raise UserError(
            f"{source}: it has no replicas, so it keeps no room; give the manifest as it runs in the cluster"
        )
    return Found(
        source=f"{source} ({shown})",
        name=str(manifest["metadata"]["name"]),
        where=where,
        room=room,
        ceiling=ceiling,
        ladder=ladder,
        rate=rate,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _pod_spec(manifest: Json) -> Json:
    found: Json = ((manifest.get("spec") or {}).get("template") or {}).get("spec") or {}
    return found


def _shown(requests: Mapping[str, int]) -> str:
    from slack.planner.explain_text import resources_text

    return resources_text(requests.items())


def _priority(spec: Json, manifests: Sequence[Json]) -> int | None:
    if spec.get("priority") is not None:
        return int(spec["priority"])
    name = spec.get("priorityClassName")
    for one in manifests:
        if one.get("kind") == "PriorityClass" and (one.get("metadata") or {}).get("name") == name:
            return int(one.get("value") or 0)
    return None


def _priority_words(spec: Json, manifests: Sequence[Json], notes: list[str], warnings: list[str], source: str) -> None:
    name, value = spec.get("priorityClassName"), _priority(spec, manifests)
    told = f" ({value})" if value is not None else ""
    if name:
        notes.append(
            f"priorityClassName {name}{told} -> the operator's own class resource-slack (-10, preempts nobody)"
        )
    if value is not None and value < _LOWEST:
        warnings.append(
            f"{source}: its priority {value} is below the Cluster Autoscaler's cut-off of {_LOWEST}, so no node was "
            f"ever added for it; with the policy below nodes will be"
        )
    if value is not None and value >= 0:
        warnings.append(
            f"{source}: its priority {value} is not below that of real pods, so it never made room for them"
        )
    for one in manifests:
        if one.get("kind") == "PriorityClass" and one.get("globalDefault"):
            label = (one.get("metadata") or {}).get("name")
            warnings.append(
                f"PriorityClass {label} is the cluster's default with the value {one.get('value', 0)}; it goes with "
                f"the release, and new pods then have the priority 0"
            )


def _proportional(manifest: Json, manifests: Sequence[Json], warnings: list[str]) -> Iterator[Json]:
    """Yield what the proportional autoscaler of this Deployment is told: {"ladder": ...} or {"linear": ...}."""
    name = str(manifest["metadata"]["name"])
    for one in manifests:
        if not is_proportional(one):
            continue
        flags = _flags(one)
        if flags.get("target", "").rpartition("/")[2] != name:
            continue
        config = one_named(manifests, "ConfigMap", flags.get("configmap", ""), namespace_of(manifest))
        texts = (config or {}).get("data") or {}
        if not texts and "default-params" in flags:
            texts = {key: json.dumps(value) for key, value in _json(flags["default-params"], named(one)).items()}
        if not texts:
            warnings.append(
                f"{named(one)}: sets the replicas of {name}, but its ConfigMap {flags.get('configmap', '')} is not "
                f"here; only the replicas that {name} has now are kept"
            )
        else:
            yield {key: _json(text, named(config or one)) for key, text in texts.items()}


def _flags(manifest: Json) -> dict[str, str]:
    found = {}
    for container in _pod_spec(manifest).get("containers") or ():
        for word in [*(container.get("command") or ()), *(container.get("args") or ())]:
            key, equals, value = str(word).removeprefix("--").partition("=")
            if equals:
                found[key] = value
    return found


def _json(text: str, source: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(f'{source}: expected an object such as {{"nodesToReplicas": [[0, 7]]}}, found {text[:60]!r}')
    return found


def _linear(
    linear: Json,
    requests: Mapping[str, int],
    source: str,
    notes: list[str],
    warnings: list[str],
    node_cpu_millis: int | None,
) -> tuple[dict[str, int], dict[str, int], float | None]:
    """`replicas = max(cores / coresPerReplica, nodes / nodesPerReplica)`, from min to max."""
    cpu = requests.get("cpu", 0)
    rates = []
    if linear.get("coresPerReplica"):
        rates.append(cpu / (float(linear["coresPerReplica"]) * 1000))
        notes.append(f"one replica for {linear['coresPerReplica']} cores -> spec.extraCapacity.minRate")
    if linear.get("nodesPerReplica"):
        if node_cpu_millis is None:
            warnings.append(
                f"{source}: one replica for {linear['nodesPerReplica']} nodes is a rate only when a node's size is "
                f"known; say it with --node-cpu"
            )
        else:
            rates.append(cpu / (float(linear["nodesPerReplica"]) * node_cpu_millis))
            notes.append(
                f"one replica for {linear['nodesPerReplica']} nodes of {format_cpu(node_cpu_millis)} cpu "
                f"-> spec.extraCapacity.minRate"
            )
    least, most = int(linear.get("min") or 1), linear.get("max")
    notes.append(f"min {least} -> spec.extraCapacity.floor" + (f", max {most} -> ceiling" if most else ""))
    if rates:
        notes.append(_OF_WHAT)
    return times(requests, least), times(requests, int(most)) if most else {}, _round(max(rates)) if rates else None


_OF_WHAT = (
    "their rate was of all nodes, those that the placeholders brought too; ours is of what real pods request, "
    "so it does not feed itself and is smaller on a cluster with free room"
)


def _ladder(
    ladder: Json,
    requests: Mapping[str, int],
    now: Mapping[str, int],
    source: str,
    notes: list[str],
    warnings: list[str],
    node_cpu_millis: int | None,
) -> tuple[dict[str, int], tuple[Json, ...]]:
    """Steps of replicas by cores or nodes; ours are of rates, so each needs the size at which it holds."""
    cpu = requests.get("cpu", 0)
    cores, nodes = ladder.get("coresToReplicas") or [], ladder.get("nodesToReplicas") or []
    if cores and nodes:
        warnings.append(f"{source}: its ladder counts cores and nodes; only the steps by cores are taken")
    by_cores = bool(cores)
    steps = sorted((float(at), int(count)) for at, count in (cores or nodes))
    told = ", ".join(f"{count} from {at:g} {'cores' if by_cores else 'nodes'} on" for at, count in steps)
    unit = 1000 if by_cores else node_cpu_millis
    if unit is None:
        most = max((count for _, count in steps), default=0)
        kept = dict(now) if any(now.values()) else times(requests, most)
        warnings.append(
            f"{source}: its ladder ({told}) counts nodes; to turn it into rates say a node's size with --node-cpu; "
            f"until then a fixed floor is kept"
        )
        notes.append(f"ladder ({told}) -> a fixed floor of spec.extraCapacity")
        return kept, ()
    found: list[Json] = []
    ends = [*(after[0] for _, after in pairwise(steps)), 0.0]
    for (at, count), end in zip(steps, ends, strict=True):
        # A rate gives a fixed amount at one size only: at the step's start, or at its end for one that starts at 0.
        size = (at or end) * unit
        rate = _round(count * cpu / size) if size else 0.0
        found.append({"fromRequested": {"cpu": format_cpu(int(at * 1000))}} if by_cores else {"fromNodes": int(at)})
        found[-1]["minRate"] = min(rate, 10.0)
    notes.append(
        f"ladder ({told}) -> spec.extraCapacity.ladder: each step's replicas as a share of the size at which it "
        "starts (of that at which it ends, for the first)"
    )
    notes.append(_OF_WHAT)
    return {}, tuple(found)


def _round(rate: float) -> float:
    return round(rate, _MOST_DIGITS)


def _schedules(manifests: Sequence[Json]) -> list[str]:
    """CronJobs that switch a ladder's ConfigMap: theirs are moments, ours are windows, so a person has to say."""
    found = []
    for one in manifests:
        text = json.dumps(one.get("spec") or {})
        if one.get("kind") == "CronJob" and ("configmap" in text.lower() or "overprovision" in text):
            when = (one.get("spec") or {}).get("schedule")
            found.append(
                f"{named(one)} ({when}) changes the size at that time; write a window with cron, duration and minRate "
                f"or floor into spec.extraCapacity.schedule"
            )
    return found
