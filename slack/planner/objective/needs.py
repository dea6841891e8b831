"""What was learnt: by row of every pattern, how often a pod came that needed so much room.

A pod's *need* is the extra capacity with which it would have started at once: what had come within the window before
it, itself included, less what had left. Counts of pods stand over needs in bins that grow by a seventh, so that size
is bounded whatever comes; each bin remembers the largest need that fell into it, so that ten pods of one core need ten
cores and not the edge of a bin.

Rows share what is known of the whole (`Pattern.prior_hours`): an hour that was quiet once is not certain to be quiet.
"""

import math

import numpy as np

from slack.cluster.snapshot import IntArray
from slack.planner.objective.amount import RESOURCES
from slack.planner.objective.patterns import COARSER, FIRST_ROW, HALF_LIVES, PRIORS, ROWS

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
BINS = 96
GROWTH = 1.15
SMALLEST = np.array([10.0, 8.0 * 2**20])
"""[R] the first bin: 10m of cpu, 8 MiB of memory; the last holds thousands of cores."""
_WIDTH = len(RESOURCES)
_LOG_GROWTH = math.log(GROWTH)
_ROWS_AT_ONCE = 48
_MOST_STEPS = 64
"""Pods of one turn are taken in so many groups at most."""


class Needs:
    """Counts of pods over needs, and hours watched, by row; all of it fades with its row's half-life."""

    def __init__(self) -> None:
        self.pods = np.zeros((ROWS, _WIDTH, BINS), dtype=np.float32)
        self.hours = np.zeros(ROWS)
        self.largest = np.zeros((_WIDTH, BINS))
        """[R, B] the largest need of each bin, in any row."""

    def watched(self, rows: IntArray, seconds: float) -> None:
        """Time has passed in these rows, one of each pattern."""
        hours = seconds / 3600
        fade = 0.5 ** (hours / HALF_LIVES[rows])
        self.pods[rows] *= fade[:, None, None].astype(np.float32)
        self.hours[rows] = self.hours[rows] * fade + hours

    def came(self, rows: list[IntArray], before: FloatArray, after: FloatArray, pods: int) -> None:
        """Pods have come, one after the other.

        Args:
            rows: of each pattern those in which room for them would have had to be kept.
            before: [R] the need of a pod of no size at the time of the first.
            after: [R] the need of the last.
            pods: how many.
        """
        steps = min(pods, _MOST_STEPS)
        share = np.arange(1, steps + 1) / steps
        needs = before + share[:, None] * (after - before)
        for r in range(_WIDTH):
            needed = needs[:, r][needs[:, r] > 0]
            if not len(needed):
                continue
            bins = np.clip(np.ceil(np.log(needed / SMALLEST[r]) / _LOG_GROWTH), 0, BINS - 1).astype(np.int64)
            np.maximum.at(self.largest[r], bins, needed)
            counted = np.bincount(bins, minlength=BINS) * (pods / steps)
            for touched in rows:
                self.pods[touched, r] += counted / len(touched)

    def rates(self, rows: IntArray | slice, bins: slice = slice(None)) -> FloatArray:
        """[rows, R, bins] pods an hour by need, each row with its part of the whole."""
        whole = self.pods[0, :, bins] / max(self.hours[0], 1e-9)
        found = self._with_prior(rows, bins, whole)
        finer = np.flatnonzero(COARSER[rows, 0])
        if len(finer):
            own = np.arange(ROWS)[rows][finer]
            beside, which = np.unique(COARSER[own], return_inverse=True)
            coarser = self._with_prior(beside, bins, whole)
            mean = sum(coarser[which.reshape(len(own), -1)[:, i]] for i in range(COARSER.shape[1])) / COARSER.shape[1]
            found[finer] = self._with_prior(own, bins, mean)
        return found

    def _with_prior(self, rows: IntArray | slice, bins: slice, beside: FloatArray) -> FloatArray:
        """[rows, R, bins] pods an hour by need, with the prior hours of these."""
        prior = PRIORS[rows]
        found: FloatArray = (self.pods[rows, :, bins] + prior[:, None, None] * beside) / (
            np.maximum(self.hours[rows] + prior, 1e-9)[:, None, None]
        )
        return found

    def room(self, rows: IntArray | slice, prices: FloatArray, pod: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Choose the room for which keeping it and being late cost least together.

        The same price of a late pod at all hours costs less than the same quantile at all hours, for the same share of
        all pods: where few come, little room is kept for them. Between two prices there may be all of a wave or none:
        there a part of the difference is kept.

        Args:
            rows: of the table.
            prices: [3, rows] two of one late pod, in hours for which the room of one pod is kept, and how far to go
                from the first to the second.
            pod: [R] the room of one pod, by which resources are made comparable.

        Returns:
            [rows, R] the room, and [rows, R] how many pods an hour will need more.
        """
        sizes, late = self.choices(rows)
        costs, low, high = sizes / np.maximum(pod, 1e-9)[:, None], *prices[:2, :, None, None]
        best = between(sizes, (costs + low * late).argmin(axis=2), (costs + high * late).argmin(axis=2), prices[2])
        return sizes[np.arange(_WIDTH), best], late[np.arange(len(best))[:, None], np.arange(_WIDTH), best]

    def largest_so_far(self) -> FloatArray:
        """[R] the largest need that ever came."""
        found: FloatArray = self.largest.max(axis=1)
        return found

    def choices(self, rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        """Return the rooms that may be kept, [R, choices], and [rows, R, choices] how many pods an hour need more."""
        bins = self.used()
        return self.sizes(bins), _need_more(self.rates(rows, bins))

    def sizes(self, bins: slice) -> FloatArray:
        """[R, choices] the rooms that may be kept: none, and the largest need of each bin."""
        largest = np.maximum.accumulate(self.largest[:, bins], axis=1)
        return np.concatenate([np.zeros((_WIDTH, 1)), largest], axis=1)

    def used(self) -> slice:
        """Return the bins in which any need is."""
        used = np.flatnonzero(self.largest.any(axis=0))
        return slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 0)


def between(sizes: FloatArray, low: IntArray, high: IntArray, share: FloatArray) -> IntArray:
    """[rows, R] the least choice of so far a way from one to another; `share` by row."""
    found = np.empty_like(low)
    for r in range(_WIDTH):
        wanted = (1 - share) * sizes[r, low[:, r]] + share * sizes[r, high[:, r]]
        found[:, r] = np.searchsorted(sizes[r], wanted * (1 - 1e-9), side="left")
    return np.where(low == high, low, found)


def _need_more(counts: FloatArray) -> FloatArray:
    """[., ., k] the sum of bins k and above."""
    late = np.zeros((*counts.shape[:2], counts.shape[2] + 1))
    late[:, :, :-1] = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, ::-1]
    return late


class LatePodRates:
    """How many pods an hour would have been late at a price, by pattern: many prices are tried on one state.

    Rows choose with their part of the whole, but only pods that a row itself has seen are late in it: one wave a night
    would else count in 23 quiet hours as well, no price would reach an objective of 0.99 but the one that keeps room
    for it all day, and the dearer pattern "none" would win.

    The table is taken part by part: all of it at once would hold a plan up.
    """

    def __init__(self, needs: Needs, pod: FloatArray) -> None:
        self._bins = needs.used()
        sizes = needs.sizes(self._bins)
        shape = (ROWS, _WIDTH, sizes.shape[1])
        self._late, self._seen, self._costs = (np.empty(shape, dtype=np.float32) for _ in range(3))
        self._sizes = (sizes / np.maximum(pod, 1e-9)[:, None]).astype(np.float32)
        self._hours_of_pattern = np.maximum(np.add.reduceat(needs.hours, FIRST_ROW[:-1]), 1e-9)
        self._taken = 0

    def read_part(self, needs: Needs) -> bool:
        """Take the next part of the table; returns whether there was any."""
        if self._taken >= ROWS:
            return False
        rows = slice(self._taken, self._taken + _ROWS_AT_ONCE)
        self._late[rows] = _need_more(needs.rates(rows, self._bins))
        self._seen[rows] = _need_more(needs.pods[rows, :, self._bins].astype(np.float64))
        self._taken += _ROWS_AT_ONCE
        return True

    def an_hour(self, price: float) -> FloatArray:
        """[patterns] on average over the rows that were watched."""
        np.multiply(self._late, np.float32(price), out=self._costs)
        self._costs += self._sizes
        late = np.take_along_axis(self._seen, self._costs.argmin(axis=2)[:, :, None], axis=2)[:, :, 0]
        sums: FloatArray = np.add.reduceat(late.max(axis=1), FIRST_ROW[:-1])
        return sums / self._hours_of_pattern
