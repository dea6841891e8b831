"""The planner's one door: snapshot and policies in, plan out. Pure and deterministic (S2).

Per policy: its domain, base and desired extra capacity, mirrors (S7), cover (S6), fill, and then what of that to
write now (`retain`), as far as autoscalers and quotas let it (`patience`). No step is O(pods x nodes) (R1): pods come
as kinds and nodes as classes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray, Placeholder, Snapshot
from slack.planner.blocked import untouched, why_blocked
from slack.planner.capacity import ceiling_of
from slack.planner.conditions import Findings, conditions, total_of
from slack.planner.demand import pending_shares
from slack.planner.domain import Domain, divide
from slack.planner.kept import Kept
from slack.planner.leaving import overcommitted, pushed_out, victims
from slack.planner.manifests import PRIORITY, replica_set_name
from slack.planner.mirrors import Mirrors, mirror_all
from slack.planner.outcome import (
    AutoscalerWord,
    Change,
    CoveredBy,
    ExistingShape,
    Memory,
    Plan,
    PolicyMemory,
    PolicyPlan,
    ShapePlan,
    Uncovered,
)
from slack.planner.part import PartPlan
from slack.planner.patience import Pods, consider
from slack.planner.policy import DEFAULT_RATE, CoverMode, Policy
from slack.planner.retain import Scene, Target, retain
from slack.planner.wanted import merged
from slack.planner.widen import named, widened
from slack.planner.zones import Request, plan_parts, unzoned

SCAN_SECONDS = 12.0
"""From a displacement to the request for a node: the autoscaler's scan interval and its wait for young pods."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """What planning any policy needs beside its domain."""

    snapshot: Snapshot
    now: float
    default_rate: float
    words: Mapping[str, AutoscalerWord]
    mirrored: BoolArray
    placeholders: Mapping[str, Sequence[Placeholder]]
    """By policy."""
    overcommitted: IntArray
    kept: Kept


def _pods(placeholders: Iterable[Placeholder], now: float) -> dict[str, Pods]:
    """Count a policy's placeholders by shape."""
    bound: dict[str, int] = {}
    ages: dict[str, list[float]] = {}
    for pod in placeholders:
        if pod.node >= 0:
            bound[pod.shape] = bound.get(pod.shape, 0) + 1
        else:
            ages.setdefault(pod.shape, []).append(max(now - pod.created_seconds, 0.0) if pod.unschedulable else 0.0)
    return {
        name: Pods(bound.get(name, 0), len(ages.get(name, [])), max(ages.get(name, [0.0])))
        for name in sorted({*bound, *ages})
    }


def _shape_plans(
    snapshot: Snapshot, targets: Sequence[Target], scene: Scene, mine: Sequence[Placeholder]
) -> tuple[ShapePlan, ...]:
    bound: dict[str, list[Placeholder]] = {}
    for pod in mine:
        if pod.node >= 0:
            bound.setdefault(pod.shape, []).append(pod)
    plans = []
    for target in targets:
        w, name = target.wanted, target.wanted.shape.name
        there, pods = scene.replicas(name), scene.pods.get(name, Pods(0, 0, 0.0))
        plans.append(
            ShapePlan(
                shape=w.shape,
                role=w.role,
                count=w.count,
                replicas=target.replicas,
                workloads=w.workloads,
                change=Change(
                    max(target.replicas - there, 0), min(there, target.replicas), max(there - target.replicas, 0)
                ),
                bound=pods.bound,
                pending=pods.pending,
                retiring=target.retiring,
                # The ReplicaSet controller takes pending pods first; so many bound ones go when it is done.
                victims=victims(snapshot, bound.get(name, ()), pods.bound - target.replicas),
            )
        )
    return tuple(plans)


