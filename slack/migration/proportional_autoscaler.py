"""Reads cluster-proportional-autoscalers: replicas of a placeholder Deployment by a line or ladder of a cluster's size.

Both become steps by the cores of the nodes, each with the floor of so many replicas: the same amount at each size. Of a
line with very many replicas the later steps are further apart, and the difference is told. What counts nodes needs a
node's size.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from slack.cluster.quantity import format_cpu
from slack.migration.findings import (
    CannotMigrate,
    Json,
    Remarks,
    may_be_in,
    namespace_of,
    object_name,
    object_named,
    template_of,
    times,
)
from slack.planner.model.amount_text import resources_text

_PROPORTIONAL = "proportional-autoscaler"
MOST_STEPS = 64
"""So many the API server takes in a ladder."""
_SINGLE_STEPS = 16
"""So many steps of a longer line are one replica each."""
_DOUBLE_STEPS = 33
"""So many further ones are two replicas each, of which the larger is kept: one placeholder more at most."""
_LARGER_BY = 3
"""Each later step has a third more replicas: 15 such steps end above 5,000, a replica for each of 5,000 nodes."""
_OF_WHAT = (
    "as there, all ready and schedulable nodes of the policy count, those too that the placeholders bring; a step is "
    "left when the nodes are a tenth below it, there at once. Nodes with taints that it does not tolerate (of the "
    "control plane, say) count there alone"
)
_ROUNDED = "the cores of all nodes together are rounded up there, so a step begins just above one core less"
_MODES = {"ladder", "linear"}
Steps = list[tuple[int, int]]
"""From so many millicores on so many replicas, ascending; the first from 0 on."""


@dataclass(frozen=True, slots=True)
class CountedSize:
    """How much room is kept, in a policy's terms: fixed, or by steps."""

    room: Mapping[str, int] = field(default_factory=dict)
    ceiling: Mapping[str, int] = field(default_factory=dict)
    ladder: tuple[tuple[int, Mapping[str, int]], ...] = ()
    """From so many millicores on this amount."""


def is_proportional(manifest: Json) -> bool:
    """Whether it is a cluster-proportional-autoscaler: by its image, by what it runs, or by its two flags."""
    if manifest.get("kind") != "Deployment":
        return False
    containers = template_of(manifest).get("containers") or ()
    if any(_PROPORTIONAL in " ".join([str(each.get("image") or ""), *_words(each)]) for each in containers):
        return True
    return {"target", "configmap"} <= _flags(manifest).keys()


def is_target(workload: Json, manifests: Sequence[Json]) -> bool:
    """Whether one of the proportional autoscalers sets the replicas of a workload."""
    return any(True for _ in _autoscalers_of(workload, manifests))


def _autoscalers_of(target: Json, manifests: Sequence[Json]) -> Iterator[tuple[Json, dict[str, str], str]]:
    """Yield the proportional autoscalers that name a workload, with their flags and their namespace."""
    own = str(target.get("kind")).lower(), str(target["metadata"]["name"])
    for autoscaler in filter(is_proportional, manifests):
        flags = _flags(autoscaler)
        inside = flags.get("namespace") or (autoscaler.get("metadata") or {}).get("namespace") or namespace_of(target)
        targets = [each.strip().lower().partition("/") for each in flags.get("target", "").split(",")]
        if own in [(kind.removesuffix("s"), name) for kind, _, name in targets] and may_be_in(target, inside):
            yield autoscaler, flags, inside


