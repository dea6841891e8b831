"""The document that `plan -o json` prints: stable, other tools build on it.

Fields are only ever added. cpu and memory carry their unit in their name and are always there; further resources
stand beside them by their Kubernetes names, in base units, where there is any. Same plan, same document.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from slack.cluster.snapshot import IntArray
from slack.planner.outcome import Plan, PolicyPlan, ShapePlan
from slack.planner.policy import API_VERSION

_NAMES = {"cpu": "cpu_millis", "memory": "memory_bytes"}


def document(plan: Plan) -> dict[str, Any]:
    """Return the PlanList of a plan as plain dictionaries, lists, texts and integers."""
    return {"apiVersion": API_VERSION, "kind": "PlanList", "items": [_item(item) for item in plan.items]}


def resources_document(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return amounts by resource name as they stand in the document."""
    found = dict(amounts)
    return {_NAMES[name]: found.pop(name, 0) for name in _NAMES} | {
        name: value for name, value in sorted(found.items()) if value
    }


def _vector(vector: IntArray, resources: Sequence[str]) -> dict[str, int]:
    return resources_document((name, int(value)) for name, value in zip(resources, vector, strict=True))


def _item(item: PolicyPlan) -> dict[str, Any]:
    return {
        "policy": item.policy,
        "nodes": item.nodes,
        "base": _vector(item.base, item.resources),
        "desired": _vector(item.desired, item.resources),
        "planned": _vector(item.planned, item.resources),
        "shapes": [_shape(shape) for shape in item.shapes],
        "uncovered": [{"pod": one.pod, "reason": one.reason} for one in item.uncovered],
        "conditions": [
            {"type": str(one.type), "status": str(one.status), "reason": one.reason, "message": one.message}
            for one in item.conditions
        ],
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
