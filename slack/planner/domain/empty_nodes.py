"""The empty nodes that one domain offers, worked out once for cover, fill and mirrors alike."""

from dataclasses import dataclass, field

import numpy as np

from slack.cluster.class_index import ClassIndex
from slack.cluster.classes import Constraints, NodeClass, Taint
from slack.cluster.snapshot import CPU, MEMORY, BoolArray, IntArray
from slack.planner.domain.capacity import average_node
from slack.planner.domain.feasibility import NodeRows, Room, allowed, fits, room_of

_MOST_PLACEMENTS = 1000
_GAP = 1.03
"""Between the memory of two sizes of nodes."""
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

    room: Room
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
    """[R] cpu and memory of an empty node of the usual size, less DaemonSets; of a template where there is none."""
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


def empty_nodes_of(nodes: NodeRows, inside: BoolArray) -> EmptyNodes:
    """Collect what a domain with at least one eligible node or template offers.

    Args:
        nodes: its eligible nodes and templates.
        inside: which node classes belong to it.
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
        usual=usual_node(nodes),
    )


def usual_node(nodes: NodeRows) -> IntArray:
    """[R] what an empty node of the most usual size has for others than DaemonSets, of cpu and memory.

    Nodes of one type differ by some MiB, and a new one lacks some DaemonSets' pods for a while. So nodes of the same
    cpu whose memory follows one another without a gap of 3 % are one size, and the least that one of them has counts.
    Of sizes that are equally usual it is the smallest.
    """
    allocatable, daemon = nodes.allocatable, nodes.daemon
    if not len(allocatable):
        rows = [template.allocatable for template in nodes.templates]
        allocatable = np.array(rows, dtype=np.int64).reshape(-1, allocatable.shape[1])
        daemon = np.zeros_like(allocatable)
    found = np.zeros(allocatable.shape[1], dtype=np.int64)
    if not len(allocatable):
        return found
    order = np.lexsort((allocatable[:, 1], allocatable[:, 0]))
    cpu, memory = allocatable[order, 0], allocatable[order, 1]
    other = (cpu[1:] != cpu[:-1]) | (memory[1:] > memory[:-1] * _GAP)
    size = np.concatenate([[0], np.cumsum(other)])
    mine = order[size == np.argmax(np.bincount(size))]
    left = np.maximum(allocatable[mine] - daemon[mine], 0).min(axis=0)
    for resource, unit in UNITS.items():
        found[resource] = left[resource] // unit * unit
    return found
