"""How much room: base, rate in force, desired extra capacity (R2, S5).

Base `Requested` is the sum of real pods' requests, as S5 says: nothing in it is caused by the slack itself.
Base `Allocatable` (version 1's formulas) counts the nodes that the slack brings in as well: the cluster settles at
requested / (1 - rate) and never settles for a rate of 1 or more; `feedback` says so. Version 1's algebra contradicts
itself (node_cnt x granularity chunks of avg / granularity are the whole cluster, whatever the rate); the count that it
means is ceil(node_cnt x granularity x rate), see `slack.planner.wanted.fill_choice.version_1`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from slack.cluster.quantity import as_written
from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.domain.counting import Counting, bound_requests
from slack.planner.domain.membership import Domain
from slack.planner.domain.terms import Terms
from slack.planner.objective.amount import Amount, Requests
from slack.planner.policy.spec import DEFAULT_RATE, Base, Policy

UNLIMITED = int(np.iinfo(np.int64).max)
"""Stands for no ceiling."""
RATED = 2
"""The rate applies to the first two resources, cpu and memory. Others are kept only where a floor or the cover says:
a tenth of a cluster's GPUs, idle, is nothing that a default should buy."""


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """How much extra capacity a policy wants now."""

    rate: float
    base: IntArray
    desired: IntArray
    """[R] max(floor, min(ceiling, rate x base)), and never above the ceiling."""
    asked: IntArray
    """[R] the same if there were no ceiling."""
    ceiling: IntArray
    """[R] the most that all placeholders may request; UNLIMITED where there is none."""
    replicas: int | None
    """A fixed number of standard placeholders instead, None for a rate."""
    whole_nodes: bool
    """Each of that number is as large as an empty node."""
    feedback: str | None
    """What to know about base Allocatable."""
    lowest: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """[R] the floor, as far as the ceiling allows it."""
    floor: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """[R] the floor."""
    share: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """[R] by the rate, or by the objective."""
    demand: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """[R] what is kept for pools, within the ceiling."""
    by_objective: bool = False
    """The objective asks for the share."""
    set_by: str | None = None
    """What sets the amount where neither rate nor objective does, as it was written: a floor, a number of replicas."""
    has_objective: bool = False
    """An objective asks for it, and for no more: what is wanted is of the pods that come, and the cover part of it."""


def row(snapshot: Snapshot, amounts: Mapping[str, int], default: int = 0) -> IntArray:
    """Return amounts by name as a row after the snapshot's resources."""
    return np.array([amounts.get(name, default) for name in snapshot.resources], dtype=np.int64)


def ceiling_of(snapshot: Snapshot, policy: Policy) -> IntArray:
    """[R] the most that all placeholders of a policy may request together."""
    return row(snapshot, policy.spec.extra_capacity.ceiling, UNLIMITED)


def pending_requests(snapshot: Snapshot, kinds: IntArray) -> IntArray:
    """[R] requests of the pending pods of these kinds (rows)."""
    pending = snapshot.kinds.pending[kinds, None] * snapshot.kinds.requests[kinds]
    total: IntArray = pending.sum(axis=0, dtype=np.int64)
    return total


def base_of(snapshot: Snapshot, domain: Domain, pending_kinds: IntArray, counting: Counting) -> IntArray:
    """[R] what the rate is taken of.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        pending_kinds: rows of kinds whose pending pods belong to this domain.
        counting: how each kind counts for the policy.
    """
    nodes = snapshot.nodes
    if domain.policy.spec.extra_capacity.base is Base.ALLOCATABLE:
        allocatable: IntArray = nodes.allocatable[domain.eligible].sum(axis=0, dtype=np.int64)
        return allocatable
    return bound_requests(snapshot, domain.classes, counting) + pending_requests(snapshot, pending_kinds)


def own_rate(policy: Policy) -> float:
    """Return the policy's rate apart from ladder and schedule; `with_rate` has seen to it that it names one."""
    rate = policy.spec.extra_capacity.min_rate
    return DEFAULT_RATE if rate is None else rate


def with_rate(policies: tuple[Policy, ...], default_rate: float) -> tuple[Policy, ...]:
    """Return the policies with --extra-capacity-min-rate in those that name no rate (S5)."""

    def rated(policy: Policy) -> Policy:
        size = policy.spec.extra_capacity
        if size.min_rate is not None:
            return policy
        size = size.model_copy(update={"min_rate": default_rate})
        return policy.model_copy(update={"spec": policy.spec.model_copy(update={"extra_capacity": size})})

    return tuple(map(rated, policies))


def rated(base: IntArray, rate: float) -> IntArray:
    """[R] base x rate, rounded up, cpu and memory only."""
    share = np.zeros_like(base)
    for r in range(min(RATED, len(base))):
        # The decimal that the user wrote, exactly: 10 % of 38000 is 3800 and not 3801, also beyond 2^53 bytes.
        share[r] = math.ceil(int(base[r]) * Fraction(str(rate)))
    return share


