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
from slack.planner.kept import Kept
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
    heaviness: IntArray
    """[K] the same without pending pods: by this workloads are listed."""
    uncovered: tuple[Uncovered, ...]


def standing(snapshot: Snapshot, domain: Domain, kept: Kept) -> IntArray:
    """[K] bound pods of every kind on nodes of the domain."""
    presence = snapshot.presence

    def count() -> IntArray:
        here = domain.classes[presence.node_class]
        counts = np.bincount(presence.kind[here], weights=presence.count[here], minlength=len(snapshot.kinds))
        return counts.astype(np.int64)

    return kept.of("standing", (presence, snapshot.kinds.workloads, domain), count)


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


def kinds_reach(snapshot: Snapshot, domain: Domain, kept: Kept) -> tuple[BoolArray, BoolArray]:
    """[K, D + T] which kinds may go to which of the domain's node classes and templates, and [K] to any of them."""
    constraint_id = snapshot.kinds.constraint_id

    def look() -> tuple[BoolArray, BoolArray]:
        reach = domain_reach(snapshot, domain)[constraint_id]
        return reach, any_of(reach, axis=1)

    return kept.of("kinds' reach", (snapshot.reach, snapshot.constraints, constraint_id, domain), look)


def _selected(selector: PodSelector, workload: Workload) -> bool:
    kind = selector.owner_kind.lower()
    return (
        selector.namespace in ("", workload.namespace)
        and (not kind or _KINDS.get(kind, kind) == workload.kind)
        and selector.name in ("", workload.name)
    )


def _places_apart(snapshot: Snapshot, domain: Domain, kept: Kept) -> IntArray:
    """[C] nodes of the domain that pods may go to which avoid each other over hosts; 0 for pods that do not."""
    class_id, reach, constraints = snapshot.nodes.class_id, snapshot.reach, snapshot.constraints

    def count() -> IntArray:
        apart = np.array([HOSTNAME in one.anti_affinity for one in constraints], dtype=bool)
        per_class = np.bincount(class_id[domain.eligible], minlength=len(snapshot.node_classes))
        places: IntArray = (reach @ (per_class * domain.classes)) * apart
        return places

    return kept.of("places apart", (class_id, reach, constraints, snapshot.node_classes, domain), count)


def no_node_left(snapshot: Snapshot, domain: Domain, rows: IntArray, kept: Kept) -> Iterator[tuple[int, str]]:
    """Yield the kinds that avoid their own pods and stand on every node already: no room on any of these helps them.

    Whether a term is against its own pods is read from the selector's values: kinds have no labels.
    """
    kinds = snapshot.kinds
    places = _places_apart(snapshot, domain, kept)
    there = places[kinds.constraint_id[rows]]
    for k in rows[(there > 0) & (kinds.running[rows] >= there)]:
        for term in json.loads(snapshot.constraints[kinds.constraint_id[k]].anti_affinity):
            values = str((term.get("labelSelector") or {}).values())
            if term.get("topologyKey") == HOSTNAME and kinds.workloads[k].name in values:
                why = f"each of its {places[kinds.constraint_id[k]]} nodes has one of its pods; annotate it with"
                yield (
                    int(k),
                    f"its anti-affinity over {HOSTNAME}: {why} resource-slack.io/reserve for room beyond them",
                )


def _foreign(snapshot: Snapshot, domain: Domain, kept: Kept) -> BoolArray:
    """[C] constraints that name another scheduler than the policy's."""
    constraints, own = snapshot.constraints, domain.policy.spec.scheduler_name
    return kept.of(
        "foreign",
        (constraints, domain),
        lambda: np.array([one.scheduler_name != own for one in constraints], dtype=bool),
    )


def _left_out(snapshot: Snapshot, domain: Domain, kept: Kept) -> BoolArray:
    """[K] kinds that the policy's `cover.exclude` names."""
    workloads, exclude = snapshot.kinds.workloads, domain.policy.spec.cover.exclude

    def select() -> BoolArray:
        return np.array([any(_selected(one, workload) for one in exclude) for workload in workloads], dtype=bool)

    return kept.of("left out", (workloads, domain), select)


