"""The document that `plan -o json` prints: stable, other tools build on it.

Fields are only ever added. cpu and memory carry their unit in their name and are always there; further resources
stand beside them by their Kubernetes names, in base units, where there is any. Same plan, same document.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.cluster.snapshot import IntArray
from slack.planner.model.cost import PlanCost
from slack.planner.model.result import Binding, Plan, PolicyPlan, ShapePlan
from slack.planner.model.wanted_by import WantedByField
from slack.planner.model.whys import why_of
from slack.planner.objective.amount import SizingReason

_NAMES = {"cpu": "cpu_millis", "memory": "memory_bytes"}


def document(plan: Plan, spared: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the PlanList of a plan as plain dictionaries, lists, texts and integers.

    Args:
        plan: the plan.
        spared: by policy what its slack spares, as its operator has measured it; null where nobody knows.
    """
    items = [_item(item, spared.get(item.policy)) for item in plan.items]
    return {"apiVersion": API_VERSION, "kind": "PlanList", "items": items}


def resources_document(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return amounts by resource name as they stand in the document."""
    found = dict(amounts)
    return {_NAMES[name]: int(found.pop(name, 0)) for name in _NAMES} | {
        name: int(value) for name, value in sorted(found.items()) if value
    }


def _vector(vector: IntArray, resources: Sequence[str]) -> dict[str, int]:
    return resources_document((name, int(value)) for name, value in zip(resources, vector, strict=True))


def _item(item: PolicyPlan, spared: Any) -> dict[str, Any]:
    return {
        "policy": item.policy,
        "nodes": item.nodes,
        "base": _vector(item.base, item.resources),
        "desired": _vector(item.desired, item.resources),
        "asked": _vector(item.asked, item.resources),
        "wanted_by": [_wanted_by(field) for field in item.wanted_by],
        "binding": [_binding(limit) for limit in item.limits],
        "planned": _vector(item.planned, item.resources),
        "buffered": None if item.buffered is None else _vector(item.buffered, item.resources),
        "objective": None if item.why is None else _objective(item, item.why),
        "new_nodes": item.new_nodes,
        "cost": cost_document(item.cost),
        "reserved_cost": cost_document(item.reserved_cost),
        "spared": spared,
        "shapes": [_shape(shape) for shape in item.shapes],
        "uncovered": [{"pod": u.pod, "reason": u.reason} for u in item.uncovered],
        "conditions": [
            {"type": str(c.type), "status": str(c.status), "reason": c.reason, "message": c.message}
            for c in item.conditions
        ],
    }


def cost_document(cost: PlanCost | None) -> dict[str, Any] | None:
    """Return what room costs as it stands in every document: nodes always; money is null without prices."""
    if cost is None:
        return None
    return {
        "node_hours_per_hour": cost.nodes,
        "node_hours_per_month": cost.nodes_per_month,
        "currency": cost.currency,
        "per_hour": cost.per_hour,
        "per_month": cost.per_month,
        "node_per_hour": cost.node_per_hour,
        "unpriced_nodes": cost.unpriced_nodes,
        "text": str(cost),
    }


def _objective(item: PolicyPlan, why: SizingReason) -> dict[str, Any]:
    return {"instant_start": why.objective, "known": why.known, "why": why_of(item) or ""}


def _wanted_by(field: WantedByField) -> dict[str, Any]:
    return {
        "source": str(field.source),
        "resources": list(field.resources),
        "window": field.window,
        "rate": field.rate,
        "base": resources_document(field.base) if field.base else None,
        "floor": resources_document(field.floor) if field.floor else None,
        "replicas": field.replicas,
        "instant_start": field.instant_start,
        "text": str(field),
    }


def _binding(binding: Binding) -> dict[str, Any]:
    unit = _NAMES.get(binding.resource, binding.resource)
    return {
        "limit": binding.limit,
        "at": {unit: int(binding.at)},
        "wanted": {unit: binding.wanted},
        "text": str(binding),
    }


def _shape(plan: ShapePlan) -> dict[str, Any]:
    return {
        "name": plan.shape.name,
        "role": str(plan.role),
        "count": plan.count,
        "requests": resources_document(plan.shape.requests),
        "for": list(plan.workloads),
        "change": {"add": plan.change.add, "keep": plan.change.keep, "remove": plan.change.remove},
    }
