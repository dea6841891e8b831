"""The ceiling: on which nodes a pod would bring the use of CPU or memory above a limit. Pure.

`/filter` and `/preempt` both decide by it. kube-scheduler's preemption does not ask `/filter` in its dry run: if only
`/filter` knew the ceiling, the scheduler would evict pods from a node that the pod may not use, again and again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from slack.cluster.wire import Pod
from slack.scorer.model import RESOURCES, IntArray, PodDemand
from slack.scorer.scoring import Basis

_CRITICAL_PRIORITY = 2_000_000_000
"""The lowest priority of the system (system-cluster-critical); users' classes have at most half of it."""
_WORDS = {"cpu": "CPU", "memory": "memory"}


class WhenAllAbove(StrEnum):
    """What happens to a pod if every node that the scheduler asks about is above the ceiling."""

    REFUSE = "Refuse"
    """It stays Pending until the load falls."""
    ADMIT = "Admit"
    """It may go to any of them; scores still prefer the coolest."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The limits, in percent of a node's capacity; None for none."""

    cpu_percent: float | None = None
    memory_percent: float | None = None
    when_all_above: WhenAllAbove = WhenAllAbove.REFUSE

    def __bool__(self) -> bool:
        """Say whether there is any limit."""
        return self.cpu_percent is not None or self.memory_percent is not None


def is_exempt(pod: Pod) -> bool:
    """Say whether a pod may go anywhere: those of DaemonSets have one node only, and the system's must run."""
    owner = pod.metadata.controller()
    priority = pod.spec.priority if pod.spec is not None else None
    return (owner is not None and owner.kind == "DaemonSet") or (priority or 0) >= _CRITICAL_PRIORITY


def nodes_above(basis: Basis, pod: PodDemand, rows: IntArray, ceiling: Ceiling) -> Mapping[str, str]:
    """Return why the pod may not go to nodes, by name; a node whose use is not known is not among them.

    Args:
        basis: what is known of the nodes.
        pod: what it asks for; its expected use counts.
        rows: of the nodes that are asked about.
        ceiling: the limits.
    """
    if pod.placeholder:
        return {}
    found: dict[str, str] = {}
    names, usage, capacity = basis.nodes.names, basis.usage, basis.nodes.capacity
    for resource, limit in enumerate((ceiling.cpu_percent, ceiling.memory_percent)):
        if limit is None:
            continue
        size = capacity[resource][rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            added = 100.0 * (usage.missing[resource][rows] + pod.predicted[resource]) / size
        expected = usage.mean_percent[resource][rows] + added
        above = usage.known[resource][rows] & (size > 0) & (expected > limit)
        word = _WORDS[RESOURCES[resource]]
        for row, percent in zip(rows[above].tolist(), expected[above].tolist(), strict=True):
            found.setdefault(names[row], f"{word} would be {percent:.0f} % used, above {limit:g} %")
    return found
