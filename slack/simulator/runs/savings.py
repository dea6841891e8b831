"""What a search leaves out of its runs: looks of the operator, and the rest of a run that cannot reach its goal.

A look costs more than all else of a run, and hardly one changes anything: placeholders that were displaced are made
anew by their ReplicaSet, at once. So in a long run a search looks seldom, as often as its length allows, and as always
at once when requests have changed by `relevantChange`. That is near, not equal: on the example of a day a thousand
looks agree within half a point and one percent of the cost. A run that is given up is below its goal whatever would
come: that is exact.
"""

from collections.abc import Iterable
from datetime import timedelta

from slack.simulator.scenario.distributions import Forever
from slack.simulator.scenario.load import DeploymentReplicas
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

_LOOKS = 1000
"""A run has so many looks or more."""
_SELDOM = timedelta(minutes=20)
_WORTH_IT = 4
"""So many times fewer looks, or all: half a day is quick as it is, and waves of jobs show where half of them miss."""
_NOTHING = 1e-9


class OutOfReach(Exception):
    """A run was given up: so many pods were late that its share stays below the one that is wanted."""


def with_fewer_looks(scenario: Scenario) -> Scenario:
    """Return the scenario with an operator that looks seldom: a thousand times a run, each 20 minutes at least.

    An objective learns by looks and keeps them all.
    """
    own = scenario.operator.interval
    if not isinstance(scenario.slack, Policies) or any(p.spec.objective for p in scenario.slack.policies):
        return scenario
    times = min(scenario.duration / _LOOKS, _SELDOM) // own
    if times < _WORTH_IT:
        return scenario
    return scenario.model_copy(update={"operator": scenario.operator.model_copy(update={"interval": times * own})})


def most_late(scenario: Scenario, moments: Iterable[Iterable[float]], goal: float) -> int | None:
    """Return how many pods may be late in a run that reaches a goal; None where it is not known how many will come.

    Args:
        scenario: what is played.
        moments: when the pods of each workload come, in seconds.
        goal: the wanted share of pods that start at once.
    """
    begin = scenario.warm_up.total_seconds()
    for workload in scenario.workloads:
        arrivals = workload.arrivals
        fixed = begin > 0 and isinstance(workload.life, Forever)
        if isinstance(arrivals, DeploymentReplicas) and (arrivals.hpa is not None or not fixed):
            return None
    coming = sum(1 for times in moments for at in times if at >= begin)
    return int((1 - goal) * coming + _NOTHING)
