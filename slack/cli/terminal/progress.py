"""How far a long command is, on stderr: a bar where a terminal shows it, a line now and then where it does not."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

_LINE_SECONDS = 5.0


class ProgressSteps:
    """Progress of one run after the other, or of several at once. stdout stays free for results.

    >>> with Steps() as steps:                      # doctest: +SKIP
    ...     simulate(scenario, on_progress=steps.add_step("none"))
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._told: dict[str, float] = {}
        self._began = time.monotonic()
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add_step(self, name: str) -> Callable[[float], None]:
        """Start a step; call the result with the share that is done, from 0 to 1."""
        if self._bar is None:
            self._told[name] = time.monotonic()
            return lambda share: self._line(name, share)
        bar = self._bar
        task: TaskID = bar.add_task(name, total=1.0)
        return lambda share: bar.update(task, completed=share)

    def _line(self, name: str, share: float) -> None:
        now = time.monotonic()
        if now - self._told[name] >= _LINE_SECONDS:
            self._told[name] = now
            print(f"{name}: {share * 100:.0f} % after {now - self._began:.0f} s", file=sys.stderr, flush=True)
