"""The node groups of a recording: nodes of one kind together, with the start-up times that they were seen to take.

Nodes are of one kind when they share allocatable cpu, about the memory, taints, the labels that pods ask for and
those that name a group at the known clouds.
"""

import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slack.cluster.labels import INSTANCE_TYPE, NODE_GROUPS, ZONE
from slack.cluster.node_prices import NO_PRICES, NodePrices
from slack.simulator.traces.format import NodeTraceRow, Trace

DEFAULT_START_UP_SECONDS = 90.0
"""Where the recording saw no node start."""
_GROUP_LABELS = (INSTANCE_TYPE, *NODE_GROUPS, ZONE)
_SAME_SIZE = 1.05
"""Nodes of one kind differ by some KiB of memory; within this factor they are one group."""
_SCAN_SECONDS = 5.0
"""Half of the autoscaler's scan interval: the simulator waits for the scan once more."""
_BATCH_SECONDS = 1.0
"""Karpenter asks for nodes as soon as a batch has been idle for so long (--batch-idle-duration)."""
_LONGEST_START = 1200.0
"""A pod that waited longer than this waited for something else than the node."""
_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")


def start_up_seconds(trace: Trace) -> dict[str, float]:
    """Return how long each node took from the request for it, as far as the recording shows, by name.

    A Node object is made when the kubelet registers; the machine was asked for earlier. The first pod (a placeholder
    too) that was waiting then and went to the node tells since when.
    """
    nodes = {node.name: node for node in trace.nodes if not node.initial and node.ready_seconds is not None}
    found = {name: node.ready_seconds or 0.0 for name, node in nodes.items()}
    for pod in trace.pods:
        node = nodes.get(pod.node)
        if node is None or pod.bound_seconds is None or pod.time_seconds >= node.time_seconds:
            continue
        waited = node.time_seconds + (node.ready_seconds or 0.0) - pod.time_seconds
        if pod.bound_seconds >= waited - 1 and waited <= _LONGEST_START:
            asked = _BATCH_SECONDS if '"karpenter.sh/' in node.labels_json else _SCAN_SECONDS
            found[node.name] = max(found[node.name], waited - asked)
    return found


def start_up(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the distribution that was seen, as a scenario names it: lognormal, as boot times are."""
    seen = [max(value, 0.1) for value in seconds]
    if not seen:
        return {"kind": "constant", "seconds": DEFAULT_START_UP_SECONDS}
    logs = [math.log(value) for value in seen]
    sigma = statistics.stdev(logs) if len(logs) > 1 else 0.0
    if sigma < 0.01:
        return {"kind": "constant", "seconds": round(statistics.median(seen), 3)}
    return {
        "kind": "lognormal",
        "medianSeconds": round(math.exp(statistics.fmean(logs)), 3),
        "sigma": round(min(sigma, 5.0), 4),
        "maxSeconds": round(max(seen), 3),
    }


def node_groups(
    trace: Trace, asked: frozenset[str], prices: Mapping[str, float], node_prices: NodePrices = NO_PRICES
) -> list[dict[str, Any]]:
    """Return nodes of one kind as node groups, in order of their names.

    Args:
        trace: the recording.
        asked: labels by which pods tell nodes apart.
        prices: by instance type or by group name; they win over the others.
        node_prices: of a file.
    """
    asked |= node_prices.label_keys
    alike: dict[tuple[str, ...], list[NodeTraceRow]] = defaultdict(list)
    for node in trace.nodes:
        labels = parse_object(node.labels_json)
        kept = {key: value for key, value in labels.items() if key in asked or key in _GROUP_LABELS}
        alike[json.dumps(kept, sort_keys=True), node.taints_json, str(node.cpu_millis)].append(node)
    seen = start_up_seconds(trace)
    groups: list[dict[str, Any]] = []
    names: Counter[str] = Counter()
    for (labels_json, taints_json, _), nodes in sorted(alike.items()):
        for same in _of_one_size(nodes):
            labels = json.loads(labels_json)
            name = distinct(_group_name(labels), names)
            price = next((prices[key] for key in price_names(name, labels) if key in prices), None)
            if price is None:
                price = node_prices.price_of(labels, same[0].cpu_millis, same[0].memory_bytes) or 0.0
            mine = [seen[node.name] for node in same if node.name in seen]
            zone = labels.pop(ZONE, "")
            groups.append(
                {
                    "name": name,
                    "labels": labels,
                    "zone": zone,
                    "taints": json.loads(taints_json) if taints_json else [],
                    "allocatable": quantities(_least(map(_allocatable, same))),
                    "initial": sum(node.initial for node in same),
                    "startUp": start_up(mine or list(seen.values())),
                    "pricePerHour": price,
                    **_daemons(same),
                }
            )
    return groups


def price_names(group: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names under which a node group's price is looked for: its instance type, itself."""
    return tuple(filter(None, (labels.get(INSTANCE_TYPE), group)))


def _of_one_size(nodes: list[NodeTraceRow]) -> list[list[NodeTraceRow]]:
    groups: list[list[NodeTraceRow]] = []
    for node in sorted(nodes, key=lambda node: (node.memory_bytes, node.name)):
        if groups and node.memory_bytes <= groups[-1][0].memory_bytes * _SAME_SIZE:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _allocatable(node: NodeTraceRow) -> dict[str, int]:
    return {"cpu": node.cpu_millis, "memory": node.memory_bytes, **parse_object(node.requests_json)}


def _least(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = list(amounts)
    return {name: min(amounts.get(name, 0) for amounts in found) for name in sorted(set().union(*found))}


def _daemons(nodes: Sequence[NodeTraceRow]) -> dict[str, Any]:
    """Return the most that DaemonSets were seen to request on one of these nodes."""
    most: dict[str, int] = {}
    room = _least(map(_allocatable, nodes))
    for node in nodes:
        for name, amount in parse_object(node.daemon_json).items():
            most[name] = min(max(most.get(name, 0), amount), room.get(name, amount))
    return {"daemonPods": most.pop("pods", 0), "daemonRequests": quantities(most)}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes quantities."""
    return {name: f"{value}m" if name == "cpu" else str(value) for name, value in amounts.items()}


def _group_name(labels: Mapping[str, str]) -> str:
    parts = [labels[key] for key in _GROUP_LABELS if key in labels] or ["nodes"]
    return label_text("-".join(parts))


def label_text(text: str) -> str:
    """Return a text as a DNS label."""
    return _NOT_IN_NAME.sub("-", text.lower()).strip("-")[:58].rstrip("-") or "x"


def distinct(name: str, taken: Counter[str]) -> str:
    """Return the name, numbered when it is taken."""
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}-{taken[name]}"


def parse_object(text: str) -> dict[str, Any]:
    """Return a JSON column's object."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
