"""The cheapest size of each kind of slack that reaches a goal, by runs of the same seeds.

The first seed finds it: sizes are doubled until the goal is reached, then halved in between, where a run that cannot
reach it any more is given up. All seeds decide there, and go on upwards where their mean misses the goal. Every size
that all seeds have run counts as a candidate, also one that chance favoured.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol

from benchmarks.sizing.runs import Point, Runs
from slack.cluster.quantity import format_cpu, format_memory
from slack.simulator.runs.baselines import with_objective
from slack.simulator.scenario.load import DeploymentReplicas
from slack.simulator.scenario.scenario import Scenario
from slack.simulator.scenario.slack_kinds import Proportional, Slack, Static

Box = dict[str, int]
"""Requests of one pause pod: millicores, bytes, and so on."""
Sized = Callable[[int], tuple[str, Slack | None]]
"""A size's word, and its slack where the word does not say all."""


class ShareOf(Protocol):
    """Runs a size with the first seed; one that may be given up is 0 where it cannot reach the goal."""

    def __call__(self, size: int, *, may_give_up: bool) -> float:
        """Return its share of pods that start at once."""


GOALS = (0.95, 0.99)
AIMS = (0.95, 0.99, 0.995)
"""Objectives that are asked for."""
KINDS = ("static", "proportional", "rate", "objective")
_MOST_STATIC, _MOST_RATE, _LEAST_CORES = 4096, 8.0, 0.25
_BOXES = 3
_STEPS_OF_RATE = 0.02
_CORES = 1000
"""A proportional overprovisioner's size is its pods for so many cores, so that more is more."""
_TRIES = 5
"""So many larger sizes are tried where the first seed was lucky."""
_NOTHING = 1e-12


def searched(runs: Runs, *, coarse: bool, kinds: Collection[str] = KINDS) -> None:
    """Make the runs of these kinds, for every goal that no slack does not reach by itself."""
    none = runs("none", "none")
    boxes = boxes_of(runs.scenario)[: 1 if coarse else _BOXES]
    for goal in (goal for goal in GOALS if none.share < goal - _NOTHING):
        for box in boxes if "static" in kinds else ():
            _decided(runs, "static", partial(_static, box), goal, 1, _MOST_STATIC, within=0.25 if coarse else 0.1)
        static = cheapest(runs.made.values(), "static", goal)
        best = next((box for box in boxes if static and static.word.endswith(f"x{_name(box)}")), boxes[0])
        within = 0.5 if coarse else 0.1
        if "proportional" in kinds:
            most = int(_CORES / _LEAST_CORES)
            _decided(runs, "proportional", partial(_proportional, best), goal, 16, most, within=within)
        if "rate" in kinds:
            _decided(runs, "rate", _rate, goal, 4, int(_MOST_RATE / _STEPS_OF_RATE), within=within)
    for aim in AIMS[: 2 if coarse else len(AIMS)] if "objective" in kinds else ():
        runs("objective", f"objective={aim:g}", with_objective(runs.scenario, aim).slack)


def _decided(runs: Runs, kind: str, sized: Sized, goal: float, first: int, most: int, *, within: float) -> None:
    """Find the smallest size with the first seed, and let all seeds decide."""

    def share_of(size: int, *, may_give_up: bool) -> float:
        return runs.first(kind, *sized(size), goal=goal if may_give_up else None)

    found = smallest(share_of, goal, first, most, within=within)
    for _ in range(_TRIES):
        if found is None or runs(kind, *sized(found)).share >= goal - _NOTHING or found >= most:
            return
        found = min(found + max(1, int(within * found)), most)


def cheapest(points: Iterable[Point], kind: str, goal: float) -> Point | None:
    """Return the cheapest of a kind that reaches a goal; None where none does."""
    reaching = [point for point in points if point.kind == kind and point.share >= goal - _NOTHING]
    return min(reaching, key=lambda point: (point.cost, point.word), default=None)


def boxes_of(scenario: Scenario) -> list[Box]:
    """Return the requests of pods that come, as pause pods have them: the largest, the smallest, then those between."""
    found: dict[tuple[int, ...], Box] = {}
    for workload in scenario.workloads:
        fixed = isinstance(workload.arrivals, DeploymentReplicas) and workload.arrivals.hpa is None
        if not fixed and not workload.node_selector and not workload.exclude:
            requests = dict(sorted(workload.requests.items()))
            found[requests.get("cpu", 0), requests.get("memory", 0), *requests.values()] = requests
    ordered = [found[size] for size in sorted(found, reverse=True)]
    return [ordered[0], *ordered[-1:0:-1][:1], *ordered[1:-1]]


def _name(box: Box) -> str:
    others = [f"{name}={value}" for name, value in box.items() if name not in ("cpu", "memory")]
    return "/".join([format_cpu(box.get("cpu", 0)), format_memory(box.get("memory", 0)), *others])


def _quantities(box: Box) -> dict[str, str]:
    return {name: f"{value}m" if name == "cpu" else str(value) for name, value in box.items()}


def _static(box: Box, count: int) -> tuple[str, Slack]:
    slack = Static.model_validate({"kind": "static", "count": count, "requests": _quantities(box)})
    return f"static={count}x{_name(box)}", slack


def _proportional(box: Box, pods: int) -> tuple[str, Slack]:
    cores = _CORES / pods
    asked = {"kind": "proportional", "requests": _quantities(box), "coresPerReplica": cores}
    return f"proportional=1x{_name(box)}/{cores:.3g}cores", Proportional.model_validate(asked)


def _rate(steps: int) -> tuple[str, None]:
    return f"rate={steps * _STEPS_OF_RATE:g}", None


def smallest(share_of: ShareOf, goal: float, first: int, most: int, *, within: float) -> int | None:
    """Find the smallest size that reaches a goal, to a share of it: doubling, then halving. None where none does.

    More slack can start fewer at once: many small placeholders leave one after another, and all of a burst waits for
    the last of them. Where doubling has not helped twice, what lies about the best size is tried instead.
    """
    low, high, best, vain = 0, first, first, 0
    reached: dict[int, float] = {}
    while (reached.setdefault(high, share_of(high, may_give_up=False))) < goal - _NOTHING:
        if reached[high] > reached[best]:
            best, vain = high, 0
        vain += reached[high] <= reached[best] and high != best
        if high >= most or vain > 1:
            beside = [max(size, 1) for size in (3 * best // 4, 3 * best // 2)]
            return next((size for size in beside if share_of(size, may_give_up=True) >= goal - _NOTHING), None)
        low, high = high, min(high * 2, most)
    while high - low > max(1, int(within * high)):
        middle = (low + high) // 2
        reaches = share_of(middle, may_give_up=True) >= goal - _NOTHING
        low, high = (low, middle) if reaches else (middle, high)
    return high
