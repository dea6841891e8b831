"""Resources that only policies or placeholders name: no node and no pod of the snapshot may have any of them now.

A node group of GPUs that stands at zero is told by a node template, a floor may ask for GPUs before there are any, and
a placeholder may still request what the last real pod took with it. Their columns are added, with zeroes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.outcome import ExistingShape
from slack.planner.policy import Policy


def named(policies: Sequence[Policy], existing: Sequence[ExistingShape]) -> frozenset[str]:
    """Return the resources that policies and existing placeholders name."""
    names: set[str] = set()
    for policy in policies:
        size = policy.spec.extra_capacity
        names.update(size.floor, *(template.allocatable for template in policy.spec.node_templates))
        names.update(*(window.floor or {} for window in size.schedule))
    names.update(name for there in existing for name, _ in there.shape.requests)
    return frozenset(names - {"pods"})


def widened(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Return the snapshot with a column for each of these resources; itself where it has them all."""
    missing = sorted(names - set(snapshot.resources))
    if not missing:
        return snapshot
    # The order stays what a snapshot promises: cpu, memory, then the others by name.
    resources = (*snapshot.resources[:2], *sorted((*snapshot.resources[2:], *missing)))
    source = [snapshot.resources.index(name) if name in snapshot.resources else -1 for name in resources]
    have = np.array(source) >= 0

    def wide(table: IntArray) -> IntArray:
        padded: IntArray = np.where(have, table[..., source], 0)
        return padded

    nodes, kinds = snapshot.nodes, snapshot.kinds
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
        kinds=replace(kinds, requests=wide(kinds.requests)),
        reserved=tuple(replace(item, requests=wide(item.requests)) for item in snapshot.reserved),
    )
