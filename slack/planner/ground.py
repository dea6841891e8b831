"""The empty nodes that one domain offers, worked out once for cover, fill and mirrors alike."""

from dataclasses import dataclass, field

import numpy as np

from slack.cluster.classes import Constraints, NodeClass, Taint, admits
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.capacity import average_node
from slack.planner.domain import Domain
from slack.planner.feasible import Room, allowed, fits, room_of

_MOST_FOOTINGS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Footing:
    """Where placeholders with certain constraints could stand."""

    reach: BoolArray
    """[D] node classes of the domain."""
    rows: BoolArray
    """[M] empty nodes of `Ground.room`."""
    strays: bool
    """They could go to nodes outside the domain as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Where the placeholders of a domain could stand."""

    room: Room
    classes: tuple[NodeClass, ...]
    """Node classes of the domain, then those of its templates: the columns of `Demand.reach`."""
    others: tuple[NodeClass, ...]
    """Node classes of the cluster that are not in the domain."""
    taints: tuple[Taint, ...]
    """Taints of `classes`."""
    allocatable: IntArray
    """[M, R] of the eligible nodes; of the templates where there is none."""
    average: IntArray
    """[R] average node, the measure of cost; a template's for what no node has."""
    footings: dict[Constraints, Footing] = field(default_factory=dict)
    """What has been worked out: many shapes share few constraints."""

    def footing(self, constraints: Constraints) -> Footing:
        """Return where placeholders with these constraints could stand."""
        found = self.footings.get(constraints)
        if found is None:
            if len(self.footings) >= _MOST_FOOTINGS:
                self.footings.clear()  # a ground may last for days, and the constraints of shapes do not
            found = self.footings[constraints] = Footing(
                reach=np.array([admits(constraints, node_class) for node_class in self.classes], dtype=bool),
                rows=allowed(self.room, constraints),
                strays=any(admits(constraints, node_class) for node_class in self.others),
            )
        return found

    def holds(self, vector: IntArray, constraints: Constraints) -> bool:
        """Tell whether one placeholder fits an empty node that its constraints lead to (S3)."""
        return fits(self.room, vector, self.footing(constraints).rows)


def ground_of(snapshot: Snapshot, domain: Domain) -> Ground:
    """Collect what a domain with at least one eligible node or template offers."""
    mine = [c for c, inside in zip(snapshot.node_classes, domain.classes, strict=True) if inside]
    classes = (*mine, *(template.node_class for template in domain.templates))
    allocatable = snapshot.nodes.allocatable[domain.eligible]
    templates = np.array([t.allocatable for t in domain.templates], dtype=np.int64).reshape(-1, allocatable.shape[1])
    if not len(allocatable):
        allocatable = templates
    average = average_node(allocatable)
    return Ground(
        room=room_of(snapshot, domain),
        classes=classes,
        others=tuple(c for c, inside in zip(snapshot.node_classes, domain.classes, strict=True) if not inside),
        taints=tuple(sorted({taint for node_class in classes for taint in node_class.taints})),
        allocatable=allocatable,
        average=np.where(average > 0, average, average_node(templates)),
    )
