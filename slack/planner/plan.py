"""The planner's one door: snapshot and policies in, plan out. Pure and deterministic (S2).

Per policy: its domain, base and desired extra capacity, mirrors (S7), cover (S6), fill, and then what of that to
write now (`retain`), as far as autoscalers and quotas let it (`patience`). No step is O(pods x nodes) (R1): pods come
as kinds and nodes as classes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from slack.cluster.snapshot import IntArray, Placeholder, Snapshot, Workload
from slack.planner.capacity import base_of, size_of
from slack.planner.conditions import Findings, conditions, total_of
from slack.planner.demand import demand_of, pending_shares
from slack.planner.domain import Domain, by_zone, divide
from slack.planner.leaving import pushed_out, victims
from slack.planner.manifests import PRIORITY, replica_set_name
from slack.planner.mirrors import Mirrors, mirror_all
from slack.planner.outcome import (
    AutoscalerWord,
    Change,
    ExistingShape,
    Memory,
    Plan,
    PolicyMemory,
    PolicyPlan,
    ShapePlan,
    Uncovered,
)
from slack.planner.part import Context, PartPlan, Wanted, plan_part
from slack.planner.patience import Pods, consider
from slack.planner.policy import DEFAULT_RATE, Policy
from slack.planner.retain import Scene, Target, retain
from slack.planner.shape import Role

LOWEST_PRIORITY, HIGHEST_PRIORITY = -10, -1
"""Below -10 the Cluster Autoscaler takes pods for expendable; at 0 placeholders would stand beside real pods."""
SCAN_SECONDS = 12.0
"""From a displacement to the request for a node: the autoscaler's scan interval and its wait for young pods."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inputs:
    """What planning any policy needs beside its domain."""

    snapshot: Snapshot
    now: float
    default_rate: float
    words: Mapping[str, AutoscalerWord]
    mirrored: frozenset[Workload]


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


def _blocked(domain: Domain, snapshot: Snapshot, priority: int) -> tuple[str, str]:
    """Say why nothing may be done for a policy: (reason, message), empty when something may."""
    spec = domain.policy.spec
    if domain.conflict:
        return "DomainConflict", domain.conflict
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        return "BadPriorityClass", (
            f"spec.priorityClassName: {spec.priority_class_name} has the value {priority}; placeholders need one from "
            f"{LOWEST_PRIORITY} to {HIGHEST_PRIORITY}: the autoscaler ignores pods below, real pods stand above"
        )
    if domain.eligible.any() or domain.templates:
        return "", ""
    count = len(snapshot.nodes.names)
    if not domain.owned.any():
        selector = ",".join(f"{k}={v}" for k, v in sorted(spec.node_selector.items()))
        which = f"spec.nodeSelector: {selector} selects" if selector else "spec: the policy has"
        taken = f" that no other policy holds ({'; '.join(domain.yielded)})" if domain.yielded else ""
        return "NoEligibleNode", f"{which} none of the {count} nodes{taken}; check the labels, or give a node template"
    if not domain.classes.any():
        taints = sorted(
            {
                f"{t.key}={t.value}:{t.effect}"
                for c in np.flatnonzero(domain.owned)
                for t in snapshot.node_classes[c].taints
            }
        )
        return "NoEligibleNode", f"spec.tolerations: every selected node is tainted ({', '.join(taints)}); tolerate one"
    return "NoEligibleNode", "every node of the policy is cordoned, not ready or being removed"


