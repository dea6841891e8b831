"""The empty nodes that one domain offers, worked out once for cover, fill and mirrors alike."""

from dataclasses import dataclass, field

import numpy as np

from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import Constraints, NodeClass, Taint
from slack.cluster.snapshot import CPU, MEMORY, BoolArray, IntArray
from slack.planner.domain.capacity import average_node
from slack.planner.domain.feasibility import EmptyNodeCapacity, NodeRows, allowed, fits, room_of
from slack.planner.model.vectors import any_of

_MOST_PLACEMENTS = 1000
_GAP = 1.03
"""Between the memory of two sizes of nodes."""
_ACCELERATORS = (
    "nvidia.com/",
    "amd.com/gpu",
    "gpu.intel.com/",
    "habana.ai/",
    "aws.amazon.com/neuron",
    "google.com/tpu",
    "huawei.com/Ascend",
)
"""Prefixes of resources for which nodes are bought. Others, such as network interfaces and /dev/kvm, are no reason for
a node, and some are made for each pod that requests them."""
UNITS = {CPU: 10, MEMORY: 1 << 20}
"""Amounts are rounded to 10m and 1Mi, so that they read well and move less."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where placeholders with certain constraints could stand."""

    reach: BoolArray
    """[D] node classes of the domain."""
    rows: BoolArray
    """[M] empty nodes of `EmptyNodes.room`."""
    strays: bool
    """They could go to nodes outside the domain as well."""


@dataclass(frozen=True, slots=True, eq=False)
class EmptyNodes:
    """Where the placeholders of a domain could stand."""

    room: EmptyNodeCapacity
    classes: tuple[NodeClass, ...]
    """Node classes of the domain, then those of its templates: the columns of `Demand.reach`."""
    index: ClassIndex = field(compare=False, repr=False)
    """Of `classes`."""
    others: tuple[NodeClass, ...]
    """Node classes of the cluster that are not in the domain."""
    elsewhere: ClassIndex = field(compare=False, repr=False)
    """Of `others`."""
    taints: tuple[Taint, ...]
    """Taints of `classes`."""
    allocatable: IntArray
    """[M, R] of the eligible nodes; of the templates where there is none."""
    average: IntArray
    """[R] average node, the measure of cost; a template's for what no node has."""
    usual: IntArray
    """[R] cpu, memory and accelerators of an empty node of the usual size, less DaemonSets; of a template where there
    is none."""
    placements: dict[Constraints, Placement] = field(default_factory=dict, compare=False)
    """What has been worked out of the rest: many shapes share few constraints."""

    def placement(self, constraints: Constraints) -> Placement:
        """Return where placeholders with these constraints could stand."""
        found = self.placements.get(constraints)
        if found is None:
            if len(self.placements) >= _MOST_PLACEMENTS:
                self.placements.clear()  # it may last for days, and the constraints of shapes do not
            found = self.placements[constraints] = Placement(
                reach=self.index.admitted(constraints),
                rows=allowed(self.room, constraints),
                strays=bool(self.elsewhere.admitted(constraints).any()),
            )
        return found

    def hosts(self, constraints: Constraints) -> IntArray:
        """[M, R] what the empty nodes hold that these constraints lead to."""
        rows: IntArray = self.room.capacity[self.placement(constraints).rows & (self.room.slots > 0)]
        return rows

    def holds(self, vector: IntArray, constraints: Constraints) -> bool:
        """Tell whether one placeholder fits an empty node that its constraints lead to (S3)."""
        return fits(self.room, vector, self.placement(constraints).rows)


def empty_nodes_of(nodes: NodeRows, inside: BoolArray, resources: tuple[str, ...]) -> EmptyNodes:
    """Collect what a domain with at least one eligible node or template offers.

    Args:
        nodes: its eligible nodes and templates.
        inside: which node classes belong to it.
        resources: names of the R resources.
    """
    mine = [c for c, is_inside in zip(nodes.classes, inside, strict=True) if is_inside]
    classes = (*mine, *(template.node_class for template in nodes.templates))
    allocatable = nodes.allocatable
    templates = np.array([t.allocatable for t in nodes.templates], dtype=np.int64).reshape(-1, allocatable.shape[1])
    if not len(allocatable):
        allocatable = templates
    average = average_node(allocatable)
    others = tuple(c for c, is_inside in zip(nodes.classes, inside, strict=True) if not is_inside)
    return EmptyNodes(
        room=room_of(nodes),
        classes=classes,
        index=ClassIndex(classes),
        others=others,
        elsewhere=ClassIndex(others),
        taints=tuple(sorted({taint for node_class in classes for taint in node_class.taints})),
        allocatable=allocatable,
        average=np.where(average > 0, average, average_node(templates)),
        usual=usual_node(nodes, resources),
    )


def usual_node(nodes: NodeRows, resources: tuple[str, ...]) -> IntArray:
    """[R] what an empty node of the most usual size has for others than DaemonSets: cpu, memory and accelerators.

    1. Nodes of one type differ by some MiB. So nodes with the same cpu and accelerators whose memory follows one
       another without a gap of 3 % are one size. Of sizes that are equally usual it is the smallest.
    2. Of each resource, the median of what DaemonSets take on nodes of this size is usual, the larger one of two. So a
       node with a DaemonSet of its own does not count, nor does a new one that still lacks some.
    3. Of each resource, the least that a node has left whose DaemonSets take no more than is usual.

    So at least half of these nodes have as much of each resource, and one of them has all of it.
    """
    allocatable, daemon = nodes.allocatable, nodes.daemon
    if not len(allocatable):
        rows = [template.allocatable for template in nodes.templates]
        allocatable = np.array(rows, dtype=np.int64).reshape(-1, allocatable.shape[1])
        daemon = np.zeros_like(allocatable)
    found = np.zeros(allocatable.shape[1], dtype=np.int64)
    if not len(allocatable):
        return found
    further = [r for r, name in enumerate(resources) if name.startswith(_ACCELERATORS)]
    keys = allocatable[:, [CPU, *further]]
    order = np.lexsort((allocatable[:, MEMORY], *keys.T[::-1]))
    sorted_keys, memory = keys[order], allocatable[order, MEMORY]
    other = any_of(sorted_keys[1:] != sorted_keys[:-1], axis=1) | (memory[1:] > memory[:-1] * _GAP)
    size = np.concatenate([[0], np.cumsum(other)])
    mine = order[size == np.argmax(np.bincount(size))]
    taken = daemon[mine]
    usual = taken <= np.sort(taken, axis=0)[len(mine) // 2]
    left = np.maximum(allocatable[mine] - taken, 0).min(axis=0, where=usual, initial=np.iinfo(np.int64).max)
    for resource in (CPU, MEMORY, *further):
        unit = UNITS.get(resource, 1)
        found[resource] = left[resource] // unit * unit
    return found
