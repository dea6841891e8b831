"""Sizes that a run cannot take: more pods than allowed, amounts beyond what columns of int64 can add up."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import assert_never

from slack.cluster.quantity import format_quantity
from slack.simulator.scenario.inventory import NodeGroup, ScenarioWorkload
from slack.simulator.scenario.load import Arrivals, Bursts, DeploymentReplicas, Diurnal, Jobs, Poisson, Replay

_LARGEST_SUM = 1 << 62


def problems(
    groups: Sequence[NodeGroup], workloads: Sequence[ScenarioWorkload], max_pods: int, duration: timedelta
) -> Iterator[str]:
    """Yield what is too large, before anything is drawn for it."""
    for index, group in enumerate(groups):
        for name, amount in group.allocatable.items():
            if amount * max(group.max, 1) * len(groups) > _LARGEST_SUM:
                shown = format_quantity(name, amount)
                yield f"nodeGroups[{index}].allocatable.{name}: {shown} times max ({group.max}) is too large to add up"
    expected = [pods_expected(workload.arrivals, duration.total_seconds()) for workload in workloads]
    if sum(expected) > max_pods:
        most = max(range(len(expected)), key=expected.__getitem__)
        yield (
            f"workloads[{most}].arrivals: some {expected[most]:,.0f} pods would come within the duration, and some "
            f"{sum(expected):,.0f} with the other workloads; maxPods is {max_pods:,}"
        )


def pods_expected(arrivals: Arrivals, seconds: float) -> float:
    """Return how many pods come in a run on average; of a Deployment those of the start."""
    match arrivals:
        case Poisson():
            return arrivals.per_minute * seconds / 60
        case Diurnal():
            return arrivals.mean_per_minute * seconds / 60
        case Bursts():
            by_chance = seconds / arrivals.every.total_seconds() if arrivals.every is not None else 0.0
            return arrivals.size * (len(arrivals.at) + by_chance)
        case Jobs():
            left = max(seconds - arrivals.first_at.total_seconds(), 0.0)
            return arrivals.parallelism * math.ceil(left / arrivals.every.total_seconds())
        case Replay():
            return len(arrivals.rows)
        case DeploymentReplicas():
            return arrivals.replicas
        case _:
            assert_never(arrivals)
