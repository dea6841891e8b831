"""Which real pods a policy keeps room for, and how much each kind weighs.

A kind belongs to the domains where its pods stand; one that stands nowhere yet, to those that it could go to. Pods that
could not take a placeholder's place whatever its size are named as uncovered, with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slack.cluster.classes import Constraints, admits
from slack.cluster.identity import SHORT_KINDS
from slack.cluster.snapshot import BoolArray, IndexArray, IntArray, Snapshot, Workload
from slack.planner.domain.buffered import empty_rooms
from slack.planner.domain.counting import Counting, standing
from slack.planner.domain.host_names import HOST_REFUSED
from slack.planner.domain.membership import Domain
from slack.planner.model.plan_cache import PlanCache
from slack.planner.model.result import UncoveredPods
from slack.planner.model.vectors import any_of, distinct, holds
from slack.planner.objective.amount import Requests
from slack.planner.policy.spec import PodSelector, Policy
from slack.planner.wanted.cover_choice import FloatArray, reach_classes
from slack.planner.wanted.preemption_blockers import PreemptionBlocker, preemption_blockers, why_no_node_left

Mix = tuple[tuple[Requests, float], ...]
MOST_REACHES = 500
"""Different sets of nodes that the cover tells apart; each is compared with each, and any tenant can invent thousands
of node selectors. Ordinary clusters have tens."""
_ONE_OF_MANY = f"the domain's pods choose among nodes in more than {MOST_REACHES} ways, and it is of a rarer one"
_KINDS = {kind.lower(): short for kind, short in SHORT_KINDS.items()}


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
    together: IntArray
    """[K] how many pods came together lately, as in `PodKinds`."""
    stands: BoolArray
    """[K] pods of it run on nodes of the domain."""
    present: BoolArray
    """[K] there are pods of it now; of the others only arrivals are known, which count for hours."""
    uncovered: tuple[UncoveredPods, ...]


def kinds_reach(
    reach: BoolArray, constraints: tuple[Constraints, ...], constraint_id: IndexArray, domain: Domain
) -> tuple[BoolArray, BoolArray]:
    """Tell where kinds may go.

    Args:
        reach: [C, NC] which constraints admit which node classes of the cluster.
        constraints: [C]
        constraint_id: [K] of each kind.
        domain: where to.

    Returns:
        [K, D + T] which kinds may go to which of the domain's node classes and templates, and [K] to any of them.
    """
    found = reach[:, domain.classes]
    if domain.templates:
        templates = np.array([[admits(c, t.node_class) for t in domain.templates] for c in constraints], dtype=bool)
        found = np.concatenate([found, templates.reshape(len(constraints), len(domain.templates))], axis=1)
    found = found[constraint_id]
    return found, any_of(found, axis=1)


def reach_of(snapshot: Snapshot, domain: Domain, cache: PlanCache) -> tuple[BoolArray, BoolArray]:
    """Return the domain's `kinds_reach`."""
    return cache.compute(kinds_reach, snapshot.reach, snapshot.constraints, snapshot.kinds.constraint_id, domain)


def is_selected(selector: PodSelector, workload: Workload) -> bool:
    """Whether a selector of spec.cover.exclude names a workload."""
    kind = selector.owner_kind.lower()
    return (
        selector.namespace in ("", workload.namespace)
        and (not kind or _KINDS.get(kind, kind) == workload.kind)
        and selector.name in ("", workload.name)
    )


def is_helped(
    policy: Policy,
    placeholder_priority: int,
    *,
    workload: Workload,
    requests: Requests,
    priority: int,
    preempts: bool,
    scheduler: str,
) -> bool:
    """Whether slack of a policy can help a pod: what slack cannot help is no arrival that an objective learns from.

    Args:
        policy: whose slack it is.
        placeholder_priority: value of its placeholders' PriorityClass.
        workload: what the pod belongs to.
        requests: of the pod.
        priority: of the pod.
        preempts: its preemptionPolicy is not Never.
        scheduler: its schedulerName.
    """
    return (
        any(requests)
        and priority > placeholder_priority
        and (preempts or not policy.form.occupies_nodes)
        and scheduler == policy.spec.scheduler_name
        and not any(is_selected(selector, workload) for selector in policy.spec.cover.exclude)
    )