def _reasons(snapshot: Snapshot, domain: Domain, rows: IntArray, priority: int, kept: Kept) -> dict[int, str]:
    """Return the kinds among `rows` that no placeholder can help, and why; only these are looked at one by one."""
    kinds = snapshot.kinds
    reasons: dict[int, str] = {}
    for k in rows[_foreign(snapshot, domain, kept)[kinds.constraint_id[rows]]]:
        scheduler = snapshot.constraints[kinds.constraint_id[k]].scheduler_name
        reasons[int(k)] = f"scheduler {scheduler}: two schedulers do not see each other's nominations"
    reasons.update(no_node_left(snapshot, domain, rows, kept))
    for k in rows[kinds.priority[rows] <= priority]:
        reasons[int(k)] = f"priority {kinds.priority[k]} is not above the placeholders' ({priority})"
    for k in rows[~kinds.preempts[rows]]:
        reasons[int(k)] = "preemptionPolicy Never: it cannot take a placeholder's place"
    for k in rows[_left_out(snapshot, domain, kept)[rows]]:
        reasons[int(k)] = "excluded by spec.cover.exclude"
    for k in rows[kinds.excluded[rows]]:
        reasons[int(k)] = "excluded by annotation"
    return reasons


def demand_of(snapshot: Snapshot, domain: Domain, *, priority: int, mirrored: BoolArray, kept: Kept) -> Demand:
    """Collect a domain's demand.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        priority: value of the placeholders' PriorityClass.
        mirrored: [K] kinds whose workloads have placeholders of their own (S7); the cover leaves them out.
        kept: of this domain.
    """
    kinds = snapshot.kinds
    reach, reaches = kinds_reach(snapshot, domain, kept)
    here = standing(snapshot, domain, kept) > 0
    belongs = reaches & (here | (kinds.running == 0))
    if not (belongs & (here | (kinds.pending > 0))).any():
        belongs[:] = False  # the last pod has gone: what once arrived must not hold a node by itself (R3)
    # A pod that requests nothing starts at once wherever a slot is free.
    needs_room = kept.of("needs room", (kinds.requests,), lambda: kinds.requests.any(axis=1))
    rows = np.flatnonzero(belongs & needs_room & ~mirrored)
    reasons = _reasons(snapshot, domain, rows, priority, kept)
    uncovered = {str(kinds.workloads[k]): reasons[k] for k in sorted(reasons)}
    if reasons:
        helped = np.ones(len(kinds), dtype=bool)
        helped[list(reasons)] = False
        rows = rows[helped[rows]]
    rows = kept.same("rows", rows)
    requests, rows_reach = kept.of(
        "of these rows", (rows, kinds.requests, reach), lambda: (kinds.requests[rows], reach[rows])
    )
    arrivals, running = kinds.arrivals[rows], kinds.running[rows]
    found = Demand(
        rows=rows,
        requests=requests,
        reach=rows_reach,
        weight=np.maximum(arrivals, running + kinds.pending[rows]).astype(np.float64),
        heaviness=np.maximum(arrivals, running),
        uncovered=tuple(Uncovered(pod, reason) for pod, reason in sorted(uncovered.items())),
    )
    return kept.same("demand", found)


def _empty_nodes(snapshot: Snapshot, domain: Domain, kept: Kept) -> IntArray:
    """[M, R] what the domain's nodes, ready or not, and templates have without pods; distinct rows."""
    nodes, members = snapshot.nodes, domain.members
    room = kept.same("members' room", nodes.allocatable[members] - nodes.daemon[members])

    def collect() -> IntArray:
        return distinct(np.concatenate([room, *(t.allocatable[None, :] for t in domain.templates)]))[0]

    return kept.of("empty nodes", (room, domain), collect)


def pending_shares(snapshot: Snapshot, domains: tuple[Domain, ...], kept: Kept) -> tuple[IntArray, ...]:
    """Give each kind with pending pods to the domain whose base it belongs to.

    That is where most of its pods stand, or the least specific domain that it could go to. Pods that fit no domain are
    in no base: they would ask for slack that nothing can hold.
    """
    kinds = snapshot.kinds
    waiting = np.flatnonzero(kinds.pending > 0)
    if not len(domains) or not len(waiting):
        return tuple(np.zeros(0, dtype=np.int64) for _ in domains)
    scores = []
    for domain in domains:
        own = kept.part(domain.policy.name)
        can = kinds_reach(snapshot, domain, own)[1][waiting] & (not domain.conflict)
        can &= any_of(holds(_empty_nodes(snapshot, domain, own), kinds.requests[waiting]))
        specific = len(domain.policy.spec.node_selector)
        stand = standing(snapshot, domain, own)[waiting]
        scores.append(np.where(can, 1 + stand * 1_000 + max(0, 999 - specific), 0))
    table = np.stack(scores)
    owner = np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1)
    return tuple(waiting[owner == i] for i in range(len(domains)))
