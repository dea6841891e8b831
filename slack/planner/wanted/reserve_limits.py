"""Who may spend: how much of what workloads reserve (S7) a policy pays for.

Whoever may annotate a workload asks for nodes that others pay for, so three bounds hold: the policy's namespaces, the
workload's own pods (as many again, unless `spec.reserve.maxShare` says otherwise), and a part of what the domain's
real pods request, in each resource and in their number (`spec.reserve.ceiling`): by default a tenth, or what
`SMALL_PODS` of them request where that is more. So up to that size a workload gets what it reserves, since all of them
together cannot ask for more than their pods have. What the last bound leaves is divided
among namespaces by their largest share of it, then among each one's workloads: a tenant that asks a thousand times gets
no more than one that asks twice. The same cluster is divided the same way, in whatever order it is listed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from slack.cluster.labels import NAMESPACE_NAME
from slack.cluster.snapshot import IntArray, Snapshot
from slack.planner.domain.capacity import UNLIMITED
from slack.planner.domain.counting import Counting, bound_requests
from slack.planner.domain.membership import Domain
from slack.planner.policy.spec import Reserve

PODS = "pods"
"""In a ceiling: the number of placeholders."""
_PART = Fraction(1, 10)
"""A tenth of the domain, where the policy says nothing else."""
SMALL_PODS = 200
"""So many real pods may be reserved for once more, whatever a tenth is."""
_COMES_AND_GOES = ("job", "cronjob")
"""Kinds that have no pods between two runs: those of the window count."""
MOST_MIRRORED = 200
"""Workloads of one policy: each is a ReplicaSet, and an entry of its status."""
_ALMOST = 1e-9


def admits_namespace(reserve: Reserve, namespace: str, labels: Mapping[str, str] | None) -> bool:
    """Tell whether workloads of a namespace may reserve.

    Of one that is not known (the operator may not list namespaces, a snapshot has none) the name alone is: what asks
    for any other label does not select it, `NotIn` and `DoesNotExist` neither.
    """
    known = {NAMESPACE_NAME: namespace} if labels is None else {**labels, NAMESPACE_NAME: namespace}
    return not (labels is None and asks_for_labels(reserve)) and reserve.namespaces.matches(known)


def asks_for_labels(reserve: Reserve) -> bool:
    """Tell whether who may reserve depends on more than the names of namespaces."""
    selector = reserve.namespaces
    keys = {*selector.match_labels, *(requirement.key for requirement in selector.match_expressions)}
    return bool(keys - {NAMESPACE_NAME})


def own_most(
    reserve: Reserve, snapshot: Snapshot, rows: Sequence[int], kind: str, replicas: int, counting: Counting
) -> int:
    """Return how many placeholders a workload may have for the pods that it has.

    Args:
        reserve: of the policy.
        snapshot: the cluster.
        rows: of `Snapshot.kinds`, the workload's.
        kind: of the workload, short.
        replicas: what the object asks for.
        counting: how each kind counts for the policy.
    """
    kinds, unbound = snapshot.kinds, counting.unbound
    # The pods of a gang wait for one another: until there is room for all, none of them runs.
    pods = int(kinds.running[rows].sum()) + sum(
        int(kinds.pending[row]) for row in rows if kinds.gang[row] and unbound[row]
    )
    if kind in _COMES_AND_GOES:
        pods = max(pods, min(replicas, int(kinds.arrivals[rows].sum())))
    return math.ceil(pods * Fraction(str(reserve.max_share)))


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """What all reservations of one policy may take; the last column is their number."""

    most: IntArray
    """[R + 1] no more than this."""
    spare: IntArray
    """[R + 1] what one placeholder that is larger than `most` may take beside it: a domain may be so small that a tenth
    of it is less than one. A ceiling of the policy holds for it too."""
    named: tuple[str, ...]
    """[R + 1] the field that each bound is of."""
    asked: tuple[bool, ...] = ()
    """[R + 1] the policy names an amount."""
    part: float = 0.0
    """Of what the real pods request: the bound where the policy names no amount."""


def budget_of(snapshot: Snapshot, domain: Domain, ceiling: IntArray, counting: Counting) -> Budget:
    """Work out what a policy pays for.

    Args:
        snapshot: the cluster.
        domain: the policy's part of it.
        ceiling: [R] `spec.extraCapacity.ceiling`.
        counting: how each kind counts for the policy.
    """
    presence, reserve = snapshot.presence, domain.policy.spec.reserve
    real = bound_requests(snapshot, domain.owned, counting)
    pods = presence.count[domain.owned[presence.node_class] & counting.bound[presence.kind]].sum()
    part = default_part(int(pods))
    whole = np.append(real, pods).astype(np.int64)
    default = np.array([math.ceil(amount * part) for amount in whole.tolist()], dtype=np.int64)
    names = (*snapshot.resources, PODS)
    asked = np.array([reserve.ceiling.get(name, UNLIMITED) for name in names], dtype=np.int64)
    own = np.where(asked == UNLIMITED, default, asked)
    above = np.append(ceiling, UNLIMITED)
    return Budget(
        most=np.minimum(own, above),
        spare=np.minimum(asked, above),
        named=tuple(
            "spec.extraCapacity.ceiling" if limit < mine else "spec.reserve.ceiling"
            for limit, mine in zip(above.tolist(), own.tolist(), strict=True)
        ),
        asked=tuple((asked != UNLIMITED).tolist()),
        part=float(part),
    )


def default_part(pods: int) -> Fraction:
    """Return the part of what the real pods request that reservations may take, where the policy names no ceiling."""
    return max(_PART, min(Fraction(1), Fraction(SMALL_PODS, max(pods, 1))))


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What one workload asks of a budget."""

    namespace: str
    name: str
    count: int
    unit: IntArray
    """[R + 1] of one placeholder; the last column is 1."""
    there: bool
    """It has placeholders already."""


