"""The cheapest rate that reaches a wanted instant-start ratio, by runs of one scenario with several seeds.

The quick way: runs of the first seed find where the goal is crossed, from the default rate on and then by halves;
one that cannot reach it any more is given up. The runs of all seeds decide there, and go on upwards where their mean
misses the goal. The exact way has all seeds of each rate, and of a coarse curve first.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from slack.cluster.labels import API_VERSION
from slack.cluster.quantity import as_written, format_quantity
from slack.cluster.rates import BOUNDING, MOST_WITHOUT_CEILING
from slack.planner.policy.spec import DEFAULT_RATE, KIND
from slack.simulator.runs.curve import CurvePoint, Evaluate, GivenUp, NothingMeasured, Trial, TrialResult
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Policies

COARSE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_NOTHING = 1e-12
"""Two sums of the same shares differ by less."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The curve and the choice."""

    goal: float
    seeds: tuple[int, ...]
    curve: tuple[CurvePoint, ...]
    """In order of rate."""
    chosen: CurvePoint | None
    """None when no rate that was tried reaches the goal."""
    given_up: tuple[float, ...] = ()
    """Rates whose run was not played to its end, for it could not reach the goal: they are not in the curve."""

    @property
    def unsure(self) -> bool:
        """Whether the choice's mean reaches the goal, but its interval does not."""
        several = len(self.seeds) > 1
        return self.chosen is not None and several and self.chosen.low < self.goal - _NOTHING

    @property
    def surer(self) -> CurvePoint | None:
        """The cheapest point whose whole interval reaches the goal; None when there is none, or one seed only."""
        whole = (point for point in self.curve if len(point.results) == len(self.seeds))
        reaching = (point for point in whole if point.low >= self.goal - _NOTHING)
        if len(self.seeds) < 2:
            return None
        return min(reaching, key=lambda point: (point.cost_per_month, point.rate), default=None)

    @property
    def best(self) -> CurvePoint:
        """The point that starts the most pods at once, the cheapest of these."""
        return max(self.curve, key=lambda point: (point.instant_start_ratio, -point.cost_per_month, -point.rate))

    def without(self) -> CurvePoint:
        """The point of rate 0: the least that the policy keeps."""
        return self.curve[0]


def tune(
    goal: float,
    seeds: Sequence[int],
    evaluate: Evaluate,
    *,
    step: float = 0.01,
    largest: float = 1.0,
    exact: bool = False,
) -> Tuned:
    """Find the cheapest rate, a multiple of `step` up to `largest`, whose mean instant-start ratio reaches the goal.

    More slack starts no fewer pods at once; where chance makes a curve dip, the lowest rate that reaches is refined.

    Raises:
        NothingMeasured: when the scenario has no pods to measure.
    """
    search = _Search(goal, tuple(seeds), evaluate, step, max(1, round(largest / step)))
    if exact or not search.quick():
        search.exact()
    return search.found()


