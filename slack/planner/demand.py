"""Which real pods a policy keeps room for, and how much each kind weighs.

A kind belongs to the domains where its pods stand; one that stands nowhere yet, to those that it could go to. Pods that
could not take a placeholder's place whatever its size are named as uncovered, with the reason.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slack.cluster.classes import admits
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot, Workload
from slack.planner.cover import FloatArray
from slack.planner.domain import Domain
from slack.planner.mirror import HOSTNAME
from slack.planner.outcome import Uncovered
from slack.planner.policy import PodSelector
from slack.planner.vectors import any_of, distinct, holds

_KINDS = {
    "deployment": "deploy",
    "replicaset": "rs",
    "statefulset": "sts",
    "daemonset": "ds",
    "job": "job",
    "cronjob": "cronjob",
    "pod": "pod",
}


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The kinds that a domain's cover is to make room for; K of them."""

    rows: IntArray
    """[K] rows of `Snapshot.kinds`."""
    requests: IntArray
    """[K, R]"""
    reach: BoolArray
    """[K, D + T] which node classes of the domain, and templates, each may go to."""
    weight: FloatArray
    """[K] arrivals in the window, or running replicas where these are more (a kind without history yet)."""
    uncovered: tuple[Uncovered, ...]


def standing(snapshot: Snapshot, classes: BoolArray) -> IntArray:
    """[K] bound pods of every kind on nodes of these classes."""
    here = classes[snapshot.presence.node_class]
    counts = np.bincount(
        snapshot.presence.kind[here], weights=snapshot.presence.count[here], minlength=len(snapshot.kinds)
    )
    return counts.astype(np.int64)


def domain_reach(snapshot: Snapshot, domain: Domain) -> BoolArray:
    """[C, D + T] which constraints may go to which of the domain's node classes and templates."""
    reach = snapshot.reach[:, domain.classes]
    if not domain.templates:
        return reach
    templates = np.array(
        [[admits(constraints, t.node_class) for t in domain.templates] for constraints in snapshot.constraints],
        dtype=bool,
    ).reshape(len(snapshot.constraints), len(domain.templates))
    return np.concatenate([reach, templates], axis=1)


def _selected(selector: PodSelector, workload: Workload) -> bool:
    kind = selector.owner_kind.lower()
    return (
        selector.namespace in ("", workload.namespace)
        and (not kind or _KINDS.get(kind, kind) == workload.kind)
        and selector.name in ("", workload.name)
    )


def no_node_left(snapshot: Snapshot, domain: Domain, rows: IntArray) -> Iterator[tuple[int, str]]:
    """Yield the kinds that avoid their own pods and stand on every node already: no room on any of these helps them.

    Whether a term is against its own pods is read from the selector's values: kinds have no labels.
    """
    kinds, nodes = snapshot.kinds, snapshot.nodes
    apart = np.array([HOSTNAME in constraints.anti_affinity for constraints in snapshot.constraints], dtype=bool)
    per_class = np.bincount(nodes.class_id[domain.eligible], minlength=len(snapshot.node_classes))
    places = snapshot.reach @ (per_class * domain.classes)
    of = kinds.constraint_id[rows]
    for k in rows[apart[of] & (places[of] > 0) & (kinds.running[rows] >= places[of])]:
        for term in json.loads(snapshot.constraints[kinds.constraint_id[k]].anti_affinity):
            values = str((term.get("labelSelector") or {}).values())
            if term.get("topologyKey") == HOSTNAME and kinds.workloads[k].name in values:
                why = f"each of its {places[kinds.constraint_id[k]]} nodes has one of its pods; annotate it with"
                yield (
                    int(k),
                    f"its anti-affinity over {HOSTNAME}: {why} resource-slack.io/reserve for room beyond them",
                )


