"""What keeps pods from taking the place of a policy's placeholders, whatever their size.

Judged once: the demand leaves such pods out, and an explanation says so.
"""

import json
from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.labels import ANNOTATION_RESERVE, HOSTNAME
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.domain.counting import Counting
from slack.planner.domain.host_names import refuses_hosts, requires_host
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache


class Hindrance(StrEnum):
    """Each is enough; where several hold, the last one is the one to name."""

    SCHEDULER = "scheduler"
    """Another scheduler than the policy's: two do not see each other's nominations."""
    NO_NODE_LEFT = "no node left"
    """They avoid their own kind and stand on every node already."""
    PRIORITY = "priority"
    """Not above the placeholders'."""
    NEVER_PREEMPTS = "never preempts"
    """preemptionPolicy: Never."""
    HOST = "host"
    """They name hosts, and Karpenter takes no unbound placeholder that does."""


def hindrances(
    snapshot: Snapshot, domain: Domain, rows: IntArray, counting: Counting, cache: PlanCache
) -> Iterator[tuple[Hindrance, IntArray]]:
    """Yield which of these kinds each hindrance holds for, in the order of `Hindrance`.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        rows: of `Snapshot.kinds`.
        counting: how each kind counts for the policy.
        cache: of this domain.
    """
    kinds = snapshot.kinds
    apart = cache.of(_apart, snapshot.constraints)
    yield Hindrance.SCHEDULER, rows[counting.foreign[rows]]
    yield Hindrance.NO_NODE_LEFT, _no_node_left(snapshot, domain, rows, apart)
    yield Hindrance.PRIORITY, rows[counting.not_above[rows]]
    yield Hindrance.NEVER_PREEMPTS, rows[~kinds.preempts[rows]]
    if refuses_hosts(snapshot, domain.policy):
        yield Hindrance.HOST, rows[cache.of(_on_hosts, snapshot.constraints)[kinds.constraint_id[rows]]]


def _apart(constraints: tuple[Constraints, ...]) -> BoolArray:
    """[C] which constraints have pods avoid others over hosts."""
    return np.array([HOSTNAME in own.anti_affinity for own in constraints], dtype=bool)


def _on_hosts(constraints: tuple[Constraints, ...]) -> BoolArray:
    """[C] which constraints name hosts."""
    return np.array([requires_host(own) for own in constraints], dtype=bool)


def _places(snapshot: Snapshot, domain: Domain, constraint_id: IndexArray) -> IntArray:
    """Return on how many nodes of the domain pods with each of these constraints may go."""
    per_class = np.bincount(snapshot.nodes.class_id[domain.eligible], minlength=len(snapshot.node_classes))
    places: IntArray = snapshot.reach[constraint_id] @ (per_class * domain.classes)
    return places


def _no_node_left(snapshot: Snapshot, domain: Domain, rows: IntArray, apart: BoolArray) -> IntArray:
    """Return the kinds that avoid their own pods and stand on every node already: no room on any of these helps them.

    Whether a term is against its own pods is read from the selector's values: kinds have no labels.
    """
    kinds = snapshot.kinds
    rows = rows[apart[kinds.constraint_id[rows]]]
    if not len(rows):
        return rows
    there = _places(snapshot, domain, kinds.constraint_id[rows])
    found = []
    for k in rows[(there > 0) & (kinds.running[rows] >= there)].tolist():
        for term in json.loads(snapshot.constraints[kinds.constraint_id[k]].anti_affinity):
            values = str((term.get("labelSelector") or {}).values())
            if term.get("topologyKey") == HOSTNAME and kinds.workloads[k].name in values:
                found.append(k)
    return np.array(found, dtype=np.int64)


def why_no_node_left(snapshot: Snapshot, domain: Domain, row: int) -> str:
    """Say so of one kind, and what would help."""
    (places,) = _places(snapshot, domain, snapshot.kinds.constraint_id[[row]])
    return (
        f"its anti-affinity over {HOSTNAME}: each of its {places} nodes has one of its pods; annotate it with "
        f"{ANNOTATION_RESERVE} for room beyond them"
    )
