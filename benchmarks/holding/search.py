"""The rate at which each form reaches the share that both reach, found by runs of its own and tried once more.

Both forms are run at the same rate and at half of it. The lower of the two shares at the whole rate is the goal: each
form's rate for it lies where the line through its own points crosses it. A run with that rate is what is compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.holding.runs import Point, Runs
from slack.cluster.hold import Hold
from slack.simulator.runs.estimate import Estimate

RATE = 0.2
"""Where both forms are compared first: twice the default, for the loads come in bursts."""
_STEP = 0.005
"""Rates are multiples of this."""
_LEAST_TOLERANCE, _MOST_TOLERANCE = 0.002, 0.01
FORMS = (Hold.BOUND, Hold.UNBOUND)


@dataclass(frozen=True, slots=True)
class Compared:
    """Both forms at an equal share, beside no slack."""

    none: Point
    bound: Point
    unbound: Point
    tolerance: float
    """What shares may differ by: half of the 95 % interval of the difference at the same rate and seed."""

    @property
    def ratio(self) -> float:
        """Nodes, unbound to bound."""
        return self.unbound.nodes / self.bound.nodes

    @property
    def is_equal(self) -> bool:
        """Whether unbound placeholders start no smaller share, within the tolerance."""
        return self.unbound.share >= self.bound.share - self.tolerance

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio over the seeds."""
        pairs = zip(self.unbound.runs, self.bound.runs, strict=True)
        found = Estimate.from_values([own.nodes / other.nodes for own, other in pairs])
        return found.low, found.high


def compare(runs: Runs) -> Compared:
    """Make the runs of a case."""
    none = runs(Hold.BOUND, 0.0)
    points = {hold: [none, runs(hold, RATE / 2), runs(hold, RATE)] for hold in FORMS}
    goal = min(points[hold][-1].share for hold in FORMS)
    pairs = zip(points[Hold.UNBOUND][-1].runs, points[Hold.BOUND][-1].runs, strict=True)
    difference = Estimate.from_values([own.share - other.share for own, other in pairs])
    tolerance = min(max(difference.high - difference.mean, _LEAST_TOLERANCE), _MOST_TOLERANCE)
    found = {hold: _at(points[hold], goal, tolerance, partial(runs, hold)) for hold in FORMS}
    return Compared(none, found[Hold.BOUND], found[Hold.UNBOUND], tolerance)


def _at(points: Sequence[Point], goal: float, tolerance: float, run: Callable[[float], Point]) -> Point:
    """Return the point with the least rate that reaches a goal; a rate between two that were run is run."""
    rate = crossing(points, goal)
    known = {point.rate: point for point in points}
    found = known[rate] if rate in known else run(rate)
    if found.share >= goal - tolerance:
        return found
    above = [point for point in points if point.rate > rate and point.share >= goal - tolerance]
    return min(above, key=lambda point: point.rate)


def crossing(points: Sequence[Point], goal: float) -> float:
    """Return the rate at which the line through points reaches a goal, as a multiple of the step.

    Args:
        points: in order of rate; the last one reaches the goal.
        goal: a share.
    """
    before = points[0]
    if before.share >= goal:
        return before.rate
    for point in points[1:]:
        if point.share >= goal:
            part = (goal - before.share) / (point.share - before.share)
            rate = before.rate + part * (point.rate - before.rate)
            return round(round(rate / _STEP) * _STEP, 3)
        before = point
    return points[-1].rate