def _reasons(snapshot: Snapshot, domain: Domain, rows: IntArray, priority: int) -> dict[int, str]:
    """Return the kinds among `rows` that no placeholder can help, and why; only these are looked at one by one."""
    kinds, spec = snapshot.kinds, domain.policy.spec
    schedulers = [constraints.scheduler_name for constraints in snapshot.constraints]
    foreign = np.array([name != spec.scheduler_name for name in schedulers], dtype=bool)[kinds.constraint_id[rows]]
    reasons: dict[int, str] = {}
    for k in rows[foreign]:
        scheduler = schedulers[kinds.constraint_id[k]]
        reasons[int(k)] = f"scheduler {scheduler}: two schedulers do not see each other's nominations"
    reasons.update(no_node_left(snapshot, domain, rows))
    for k in rows[kinds.priority[rows] <= priority]:
        reasons[int(k)] = f"priority {kinds.priority[k]} is not above the placeholders' ({priority})"
    for k in rows[~kinds.preempts[rows]]:
        reasons[int(k)] = "preemptionPolicy Never: it cannot take a placeholder's place"
    if spec.cover.exclude:
        for k in rows:
            if any(_selected(selector, kinds.workloads[k]) for selector in spec.cover.exclude):
                reasons[int(k)] = "excluded by spec.cover.exclude"
    for k in rows[kinds.excluded[rows]]:
        reasons[int(k)] = "excluded by annotation"
    return reasons


def demand_of(snapshot: Snapshot, domain: Domain, *, priority: int, mirrored: BoolArray) -> Demand:
    """Collect a domain's demand.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        priority: value of the placeholders' PriorityClass.
        mirrored: [K] kinds whose workloads have placeholders of their own (S7); the cover leaves them out.
    """
    kinds = snapshot.kinds
    reach = domain_reach(snapshot, domain)[kinds.constraint_id]
    here = standing(snapshot, domain.classes) > 0
    belongs = reach.any(axis=1) & (here | (kinds.running == 0))
    if not (belongs & (here | (kinds.pending > 0))).any():
        belongs[:] = False  # the last pod has gone: what once arrived must not hold a node by itself (R3)
    needs_room = kinds.requests.any(axis=1)  # a pod that requests nothing starts at once wherever a slot is free
    rows = np.flatnonzero(belongs & needs_room & ~mirrored)
    reasons = _reasons(snapshot, domain, rows, priority)
    uncovered = {str(kinds.workloads[k]): reasons[k] for k in sorted(reasons)}
    if reasons:
        rows = rows[~np.isin(rows, list(reasons))]
    return Demand(
        rows=rows,
        requests=kinds.requests[rows],
        reach=reach[rows],
        weight=np.maximum(kinds.arrivals[rows], kinds.running[rows] + kinds.pending[rows]).astype(np.float64),
        uncovered=tuple(Uncovered(pod, reason) for pod, reason in sorted(uncovered.items())),
    )


def pending_shares(snapshot: Snapshot, domains: tuple[Domain, ...]) -> tuple[IntArray, ...]:
    """Give each kind with pending pods to the domain whose base it belongs to.

    That is where most of its pods stand, or the least specific domain that it could go to. Pods that fit no domain are
    in no base: they would ask for slack that nothing can hold.
    """
    kinds = snapshot.kinds
    waiting = np.flatnonzero(kinds.pending > 0)
    if not len(domains) or not len(waiting):
        return tuple(np.zeros(0, dtype=np.int64) for _ in domains)
    most = snapshot.nodes.allocatable - snapshot.nodes.daemon
    scores = []
    for domain in domains:
        can = domain_reach(snapshot, domain)[kinds.constraint_id[waiting]].any(axis=1) & (not domain.conflict)
        rows = [most[domain.members], *(t.allocatable[None, :] for t in domain.templates)]
        empty, _ = distinct(np.concatenate(rows))
        can &= any_of(holds(empty, kinds.requests[waiting]))
        specific = len(domain.policy.spec.node_selector)
        stand = standing(snapshot, domain.classes)[waiting]
        scores.append(np.where(can, 1 + stand * 1_000 + max(0, 999 - specific), 0))
    table = np.stack(scores)
    owner = np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1)
    return tuple(waiting[owner == i] for i in range(len(domains)))
