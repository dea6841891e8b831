"""How much room: base, rate in force, desired extra capacity (R2, S5).

Base `Requested` is the sum of real pods' requests, as S5 says: nothing in it is caused by the slack itself.
Base `Allocatable` (version 1's formulas) counts the nodes that the slack brings in as well: the cluster settles at
requested / (1 - rate) and never settles for a rate of 1 or more; `feedback` says so. Version 1's algebra contradicts
itself (node_cnt x granularity chunks of avg / granularity are the whole cluster, whatever the rate); the count that it
means is ceil(node_cnt x granularity x rate), see `slack.planner.fill.version_1`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from slack.cluster.snapshot import BoolArray, IntArray, Snapshot
from slack.planner.domain import Domain
from slack.planner.policy import Base, Policy
from slack.planner.schedule import open_windows

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
    ceiling: IntArray
    """[R] the most that all placeholders may request; UNLIMITED where there is none."""
    replicas: int | None
    """A fixed number of standard placeholders instead, None for a rate."""
    windows: tuple[str, ...]
    """Names of the schedule windows that are open."""
    feedback: str
    """What to know about base Allocatable, '' otherwise."""


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


def base_of(snapshot: Snapshot, domain: Domain, pending_kinds: IntArray) -> IntArray:
    """[R] what the rate is taken of.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        pending_kinds: rows of kinds whose pending pods belong to this domain.
    """
    nodes = snapshot.nodes
    if domain.policy.spec.extra_capacity.base is Base.ALLOCATABLE:
        allocatable: IntArray = nodes.allocatable[domain.eligible].sum(axis=0, dtype=np.int64)
        return allocatable
    real: IntArray = domain.members.astype(np.int64) @ nodes.real
    return real + pending_requests(snapshot, pending_kinds)


def _ladder_rate(policy: Policy, nodes: int, base: IntArray, snapshot: Snapshot) -> float | None:
    """Return the rate of the last step that holds; steps on nodes and on requests may stand side by side."""
    best = None
    for step in policy.spec.extra_capacity.ladder:
        if step.from_nodes is not None:
            holds = nodes >= step.from_nodes
        else:
            amounts = step.from_requested or {}
            holds = all(
                base[snapshot.resources.index(name)] >= amount if name in snapshot.resources else amount == 0
                for name, amount in amounts.items()
            )
        if holds:
            best = step.min_rate
    return best


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
    default_rate: float,
    now: float,
    part: int = 1,
    set_aside: IntArray | None = None,
) -> Size:
    """Work out the extra capacity of a domain (S2 step 2).

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        base: what `base_of` returned for it.
        default_rate: --extra-capacity-min-rate.
        now: Unix seconds, for the schedule.
        part: into how many equal domains (zones) the policy's floor, ceiling and replicas are divided.
        set_aside: [R] of the ceiling, what placeholders take that belong to no one part.
    """
    set_aside = np.zeros_like(base) if set_aside is None else set_aside
    spec = domain.policy.spec.extra_capacity
    nodes = int(domain.eligible.sum())
    rate = spec.min_rate if spec.min_rate is not None else default_rate
    ladder = _ladder_rate(domain.policy, nodes, base, snapshot)
    rate = rate if ladder is None else ladder
    floor, replicas = dict(spec.floor), spec.replicas
    windows = open_windows(spec.schedule, now, snapshot.node_start_seconds)
    rates = [w.min_rate for w in windows if w.min_rate is not None]
    counts = [w.replicas for w in windows if w.replicas is not None]
    if rates:
        rate, replicas = max(rates), None
    if counts:
        replicas = max(counts)
    for window in windows:
        for name, amount in (window.floor or {}).items():
            floor[name] = max(amount, floor.get(name, 0))
    whole = ceiling_of(snapshot, domain.policy)
    ceiling = np.where(whole == UNLIMITED, UNLIMITED, np.maximum(whole - set_aside, 0) // part)
    least = row(snapshot, {name: -(-amount // part) for name, amount in floor.items()})
    share = rated(base, rate) if replicas is None else np.zeros_like(base)
    desired = np.minimum(np.maximum(least, share), ceiling)
    feedback = ""
    if spec.base is Base.ALLOCATABLE:
        feedback = (
            f"base Allocatable counts the nodes that the slack brings in: with rate {rate:g} the cluster settles at "
            f"{1 / (1 - rate):.2f} times what is requested"
            if rate < 1
            else f"base Allocatable with rate {rate:g} never settles: each node added wants another; use base Requested"
        )
    return Size(
        rate=rate,
        base=base,
        desired=desired,
        ceiling=ceiling,
        replicas=None if replicas is None else -(-replicas // part),
        windows=tuple(w.name or w.cron or "one-time" for w in windows),
        feedback=feedback,
    )


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
