"""The long-run share is that of the objective, or a little more, whatever the load does: doubles, drifts, or stays.

A world of one policy: pods of a core come in bursts by chance and go, the room that was asked for is there a window
later and stays for a hold. No scheduler, no nodes: what is judged is the learner alone.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

import pytest

from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

START = 1_767_571_200.0
GIB = 1 << 30
TURN, DAY = 60.0, 86_400.0
WINDOW, HOLD = 120.0, 600.0
BASE_PODS, RATE_PODS = 20, 2
DAYS, LEARNING_DAYS = 8, 2
Load = Callable[[float, Random], int]
"""Seconds from the start, and chance: how many pods come in a turn."""


def share(load: Load, aim: float, *, seed: int) -> float:
    """Return which share started at once after the days of learning."""
    chance, learner, objective = Random(seed), Learner(), Objective(instant_start=aim)
    ends: list[float] = []
    asked: deque[tuple[float, float]] = deque()
    started = missed = 0
    for turn in range(int(DAYS * DAY / TURN)):
        at = turn * TURN
        came = load(at, chance)
        while ends and ends[0] <= at:
            heappop(ends)
        running = BASE_PODS + len(ends)
        while asked and asked[0][0] < at - WINDOW - HOLD:
            asked.popleft()
        there = max((room for when, room in asked if when <= at - WINDOW), default=0.0)
        late = came - min(came, int(max(there, running)) - running)
        for _ in range(came):
            heappush(ends, at + chance.uniform(300, 600))
        pods = running + came
        amount = learner.amount(START + at, objective)
        arrived = {(1000, GIB): came} if came else {}
        learner.observe(Turn(START + at, (1000 * pods, GIB * pods), pods, WINDOW, arrived, came, late), objective)
        asked.append((at, pods + (amount.cpu_millis / 1000 if amount.why.known else RATE_PODS)))
        if at >= LEARNING_DAYS * DAY:
            started, missed = started + came, missed + late
    return 1 - missed / started


def bursts(size: Callable[[float], float], every_seconds: Callable[[float], float]) -> Load:
    """Return bursts by chance: size and mean distance by day."""

    def came(at: float, chance: Random) -> int:
        return round(size(at / DAY)) if chance.random() < TURN / every_seconds(at / DAY) else 0

    return came


LOADS = {
    "steady": bursts(lambda day: 12, lambda day: 1800),
    "doubles in size": bursts(lambda day: 8 if day < 4 else 16, lambda day: 1800),
    "doubles in number": bursts(lambda day: 8, lambda day: 3600 if day < 4 else 1800),
    "grows each day": bursts(lambda day: 6 * 2 ** (day / 4), lambda day: 1800),
}


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LOADS)
def test_the_long_run_share_is_less_than_a_point_below_the_objective_and_three_above(name: str) -> None:
    reached = share(LOADS[name], 0.95, seed=7)
    assert 0.94 <= reached <= 0.98, f"{name}: {reached:.4f}"
