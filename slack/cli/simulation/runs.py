"""Runs of a scenario, one here or many on a few processes, with their progress on stderr.

Worker processes are spawned, not forked: they inherit no threads and no terminal state. The scenario travels once; what
differs from run to run is its slack and its seed.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context, resource_tracker
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from slack.cli.terminal.interrupts import end_workers, hold_signals
from slack.cli.terminal.progress import ProgressSteps

if TYPE_CHECKING:
    from slack.simulator.model.result import Result
    from slack.simulator.runs.curve import GivenUp, Trial, TrialResult
    from slack.simulator.scenario.scenario import Scenario
    from slack.simulator.scenario.slack_kinds import Slack

_scenario: "Scenario | None" = None
"""In a worker: the scenario of its runs."""


class RequestedRun(NamedTuple):
    """One run to make: the scenario with this slack and seed."""

    slack: "Slack"
    seed: int


class _Refused(NamedTuple):
    """An InvalidScenario on its way from a worker: exceptions of two arguments do not survive pickling."""

    source: str
    problems: tuple[str, ...]


class Runs:
    """Makes runs of one scenario on up to `processes` processes; results come in the order in which they were asked.

    >>> with Runs(scenario, 2) as runs:        # doctest: +SKIP
    ...     first, second = runs("none", [Wanted(none, 1), Wanted(none, 2)])
    """

    def __init__(self, scenario: "Scenario", processes: int) -> None:
        self._scenario = scenario
        self._processes = min(processes, os.cpu_count() or 1)
        self._steps = ProgressSteps()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._steps.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.__exit__(kind, error, trace)
        if self._pool is not None:
            if error is not None:
                end_workers()
            self._pool.shutdown(cancel_futures=True)

    def __call__(self, name: str, wanted: "Sequence[RequestedRun]") -> "list[Result]":
        """Return the results of these runs, the first one's first."""
        return [result for _, result in sorted(self._make_all(name, wanted, _result), key=lambda pair: pair[0])]

    def trials(self, trials: "Sequence[Trial]") -> "Iterator[TrialResult | GivenUp]":
        """Yield the results of a curve's trials as they come; what a run came to is all that a worker sends."""
        rates = sorted({trial.rate for trial in trials})
        shown = f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} to {rates[-1]:g}"
        for _, result in self._make_all(f"rate {shown}: {len(trials)} runs", trials, _trial_result):
            yield result

    def _make_all(self, name: str, wanted: Sequence[Any], make: Callable[..., Any]) -> Iterator[tuple[int, Any]]:
        """Yield (number, what was made) as they come."""
        tell = self._steps.add_step(name)
        many = len(wanted)
        if self._processes < 2 or many < 2:
            _remember(self._scenario)
            for number, run in enumerate(wanted):
                yield number, make(run, lambda share, done=number: tell((done + share) / many))
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=get_context("spawn"), initializer=_prepare, initargs=(self._scenario,)
            )
        resource_tracker.ensure_running()  # starting it lets Ctrl-C through again
        with hold_signals():  # workers start with their first tasks
            numbers: dict[Future[Any], int] = {self._pool.submit(_work, make, run): n for n, run in enumerate(wanted)}
        for done, future in enumerate(as_completed(numbers), 1):
            tell(done / many)
            made = future.result()
            if isinstance(made, _Refused):
                from slack.simulator.scenario.scenario import InvalidScenario

                raise InvalidScenario(made.problems, made.source)
            yield numbers[future], made


def _prepare(scenario: "Scenario") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle, once
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # the parent ends its workers
    _remember(scenario)


def _remember(scenario: "Scenario") -> None:
    global _scenario
    _scenario = scenario


def _work(make: Callable[[Any], Any], wanted: Any) -> Any:
    from slack.simulator.scenario.scenario import InvalidScenario

    try:
        return make(wanted)
    except InvalidScenario as error:
        return _Refused(error.source, error.problems)


def _result(
    wanted: RequestedRun, tell: Callable[[float], None] | None = None, *, goal: float | None = None
) -> "Result":
    from slack.simulator.runs.engine import simulate

    assert _scenario is not None
    scenario = _scenario.model_copy(update={"slack": wanted.slack, "seed": wanted.seed})
    return simulate(scenario, on_progress=None if tell is None else lambda at, end: tell(at / end), goal=goal)


def _trial_result(trial: "Trial", tell: Callable[[float], None] | None = None) -> "TrialResult | GivenUp":
    from slack.simulator.runs.baselines import with_rate
    from slack.simulator.runs.curve import GivenUp, TrialResult
    from slack.simulator.runs.savings import OutOfReach

    assert _scenario is not None
    try:
        wanted = RequestedRun(with_rate(_scenario, trial.rate).slack, trial.seed)
        return TrialResult.from_result(trial, _result(wanted, tell, goal=trial.goal))
    except OutOfReach:
        return GivenUp(trial.rate, trial.seed)