def _plan_policy(
    inputs: _Inputs,
    domain: Domain,
    pending: IntArray,
    mirrors: Mirrors,
    existing: Sequence[ExistingShape],
    memory: PolicyMemory,
    priority: int,
) -> tuple[PolicyPlan, PolicyMemory]:
    snapshot, policy = inputs.snapshot, domain.policy
    width, spec = len(snapshot.resources), policy.spec
    mine = inputs.placeholders.get(policy.name, ())
    pods = _pods(mine, inputs.now)
    vectors = {e.shape.name: e.shape.vector(snapshot.resources) for e in existing}
    reserved = total_of([(pods[name].bound, v) for name, v in vectors.items() if name in pods], width)
    patience = consider(policy, existing, pods, inputs.words, memory.holds, inputs.now)
    blocked_reason, blocked = why_blocked(domain, snapshot, priority)
    parts: list[PartPlan] = []
    due: Mapping[str, float] = memory.cheaper_since
    counts = dict(memory.counts)
    if blocked:
        shapes = untouched(existing, pods)
    else:
        request = Request(
            snapshot=snapshot,
            domain=domain,
            pending=pending,
            mirrors=tuple(mirrors.wanted),
            mirrored=inputs.mirrored,
            existing=tuple(existing),
            memory=memory,
            priority=priority,
            default_rate=inputs.default_rate,
            now=inputs.now,
            kept=inputs.kept.part(policy.name),
        )
        parts, due = plan_parts(request)
        scene = Scene(
            existing={e.shape.name: e for e in existing},
            pods=pods,
            ceiling=ceiling_of(snapshot, policy),
            caps=patience.caps,
            now=inputs.now,
            shrink_delay_seconds=spec.stabilization.shrink_delay.total_seconds(),
            give_up_seconds=spec.stabilization.give_up_after.total_seconds(),
        )
        wanted = merged([*mirrors.wanted, *(w for part in parts for w in part.wanted)])
        targets, counts = retain(wanted, snapshot.resources, memory.counts, scene)
        shapes = _shape_plans(snapshot, targets, scene, mine)
        vectors |= {t.wanted.shape.name: t.wanted.vector for t in targets}
    heading = [s for s in shapes if not s.retiring]
    desired = sum((part.size.desired for part in parts), np.zeros(width, dtype=np.int64))
    planned = total_of([(s.count, vectors[s.shape.name]) for s in heading], width)
    uncovered = _unique([*mirrors.uncovered, *(u for part in parts for u in part.uncovered)])
    covered_share = 0.0 if blocked else min((part.covered_share for part in parts), default=1.0)
    notes = [part.note for part in parts] + ([] if blocked else [unzoned(snapshot, domain)])
    found = conditions(
        Findings(
            resources=snapshot.resources,
            blocked=blocked,
            blocked_reason=blocked_reason,
            desired=desired,
            planned=planned,
            reserved=reserved,
            wanted=sum(s.count for s in heading),
            bound=sum(min(s.bound, s.count) for s in heading),
            covered_share=covered_share,
            coverage=_coverage(policy),
            uncovered=len(uncovered),
            infeasible=(*mirrors.infeasible, *dict.fromkeys(text for part in parts for text in part.infeasible)),
            pins=tuple(text for part in parts for text in part.pins),
            limit=next((part.limit for part in parts if part.limit), ""),
            yielded=domain.yielded,
            notes=tuple(sorted({note for note in notes if note})),
            patience=patience,
            capped=any(part.capped or part.limit == "ceiling" for part in parts),
        )
    )
    chunks = sum(s.bound for s in heading)
    plan = PolicyPlan(
        policy=policy.name,
        resources=snapshot.resources,
        nodes=int(domain.eligible.sum()),
        rate=parts[0].size.rate if parts else _rate(policy, inputs.default_rate),
        base=sum((part.size.base for part in parts), np.zeros(width, dtype=np.int64)),
        desired=desired,
        planned=planned,
        reserved=reserved,
        shapes=shapes,
        pushed_out=() if blocked else _pushed_out(inputs, vectors, policy.name),
        uncovered=uncovered,
        conditions=found,
        covered_share=covered_share,
        covered_by=_covered_by(parts, mirrors.covers),
        dry_run=spec.dry_run,
        act=not blocked and not spec.dry_run,
        burst_chunks=chunks,
        sustained_chunks_per_minute=60 * chunks / (SCAN_SECONDS + snapshot.node_start_seconds),
    )
    return plan, PolicyMemory(counts=counts, cheaper_since=due, holds=patience.holds)


