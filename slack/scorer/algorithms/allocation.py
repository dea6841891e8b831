"""Allocations: how full a node would be by what is requested there, as the scheduler counts it.

Used while the load of no node is known. Placeholders are counted, as they are pods to the scheduler.
"""

import numpy as np

from slack.scorer.algorithms.figures import share
from slack.scorer.model import CPU, MEMORY, FloatArray, IntArray, PodDemand, ScoredNodes

_MOST_PERCENT = 100.0


def allocated_percent(nodes: ScoredNodes, pod: PodDemand, rows: IntArray | slice) -> FloatArray:
    """Return the mean share of CPU and memory that would be requested; NaN where either does not fit."""
    percents = [
        share(
            nodes.requested[resource][rows] + nodes.placeholders[resource][rows] + pod.requests[resource],
            nodes.allocatable[resource][rows],
        )
        * 100.0
        for resource in (CPU, MEMORY)
    ]
    fits = np.maximum(*percents) <= _MOST_PERCENT
    mean: FloatArray = np.where(fits, (percents[CPU] + percents[MEMORY]) / 2, np.nan)
    return mean
