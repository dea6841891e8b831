"""Steps 5 and 6 of a policy's plan: the conditions of its status, and all figures in one document."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slack.cluster.snapshot import IntArray, Workload
from slack.planner.conditions import PolicyFindings, conditions
from slack.planner.domain.capacity import own_rate
from slack.planner.domain.ceilings import binding_floors
from slack.planner.domain.counting import low_priority_requests
from slack.planner.domain.unseen_resources import NOWHERE
from slack.planner.model.result import CoveredBy, PolicyPlan, UncoveredPods
from slack.planner.policy.spec import CoverMode, Policy
from slack.planner.rollout.backoff import SCAN_SECONDS, HeldBack
from slack.planner.steps import PolicyAmounts, PolicyRollout, PolicyWants
from slack.planner.wanted.demand import pods_of
from slack.planner.wanted.part import PartPlan, PolicyInputs, uncovered_gangs, unzoned
from slack.schema.conditions import StatusCondition


def policy_conditions(
    inputs: PolicyInputs,
    wants: PolicyWants,
    held_back: HeldBack,
    rollout: PolicyRollout,
    amounts: PolicyAmounts,
    *,
    uncovered: Sequence[UncoveredPods],
    unsure: Collection[Workload],
) -> tuple[StatusCondition, ...]:
    """Return the conditions of a policy's status.

    Args:
        inputs: of the policy.
        wants: of steps 1 and 2.
        held_back: of step 3.
        rollout: of step 4.
        amounts: what these come to.
        uncovered: workloads that are not covered.
        unsure: workloads that are covered, and about whose nodes more decides than is checked.
    """
    snapshot, domain, parts = inputs.snapshot, inputs.domain, wants.parts
    policy, heading, pods = domain.policy, rollout.heading, rollout.pods.values()
    return conditions(
        PolicyFindings(
            resources=snapshot.resources,
            blocked=wants.blocked,
            desired=wants.desired_amount,
            planned=amounts.planned,
            reserved=amounts.reserved,
            wanted=sum(shape.count for shape in heading),
            bound=sum(min(shape.bound, shape.count) for shape in heading),
            untold=sum(counted.untold for counted in pods),
            covered_share=wants.covered_share,
            unsure=unsure,
            coverage=_coverage(policy),
            uncovered=len(uncovered),
            infeasible=(*inputs.mirrors.infeasible, *dict.fromkeys(text for part in parts for text in part.infeasible)),
            pins=tuple(text for part in parts for text in part.pins),
            limit=wants.limit,
            yielded=domain.yielded,
            notes=_notes(inputs, wants),
            held_back=held_back,
            emptied=tuple(part.note for part in parts if part.without_nodes and part.note),
            unusable=int(domain.members.sum()) if wants.blocked is None and not domain.usable else 0,
            capped=wants.is_capped,
            binding=amounts.binding,
            node_start_seconds=snapshot.node_start_seconds,
            oldest_pending_seconds=max((counted.oldest_pending_seconds for counted in pods), default=0.0),
            dry_run=policy.spec.dry_run,
            rate=_rate_in_force(inputs, wants),
            new_nodes=amounts.new_nodes,
            nodes=len(snapshot.nodes.names),
            new_nodes_cost=None if amounts.cost is None else amounts.cost.of_nodes(amounts.new_nodes),
            set_by=None if wants.size is None else wants.size.set_by,
            form=policy.form,
            unbounded=inputs.unbounded,
        )
    )


def uncovered_workloads(inputs: PolicyInputs, wants: PolicyWants) -> tuple[UncoveredPods, ...]:
    """Return the workloads that are not covered, one entry each, with the first reason that was given."""
    gangs = uncovered_gangs(inputs, wants.wanted) if wants.blocked is None else []
    found = [*gangs, *inputs.mirrors.uncovered, *(u for part in wants.parts for u in part.uncovered)]
    return tuple(sorted({u.pod: u for u in reversed(found)}.values(), key=lambda u: u.pod))


def summary_of(
    inputs: PolicyInputs,
    wants: PolicyWants,
    rollout: PolicyRollout,
    amounts: PolicyAmounts,
    *,
    uncovered: tuple[UncoveredPods, ...],
    pushed_out: tuple[str, ...],
    found: tuple[StatusCondition, ...],
) -> PolicyPlan:
    """Return the plan of a policy: all that its steps have come to.

    Args:
        inputs: of the policy.
        wants: of steps 1 and 2.
        rollout: of step 4.
        amounts: what these come to.
        uncovered: workloads that are not covered.
        pushed_out: placeholders that real pods leave no room for on their node.
        found: the conditions.
    """
    snapshot, domain, size = inputs.snapshot, inputs.domain, wants.size
    policy, told = domain.policy, tuple(name for name in snapshot.resources if name != NOWHERE)
    shown, chunks = slice(len(told)), sum(shape.bound for shape in rollout.heading)
    return PolicyPlan(
        policy=policy.name,
        resources=told,
        nodes=domain.usable,
        rate=own_rate(policy) if size is None else size.rate,
        base=wants.base_amount[shown],
        desired=wants.desired_amount[shown],
        asked=wants.asked_amount[shown],
        wanted_by=wants.wanted_by,
        binding=amounts.binding,
        floors=binding_floors(told, wants.wanted_by, [part.size for part in wants.parts]),
        planned=amounts.planned[shown],
        reserved=amounts.reserved[shown],
        shapes=rollout.shapes,
        pushed_out=pushed_out,
        uncovered=uncovered,
        cut=tuple(inputs.mirrors.cuts),
        conditions=found,
        covered_share=wants.covered_share,
        covered_by=_covered_by(wants.parts, inputs.mirrors.covers),
        dry_run=policy.spec.dry_run,
        act=wants.blocked is None and not policy.spec.dry_run,
        burst_chunks=chunks,
        sustained_chunks_per_minute=60 * chunks / (SCAN_SECONDS + snapshot.node_start_seconds),
        pods=pods_of(snapshot, domain, inputs.pending, inputs.counting),
        why=inputs.why,
        cost=amounts.cost,
        reserved_cost=amounts.reserved_cost,
        surplus=None if amounts.surplus is None else replace(amounts.surplus, amount=amounts.surplus.amount[shown]),
        new_nodes=amounts.new_nodes,
        replicas=_replicas(wants.parts, rollout.anywhere),
        low_priority=_low_priority(inputs, shown),
        set_by=None if size is None else size.set_by,
    )


def _notes(inputs: PolicyInputs, wants: PolicyWants) -> tuple[str, ...]:
    notes = {part.note for part in wants.parts}
    if wants.blocked is None:
        notes.add(unzoned(inputs.snapshot, inputs.domain))
    return tuple(sorted(note for note in notes if note is not None))


def _rate_in_force(inputs: PolicyInputs, wants: PolicyWants) -> float | None:
    """Return the rate that the amount follows from; None where it follows from something else."""
    sized = wants.blocked is not None or inputs.amount is not None or wants.size is None
    if sized or any(part.size.replicas is not None for part in wants.parts):
        return None
    return wants.parts[0].size.rate


def _low_priority(inputs: PolicyInputs, shown: slice) -> IntArray | None:
    """[R] what pods of low priority request where placeholders keep none out; None where they do."""
    if inputs.domain.policy.form.occupies_nodes:
        return None
    return low_priority_requests(inputs.snapshot, inputs.domain.classes, inputs.counting)[shown]


def _replicas(parts: Sequence[PartPlan], anywhere: IntArray) -> int | None:
    """Return how many standard placeholders all the room amounts to: a plan that is carried out has those asked for.

    Cover and mirrors take their part of a fixed number, and chunks that are there live on in other sizes, so pods of
    one role would be another number than `replicas` asks for; who scales by it would chase its own tail.
    """
    chunks = [part.chunk for part in parts if part.chunk is not None]
    whole = sum(chunks, np.zeros_like(anywhere))
    if not whole.any():
        return None
    return int((anywhere[whole > 0] * len(chunks) // whole[whole > 0]).min())


def _covered_by(parts: Iterable[PartPlan], mirrors: Mapping[int, str]) -> CoveredBy:
    return CoveredBy([(w.kinds, w.shape.name) for part in parts for w in part.wanted], mirrors)


def _coverage(policy: Policy) -> float:
    """Return the share of arrivals that the policy asks to be covered."""
    cover = policy.spec.cover
    return {CoverMode.NONE: 0.0, CoverMode.EVERYTHING: 1.0}.get(cover.mode, cover.coverage)
