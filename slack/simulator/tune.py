"""The cheapest rate that reaches a wanted instant-start ratio, by runs of one scenario with several seeds.

A coarse curve is run first (people want to see it), then the interval in which the goal is crossed is halved down to
`step`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from slack.cluster.quantity import format_quantity
from slack.planner.policy import API_VERSION, KIND
from slack.simulator.curve import Evaluate, Point, curve
from slack.simulator.scenario import Policies, Scenario

COARSE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_NOTHING = 1e-12
"""Two sums of the same shares differ by less."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The curve and the choice."""

    goal: float
    seeds: tuple[int, ...]
    curve: tuple[Point, ...]
    """In order of rate."""
    chosen: Point | None
    """None when no rate that was tried reaches the goal."""

    @property
    def unsure(self) -> bool:
        """Whether the choice's mean reaches the goal, but its interval does not."""
        several = len(self.seeds) > 1
        return self.chosen is not None and several and self.chosen.low < self.goal - _NOTHING

    @property
    def surer(self) -> Point | None:
        """The cheapest point whose whole interval reaches the goal; None when there is none, or one seed only."""
        reaching = (point for point in self.curve if point.low >= self.goal - _NOTHING)
        if len(self.seeds) < 2:
            return None
        return min(reaching, key=lambda one: (one.cost_per_month, one.rate), default=None)

    @property
    def best(self) -> Point:
        """The point that starts the most pods at once, the cheapest of these."""
        return max(self.curve, key=lambda one: (one.instant_start_ratio, -one.cost_per_month, -one.rate))

    def without(self) -> Point:
        """The point of rate 0: the least that the policy keeps."""
        return self.curve[0]


def tune(goal: float, seeds: Sequence[int], evaluate: Evaluate, *, step: float = 0.01, largest: float = 1.0) -> Tuned:
    """Find the cheapest rate, a multiple of `step` up to `largest`, whose mean instant-start ratio reaches the goal.

    More slack starts no fewer pods at once; where chance makes a curve dip, the lowest rate that reaches is refined.

    Raises:
        NothingMeasured: when the scenario has no pods to measure.
    """
    points: dict[int, Point] = {}
    last = max(1, round(largest / step))

    def run(numbers: Iterable[int]) -> None:
        new = sorted({number for number in numbers if number not in points})
        points.update(zip(new, curve((_rate(number, step) for number in new), seeds, evaluate), strict=True))

    def reaches(number: int) -> bool:
        return points[number].instant_start_ratio >= goal - _NOTHING

    run({round(rate / step) for rate in COARSE if rate <= largest} | {last})
    reaching = [number for number in sorted(points) if reaches(number)]
    if reaching:
        high = reaching[0]
        low = max((number for number in points if number < high), default=high)
        while high - low > 1:
            middle = (low + high) // 2
            run([middle])
            low, high = (low, middle) if reaches(middle) else (middle, high)
    chosen = min(
        (points[number] for number in points if reaches(number)),
        key=lambda one: (one.cost_per_month, one.rate),
        default=None,
    )
    return Tuned(goal, tuple(seeds), tuple(points[number] for number in sorted(points)), chosen)


def _rate(number: int, step: float) -> float:
    return round(number * step, 9)


def policies(scenario: Scenario, rate: float) -> list[dict[str, Any]]:
    """Return the scenario's policies at a rate as SlackPolicy objects, ready to apply.

    Only what differs from the defaults is written, as people would.
    """
    slack = scenario.slack if isinstance(scenario.slack, Policies) else Policies()
    found = []
    for policy in slack.policies:
        spec = _written(policy.spec.model_dump(by_alias=True, exclude_defaults=True))
        extra = spec.get("extraCapacity", {})
        kept = {name: value for name, value in extra.items() if name not in ("replicas", "ladder", "schedule")}
        spec["extraCapacity"] = {**kept, "minRate": rate}
        found.append({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": policy.name}, "spec": spec})
    return found


_AMOUNTS = frozenset({"floor", "ceiling", "allocatable", "fromRequested"})


def _written(value: Any, name: str = "") -> Any:
    """Return a model's value as the object has it: amounts as quantities (they are millicores and bytes), durations."""
    if isinstance(value, Mapping):
        if name in _AMOUNTS:
            return {key: format_quantity(key, amount) for key, amount in value.items()}
        return {key: _written(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_written(one) for one in value]
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    return str(value) if isinstance(value, StrEnum) else value
