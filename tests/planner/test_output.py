"""The document of `plan -o json` is stable: other tools build on it."""

import json

import numpy as np

from slack.planner.model.cost import PlanCost
from slack.planner.model.result import Binding, ConditionType, Plan, PolicyPlan, ShapeChange, ShapePlan, UncoveredPods
from slack.planner.model.shape import Role, Shape
from slack.planner.output import document
from slack.schema.conditions import StatusCondition

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")


def the_plan() -> Plan:
    shape = Shape(requests=(("cpu", 1000), ("memory", 2147483648), ("nvidia.com/gpu", 1)))
    return Plan(
        items=(
            PolicyPlan(
                policy="default",
                resources=RESOURCES,
                nodes=12,
                rate=0.1,
                base=np.array([38000, 81604378624, 4]),
                desired=np.array([3800, 8160437863, 0]),
                asked=np.array([3800, 12160437863, 0]),
                binding=(Binding("memory", 8160437863, 12160437863),),
                planned=np.array([4000, 8589934592, 2]),
                reserved=np.array([1000, 2147483648, 1]),
                shapes=(
                    ShapePlan(
                        shape, Role.COVER, 2, 2, ("shop/deploy/api",), ShapeChange(add=1, keep=1, remove=0), 1, 0
                    ),
                ),
                pushed_out=(),
                uncovered=(UncoveredPods("db/pg-0", "excluded by annotation"),),
                conditions=(
                    StatusCondition(ConditionType.FEASIBLE, True, "EveryShapeFits", "every shape fits a node"),
                ),
                covered_share=1.0,
                covered_by={},
                dry_run=False,
                act=True,
                burst_chunks=1,
                sustained_chunks_per_minute=1.0,
                cost=PlanCost(1.5, 0.75, "EUR", 0.5),
                reserved_cost=PlanCost(0.5),
            ),
        ),
        state={},
    )


def test_the_document_is_what_the_design_says() -> None:
    assert document(the_plan(), {"default": {"pods": 3, "seconds": 396, "text": "3 pods"}}) == {
        "apiVersion": "resource-slack.io/v1alpha1",
        "kind": "PlanList",
        "items": [
            {
                "policy": "default",
                "nodes": 12,
                "base": {"cpu_millis": 38000, "memory_bytes": 81604378624, "nvidia.com/gpu": 4},
                "desired": {"cpu_millis": 3800, "memory_bytes": 8160437863},
                "asked": {"cpu_millis": 3800, "memory_bytes": 12160437863},
                "wanted_by": [],
                "binding": [
                    {
                        "limit": "ceiling",
                        "at": {"memory_bytes": 8160437863},
                        "wanted": {"memory_bytes": 12160437863},
                        "text": "memory ceiling 7.6Gi binds (11.3Gi wanted)",
                    }
                ],
                "planned": {"cpu_millis": 4000, "memory_bytes": 8589934592, "nvidia.com/gpu": 2},
                "buffered": None,
                "objective": None,
                "new_nodes": 0,
                "cost": {
                    "node_hours_per_hour": 1.5,
                    "node_hours_per_month": 1095.0,
                    "currency": "EUR",
                    "per_hour": 0.75,
                    "per_month": 547.5,
                    "node_per_hour": 0.5,
                    "unpriced_nodes": 0,
                    "text": "0.75 EUR per hour, 548 EUR per month (1.5 nodes)",
                },
                "reserved_cost": {
                    "node_hours_per_hour": 0.5,
                    "node_hours_per_month": 365.0,
                    "currency": "",
                    "per_hour": None,
                    "per_month": None,
                    "node_per_hour": None,
                    "unpriced_nodes": 0,
                    "text": "0.5 nodes",
                },
                "spared": {"pods": 3, "seconds": 396, "text": "3 pods"},
                "shapes": [
                    {
                        "name": Shape(requests=(("cpu", 1000), ("memory", 2147483648), ("nvidia.com/gpu", 1))).name,
                        "role": "cover",
                        "count": 2,
                        "requests": {"cpu_millis": 1000, "memory_bytes": 2147483648, "nvidia.com/gpu": 1},
                        "for": ["shop/deploy/api"],
                        "change": {"add": 1, "keep": 1, "remove": 0},
                    }
                ],
                "uncovered": [{"pod": "db/pg-0", "reason": "excluded by annotation"}],
                "conditions": [
                    {
                        "type": "Feasible",
                        "status": "True",
                        "reason": "EveryShapeFits",
                        "message": "every shape fits a node",
                    }
                ],
            }
        ],
    }


def test_everything_in_it_is_plain_json() -> None:
    shown = document(the_plan())
    assert json.loads(json.dumps(shown)) == shown
