"""A policy with an objective is played as one with a rate: its learner is fed, and its amount is kept."""

from itertools import product
from typing import Any

import pytest

from slack.simulator.runs.baselines import variant
from slack.simulator.runs.engine import Simulation
from slack.simulator.scenario.scenario import parse_scenario
from tests.cases import run_for_each

WORKLOAD = {
    "name": "report",
    "requests": {"cpu": "1", "memory": "2Gi"},
    "life": {"kind": "constant", "seconds": 400},
    "arrivals": {"kind": "jobs", "parallelism": 10, "every": "20m", "firstAt": "5m"},
}
SCENARIO = {
    "name": "waves",
    "duration": "8h",
    "warmUp": "5h",
    "timelineRows": 10,
    "nodeGroups": [
        {"name": "small", "allocatable": {"cpu": "4", "memory": "16Gi"}, "initial": 2, "max": 40, "pricePerHour": 0.2}
    ],
    "workloads": [WORKLOAD],
}


@pytest.mark.thorough
def test_what_comes_is_learnt_and_starts_at_once() -> None:
    document = {**SCENARIO, "operator": {"hold": "Bound"}}
    scenario = variant("objective=0.9", parse_scenario(document, source="waves")).scenario
    simulation = Simulation(scenario)
    result = simulation.run()
    assert result.instant_start_ratio >= 0.88  # of 90 pods, of which the pods of one wave more or less may be late
    operator = simulation.operator
    assert operator is not None
    (learner,) = operator.objectives.learners.values()
    assert learner.tally.started == 240  # ten every twenty minutes
    assert learner.tally.late <= 10 + 24  # the first wave, and a tenth of all, as late pods count from the first on
    (amount,) = operator.objectives.amounts(scenario.starts_at.timestamp() + scenario.duration.total_seconds()).values()
    assert amount.why.known
    assert 90 < amount.why.window_seconds < 130  # 90 s of a node, and the autoscaler's scan
    assert dict(amount.mix) == {(1000, 2 << 30): 1.0}


@pytest.mark.thorough
def test_an_objective_is_reached_with_unbound_placeholders_too() -> None:
    document = {**SCENARIO, "duration": "10h", "warmUp": "7h", "operator": {"hold": "Unbound"}}
    scenario = variant("objective=0.9", parse_scenario(document, source="waves")).scenario
    result = Simulation(scenario).run()
    assert result.total.pods == 90
    assert result.instant_start_ratio >= 0.9
    assert result.placeholders_displaced == 0


@run_for_each(
    ("hold", "priority", "preempts", "exclude"),
    list(product(["Bound", "Unbound"], [0, -10, -11], [True, False], [False, True])),
)
def test_only_pods_that_slack_can_help_are_learnt_from(hold: str, priority: int, preempts: bool, exclude: bool) -> None:
    fields: dict[str, Any] = {"priority": priority, "preempts": preempts, "exclude": exclude}
    document = {
        **SCENARIO,
        "duration": "10m",
        "warmUp": "0s",
        "operator": {"hold": hold},
        "workloads": [{**WORKLOAD, **fields}],
    }
    simulation = Simulation(variant("objective=0.9", parse_scenario(document, source="waves")).scenario)
    simulation.run()
    assert simulation.operator is not None
    (learner,) = simulation.operator.objectives.learners.values()
    helped = not exclude and priority > -10 and (preempts or hold == "Unbound")
    assert (learner.tally.started > 0) == helped
