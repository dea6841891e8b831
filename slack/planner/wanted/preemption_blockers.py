"""What keeps pods from taking the place of a policy's placeholders, whatever their size.

Judged once: the demand leaves such pods out, and an explanation says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np

from slack.cluster.classes import Constraints
from slack.cluster.labels import ANNOTATION_RESERVE, HOSTNAME
from slack.cluster.selectors import matches, resolved, terms_of
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot
from slack.planner.domain.counting import Counting, standing
from slack.planner.domain.host_names import refuses_hosts, requires_host
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache

_Labels = tuple[tuple[str, str], ...]
_NO_LABELS: Mapping[str, str] = {}
_BY_NAMESPACE = "namespaceSelector"


class PreemptionBlocker(StrEnum):
    """Each is enough; where several hold, the last one is the one to name."""

    SCHEDULER = "scheduler"
    """Another scheduler than the policy's: two do not see each other's nominations."""
    NO_NODE_LEFT = "no node left"
    """They avoid their own kind and stand on every node already."""
    PRIORITY = "priority"
    """Not above the placeholders'."""
    NEVER_PREEMPTS = "never preempts"
    """preemptionPolicy: Never. It keeps nobody out of capacity that is free, as that of unbound placeholders is."""
    HOST = "host"
    """They name hosts, and Karpenter takes no unbound placeholder that does."""


def preemption_blockers(
    snapshot: Snapshot, domain: Domain, rows: IntArray, counting: Counting, cache: PlanCache
) -> Iterator[tuple[PreemptionBlocker, IntArray]]:
    """Yield which of these kinds each blocker holds for, in the order of `PreemptionBlocker`.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        rows: of `Snapshot.kinds`.
        counting: how each kind counts for the policy.
        cache: of this domain.
    """
    kinds = snapshot.kinds
    apart = cache.compute(_apart, snapshot.constraints)
    running = cache.compute(standing, snapshot.presence, len(kinds), domain)
    yield PreemptionBlocker.SCHEDULER, rows[counting.foreign[rows]]
    yield PreemptionBlocker.NO_NODE_LEFT, _no_node_left(snapshot, domain, rows, apart, running)
    yield PreemptionBlocker.PRIORITY, rows[counting.not_above[rows]]
    if domain.policy.form.occupies_nodes:
        yield PreemptionBlocker.NEVER_PREEMPTS, rows[~kinds.preempts[rows]]
    if refuses_hosts(snapshot, domain.policy):
        yield PreemptionBlocker.HOST, rows[cache.compute(_on_hosts, snapshot.constraints)[kinds.constraint_id[rows]]]


def why_useless(snapshot: Snapshot, domain: Domain, rows: Sequence[int], counting: Counting) -> str | None:
    """Say why no pod of a workload can take a mirror's place; None if one can, or none is known.

    A mirror has the scheduler of its workload's pods, so that another one than the policy's does no harm.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        rows: of `Snapshot.kinds`, the workload's.
        counting: how each kind counts for the policy.
    """
    kinds, at = snapshot.kinds, np.array(rows, dtype=np.int64)
    if not domain.policy.form.occupies_nodes or not len(at):
        return None
    if not (counting.not_above[at] | ~kinds.preempts[at]).all():
        return None
    if not kinds.preempts[rows[0]]:
        return "preemptionPolicy Never: its pods cannot take a placeholder's place"
    return f"priority {kinds.priority[rows[0]]} is not above the placeholders': its pods cannot take their place"


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


def _no_node_left(snapshot: Snapshot, domain: Domain, rows: IntArray, apart: BoolArray, running: IntArray) -> IntArray:
    """Return the kinds that avoid their own pods and stand on every node already: no room on any of these helps them.

    Pods that have the same term and are selected by it stand on one node each, whatever kinds and workloads they are
    of: as many of them as there are nodes stand on every node.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        rows: of `Snapshot.kinds`.
        apart: [C] which constraints have pods avoid others over hosts.
        running: [K] bound pods of every kind on nodes of the domain.
    """
    kinds = snapshot.kinds
    rows = rows[apart[kinds.constraint_id[rows]]]
    if not len(rows):
        return rows
    there = _places(snapshot, domain, kinds.constraint_id[rows])
    counted = apart[kinds.constraint_id] & (running > 0)
    counted[rows] = True
    most: dict[str, int] = {}
    """By namespace: so many pods that avoid others. Fewer than there are nodes stand on every node for no term."""
    for k, pods in zip((at := np.flatnonzero(counted)).tolist(), running[at].tolist(), strict=True):
        namespace = kinds.workloads[k].namespace
        most[namespace] = most.get(namespace, 0) + pods
    tight = {
        namespace
        for k, places in zip(rows.tolist(), there.tolist(), strict=True)
        if 0 < places <= most[namespace := kinds.workloads[k].namespace]
    }
    terms = {k: _terms_of(snapshot, k) for k in at.tolist() if kinds.workloads[k].namespace in tight} if tight else {}
    by_term: dict[tuple[str, str], int] = {}
    for k, own in terms.items():
        for term in own:
            key = kinds.workloads[k].namespace, term
            by_term[key] = by_term.get(key, 0) + int(running[k])
    found = [
        k
        for k, places in zip(rows.tolist(), there.tolist(), strict=True)
        if places and any(by_term[kinds.workloads[k].namespace, term] >= places for term in terms.get(k, ()))
    ]
    return np.array(found, dtype=np.int64)


def _terms_of(snapshot: Snapshot, row: int) -> frozenset[str]:
    """Return the anti-affinity terms over hosts by which pods of a kind avoid one another, as texts."""
    kinds = snapshot.kinds
    anti_affinity = snapshot.constraints[kinds.constraint_id[row]].anti_affinity
    namespace = kinds.workloads[row].namespace
    about = tuple(snapshot.namespaces.get(namespace, _NO_LABELS).items()) if _BY_NAMESPACE in anti_affinity else ()
    return _own_terms(anti_affinity, namespace, kinds.labels[row], about)


@lru_cache(maxsize=16_384)
def _own_terms(anti_affinity: str, namespace: str, labels: _Labels, about: _Labels) -> frozenset[str]:
    """Return the terms over hosts by which pods avoid one another; `about`: labels of their namespace.

    They are kept by what they follow from: each plan asks for those of all kinds, and hardly one is new.
    """
    own = namespace, dict(labels)
    return frozenset(
        json.dumps(resolved(term, own[1]), sort_keys=True)
        for term in terms_of(anti_affinity)
        if term.get("topologyKey") == HOSTNAME and matches(term, own, own, {namespace: dict(about)})
    )


def why_no_node_left(snapshot: Snapshot, domain: Domain, row: int) -> str:
    """Say so of one kind, and what would help."""
    (places,) = _places(snapshot, domain, snapshot.kinds.constraint_id[[row]])
    return (
        f"its anti-affinity over {HOSTNAME}: each of its {places} nodes has one of its pods; annotate it with "
        f"{ANNOTATION_RESERVE} for room beyond them"
    )
