"""Runs of a scenario, one here or many on a few processes, with their progress on stderr.

Worker processes are spawned, not forked: they inherit no threads and no terminal state. The scenario travels once.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from types import TracebackType
from typing import TYPE_CHECKING, Self

from slack.cli.progress import Steps

if TYPE_CHECKING:
    from slack.simulator.result import Result
    from slack.simulator.scenario import Scenario
    from slack.simulator.tune import Outcome, Trial

_scenario: "Scenario | None" = None
"""In a worker: the scenario of its runs."""


def run(name: str, scenario: "Scenario", steps: Steps) -> "Result":
    """Make one run in this process."""
    from slack.simulator.engine import simulate

    tell = steps.add(name)
    return simulate(scenario, on_progress=lambda at, end: tell(at / end))


class Trials:
    """Makes the trials of a tuning on up to `processes` processes.

    >>> with Trials(scenario, 2) as trials:        # doctest: +SKIP
    ...     tuned = tune(0.99, (1, 2, 3), trials)
    """

    def __init__(self, scenario: "Scenario", processes: int) -> None:
        self._scenario = scenario
        self._processes = min(processes, os.cpu_count() or 1)
        self._steps = Steps()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self._processes > 1:
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=get_context("spawn"), initializer=_prepare, initargs=(self._scenario,)
            )
        self._steps.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.__exit__(kind, error, trace)
        if self._pool is not None:
            self._pool.shutdown(wait=error is None, cancel_futures=True)

    def __call__(self, trials: "Sequence[Trial]") -> "Iterator[Outcome]":
        """Yield outcomes as they come."""
        rates = sorted({trial.rate for trial in trials})
        shown = f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
        tell = self._steps.add(f"rate {shown}: {len(trials)} runs")
        for done, outcome in enumerate(self._outcomes(trials), 1):
            tell(done / len(trials))
            yield outcome

    def _outcomes(self, trials: "Sequence[Trial]") -> "Iterator[Outcome]":
        if self._pool is None:
            _remember(self._scenario)
            yield from map(_outcome, trials)
            return
        futures = [self._pool.submit(_outcome, trial) for trial in trials]
        for future in as_completed(futures):
            yield future.result()


def _prepare(scenario: "Scenario") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle, once
    _remember(scenario)


def _remember(scenario: "Scenario") -> None:
    global _scenario
    _scenario = scenario


def _outcome(trial: "Trial") -> "Outcome":
    from slack.simulator.baselines import with_rate
    from slack.simulator.engine import simulate
    from slack.simulator.tune import Outcome

    assert _scenario is not None
    scenario = with_rate(_scenario, trial.rate).model_copy(update={"seed": trial.seed})
    return Outcome.of(trial, simulate(scenario))