def _pushed_out(inputs: _Inputs, vectors: Mapping[str, IntArray], policy: str) -> tuple[str, ...]:
    found = pushed_out(inputs.snapshot, vectors, inputs.overcommitted)
    return tuple(pod.name for pod in found if pod.policy == policy)


def _covered_by(parts: Iterable[PartPlan], mirrors: Mapping[int, str]) -> CoveredBy:
    return CoveredBy([(one.kinds, one.shape.name) for part in parts for one in part.wanted], mirrors)


def _rate(policy: Policy, default_rate: float) -> float:
    rate = policy.spec.extra_capacity.min_rate
    return default_rate if rate is None else rate


def _coverage(policy: Policy) -> float:
    """Return the share of arrivals that the policy asks to be covered."""
    cover = policy.spec.cover
    return {CoverMode.NONE: 0.0, CoverMode.EVERYTHING: 1.0}.get(cover.mode, cover.coverage)


def _unique(uncovered: Iterable[Uncovered]) -> tuple[Uncovered, ...]:
    """Return one entry a workload, the first that was said of it."""
    return tuple(sorted({u.pod: u for u in reversed(list(uncovered))}.values(), key=lambda u: u.pod))


def _domains(snapshot: Snapshot, policies: Sequence[Policy], kept: Kept) -> tuple[Domain, ...]:
    nodes = snapshot.nodes
    made_of = (
        *policies,
        nodes.names,
        nodes.class_id,
        nodes.ready,
        nodes.schedulable,
        snapshot.node_classes,
        snapshot.resources,
    )
    return kept.of("domains", made_of, lambda: divide(snapshot, policies))


def plan(
    snapshot: Snapshot,
    policies: Sequence[Policy],
    *,
    now: float,
    existing: Sequence[ExistingShape] = (),
    words: Sequence[AutoscalerWord] = (),
    memory: Memory = MappingProxyType({}),
    default_rate: float = DEFAULT_RATE,
    priorities: Mapping[str, int] | None = None,
    kept: Kept | None = None,
) -> Plan:
    """Work out what placeholders should be there.

    Args:
        snapshot: the cluster; its `placeholders` tell what is bound and pending.
        policies: any number, each with a name of its own.
        now: Unix seconds.
        existing: the ReplicaSets that are there.
        words: what autoscalers have said about placeholders.
        memory: what the previous plan returned; an empty one after a restart only makes shrinking wait anew.
        default_rate: --extra-capacity-min-rate (S5), for policies that name no rate.
        priorities: values of PriorityClasses by name; -10 for one that is not known.
        kept: what previous plans have worked out, for speed only: the plan is the same without it.

    Raises:
        ValueError: when two policies have the same name.
    """
    if len({policy.name for policy in policies}) < len(policies):
        raise ValueError("two policies have the same name")
    priorities = priorities or {}
    kept = Kept() if kept is None else kept
    snapshot = kept.shared(widened(snapshot, named(policies, existing)))
    domains = _domains(snapshot, policies, kept)
    pending = pending_shares(snapshot, domains, kept)
    values = [priorities.get(policy.spec.priority_class_name, PRIORITY) for policy in policies]
    mirrors, mirrored = mirror_all(snapshot, domains, kept)
    placeholders: dict[str, list[Placeholder]] = {}
    for pod in snapshot.placeholders:
        placeholders.setdefault(pod.policy, []).append(pod)
    inputs = _Inputs(
        snapshot=snapshot,
        now=now,
        default_rate=default_rate,
        words={word.replica_set: word for word in sorted(words, key=lambda w: w.seen_seconds)},
        mirrored=mirrored,
        placeholders=placeholders,
        overcommitted=overcommitted(snapshot),
        kept=kept,
    )
    items, remembered = [], {}
    for i, policy in enumerate(policies):
        item, remembered[policy.name] = _plan_policy(
            inputs,
            domains[i],
            pending[i],
            mirrors[i],
            sorted((e for e in existing if e.policy == policy.name), key=lambda e: e.shape.name),
            memory.get(policy.name, PolicyMemory()),
            values[i],
        )
        items.append(item)
    kept.end()
    return Plan(tuple(items), remembered)


__all__ = ["plan", "replica_set_name"]