def _merge(wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
    """Add up equal shapes: a covering and a standard placeholder may be the same."""
    merged: dict[str, Wanted] = {}
    for w in wanted:
        name = w.shape.name
        if name in merged:
            first = merged[name]
            w = replace(first, count=first.count + w.count, kinds=tuple(sorted({*first.kinds, *w.kinds})))
        merged[name] = w
    return tuple(merged.values())


def _plan_parts(
    inputs: _Inputs,
    domain: Domain,
    pending: IntArray,
    mirrors: Mirrors,
    existing: Sequence[ExistingShape],
    memory: PolicyMemory,
    priority: int,
) -> tuple[list[PartPlan], dict[str, float]]:
    """Plan the policy's domain, or every zone of it; and since when which change has been due."""
    snapshot, spec = inputs.snapshot, domain.policy.spec
    zones = by_zone(snapshot, domain)
    delay = spec.stabilization.shrink_delay.total_seconds()
    parts, due = [], {}
    for number, (zone, part) in enumerate(zones):
        if not (part.eligible.any() or part.templates):
            continue
        # Pending pods may go to any zone yet: each zone's base gets its share of them, the first what is left over.
        base = base_of(snapshot, part, np.zeros(0, dtype=np.int64))
        waiting = base_of(snapshot, domain, pending) - base_of(snapshot, domain, np.zeros(0, dtype=np.int64))
        share = waiting // len(zones) + (waiting % len(zones) if number == 0 else 0)
        size = size_of(snapshot, part, base + share, default_rate=inputs.default_rate, now=inputs.now, part=len(zones))
        elapsed = frozenset(
            name
            for name in ("cover", "fill")
            if inputs.now - memory.cheaper_since.get(f"{name}/{zone}", inputs.now) >= delay
        )
        context = Context(
            snapshot=snapshot,
            domain=part,
            size=size,
            demand=demand_of(snapshot, part, priority=priority, mirrored=inputs.mirrored),
            mirrors=mirrors.wanted if number == 0 else (),
            existing=tuple(e for e in existing if not e.retiring),
            elapsed=elapsed,
        )
        found = plan_part(context)
        parts.append(found)
        for name in found.due:
            due[f"{name}/{zone}"] = memory.cheaper_since.get(f"{name}/{zone}", inputs.now)
    return parts, due


def _shape_plans(
    inputs: _Inputs, policy: Policy, targets: Sequence[Target], scene: Scene, mine: Sequence[Placeholder]
) -> tuple[ShapePlan, ...]:
    plans = []
    for target in targets:
        w, name = target.wanted, target.wanted.shape.name
        there = scene.replicas(name)
        pods = scene.pods.get(name, Pods(0, 0, 0.0))
        leaving = max(there - target.replicas, 0)
        bound = [p for p in mine if p.shape == name]
        if target.replicas == 0 and target.retiring and name not in scene.existing:
            continue
        plans.append(
            ShapePlan(
                shape=w.shape,
                role=w.role,
                count=w.count,
                replicas=target.replicas,
                workloads=w.workloads,
                change=Change(max(target.replicas - there, 0), min(there, target.replicas), leaving),
                bound=pods.bound,
                pending=pods.pending,
                retiring=target.retiring,
                victims=victims(inputs.snapshot, bound, leaving - pods.pending),
            )
        )
    return tuple(plans)


def _untouched(policy: Policy, existing: Sequence[ExistingShape], pods: Mapping[str, Pods]) -> tuple[ShapePlan, ...]:
    """What is there stays as it is: the plan of a policy that may not act."""
    nothing = Pods(0, 0, 0.0)
    return tuple(
        ShapePlan(
            shape=e.shape,
            role=e.role,
            count=e.replicas,
            replicas=e.replicas,
            workloads=(),
            change=Change(0, e.replicas, 0),
            bound=pods.get(e.shape.name, nothing).bound,
            pending=pods.get(e.shape.name, nothing).pending,
            retiring=e.retiring,
        )
        for e in existing
    )


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
    mine = [p for p in snapshot.placeholders if p.policy == policy.name]
    pods = _pods(mine, inputs.now)
    vectors = {e.shape.name: e.shape.vector(snapshot.resources) for e in existing}
    reserved = total_of([(pods[name].bound, v) for name, v in vectors.items() if name in pods], width)
    patience = consider(policy, existing, pods, inputs.words, memory.holds, inputs.now)
    blocked_reason, blocked = _blocked(domain, snapshot, priority)
    parts: list[PartPlan] = []
    due: dict[str, float] = {}
    counts = dict(memory.counts)
    if blocked:
        shapes = _untouched(policy, existing, pods)
    else:
        parts, due = _plan_parts(inputs, domain, pending, mirrors, existing, memory, priority)
        ceiling = parts[0].size.ceiling if len(parts) == 1 else _whole_ceiling(parts)
        scene = Scene(
            existing={e.shape.name: e for e in existing},
            pods=pods,
            ceiling=ceiling,
            caps=patience.caps,
            now=inputs.now,
            shrink_delay_seconds=spec.stabilization.shrink_delay.total_seconds(),
        )
        wanted = _merge([*mirrors.wanted, *(w for part in parts for w in part.wanted)])
        targets, counts = retain(wanted, snapshot.resources, memory.counts, scene)
        shapes = _shape_plans(inputs, policy, targets, scene, mine)
        vectors |= {t.wanted.shape.name: t.wanted.vector for t in targets}
    heading = [s for s in shapes if not s.retiring]
    desired = sum((part.size.desired for part in parts), np.zeros(width, dtype=np.int64))
    planned = total_of([(s.count, vectors[s.shape.name]) for s in heading], width)
    replicas_desired = _replicas_desired(parts, heading, vectors, width)
    desired = np.maximum(desired, replicas_desired)
    uncovered = _unique([*mirrors.uncovered, *(u for part in parts for u in part.uncovered)])
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
            covered_share=min((part.covered_share for part in parts), default=1.0),
            coverage=spec.cover.coverage if spec.cover.mode != "None" else 0.0,
            uncovered=len(uncovered),
            infeasible=(*mirrors.infeasible, *(text for part in parts for text in part.infeasible)),
            pins=tuple(text for part in parts for text in part.pins),
            limit=next((part.limit for part in parts if part.limit), ""),
            yielded=domain.yielded,
            notes=tuple(sorted({part.note for part in parts if part.note})),
            patience=patience,
        )
    )
    chunks = sum(s.bound for s in heading)
    plan = PolicyPlan(
        policy=policy.name,
        resources=snapshot.resources,
        nodes=int(domain.eligible.sum()),
        rate=parts[0].size.rate if parts else (spec.extra_capacity.min_rate or inputs.default_rate),
        base=sum((part.size.base for part in parts), np.zeros(width, dtype=np.int64)),
        desired=desired,
        planned=planned,
        reserved=reserved,
        shapes=shapes,
        pushed_out=() if blocked else tuple(p.name for p in pushed_out(snapshot, vectors) if p.policy == policy.name),
        uncovered=uncovered,
        conditions=found,
        covered_by={k: w.shape.name for part in parts for w in part.wanted for k in w.kinds} | dict(mirrors.covers),
        dry_run=spec.dry_run,
        act=not blocked and not spec.dry_run,
        burst_chunks=chunks,
        sustained_chunks_per_minute=60 * chunks / (SCAN_SECONDS + snapshot.node_start_seconds),
    )
    return plan, PolicyMemory(counts=counts, cheaper_since=due, holds=patience.holds)


