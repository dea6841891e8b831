"""Steps 5 and 6 of a policy's plan: which workloads are not covered, and all figures in one document."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.domain.capacity import own_rate
from slack.planner.domain.ceilings import binding_floors
from slack.planner.domain.counting import low_priority_requests
from slack.planner.domain.unseen_resources import NOWHERE
from slack.planner.model.result import CoveredBy, PolicyPlan, UncoveredPods
from slack.planner.rollout.backoff import SCAN_SECONDS
from slack.planner.steps import PlannedSteps, PolicyWants
from slack.planner.wanted.demand import pods_of
from slack.planner.wanted.part import PartPlan, PolicyInputs, uncovered_gangs
from slack.schema.conditions import StatusCondition


def uncovered_workloads(inputs: PolicyInputs, wants: PolicyWants) -> tuple[UncoveredPods, ...]:
    """Return the workloads that are not covered, one entry each, with the first reason that was given."""
    gangs = uncovered_gangs(inputs, wants.wanted) if wants.blocked is None else []
    found = [*gangs, *inputs.mirrors.uncovered, *(u for part in wants.parts for u in part.uncovered)]
    return tuple(sorted({u.pod: u for u in reversed(found)}.values(), key=lambda u: u.pod))


def summary_of(steps: PlannedSteps, *, pushed_out: tuple[str, ...], found: tuple[StatusCondition, ...]) -> PolicyPlan:
    """Return the plan of a policy: all that its steps have come to.

    Args:
        steps: these.
        pushed_out: placeholders that real pods leave no room for on their node.
        found: the conditions.
    """
    inputs, wants, rollout, amounts = steps.inputs, steps.wants, steps.rollout, steps.amounts
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
        uncovered=steps.uncovered,
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
        buffered=None if inputs.buffered is None else amounts.buffered[shown],
        held_by_buffers=frozenset(() if inputs.buffered is None else np.flatnonzero(inputs.buffered.kinds).tolist()),
        set_by=None if size is None else size.set_by,
    )


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
