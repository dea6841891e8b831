"""What learning costs: time an event and a plan, and the bytes of a week of 200 shapes, each beside its bound.

    python -m benchmarks.objective

Processor time of this process, so that a busy machine changes little. A turn of the loop takes what came since the last
one; its cost is divided among the pods that came and left. One amount is asked for a plan.
"""

import time

import numpy as np

from slack.planner.objective.codec import MOST_BYTES, encode
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective

EVENT_MICROSECONDS, PLAN_MILLISECONDS = 20.0, 5.0
SHAPES, TURN_SECONDS, WEEK_SECONDS = 200, 60.0, 604_800.0
_START = 1_767_571_200.0
_GIB = 1 << 30


def main() -> None:
    """Play a week with a daily curve and waves, and print a table."""
    random = np.random.default_rng(1)
    shapes = [(100 * (1 + i % 20), (1 + i // 20) * _GIB // 4) for i in range(SHAPES)]
    learner, aim = Learner(), Objective(instant_start=0.99)
    there: list[tuple[float, int]] = []
    at, events, observing, asking, longest, turns = _START, 0, 0.0, 0.0, 0.0, 0
    while at < _START + WEEK_SECONDS:
        at += TURN_SECONDS
        count = int(random.poisson(30 * (1.2 + np.sin(at / 86_400 * 2 * np.pi)))) + 40 * (at % 1800 < TURN_SECONDS)
        came = random.integers(0, SHAPES, count).tolist()
        before = len(there)
        there = [(until, shape) for until, shape in there if until > at]
        there += [(at + float(random.exponential(600)), shape) for shape in came]
        arrived: dict[tuple[int, int], int] = {}
        for shape in came:
            arrived[shapes[shape]] = arrived.get(shapes[shape], 0) + 1
        requested = (sum(shapes[s][0] for _, s in there), sum(shapes[s][1] for _, s in there))
        late = int(random.binomial(count, 0.01))
        began = time.process_time()
        learner.amount(at, aim)
        asked = time.process_time()
        learner.observe(Turn(at, requested, len(there), 110.0, arrived, count, late), aim)
        done = time.process_time()
        asking, observing, longest = asking + asked - began, observing + done - asked, max(longest, done - began)
        events, turns = events + count + max(before + count - len(there), 0), turns + 1
    size = len(encode(learner))
    rows = [
        ("an event", observing / events * 1e6, EVENT_MICROSECONDS, "us"),
        ("a plan", (asking + observing) / turns * 1e3, PLAN_MILLISECONDS, "ms"),
        ("the longest plan", longest * 1e3, PLAN_MILLISECONDS, "ms"),
        ("a week of 200 shapes", size / 1024, MOST_BYTES / 1024, "KiB"),
    ]
    print(f"{events} events, {turns} turns, {SHAPES} shapes")
    for what, found, most, unit in rows:
        print(f"{what:22} {found:9.2f} {unit:4} of {most:5g}  ratio {found / most:.2f}")


if __name__ == "__main__":
    main()
