"""Which step of a ladder holds: a rate and a floor by the size of the cluster.

The size is what real pods need, and not how many nodes there are: nodes that the slack itself brings would lower a
rate, go, and raise it again, for ever. Only `fromAllocatable` takes the nodes as they are, as the proportional
autoscalers do whose ladders it stands for. A step that holds is left only when the size is a tenth below it, so that a
load near it does not swing either; with slack per zone one step holds for the whole domain.
"""

from dataclasses import dataclass

import numpy as np

from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.capacity import RATED, average_node, rated
from slack.planner.domain.counting import Counting, bound_requests
from slack.planner.domain.membership import Domain
from slack.planner.policy.spec import LadderStep

Held = frozenset[str]
"""Steps that hold, each as JSON: a step that somebody edits is another."""
_LEFT = 0.9
"""A step is left below this share of what it begins at."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSize:
    """How large a domain is for its ladder."""

    nodes: float
    """Nodes that real pods fill."""
    requested: IntArray
    """[R] what they request."""
    allocatable: IntArray
    """[R] what its ready and schedulable nodes have."""


def cluster_size(snapshot: Snapshot, domain: Domain, pending: IntArray, counting: Counting) -> ClusterSize:
    """Measure a domain by its real pods.

    Each node counts by the share of it that its pods request, so that one which only slack keeps counts for nothing. Of
    these shares that part counts which is part of the base. Pods that wait count as shares of an average node.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        pending: [R] what its pending pods request.
        counting: how each kind counts for the policy.
    """
    nodes, members = snapshot.nodes, domain.members
    room = np.maximum(nodes.allocatable[members] - nodes.daemon[members], 0)
    real = np.clip(nodes.real, 0, nodes.allocatable)[members]
    average = average_node(room if len(room) else np.array([t.allocatable for t in domain.templates] or [pending]))
    bound = bound_requests(snapshot, domain.classes, counting)
    part = bound / np.maximum(real.sum(axis=0, dtype=np.int64), 1)
    shares = np.where(room > 0, real / np.maximum(room, 1), 0.0).sum(axis=0) * part + pending / np.maximum(average, 1)
    allocatable = nodes.allocatable[domain.eligible].sum(axis=0, dtype=np.int64)
    return ClusterSize(float(shares[:RATED].max()), bound + pending, allocatable)


def ladder_step(
    domain: Domain, size: ClusterSize, resources: tuple[str, ...], held: Held | None, there: IntArray
) -> tuple[LadderStep | None, Held]:
    """Return the last step that holds, None where none does, and the steps that hold.

    Args:
        domain: of the policy.
        size: of the domain.
        resources: names of the R resources.
        held: the steps that held before; None after a restart: then a step within its margin holds where it
            explains better what is there.
        there: [R] what the policy's placeholders were asked to request.
    """
    ladder = domain.policy.spec.extra_capacity.ladder
    names = [step.model_dump_json() for step in ladder]
    reached = [_holds(step, size, resources, 1.0) for step in ladder]
    margin = [_holds(step, size, resources, _LEFT) for step in ladder]
    kept = [m and (r or (held is not None and name in held)) for name, r, m in zip(names, reached, margin, strict=True)]
    if held is None and margin != reached and there.any():
        kept = min((reached, margin), key=lambda holds: _distance(_last(ladder, holds), size, resources, there))
    return _last(ladder, kept), frozenset(name for name, holds in zip(names, kept, strict=True) if holds)


def _last(ladder: tuple[LadderStep, ...], holds: list[bool]) -> LadderStep | None:
    return next((step for step, is_held in reversed(list(zip(ladder, holds, strict=True))) if is_held), None)


def _distance(step: LadderStep | None, size: ClusterSize, resources: tuple[str, ...], there: IntArray) -> float:
    wanted = rated(size.requested, 0.0 if step is None else step.min_rate)[:RATED]
    if step is not None:
        wanted = np.maximum(wanted, [step.floor.get(name, 0) for name in resources[:RATED]])
    return float((abs(wanted - there[:RATED]) / np.maximum(size.requested[:RATED], 1)).sum())


def _holds(step: LadderStep, size: ClusterSize, resources: tuple[str, ...], share: float) -> bool:
    """Tell whether a step holds that is entered at its threshold and left at a share of it."""
    if step.from_nodes is not None:
        # The twentieth node is needed as soon as nineteen are full.
        return step.from_nodes <= 0 or size.nodes > (step.from_nodes - 1) * share + 1e-9
    measured, thresholds = (
        (size.requested, step.from_requested)
        if step.from_allocatable is None
        else (size.allocatable, step.from_allocatable)
    )
    return all(
        measured[resources.index(name)] >= amount * share if name in resources else amount == 0
        for name, amount in (thresholds or {}).items()
    )
