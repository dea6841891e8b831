"""Comparing request vectors: one row a vector, one column a resource."""

from operator import le
from typing import Any

import numpy as np
import numpy.typing as npt

from slack.cluster.snapshot import BoolArray, IntArray

_BITS = 63
_NARROW = int(np.iinfo(np.int16).max)


def within(vectors: npt.NDArray[Any], limit: npt.NDArray[Any]) -> BoolArray:
    """Return, for each vector, whether it is no larger than `limit` in any resource; shapes broadcast.

    Column by column: a reduction over the few resources costs several times as much.
    """
    result: BoolArray = np.less_equal(vectors[..., 0], limit[..., 0])
    for r in range(1, vectors.shape[-1]):
        result = result & (vectors[..., r] <= limit[..., r])
    return result


def is_within(vector: IntArray, limit: IntArray) -> bool:
    """Tell whether one vector is no larger than `limit` in any resource: of so few numbers quicker than `within`."""
    return all(map(le, vector.tolist(), limit.tolist()))


def any_of(matrix: npt.NDArray[np.bool_], axis: int = 0) -> BoolArray:
    """Return where any entry along the axis is true."""
    result: BoolArray = np.any(matrix, axis=axis)
    return result


def sorted_distinct(values: IntArray) -> IntArray:
    """Return each value once, in order: `np.unique`, which loads numpy's masked arrays first."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def holds(larger: IntArray, smaller: IntArray) -> BoolArray:
    """[A, B] whether row a of `larger` is at least row b of `smaller` in every resource.

    Column by column: a table of A x B x R would take R times the memory. Ranks are compared instead of amounts, because
    two bytes a number are compared four times as fast as eight.
    """
    result = np.ones((len(larger), len(smaller)), dtype=bool)
    for r in range(larger.shape[1] if result.size else 0):
        a, b = larger[:, r], smaller[:, r]
        if a.min() < b.max():
            steps = sorted_distinct(b)
            narrow: Any = np.int16 if len(steps) < _NARROW else np.int64
            ranks: npt.NDArray[Any] = np.searchsorted(steps, a, side="right").astype(
                narrow
            )  # how many of `b`'s amounts each one holds
            result &= ranks[:, None] > np.searchsorted(steps, b).astype(narrow)[None, :]
    return result


def maximal(vectors: IntArray) -> IntArray:
    """Return the distinct rows that no other row exceeds in some resource and reaches in all, the largest first.

    In the order of their first amounts a row is exceeded by earlier ones only; each that is found takes out what it
    exceeds, so this costs as many passes as there are such rows.
    """
    left = vectors[np.lexsort(vectors.T[::-1])[::-1]] if len(vectors) else vectors
    found = []
    while len(left):
        found.append(left[0])
        left = left[~within(left, left[0])]
    return np.array(found, dtype=np.int64).reshape(len(found), vectors.shape[1])


def distinct(table: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Return the distinct rows, sorted, and for each row which of them it is.

    The same as `np.unique(axis=0, return_inverse=True)`, several times as fast for few columns.
    """
    if not len(table) or not table.shape[1]:
        return table[:1], np.zeros(len(table), dtype=np.intp)
    key = _packed(table)
    order = np.lexsort(table.T[::-1]) if key is None else np.argsort(key)
    new = np.ones(len(table), dtype=bool)
    if key is not None:
        key = key[order]
        new[1:] = key[1:] != key[:-1]
    else:
        new[1:] = False
        for column in table[order].T:  # a reduction over the few columns costs several times as much
            new[1:] |= column[1:] != column[:-1]
    which = np.empty(len(table), dtype=np.intp)
    which[order] = np.cumsum(new) - 1
    return table[order[new]], which


def _packed(table: npt.NDArray[Any]) -> IntArray | None:
    """Return the rows as numbers in the same order, None where 63 bits do not hold them: one sort instead of many."""
    columns = np.ascontiguousarray(table.T, dtype=np.int64)  # a reduction along whole columns is many times as quick
    least = [int(column.min()) for column in columns]
    bits = [(int(column.max()) - low).bit_length() for column, low in zip(columns, least, strict=True)]
    if sum(bits) > _BITS:
        return None
    key = np.zeros(len(table), dtype=np.int64)
    for column, low, width in zip(columns, least, bits, strict=True):
        key = (key << width) + (column - low)
    return key
