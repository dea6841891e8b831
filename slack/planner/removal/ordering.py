"""In which order placeholders leave: one numbered list of criteria, and each caller names those that it uses.

Used where a shape shrinks (`victims`), where a node is overcommitted (`pushed_out`), where a burst of pods needs room
(`burst_eviction.pick`, `burst_eviction.choice`) and where a pod grows (`burst_eviction.growth`). Two facts stand before
all criteria:

- A ReplicaSet controller takes pending pods before bound ones, whatever anybody has chosen.
- A choice that is made stands: pods that are marked already leave first (`marked_first`).
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.cluster.wire import Pod

Key = np.ndarray[tuple[int, ...], np.dtype[Any]]
"""[X] a number per placeholder; the lowest leaves first."""


class Criterion(IntEnum):
    """The criteria, in the order in which they are compared: the first that tells two placeholders apart decides."""

    PRIORITY = 1
    """The lowest priority first, as the scheduler preempts."""
    STRANGER = 2
    """Those that are not on nodes of their policy first; if another policy counts on them, last."""
    DELETION_CANDIDATE = 3
    """Those on nodes that the autoscaler has tainted as deletion candidates first."""
    EMPTIES_NODE = 4
    """Those on nodes without other pods, DaemonSets aside, first: once they have left, the node is empty."""
    CROWD = 5
    """On nodes without other pods the fewest placeholders first, on other nodes the most."""
    PODS_LET_IN = 6
    """Those first that let in the most of the pods that lack room."""
    COST = 7
    """The smallest share of a node first."""
    AGE = 8
    """The newest first: the last one to come made it too much."""
    TURN = 9
    """In the turn in which ReplicaSet controllers would take them away (`scale_down_turns`)."""
    NAME = 10
    """By the name of the node, or by row. Whatever is equal in all of that leaves in the order given."""


def order_of_leaving(keys: Mapping[Criterion, Key], within: IntArray | None = None) -> IntArray:
    """Return the rows of placeholders in the order in which they leave.

    Args:
        keys: by criterion, [X] a number per placeholder; the lowest leaves first.
        within: [X] groups that stay together, in the order of their numbers: an order per node.
    """
    columns = [keys[criterion] for criterion in sorted(keys, reverse=True)]
    # The last key of lexsort is the first criterion.
    order: IntArray = np.lexsort(columns if within is None else [*columns, within])
    return order


def newest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods with those before that were created last; of the same second the last name."""
    return sorted(pods, key=_created, reverse=True)


def marked_first(marks: Mapping[str, int], order: Iterable[str]) -> list[str]:
    """Return names in the order in which they leave: those that are marked already, then the others.

    Args:
        marks: deletion costs by name; the lowest leaves first.
        order: names in the order that was chosen now.
    """
    return list(dict.fromkeys([*sorted(marks, key=lambda name: marks[name]), *order]))


def _created(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)