def _reasons(
    snapshot: Snapshot, domain: Domain, rows: IntArray, priority: int, counting: Counting, cache: PlanCache
) -> dict[int, str]:
    """Return the kinds among `rows` that no placeholder can help, and why; only these are looked at one by one."""
    kinds, exclude = snapshot.kinds, domain.policy.spec.cover.exclude
    form = domain.policy.form
    reasons: dict[int, str] = {}
    for blocker, hindered in preemption_blockers(snapshot, domain, rows, counting, cache):
        for k in hindered.tolist():
            match blocker:
                case PreemptionBlocker.SCHEDULER:
                    scheduler = snapshot.constraints[kinds.constraint_id[k]].scheduler_name
                    reasons[k] = f"scheduler {scheduler}: {form.other_scheduler_note}"
                case PreemptionBlocker.PRIORITY:
                    low = f"priority {kinds.priority[k]} is not above the placeholders' ({priority})"
                    reasons[k] = low + form.low_priority_note
                case PreemptionBlocker.NEVER_PREEMPTS:
                    reasons[k] = "preemptionPolicy Never: it cannot take a placeholder's place"
                case PreemptionBlocker.HOST:
                    reasons[k] = HOST_REFUSED
                case PreemptionBlocker.NO_NODE_LEFT:
                    reasons[k] = why_no_node_left(snapshot, domain, k)
    if exclude:
        for k in rows.tolist():
            if any(is_selected(selector, kinds.workloads[k]) for selector in exclude):
                reasons[k] = "excluded by spec.cover.exclude"
    for k in rows[kinds.excluded[rows]]:
        reasons[int(k)] = "excluded by annotation"
    return reasons


def _of_rarer_reach(reach: BoolArray, weight: FloatArray, cache: PlanCache) -> IntArray:
    """Return the kinds that may go to a set of nodes that is not among the `MOST_REACHES` of most weight.

    Those that may go everywhere are always among them.
    """
    classes, which = cache.compute(reach_classes, reach)
    if len(classes) <= MOST_REACHES:
        return np.zeros(0, dtype=np.int64)
    total = np.bincount(which, weights=weight, minlength=len(classes))
    order = np.lexsort((np.arange(len(classes)), -total, ~classes.all(axis=1)))
    rarer = np.ones(len(classes), dtype=bool)
    rarer[order[:MOST_REACHES]] = False
    return np.flatnonzero(rarer[which])


def _learnt(weight: FloatArray, requests: IntArray, mix: Mix) -> FloatArray:
    """[K] weights as kinds with these requests come, where that was learnt; equal requests keep their proportions."""
    if not mix or not len(weight):
        return weight
    rows, which = distinct(requests[:, :2])
    shares = dict(mix)
    learnt = np.array([shares.get((cpu, memory), 0.0) for cpu, memory in rows.tolist()])
    together = np.maximum(np.bincount(which, weights=weight, minlength=len(rows)), 1e-9)
    return np.where(learnt.any(), weight / together[which] * learnt[which], weight)


