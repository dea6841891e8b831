"""What the placeholders of a policy cost: the share of its nodes that they take, at what those nodes cost.

The share is that of cpu or memory, whichever is more: what is left of the other on such a node is of little use. Where
prices are of cpu and memory alone, room has its own price.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slack.cluster.labels import INSTANCE_TYPE
from slack.cluster.node_prices import NodePrices
from slack.cluster.snapshot import CPU, MEMORY, IntArray, Snapshot
from slack.planner.domain.membership import Domain
from slack.planner.model.cost import PlanCost
from slack.planner.policy.spec import Policy

FloatArray = npt.NDArray[np.float64]
_GIB = 1 << 30
_TYPES_SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A snapshot's nodes with their prices."""

    prices: NodePrices
    nodes: FloatArray
    """[N] what each costs an hour; NaN where it has no price."""


def priced(snapshot: Snapshot, prices: NodePrices) -> Priced:
    """Return what each node of a snapshot costs; it tells nodes apart by `NodePrices.label_keys`."""
    if not prices:
        return Priced(prices, np.full(len(snapshot.nodes.names), np.nan))
    by_class = np.array([_or_nan(prices.named(dict(found.labels))) for found in snapshot.node_classes] or [np.nan])
    costs = by_class[snapshot.nodes.class_id]
    if prices.by_amount:
        costs = np.where(np.isnan(costs), _of_rooms(snapshot.nodes.allocatable, prices), costs)
    return Priced(prices, costs)


def _or_nan(cost: float | None) -> float:
    return np.nan if cost is None else cost


def _of_rooms(rooms: IntArray, prices: NodePrices) -> FloatArray:
    costs: FloatArray = rooms[:, CPU] / 1000 * prices.cpu + rooms[:, MEMORY] / _GIB * prices.memory
    return costs


def fits_no_node(snapshot: Snapshot, prices: NodePrices) -> str | None:
    """Say that prices fit no node of a cluster, and which would; None where they fit one, or there is none."""
    costs = priced(snapshot, prices).nodes
    if not prices or not len(costs) or not np.isnan(costs).all():
        return None
    if not prices.instance_types:
        named = ", ".join(f"{key}={value}" for price in prices.labels for key, value in price.match)
        return f"no node has a price: none has the labels {named}"
    types = sorted({dict(found.labels).get(INSTANCE_TYPE, "") for found in snapshot.node_classes} - {""})
    more = f" and {len(types) - _TYPES_SHOWN} more" if len(types) > _TYPES_SHOWN else ""
    there = (
        f"instance types here are {', '.join(types[:_TYPES_SHOWN])}{more}" if types else "they have no instance type"
    )
    return f"no node has a price: {there}"


def own_prices(policy: Policy) -> NodePrices:
    """Return the prices that a policy's objective names: they are of its room, and win over the operator's."""
    named = policy.spec.objective.prices if policy.spec.objective is not None else {}
    return NodePrices(cpu=named.get("cpu", 0.0), memory=named.get("memory", 0.0))


def costs_of(snapshot: Snapshot, domain: Domain, rooms: Sequence[IntArray], nodes: Priced) -> list[PlanCost | None]:
    """Return what rooms cost in a policy's part of the cluster; None where it has no node to go by.

    Args:
        snapshot: the cluster.
        domain: of the policy.
        rooms: [R] each, what placeholders request together.
        nodes: of the same snapshot.
    """
    rows, width = domain.eligible, len(snapshot.resources)
    allocatable, costs = snapshot.nodes.allocatable[rows], nodes.nodes[rows]
    if not len(allocatable):
        found = domain.templates
        allocatable = np.array([template.allocatable for template in found], dtype=np.int64).reshape(-1, width)
        named = [
            nodes.prices.price_of(dict(template.node_class.labels), *_rated(template.allocatable)) for template in found
        ]
        costs = np.array([_or_nan(cost) for cost in named])
    if not len(allocatable):
        return [None] * len(rooms)
    own = own_prices(domain.policy)
    by_amount = own if own else nodes.prices if nodes.prices.by_amount_alone else None
    known = costs[~np.isnan(costs)]
    each = float(known.mean()) if len(known) else None
    whole = allocatable.sum(axis=0, dtype=np.float64)
    currency = "" if own else nodes.prices.currency
    made: list[PlanCost | None] = []
    for room in rooms:
        asked = room[:width]
        there = (asked > 0) & (whole > 0)
        taken = float((asked[there] / whole[there]).max() * len(allocatable)) if there.any() else 0.0
        if by_amount is not None:
            made.append(PlanCost(taken, by_amount.of_room(*_rated(asked)), currency, each))
        elif each is None:
            made.append(PlanCost(taken, unpriced_nodes=len(costs) if nodes.prices else 0))
        else:
            made.append(PlanCost(taken, taken * each, currency, each, len(costs) - len(known)))
    return made


def _rated(vector: IntArray) -> tuple[int, int]:
    return int(vector[CPU]), int(vector[MEMORY])