def size_of(
    snapshot: Snapshot,
    domain: Domain,
    base: IntArray,
    *,
    terms: Terms,
    part: int = 1,
    set_aside: IntArray | None = None,
    amount: Amount | None = None,
    there: IntArray | None = None,
) -> Size:
    """Work out the extra capacity of a domain (S2 step 2).

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        base: what `base_of` returned for it.
        terms: what the policy's fields say now.
        part: into how many equal domains (zones) the policy's floor, ceiling and replicas are divided.
        set_aside: [R] of the ceiling, what placeholders take that belong to no one part.
        amount: what the policy's objective asks for, in place of base x rate or beside it; None: the rate holds alone.
        there: [R] what its placeholders on nodes request: so much stays of what is wanted again before they would go.
    """
    set_aside = np.zeros_like(base) if set_aside is None else set_aside
    rate, replicas = terms.rate, terms.replicas
    whole = ceiling_of(snapshot, domain.policy)
    ceiling = np.where(whole == UNLIMITED, UNLIMITED, np.maximum(whole - set_aside, 0) // part)
    lowest = row(snapshot, {name: -(-least // part) for name, least in terms.floor})
    share = rated(base, rate) if replicas is None else np.zeros_like(base)
    if amount is not None:
        least = share if amount.at_least_rate else np.zeros_like(base)
        share = np.maximum(_asked(snapshot, (amount.cpu_millis, amount.memory_bytes), part), least)
        if there is not None:
            share = np.maximum(share, np.minimum(_asked(snapshot, amount.soon, part), there // part))
    asked = np.maximum(lowest, share)
    feedback = None
    if domain.policy.spec.extra_capacity.base is Base.ALLOCATABLE:
        feedback = (
            f"base Allocatable counts the nodes that the slack brings in: with rate {rate:g} the cluster settles at "
            f"{1 / (1 - rate):.2f} times what is requested"
            if rate < 1
            else f"base Allocatable with rate {rate:g} never settles: each node added wants another; use base Requested"
        )
    return Size(
        rate=rate,
        base=base,
        desired=np.minimum(asked, ceiling),
        asked=asked,
        ceiling=ceiling,
        replicas=replicas if replicas is None or terms.whole_nodes else -(-replicas // part),
        whole_nodes=terms.whole_nodes,
        feedback=feedback,
        lowest=np.minimum(lowest, ceiling),
        set_by=_set_by(snapshot, domain.policy, lowest > share, terms),
        floor=lowest,
        share=share,
        by_objective=amount is not None,
        has_objective=amount is not None and replicas is None and terms.rate_window is None,
    )


def _set_by(snapshot: Snapshot, policy: Policy, by_floor: BoolArray, terms: Terms) -> str | None:
    """Name the field that sets the amount; None where it is the rate or an objective.

    Args:
        snapshot: the cluster.
        policy: with the fields as they stand.
        by_floor: [R] where the floor is above all else.
        terms: in force.
    """
    spec, floor = policy.spec.extra_capacity, dict(terms.floor)
    if terms.replicas is not None:
        name = "nodes" if terms.whole_nodes else "replicas"
        where = name if terms.replicas_window is None else f"schedule[].{name}"
        return f"spec.extraCapacity.{where} is {terms.replicas}"
    named = [name for r, name in enumerate(snapshot.resources) if by_floor[r]]
    if not named:
        return None
    where = "schedule[].floor"
    if any(all(floor[name] == step.floor.get(name) for name in named) for step in spec.ladder):
        where = "ladder[].floor"
    if all(floor[name] == spec.floor.get(name) for name in named):
        where = "floor"
    amounts = ", ".join(f"{name} {as_written(name, floor[name])}" for name in named)
    return f"spec.extraCapacity.{where} is {amounts}"


def _asked(snapshot: Snapshot, requests: Requests, part: int) -> IntArray:
    """[R] one part's share of an amount."""
    return row(snapshot, {"cpu": -(-requests[0] // part), "memory": -(-requests[1] // part)})


def average_node(allocatable: IntArray) -> IntArray:
    """[R] average of the rows, per resource over the nodes that have any of it; zero where none has."""
    have: BoolArray = allocatable > 0
    counts = np.maximum(have.sum(axis=0), 1)
    average: IntArray = allocatable.sum(axis=0, dtype=np.int64) // counts
    return average


def dominant_share(vectors: IntArray, node: IntArray) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the largest share of `node` that each row of `vectors` takes; infinite where it has none of a resource.

    Args:
        vectors: [..., R]
        node: [R] an average or a smallest node.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(vectors > 0, vectors / node, 0.0)
    result: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = shares.max(axis=-1)
    return result