def settings_for(
    target: Json, manifests: Sequence[Json], node_selector: Mapping[str, str], remarks: Remarks
) -> Iterator[Json]:
    """Yield what the proportional autoscalers of a Deployment are told: {"ladder": ...} or {"linear": ...}.

    Args:
        target: the Deployment.
        manifests: all that was given with it.
        node_selector: of the policy, by which it counts its nodes.
        remarks: takes the warnings.
    """
    name = str(target["metadata"]["name"])
    for autoscaler, flags, inside in _autoscalers_of(target, manifests):
        remarks.warnings += _told_of_nodes(object_name(autoscaler), flags.get("nodelabels", ""), node_selector)
        config = object_named(manifests, "ConfigMap", flags.get("configmap", ""), inside)
        texts = (config or {}).get("data") or {}
        if not texts and "default-params" in flags:
            defaults = _decode(flags["default-params"], object_name(autoscaler))
            texts = {key: json.dumps(value) for key, value in defaults.items()}
        if texts and not (len(texts) == 1 and texts.keys() <= _MODES):
            remarks.warnings.append(
                f"{object_name(autoscaler)}: takes settings with one entry, ladder or linear, and these have "
                f"{', '.join(sorted(texts))}: it changes nothing, so the replicas that {name} has now are kept"
            )
        elif texts:
            yield {key: _decode(text, object_name(config or autoscaler)) for key, text in texts.items()}
        else:
            remarks.warnings.append(
                f"{object_name(autoscaler)}: sets the replicas of {name}, but its ConfigMap "
                f"{flags.get('configmap', '')} is not here; only the replicas that {name} has now are kept"
            )


def _told_of_nodes(autoscaler: str, counted: str, node_selector: Mapping[str, str]) -> list[str]:
    """Say which other nodes than the policy an autoscaler counts.

    Args:
        autoscaler: its name.
        counted: its flag --nodelabels, '' for all nodes.
        node_selector: of the policy.
    """
    own = {f"{key}={value}" for key, value in node_selector.items()}
    if {each.strip() for each in counted.split(",") if each.strip()} == own:
        return []
    if counted:
        return [
            f"{autoscaler}: counts the nodes with {counted} alone; the policy counts its own nodes: give it these "
            "labels in spec.nodeSelector where they are others"
        ]
    return [
        f"{autoscaler}: counts all nodes of the cluster; the policy counts those of its spec.nodeSelector "
        f"({', '.join(sorted(own))}) alone, so it may keep another amount. Multiply each fromAllocatable by the share "
        "that these nodes have of all cores"
    ]


def _flags(manifest: Json) -> dict[str, str]:
    flags = {}
    for container in template_of(manifest).get("containers") or ():
        for word, following in pairwise([*_words(container), ""]):
            key, equals, value = word.lstrip("-").partition("=")
            if equals:
                flags[key] = value
            elif word.startswith("-") and following and not following.startswith("-"):
                flags[key] = following
    return flags


def _words(container: Json) -> list[str]:
    """Return the words of a container's command line, those of a shell's script too."""
    words = list[str]()
    for word in map(str, [*(container.get("command") or ()), *(container.get("args") or ())]):
        words += word.split() if " " in word and not word.startswith("-") else [word]
    return words


def _decode(text: str, source: str) -> Json:
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise CannotMigrate(
            f'{source}: expected an object such as {{"nodesToReplicas": [[0, 7]]}}, found {text[:60]!r}'
        )
    return decoded


def _number(line: Json, key: str) -> float:
    value = line.get(key) or 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise CannotMigrate(f"{key}: expected a positive number, found {value!r}")
    return float(value)


