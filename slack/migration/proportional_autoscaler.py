"""Reads cluster-proportional-autoscalers: replicas of a placeholder Deployment by a line or ladder of a cluster's size.

A line becomes a rate with floor and ceiling. A ladder becomes steps of rates: what counts nodes needs a node's size.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from slack.cluster.quantity import format_cpu
from slack.cluster.rates import MOST_WITHOUT_CEILING
from slack.migration.findings import CannotMigrate, Json, Remarks, named, namespace_of, object_named, template_of, times

_PROPORTIONAL = "proportional-autoscaler"
_MOST_DIGITS = 4
_OF_WHAT = (
    "their rate was of all nodes, those that the placeholders brought too; ours is of what real pods request, "
    "so it does not feed itself and is smaller on a cluster with free room"
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much room is kept, in a policy's terms: fixed, by steps, or by a rate."""

    room: Mapping[str, int] = field(default_factory=dict)
    ceiling: Mapping[str, int] = field(default_factory=dict)
    ladder: tuple[Json, ...] = ()
    rate: float | None = None


def is_proportional(manifest: Json) -> bool:
    """Whether it is a cluster-proportional-autoscaler."""
    return manifest.get("kind") == "Deployment" and any(
        _PROPORTIONAL in str(container.get("image") or "")
        for container in template_of(manifest).get("containers") or ()
    )


def settings_for(target: Json, manifests: Sequence[Json], remarks: Remarks) -> Iterator[Json]:
    """Yield what the proportional autoscalers of a Deployment are told: {"ladder": ...} or {"linear": ...}."""
    name = str(target["metadata"]["name"])
    for autoscaler in filter(is_proportional, manifests):
        flags = _flags(autoscaler)
        if flags.get("target", "").rpartition("/")[2] != name:
            continue
        config = object_named(manifests, "ConfigMap", flags.get("configmap", ""), namespace_of(target))
        texts = (config or {}).get("data") or {}
        if not texts and "default-params" in flags:
            defaults = _decoded(flags["default-params"], named(autoscaler))
            texts = {key: json.dumps(value) for key, value in defaults.items()}
        if texts:
            yield {key: _decoded(text, named(config or autoscaler)) for key, text in texts.items()}
        else:
            remarks.warnings.append(
                f"{named(autoscaler)}: sets the replicas of {name}, but its ConfigMap {flags.get('configmap', '')} is "
                f"not here; only the replicas that {name} has now are kept"
            )


def _flags(manifest: Json) -> dict[str, str]:
    flags = {}
    for container in template_of(manifest).get("containers") or ():
        for word in [*(container.get("command") or ()), *(container.get("args") or ())]:
            key, equals, value = str(word).removeprefix("--").partition("=")
            if equals:
                flags[key] = value
    return flags


def _decoded(text: str, source: str) -> Json:
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise CannotMigrate(
            f'{source}: expected an object such as {{"nodesToReplicas": [[0, 7]]}}, found {text[:60]!r}'
        )
    return decoded


def size_of_line(line: Json, requests: Mapping[str, int], remarks: Remarks, node_cpu_millis: int | None) -> Size:
    """`replicas = max(cores / coresPerReplica, nodes / nodesPerReplica)`, from min to max."""
    cpu = requests.get("cpu", 0)
    rates = []
    if line.get("coresPerReplica"):
        rates.append(cpu / (float(line["coresPerReplica"]) * 1000))
        remarks.notes.append(f"one replica for {line['coresPerReplica']} cores -> spec.extraCapacity.minRate")
    if line.get("nodesPerReplica"):
        if node_cpu_millis is None:
            remarks.warn(
                f"one replica for {line['nodesPerReplica']} nodes is a rate only when a node's size is "
                f"known; say it with --node-cpu"
            )
        else:
            rates.append(cpu / (float(line["nodesPerReplica"]) * node_cpu_millis))
            remarks.notes.append(
                f"one replica for {line['nodesPerReplica']} nodes of {format_cpu(node_cpu_millis)} cpu "
                f"-> spec.extraCapacity.minRate"
            )
    least, most = int(line.get("min") or 1), line.get("max")
    remarks.notes.append(f"min {least} -> spec.extraCapacity.floor" + (f", max {most} -> ceiling" if most else ""))
    if rates:
        remarks.notes.append(_OF_WHAT)
    ceiling = times(requests, int(most)) if most else {}
    if rates and max(rates) > MOST_WITHOUT_CEILING:
        _cut(remarks)
        rates = [MOST_WITHOUT_CEILING]
    return Size(times(requests, least), ceiling, rate=round(max(rates), _MOST_DIGITS) if rates else None)


def _cut(remarks: Remarks) -> None:
    remarks.warn(
        f"it keeps more than what runs again, and a rate above {MOST_WITHOUT_CEILING:g} needs a ceiling; "
        f"{MOST_WITHOUT_CEILING:g} is written: raise it and give a ceiling with cpu and memory where that is too little"
    )


def size_of_ladder(
    ladder: Json,
    requests: Mapping[str, int],
    now: Mapping[str, int],
    remarks: Remarks,
    node_cpu_millis: int | None,
) -> Size:
    """Steps of replicas by cores or nodes; ours are of rates, so each needs the size at which it holds."""
    cores, nodes = ladder.get("coresToReplicas") or [], ladder.get("nodesToReplicas") or []
    if cores and nodes:
        remarks.warn("its ladder counts cores and nodes; only the steps by cores are taken")
    by_cores = bool(cores)
    steps = sorted((float(at), int(count)) for at, count in (cores or nodes))
    shown = ", ".join(f"{count} from {at:g} {'cores' if by_cores else 'nodes'} on" for at, count in steps)
    unit_millis = 1000 if by_cores else node_cpu_millis
    if unit_millis is None:
        remarks.warn(
            f"its ladder ({shown}) counts nodes; to turn it into rates say a node's size with --node-cpu; "
            f"until then a fixed floor is kept"
        )
        remarks.notes.append(f"ladder ({shown}) -> a fixed floor of spec.extraCapacity")
        return Size(dict(now) if any(now.values()) else times(requests, max((count for _, count in steps), default=0)))
    rates: list[Json] = []
    ends = [*(after[0] for _, after in pairwise(steps)), 0.0]
    for (at, count), end in zip(steps, ends, strict=True):
        # A rate gives a fixed amount at one size only: at the step's start, or at its end for one that starts at 0.
        size = (at or end) * unit_millis
        rate = round(count * requests.get("cpu", 0) / size, _MOST_DIGITS) if size else 0.0
        begin: Json = {"fromRequested": {"cpu": format_cpu(int(at * 1000))}} if by_cores else {"fromNodes": int(at)}
        rates.append({**begin, "minRate": rate})
    if any(step["minRate"] > MOST_WITHOUT_CEILING for step in rates):
        _cut(remarks)
        rates = [{**step, "minRate": min(step["minRate"], MOST_WITHOUT_CEILING)} for step in rates]
    remarks.notes += [
        f"ladder ({shown}) -> spec.extraCapacity.ladder: each step's replicas as a share of the size at which it "
        "starts (of that at which it ends, for the first)",
        _OF_WHAT,
    ]
    return Size(ladder=tuple(rates))
