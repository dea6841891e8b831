"""An objective taught beforehand: a scenario is played with it, and what its learners know at the end is kept.

Only what comes after the warm-up is learnt: at its start a model's pods come all at once, as they never did.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slack.planner.objective.amount import Amount
from slack.planner.objective.codec import decode, encode
from slack.planner.objective.learner import Learner
from slack.planner.policy.spec import Objective
from slack.simulator.model.result import Result
from slack.simulator.runs.baselines import with_objective
from slack.simulator.runs.engine import OnProgress, Simulation
from slack.simulator.scenario.scenario import Scenario

_HOUR, _HOURS, _ASKED_SECONDS = 3600.0, 24, 300.0


@dataclass(frozen=True, slots=True)
class HourOfAmounts:
    """What is asked for in one hour after the scenario's end, as what was learnt has it."""

    at_seconds: float
    """Unix time at which it begins."""
    cpu_millis: int
    """Mean, as is the next."""
    memory_bytes: int
    most_cpu_millis: int
    most_memory_bytes: int

    @classmethod
    def from_amounts(cls, at_seconds: float, amounts: list[Amount]) -> "HourOfAmounts":
        """Return the mean and the most of an hour's amounts."""
        asked = np.array([(amount.cpu_millis, amount.memory_bytes) for amount in amounts], dtype=np.float64)
        mean, most = np.ceil(asked.mean(axis=0)), asked.max(axis=0)
        return cls(at_seconds, int(mean[0]), int(mean[1]), int(most[0]), int(most[1]))


@dataclass(frozen=True, slots=True)
class TrainedPolicy:
    """What one policy has learnt."""

    name: str
    learner: Learner
    amount: Amount
    """At the scenario's end, with the reasons for it."""
    hours: tuple[HourOfAmounts, ...]
    """The 24 that begin after the end."""


@dataclass(frozen=True, slots=True)
class TrainedObjective:
    """A run with an objective, and what it taught."""

    objective: float
    result: Result
    policies: tuple[TrainedPolicy, ...]

    @property
    def reached(self) -> bool:
        """Whether the objective was reached, learning included."""
        return self.result.instant_start_ratio >= self.objective

    def to_dict(self) -> dict[str, Any]:
        """Return the policies as JSON has them."""
        return {policy.name: _shown(policy) for policy in self.policies}


def train(scenario: Scenario, instant_start: float, *, on_progress: OnProgress | None = None) -> TrainedObjective:
    """Play a scenario once with this objective in place of its rates.

    Raises:
        InvalidScenario: as `simulate`.
    """
    aim = Objective(instant_start=instant_start)
    simulation = Simulation(with_objective(scenario, instant_start))
    assert simulation.operator is not None
    objectives = simulation.operator.objectives
    while simulation.clock.now < scenario.warm_up.total_seconds() and simulation.step():
        pass
    objectives.begin_anew()
    result = simulation.run(on_progress)
    end = scenario.starts_at.timestamp() + scenario.duration.total_seconds()
    return TrainedObjective(
        instant_start, result, tuple(_policy(name, it, aim, end) for name, it in objectives.learners.items())
    )


def _policy(name: str, learner: Learner, aim: Objective, end: float) -> TrainedPolicy:
    hours = hours_after(end, learner, aim)
    return TrainedPolicy(name, learner, learner.amount(end, aim), hours)


def hours_after(end: float, learner: Learner, aim: Objective, hours: int = _HOURS) -> tuple[HourOfAmounts, ...]:
    """Return what is asked for in each of the hours that begin after a time, by what was learnt until then.

    Args:
        end: Unix seconds.
        learner: as it was then.
        aim: the objective.
        hours: how many.
    """
    asked = decode(encode(learner))  # as the operator that loads it begins; asking leaves a trace
    first, found = (end // _HOUR + 1) * _HOUR, []
    for hour in range(hours):
        at = first + hour * _HOUR
        found.append(
            HourOfAmounts.from_amounts(at, [asked.amount(s, aim) for s in np.arange(at, at + _HOUR, _ASKED_SECONDS)])
        )
    return tuple(found)


def _shown(policy: TrainedPolicy) -> Mapping[str, Any]:
    why = policy.amount.why
    return {
        "known": why.known,
        "lacking": why.lacking,
        "cpu_millis": policy.amount.cpu_millis,
        "memory_bytes": policy.amount.memory_bytes,
        "pattern": why.pattern,
        "quantile": why.quantile,
        "window_seconds": why.window_seconds,
        "correction": why.correction,
        "hours_seen": why.hours_seen,
        "hours": [asdict(hour) for hour in policy.hours],
    }
