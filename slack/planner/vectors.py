"""Comparing request vectors: one row a vector, one column a resource."""

from typing import Any

import numpy as np
import numpy.typing as npt

from slack.cluster.snapshot import BoolArray


def within(vectors: npt.NDArray[Any], limit: npt.NDArray[Any]) -> BoolArray:
    """Return, for each vector, whether it is no larger than `limit` in any resource; shapes broadcast."""
    result: BoolArray = np.all(np.less_equal(vectors, limit), axis=-1)
    return result


def any_of(matrix: npt.NDArray[np.bool_], axis: int = 0) -> BoolArray:
    """Return where any entry along the axis is true."""
    result: BoolArray = np.any(matrix, axis=axis)
    return result
