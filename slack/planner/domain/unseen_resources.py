"""Resources that no node has now: those that policies or placeholders name get a column, all others share one.

A node group of GPUs that stands at zero is told by a node template, a floor may ask for GPUs before there are any, and
a placeholder may still request what the last real pod took with it: with their columns, pods that request them are
judged as ever. What else pods request of such resources is one flag, the column NOWHERE: whatever any tenant's pods
name, there are no more columns than nodes and policies name, and these pods fit nowhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from slack.cluster.quantity import format_quantity
from slack.cluster.snapshot import Amounts, IntArray, Snapshot
from slack.planner.model.shape import Shape
from slack.planner.policy.spec import Policy

NOWHERE = "(on no node)"
"""The last column, where there is any such pod: 1 for these, nothing for all nodes. No resource has this name."""
MOST_NAMED = 3
"""So many resources of one pod are named at most."""


def named(policies: Sequence[Policy], shapes: Iterable[Shape]) -> frozenset[str]:
    """Return the resources that policies and placeholders' shapes name."""
    names: set[str] = set()
    for policy in policies:
        size = policy.spec.extra_capacity
        names.update(size.floor, *(template.allocatable for template in policy.spec.node_templates))
        names.update(*(window.floor or {} for window in size.schedule), *(step.floor for step in size.ladder))
    names.update(name for shape in shapes for name, _ in shape.requests)
    return frozenset(names - {"pods"})


def widened(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Return the snapshot with a column for each of these resources, and NOWHERE where some pod requests others."""
    kinds, reserved = snapshot.kinds, snapshot.reserved
    lacking = {row: own for row, own in enumerate(kinds.unoffered) if own} if any(kinds.unoffered) else {}
    missing = sorted(names - set(snapshot.resources))
    others = any(_rest(amounts, names) for amounts in (*lacking.values(), *(item.unoffered for item in reserved)))
    if not missing and not others:
        return snapshot
    # The order stays what a snapshot promises: cpu, memory, then the others by name.
    resources = (*snapshot.resources[:2], *sorted((*snapshot.resources[2:], *missing)), *([NOWHERE] if others else []))
    source = [snapshot.resources.index(name) if name in snapshot.resources else -1 for name in resources]
    have = np.array(source) >= 0

    def wide(table: IntArray) -> IntArray:
        padded: IntArray = np.where(have, table[..., source], 0)
        return padded

    def write(row: IntArray, amounts: Amounts) -> None:
        for name, amount in amounts:
            if name in names:
                row[resources.index(name)] = amount
            else:
                row[-1] = 1

    requests, unoffered = wide(kinds.requests), list(kinds.unoffered)
    for at, amounts in lacking.items():
        write(requests[at], amounts)
        unoffered[at] = _rest(amounts, names)
    workloads = []
    for item in reserved:
        own = wide(item.requests)
        write(own, item.unoffered)
        workloads.append(replace(item, requests=own, unoffered=_rest(item.unoffered, names)))
    nodes = snapshot.nodes
    return replace(
        snapshot,
        resources=resources,
        nodes=replace(
            nodes,
            allocatable=wide(nodes.allocatable),
            real=wide(nodes.real),
            daemon=wide(nodes.daemon),
            placeholders=wide(nodes.placeholders),
        ),
        kinds=replace(kinds, requests=requests, unoffered=tuple(unoffered)),
        reserved=tuple(workloads),
    )


def why_nowhere(unoffered: Amounts) -> tuple[str, ...]:
    """Name what keeps such a pod off every node, a few of them."""
    texts = [
        f"{name} {format_quantity(name, amount)} is more than any empty eligible node has (0)"
        for name, amount in unoffered[:MOST_NAMED]
    ]
    more = len(unoffered) - MOST_NAMED
    return (*texts, f"{more} further resources are on no node") if more > 0 else tuple(texts)


def _rest(amounts: Amounts, names: frozenset[str]) -> Amounts:
    return tuple(pair for pair in amounts if pair[0] not in names)