class _Search:
    """Rates by their number of steps, and what their runs came to."""

    def __init__(self, goal: float, seeds: tuple[int, ...], evaluate: Evaluate, step: float, last: int) -> None:
        self._goal = goal
        self._seeds = seeds
        self._evaluate = evaluate
        self._step = step
        self._last = last
        self._rungs = sorted({round(rate / step) for rate in COARSE if round(rate / step) <= last} | {last})
        self._points: dict[int, CurvePoint] = {}
        self._given_up: set[int] = set()

    def exact(self) -> None:
        """Run all seeds of a coarse curve, and then of the rates by which the crossing is halved."""
        self._run_all(self._rungs)
        reaching = [number for number in sorted(self._points) if self._is_reached(number)]
        if reaching:
            below = max((number for number in self._points if number < reaching[0]), default=reaching[0])
            self._halved(below, reaching[0], self._is_reached_by_all)

    def quick(self) -> bool:
        """Seek with the first seed and decide with all; False where no pod comes with the first seed."""
        try:
            self._try(0, whole=True)
            number = 0 if self._is_reached(0) else self._sought()
        except NothingMeasured:
            self._points.clear()
            self._run_all([0])  # raises where no seed has a pod, before all rates are played with all of them
            return False
        stride = 1
        while not self._is_reached_by_all(number) and number < self._last:
            number, stride = min(number + stride, self._last), 2 * stride
        return True

    def found(self) -> Tuned:
        """Return what is known. Where all seeds decide, only what they all have run can be chosen."""
        whole = [point for point in self._points.values() if len(point.results) == len(self._seeds)]
        reaching = (point for point in whole if point.instant_start_ratio >= self._goal - _NOTHING)
        chosen = min(reaching, key=lambda point: (point.cost_per_month, point.rate), default=None)
        given_up = tuple(_rate(number, self._step) for number in sorted(self._given_up - self._points.keys()))
        curve = tuple(self._points[number] for number in sorted(self._points))
        return Tuned(self._goal, self._seeds, curve, chosen, given_up)

    def _sought(self) -> int:
        """Return the lowest rate with which the first seed reaches the goal; the largest where none does."""
        low, number = 0, min(round(DEFAULT_RATE / self._step) or 1, self._last)
        guess: int | None = None
        while True:
            self._try(number, whole=guess is None or number == self._last)
            if self._is_reached(number):
                first = self._crossing(number) if low == 0 else None
                return self._halved(low, number, self._is_reached_by_first, first)
            if number == self._last:
                return number
            guess = 2 * number if guess is not None else self._crossing(number) or 2 * number
            low, number = number, min(max(guess, number + 1), 2 * number, self._last)

    def _crossing(self, number: int) -> int | None:
        """Guess where the goal is crossed: the share of late pods falls with the rate about as a power does."""
        late = [1 - self._points[known].instant_start_ratio for known in (0, number)]
        if not 0 < late[1] < late[0] or self._goal >= 1:
            return None
        return math.ceil(number * math.log(late[0] / (1 - self._goal)) / math.log(late[0] / late[1]))

    def _halved(self, low: int, high: int, reaches: Callable[[int], bool], first: int | None = None) -> int:
        """Return the lowest that reaches, of two that lie around it; `first` is tried before halves are."""
        while high - low > 1:
            middle = (low + high) // 2 if first is None else min(max(first, low + 1), high - 1)
            low, high = (low, middle) if reaches(middle) else (middle, high)
            first = None
        return high

    def _is_reached(self, number: int) -> bool:
        point = self._points.get(number)
        return point is not None and point.instant_start_ratio >= self._goal - _NOTHING

    def _is_reached_by_first(self, number: int) -> bool:
        self._try(number, whole=False)
        return self._is_reached(number)

    def _is_reached_by_all(self, number: int) -> bool:
        self._run_all([number])
        return self._is_reached(number)

    def _try(self, number: int, *, whole: bool) -> None:
        """Run the first seed of a rate; to its end, or until it cannot reach the goal."""
        trial = Trial(_rate(number, self._step), self._seeds[0], None if whole else self._goal)
        for result in self._evaluate([trial]):
            if isinstance(result, GivenUp):
                self._given_up.add(number)
            else:
                self._points[number] = CurvePoint.from_results([result])

    def _run_all(self, numbers: Iterable[int]) -> None:
        """Run what is missing, that every rate has all seeds."""
        had = {number: self._points[number].results if number in self._points else () for number in numbers}
        ran = {number: {result.seed for result in results} for number, results in had.items()}
        by_rate: dict[float, list[TrialResult]] = {_rate(n, self._step): list(found) for n, found in had.items()}
        missing = [Trial(_rate(n, self._step), seed) for n in had for seed in self._seeds if seed not in ran[n]]
        for result in self._evaluate(missing) if missing else ():
            assert isinstance(result, TrialResult)  # without a goal
            by_rate[result.rate].append(result)
        self._points.update({number: CurvePoint.from_results(by_rate[_rate(number, self._step)]) for number in had})


def _rate(number: int, step: float) -> float:
    return round(number * step, 9)


def policies(scenario: Scenario, rate: float | None, objective: float | None = None) -> list[dict[str, Any]]:
    """Return the scenario's policies at a rate, or with an objective, as SlackPolicy objects, ready to apply.

    Only what differs from the defaults is written, as people would.
    """
    slack = scenario.slack if isinstance(scenario.slack, Policies) else Policies()
    found = []
    for policy in slack.policies:
        spec = _written(policy.spec.model_dump(by_alias=True, exclude_defaults=True))
        extra = spec.get("extraCapacity", {})
        kept = {name: value for name, value in extra.items() if name not in _OF_A_RATE}
        if rate is not None and rate > MOST_WITHOUT_CEILING:
            kept["ceiling"] = _most(scenario) | kept.get("ceiling", {})
        spec["extraCapacity"] = kept if rate is None else {**kept, "minRate": rate}
        spec.pop("objective", None)
        if objective is not None:
            spec["objective"] = {"instantStart": objective}
        if not spec["extraCapacity"]:
            del spec["extraCapacity"]
        found.append({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": policy.name}, "spec": spec})
    return found


def _most(scenario: Scenario) -> dict[str, str]:
    """Return all that the node groups may have: the ceiling without which no rate above 1 is taken."""
    return {
        name: format_quantity(name, sum(group.allocatable[name] * group.max for group in scenario.node_groups))
        for name in BOUNDING
    }


_OF_A_RATE = frozenset({"minRate", "replicas", "nodes", "ladder", "schedule"})
_AMOUNTS = frozenset({"floor", "ceiling", "allocatable", "fromRequested", "fromAllocatable"})


def _written(value: Any, name: str = "") -> Any:
    """Return a model's value as the object has it: amounts as quantities (they are millicores and bytes), durations."""
    if isinstance(value, Mapping):
        if name in _AMOUNTS:
            return {key: as_written(key, amount) for key, amount in value.items()}
        return {key: _written(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    return str(value) if isinstance(value, StrEnum) else value
