"""The operator with a day of minutes: only what it learns for objectives runs on the quicker clock.

    python -m e2e.harness.product.compressed FACTOR WALL LEARNT operator --...

is `resource-slack operator --...` whose learners take the second WALL (Unix time) for LEARNT, and each second from
there for FACTOR of them, waits for nodes included. Scheduler, autoscaler and all else run as ever. `compress` does the
same to this process, for the simulator.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from slack.cli.main import main
from slack.planner.objective import codec, lead, learner
from slack.planner.objective.amount import Amount
from slack.planner.objective.learner import Learner
from slack.planner.objective.turn import Turn
from slack.planner.policy.spec import Objective
from slack.simulator.model import objectives as modelled
from slack_operator.learning import history_store


@dataclass(frozen=True, slots=True)
class QuickClock:
    """Unix seconds to the learner's."""

    factor: float
    wall: float
    learnt: float

    def __call__(self, at_seconds: float) -> float:
        """Return what the learner takes for the time."""
        return self.learnt + (at_seconds - self.wall) * self.factor

    def arguments(self) -> list[str]:
        """Return it as this module's arguments."""
        return [repr(self.factor), repr(self.wall), repr(self.learnt)]


@contextmanager
def compress(clock: QuickClock) -> Iterator[None]:
    """Let every learner of this process live by the clock."""

    class Quick(Learner):
        def amount(self, at_seconds: float, objective: Objective, keep_seconds: float = 0.0) -> Amount:
            return super().amount(clock(at_seconds), objective, keep_seconds * clock.factor)

        def observe(self, turn: Turn, objective: Objective) -> None:
            at, window = clock(turn.at_seconds), turn.window_seconds * clock.factor
            super().observe(replace(turn, at_seconds=at, window_seconds=window), objective)

    changes: list[tuple[object, str, object]] = [
        *((module, "Learner", Quick) for module in (codec, modelled, history_store)),
        (learner, "LONGEST_TURN_SECONDS", learner.LONGEST_TURN_SECONDS * clock.factor),
        (lead, "LEAST_SECONDS", 1.0),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


if __name__ == "__main__":
    factor, wall, learnt = map(float, sys.argv[1:4])
    sys.argv = ["resource-slack", *sys.argv[4:]]
    with compress(QuickClock(factor, wall, learnt)):
        main()