def size_of_line(line: Json, requests: Mapping[str, int], remarks: Remarks, node_cpu_millis: int | None) -> CountedSize:
    """`replicas = max(cores / coresPerReplica, nodes / nodesPerReplica)`, from min to max."""
    if cores := _number(line, "coresPerReplica"):
        remarks.notes += [f"one replica for {cores:g} cores -> spec.extraCapacity", _ROUNDED]
    if nodes := _number(line, "nodesPerReplica"):
        if node_cpu_millis is None:
            remarks.warn(
                f"one replica for {nodes:g} nodes is an amount only when a node's size is known; say it with --node-cpu"
            )
        else:
            remarks.notes.append(
                f"one replica for {nodes:g} nodes of {format_cpu(node_cpu_millis)} cpu -> spec.extraCapacity"
            )
    least, most = int(_number(line, "min")) or 1, int(_number(line, "max"))
    if most and most < least:
        raise CannotMigrate(
            f"{remarks.source}: its line has max {most}, less than min {least}; its autoscaler refuses it"
        )
    if not cores and not nodes:
        raise CannotMigrate(f"{remarks.source}: its line has no coresPerReplica and no nodesPerReplica")
    if line.get("preventSinglePointFailure") and least < 2:
        least, most = 2, most and max(most, 2)
        remarks.warn(
            "preventSinglePointFailure: two replicas from the second node on, whatever max says; the policy keeps two "
            "on one node, too"
        )
    _note_cordoned(line, remarks)
    remarks.notes.append(f"min {least} -> spec.extraCapacity.floor" + (f", max {most} -> ceiling" if most else ""))
    ceiling = times(requests, most) if most else {}
    if not cores and (not nodes or node_cpu_millis is None):
        return CountedSize(times(requests, least), ceiling)
    remarks.notes.append(_OF_WHAT)
    counts = _counts(least, most)
    steps = {0: least}
    for before, count in pairwise(counts):
        steps[_begins(before, cores, 0 if node_cpu_millis is None else nodes, node_cpu_millis or 0)] = count
    if not most or most - least >= MOST_STEPS:
        _tell_difference(sorted(steps.items()), counts, most, requests, remarks)
    return CountedSize(times(requests, least), ceiling, _amounts(sorted(steps.items()), requests))


