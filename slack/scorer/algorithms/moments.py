"""Mean and deviation of a node's use as shares of what it has, with what comes on top: mu and sigma.

As resourcestats.go of the scheduler plugins: percents are taken of what requests must fit into, values are held within
[0, 1]. Recent pods that no window shows are added, which upstream announces and leaves out.
"""

import numpy as np

from slack.scorer.algorithms.figures import share
from slack.scorer.model import FloatArray


def mu_of(mean_percent: FloatArray, extra: FloatArray | float, size: FloatArray) -> FloatArray:
    """Return the expected share that is used.

    Args:
        mean_percent: measured.
        extra: what comes on top, in the unit of `size`; what is negative counts as nothing.
        size: what the node has; without any the share is 0.
    """
    mean = np.clip(mean_percent / 100.0, 0.0, 1.0)
    mu: FloatArray = np.where(size > 0, np.clip(mean + share(np.maximum(extra, 0.0), size), 0.0, 1.0), 0.0)
    return mu


def sigma_of(deviation_percent: FloatArray, size: FloatArray) -> FloatArray:
    """Return the deviation of the share that is used."""
    sigma: FloatArray = np.where(size > 0, np.clip(deviation_percent / 100.0, 0.0, 1.0), 0.0)
    return sigma
