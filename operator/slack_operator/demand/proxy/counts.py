"""What a container counts of itself: for its reports, and for its metrics."""

import time
from collections import deque
from collections.abc import Callable

from slack.demand.broker import PulledMessage
from slack.demand.reports import LAST_RUNS, ContainerReport


class ProxyCounts:
    """Of one event loop. `on_wait` and `on_run` are told of each message, in seconds."""

    def __init__(
        self,
        container: str,
        slots: int,
        *,
        on_wait: Callable[[float], None] = lambda _: None,
        on_run: Callable[[float, bool], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._container = container
        self._slots = slots
        self._on_wait, self._on_run = on_wait, on_run
        self._clock = clock
        self._idle_since = clock()
        self._runs = self._failures = 0
        self._run_ms = 0.0
        self._last: deque[float] = deque(maxlen=LAST_RUNS)
        self.busy = 0
        self.total = 0
        """Runs that ended, good or bad."""

    def began(self, message: PulledMessage) -> None:
        """A message was pulled, and its run begins."""
        self.busy += 1
        if message.age_seconds is not None and message.attempt == 1:  # a later one waited for its delay as well
            self._on_wait(message.age_seconds)

    def ended(self, seconds: float, *, done: bool) -> None:
        """A run ended after that time."""
        self.busy -= 1
        self.total += 1
        self._runs += 1
        self._failures += not done
        self._run_ms += seconds * 1000
        self._last.append(round(seconds * 1000, 3))
        self._idle_since = self._clock()
        self._on_run(seconds, done)

    def stir(self) -> None:
        """Be idle only from now on: no message could have come."""
        self._idle_since = self._clock()

    @property
    def idle_seconds(self) -> float:
        """For how long no slot was busy."""
        return 0.0 if self.busy else self._clock() - self._idle_since

    def report(self, *, draining: bool) -> ContainerReport:
        """Return what is said now; what was counted begins anew."""
        report = ContainerReport(
            container=self._container,
            slots=self._slots,
            busy=self.busy,
            idle_seconds=None if self.busy else round(self.idle_seconds, 3),
            runs=self._runs,
            failures=self._failures,
            run_ms=round(self._run_ms, 3),
            last_run_ms=tuple(self._last),
            draining=draining,
        )
        self._runs = self._failures = 0
        self._run_ms = 0.0
        self._last.clear()
        return report