def _whole_ceiling(parts: Sequence[PartPlan]) -> IntArray:
    """[R] sum of the zones' ceilings, without running over where there is none."""
    limit = np.iinfo(np.int64).max
    ceilings = np.stack([part.size.ceiling for part in parts])
    free = (ceilings == limit).any(axis=0)
    total: IntArray = np.where(free, limit, np.where(ceilings == limit, 0, ceilings).sum(axis=0))
    return total


def _replicas_desired(
    parts: Sequence[PartPlan], shapes: Sequence[ShapePlan], vectors: Mapping[str, IntArray], width: int
) -> IntArray:
    """[R] what a fixed number of standard placeholders comes to; nothing where a rate is used."""
    if all(part.size.replicas is None for part in parts):
        return np.zeros(width, dtype=np.int64)
    return total_of([(s.count, vectors[s.shape.name]) for s in shapes if s.role is Role.FILL], width)


def _unique(uncovered: Iterable[Uncovered]) -> tuple[Uncovered, ...]:
    return tuple(sorted({u.pod: u for u in uncovered}.values(), key=lambda u: u.pod))


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

    Raises:
        ValueError: when two policies have the same name.
    """
    if len({policy.name for policy in policies}) < len(policies):
        raise ValueError("two policies have the same name")
    priorities = priorities or {}
    domains = divide(snapshot, policies)
    pending = pending_shares(snapshot, domains)
    values = [priorities.get(policy.spec.priority_class_name, PRIORITY) for policy in policies]
    mirrors, mirrored = mirror_all(snapshot, domains)
    inputs = _Inputs(
        snapshot=snapshot,
        now=now,
        default_rate=default_rate,
        words={word.replica_set: word for word in sorted(words, key=lambda w: w.seen_seconds)},
        mirrored=mirrored,
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
    return Plan(tuple(items), remembered)


__all__ = ["plan", "replica_set_name"]