def _counts(least: int, most: int) -> list[int]:
    """Return the replicas of each step of a line, ascending.

    Args:
        least: of the first step.
        most: of the last one, 0 for no maximum.
    """
    if most and most - least < MOST_STEPS:
        return list(range(least, most + 1))
    single, near = least + _SINGLE_STEPS - 1, _near(least, most)
    counts = [*range(least, single), *range(single, near, 2), near]
    while len(counts) < MOST_STEPS and (not most or counts[-1] < most):
        larger = counts[-1] - (-counts[-1] // _LARGER_BY)
        counts.append(min(larger, most) if most else larger)
    return counts


def _near(least: int, most: int) -> int:
    """Return up to how many replicas the steps of a long line keep one placeholder more at most."""
    near = least + _SINGLE_STEPS - 1 + 2 * _DOUBLE_STEPS
    return min(near, most) if most else near


def _tell_difference(
    steps: Steps, counts: Sequence[int], most: int, requests: Mapping[str, int], remarks: Remarks
) -> None:
    """Say from which size on the steps of a line keep another amount than it does, and how that grows."""
    near = _near(counts[0], most)
    remarks.notes.append(
        f"up to {counts[0] + _SINGLE_STEPS - 1} replicas the same amount, up to {near} at most one placeholder more"
    )
    if near != most:
        following = next(count for count in counts if count > near)
        cores = format_cpu(next(at for at, count in steps if count > near))
        remarks.warn(
            f"up to {near} replicas ({resources_text(times(requests, near).items())}) the policy keeps what it does, "
            f"or one placeholder more. From {cores} cpu of nodes on its steps are a third apart, so it keeps up to a "
            f"third more of each resource: {resources_text(times(requests, following).items())} for {near + 1} to "
            f"{following} replicas"
        )
    if counts[-1] != most:
        remarks.warn(
            f"its last step, from {format_cpu(steps[-1][0])} cpu of nodes on, keeps {counts[-1]} replicas "
            f"({resources_text(times(requests, counts[-1]).items())}) and no more; theirs has "
            f"{f'a maximum of {most}' if most else 'no maximum'} and keeps "
            f"{resources_text(requests.items())} more for each further replica"
        )


def _begins(replicas: int, cores: float, nodes: float, node_cpu_millis: int) -> int:
    """Return from how many millicores on a line has more than so many replicas, each for so many cores or nodes."""
    starts = [_above(replicas * cores)] if cores else []
    starts += [int((math.floor(replicas * nodes) + 0.5) * node_cpu_millis)] if nodes else []
    return min(starts)


def _above(cores: float) -> int:
    """Return the least millicores that are more than so many whole cores, which are rounded down: 0 below none."""
    return max(0, math.floor(cores) * 1000 + 1)


def _note_cordoned(settings: Json, remarks: Remarks) -> None:
    if settings.get("includeUnschedulableNodes"):
        remarks.warn("includeUnschedulableNodes: cordoned nodes count there, and not in the policy")


def size_of_ladder(
    ladder: Json,
    requests: Mapping[str, int],
    now: Mapping[str, int],
    remarks: Remarks,
    node_cpu_millis: int | None,
) -> CountedSize:
    """Return steps of amounts. Of cores and nodes the one counts that yields more, as there; below all, the first."""
    cores, nodes = _entries(ladder, "coresToReplicas"), _entries(ladder, "nodesToReplicas")
    if nodes and node_cpu_millis is None:
        shown = _shown(nodes, "nodes")
        if not cores:
            remarks.warn(
                f"its ladder ({shown}) counts nodes; to turn it into steps say a node's size with --node-cpu; "
                f"until then a fixed floor is kept"
            )
            remarks.notes.append(f"ladder ({shown}) -> a fixed floor of spec.extraCapacity")
            return CountedSize(dict(now) if any(now.values()) else times(requests, max(count for _, count in nodes)))
        remarks.warn(
            f"its ladder counts cores and nodes ({shown}); without --node-cpu only the steps by cores are taken"
        )
        nodes = []
    if not cores and not nodes:
        raise CannotMigrate(f"{remarks.source}: its ladder has no steps; expected coresToReplicas or nodesToReplicas")
    _note_cordoned(ladder, remarks)
    by_cores = [(_above(math.ceil(at) - 1), count) for at, count in cores]
    # Half a node before: nodes differ a little, and a person may say what they have, or what is left of it for pods.
    by_nodes = [(max(0, int((at - 0.5) * (node_cpu_millis or 0))), count) for at, count in nodes]
    starts = sorted({0, *(at for at, _ in [*by_cores[1:], *by_nodes[1:]])})
    steps = [(at, max(_replicas(entries, at) for entries in (by_cores, by_nodes) if entries)) for at in starts]
    shown = "; ".join(_shown(entries, unit) for entries, unit in ((cores, "cores"), (nodes, "nodes")) if entries)
    remarks.notes += [
        f"ladder ({shown}) -> spec.extraCapacity.ladder: each step's replicas x requests as its floor, and the most of "
        "them as the ceiling",
        *([_ROUNDED] if cores else []),
        _OF_WHAT,
    ]
    return CountedSize(ceiling=times(requests, max(count for _, count in steps)), ladder=_amounts(steps, requests))


def _entries(ladder: Json, key: str) -> list[tuple[float, int]]:
    try:
        entries = sorted((float(at), int(count)) for at, count in ladder.get(key) or [])
        if not all(math.isfinite(at) and at >= 0 and count >= 0 for at, count in entries):
            raise ValueError
        return entries
    except (TypeError, ValueError, OverflowError):
        raise CannotMigrate(
            f"{key}: expected pairs of a size and a number of replicas, such as [[1, 1], [64, 3]]"
        ) from None


def _replicas(entries: Steps, millis: int) -> int:
    return next((count for at, count in reversed(entries) if at <= millis), entries[0][1])


def _shown(entries: Sequence[tuple[float, int]], unit: str) -> str:
    return ", ".join(f"{count} from {at:g} {unit} on" for at, count in entries)


def _amounts(steps: Steps, requests: Mapping[str, int]) -> tuple[tuple[int, Mapping[str, int]], ...]:
    return tuple((at, times(requests, count)) for at, count in steps)
