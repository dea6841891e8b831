"""How many pods a load has at a moment: all at once, ever more, or up and down."""

import math
from enum import StrEnum

SINE_WAVES = 2
"""So often a sine goes up and down."""


class LoadShape(StrEnum):
    """How a load comes."""

    BURST = "burst"
    RAMP = "ramp"
    SINE = "sine"


def replicas_at(shape: LoadShape, pods: int, elapsed_seconds: float, span_seconds: float) -> int:
    """Return how many pods there should be.

    Args:
        shape: how they come.
        pods: how many there are at most.
        elapsed_seconds: since the load began.
        span_seconds: how long it goes on, more than 0.
    """
    share = min(max(elapsed_seconds / span_seconds, 0.0), 1.0)
    if shape is LoadShape.BURST:
        return pods
    if shape is LoadShape.RAMP:
        return min(pods, math.ceil(pods * share))
    return round(pods * (1 - math.cos(2 * math.pi * SINE_WAVES * share)) / 2)
