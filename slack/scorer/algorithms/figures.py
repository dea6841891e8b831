"""Arithmetic that all formulas share."""

import numpy as np

from slack.scorer.model import FloatArray, IntArray

_NOISE = 1e-9
"""A half that floating point has made a bit smaller is a half: 100 x (1 - 0.575) is 42.49999999999999."""


def take_columns(table: FloatArray, rows: IntArray | slice) -> FloatArray:
    """Return these columns of [K, N] as [K, n]; one take of a table costs a tenth of one take a row of it."""
    return table[:, rows] if isinstance(rows, slice) else table.take(rows, axis=1)


def per_unit(whole: FloatArray) -> FloatArray:
    """Return 1 / whole, 0 where there is none: what amounts are multiplied by to be shares."""
    return np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0)


def round_scores(values: FloatArray) -> IntArray:
    """Round what is not negative, halves up as Go's math.Round does; Python's own goes to even ones."""
    rounded: IntArray = (values + (0.5 + _NOISE)).astype(np.int64)
    return rounded


def share(part: FloatArray | float, whole: FloatArray) -> FloatArray:
    """Return part / whole in the form of `whole`, 0 where there is none."""
    return np.divide(part, whole, out=np.zeros(whole.shape), where=whole > 0)