def demand_of(
    snapshot: Snapshot,
    domain: Domain,
    *,
    priority: int,
    counting: Counting,
    mirrored: BoolArray,
    cache: PlanCache,
    mix: Mix = (),
) -> Demand:
    """Collect a domain's demand.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        priority: value of the placeholders' PriorityClass.
        counting: how each kind counts for the policy.
        mirrored: [K] kinds whose workloads have placeholders of their own (S7); the cover leaves them out.
        cache: of this domain.
        mix: what an objective has learnt of the pods that come: by it kinds are weighed, where there is any.
    """
    kinds = snapshot.kinds
    reach, reaches = reach_of(snapshot, domain, cache)
    here = cache.compute(standing, snapshot.presence, len(kinds), domain) > 0
    belongs = reaches & (here | (kinds.running == 0)) & (kinds.gated == 0)
    if not (belongs & (here | (counting.unbound & (kinds.pending > 0)))).any():
        belongs[:] = False  # the last pod has gone: what once arrived must not hold a node by itself (R3)
    # A pod that requests nothing starts at once wherever a slot is free.
    rows = np.flatnonzero(belongs & any_of(kinds.requests > 0, axis=1) & ~mirrored)
    reasons = _reasons(snapshot, domain, rows, priority, counting, cache)
    weight = np.maximum(kinds.arrivals[rows], kinds.running[rows] + kinds.pending[rows]).astype(np.float64)
    for k in rows[_of_rarer_reach(reach[rows], weight, cache)].tolist():
        reasons.setdefault(k, _ONE_OF_MANY)
    present = kinds.running + kinds.pending > 0
    uncovered = {str(kinds.workloads[k]): reasons[k] for k in sorted(reasons) if present[k]}
    if reasons:
        helped = np.ones(len(kinds), dtype=bool)
        helped[list(reasons)] = False
        rows = rows[helped[rows]]
    arrivals, running = kinds.arrivals[rows], kinds.running[rows]
    return Demand(
        rows=rows,
        requests=kinds.requests[rows],
        reach=reach[rows],
        weight=_learnt(
            np.maximum(arrivals, running + kinds.pending[rows]).astype(np.float64), kinds.requests[rows], mix
        ),
        heaviness=np.maximum(arrivals, running),
        together=kinds.together[rows],
        stands=here[rows],
        present=present[rows],
        uncovered=tuple(UncoveredPods(pod, reason) for pod, reason in sorted(uncovered.items())),
    )


def pods_of(snapshot: Snapshot, domain: Domain, pending: IntArray, counting: Counting) -> int:
    """Count the real pods of a domain's base, with the pending ones of these kinds."""
    here = domain.classes[snapshot.presence.node_class] & counting.bound[snapshot.presence.kind]
    return int(snapshot.presence.count[here].sum()) + int(snapshot.kinds.pending[pending].sum())


def pending_shares(
    snapshot: Snapshot, domains: tuple[Domain, ...], counting: Sequence[Counting], cache: PlanCache
) -> tuple[IntArray, ...]:
    """Give each kind with pending pods to the domain whose base it belongs to.

    That is where most of its pods stand, or the least specific domain that it could go to. Pods that fit no domain are
    in no base: they would ask for slack that nothing can hold. So are those that do not count for the domain.

    Args:
        snapshot: the cluster.
        domains: of all policies.
        counting: how each kind counts, by domain.
        cache: of the plan.
    """
    kinds, nodes = snapshot.kinds, snapshot.nodes
    waiting = np.flatnonzero(kinds.pending > 0)
    if not len(domains) or not len(waiting):
        return tuple(np.zeros(0, dtype=np.int64) for _ in domains)
    scores = []
    for domain, counts in zip(domains, counting, strict=True):
        own = cache.part(domain.policy.name)
        can = reach_of(snapshot, domain, own)[1][waiting] & counts.unbound[waiting] & (domain.conflict is None)
        rooms = own.compute(empty_rooms, nodes.allocatable, nodes.daemon, domain.members, domain.templates)
        can &= any_of(holds(rooms, kinds.requests[waiting]))
        specific = len(domain.policy.spec.node_selector)
        stand = own.compute(standing, snapshot.presence, len(kinds), domain)[waiting]
        scores.append(np.where(can, 1 + stand * 1_000 + max(0, 999 - specific), 0))
    table = np.stack(scores)
    owner = np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1)
    return tuple(waiting[owner == i] for i in range(len(domains)))