def shared(asks: Sequence[Ask], budget: Budget) -> list[int]:
    """Return how many placeholders each gets, in the order of `asks`."""
    granted = [0] * len(asks)
    width = len(budget.most)
    wanted = sum((ask.count * ask.unit for ask in asks), np.zeros(width, dtype=np.int64))
    if (wanted <= budget.most).all():
        return [ask.count for ask in asks]
    shares = [_share(ask.unit, budget.most) for ask in asks]
    spaces: dict[str, list[int]] = {}
    for i in sorted(range(len(asks)), key=lambda i: (asks[i].namespace, asks[i].name)):
        if shares[i] <= 1 + _ALMOST and asks[i].count:
            spaces.setdefault(asks[i].namespace, []).append(i)
    demands = [sum(asks[i].count * shares[i] for i in mine) for mine in spaces.values()]
    for mine, most in zip(spaces.values(), leveled(demands, 1.0), strict=True):
        for i, part in zip(mine, leveled([asks[i].count * shares[i] for i in mine], most), strict=True):
            granted[i] = min(asks[i].count, int(part / shares[i] + _ALMOST)) if shares[i] else asks[i].count
    _hand_out_rest(asks, shares, list(spaces.values()), granted, budget)
    _spare_one(asks, shares, granted, budget)
    return granted


def first_of_each(asks: Sequence[Ask], most: int) -> list[int]:
    """Return which asks are served at all: one of each namespace, then another of each, in the order of their names."""
    if len(asks) <= most:
        return list(range(len(asks)))
    spaces: dict[str, int] = {}
    rounds = []
    for i in sorted(range(len(asks)), key=lambda i: (not asks[i].there, asks[i].namespace, asks[i].name)):
        spaces[asks[i].namespace] = spaces.get(asks[i].namespace, 0) + 1
        rounds.append((spaces[asks[i].namespace], asks[i].namespace, i))
    return sorted(i for _, _, i in sorted(rounds)[:most])


def _share(unit: IntArray, most: IntArray) -> float:
    takes = unit > 0
    if (most[takes] <= 0).any():
        return math.inf
    return float(np.max(unit[takes] / most[takes], initial=0.0))


def leveled(demands: Sequence[float], most: float) -> list[float]:
    """Divide `most` so that nobody gets more than it asks for, and who gets less gets as much as anybody."""
    result = [0.0] * len(demands)
    left = most
    order = sorted(range(len(demands)), key=lambda i: demands[i])
    for number, i in enumerate(order):
        result[i] = min(demands[i], max(left, 0.0) / (len(order) - number))
        left -= result[i]
    return result


def _hand_out_rest(
    asks: Sequence[Ask], shares: Sequence[float], spaces: list[list[int]], granted: list[int], budget: Budget
) -> None:
    """Give what whole placeholders left over, one at a time, to the namespace that has least."""
    left = budget.most - sum((n * ask.unit for n, ask in zip(granted, asks, strict=True)), np.zeros_like(budget.most))
    waiting = [[i for i in mine if granted[i] < asks[i].count] for mine in spaces]
    used = [sum(granted[i] * shares[i] for i in mine) for mine in spaces]
    while any(waiting):
        at = min((s for s, mine in enumerate(waiting) if mine), key=lambda s: (round(used[s], 9), s))
        i = min(waiting[at], key=lambda i: (round(granted[i] * shares[i], 9), asks[i].name))
        if (asks[i].unit > left).any():
            waiting[at].remove(i)
            continue
        granted[i] += 1
        used[at] += shares[i]
        left = left - asks[i].unit
        if granted[i] == asks[i].count:
            waiting[at].remove(i)


def _spare_one(asks: Sequence[Ask], shares: Sequence[float], granted: list[int], budget: Budget) -> None:
    """Grant one placeholder that is larger than the whole budget, rather one that is there already."""
    large = [
        i
        for i, ask in enumerate(asks)
        if ask.count and shares[i] > 1 + _ALMOST and bool((ask.unit <= budget.spare).all())
    ]
    used = sum((n * ask.unit for n, ask in zip(granted, asks, strict=True)), np.zeros_like(budget.most))
    for i in sorted(large, key=lambda i: (not asks[i].there, asks[i].namespace, asks[i].name)):
        if (used + asks[i].unit <= budget.spare).all():
            granted[i] = 1
            return


def why_cut(ask: Ask, granted: int, budget: Budget, resources: tuple[str, ...]) -> str:
    """Say which bound leaves a workload with less than it asks for."""
    takes = np.flatnonzero(ask.unit > 0)
    tight = max(takes.tolist(), key=lambda r: float(ask.unit[r] / max(int(budget.most[r]), 1)))
    names = (*resources, PODS)
    field = budget.named[tight]
    by_default = field == "spec.reserve.ceiling" and budget.asked and not budget.asked[tight]
    share = f", {budget.part * 100:.0f} % of what the policy's real pods have," if by_default else ""
    return f"{field} ({names[tight]}){share} leaves room for {granted} of the {ask.count} that it reserves"
