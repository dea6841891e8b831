"""A liveness stamp. The work writes it each time that it moves; whoever answers /healthz asks whether it is late.

Work that waits for events wakes up every few seconds to write the stamp. A thread that is idle therefore stays healthy,
and a thread that hangs does not. A stamp has a limit: the longest time that one step of the work may take. Work that
goes on although its turns fail says so, for a thread whose every turn fails is as good as dead.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Final

LONGEST_REST_SECONDS: Final = 5.0
"""Idle work writes its stamp at least this often."""


class Heartbeat:
    """The stamp of one piece of work. The work calls `beat`, `rest`, `worked` and `failed`; any thread may call `late`.

    >>> now = [0.0]
    >>> heart = Heartbeat("loop", 30.0, clock=lambda: now[0])
    >>> heart.beat()
    >>> now[0] = 31.0
    >>> heart.late()
    'loop has not moved for 31 s'
    """

    def __init__(self, name: str, limit_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is late before the first beat.

        Args:
            name: what works, as /healthz names it.
            limit_seconds: the longest time from one beat to the next, and for which each turn may fail.
            clock: monotonic seconds.
        """
        self.name = name
        self.limit_seconds = limit_seconds
        self._clock = clock
        self._beat_at = math.inf
        self._failing: tuple[float, str] | None = None
        """Since when each turn has failed, and of what the first one did."""

    def beat(self) -> None:
        """Note that the work moves."""
        self._beat_at = self._clock()

    def worked(self) -> None:
        """Note that a turn has ended as it should."""
        self._failing = None
        self.beat()

    def failed(self, error: BaseException) -> None:
        """Note that a turn has failed by a mistake; no stamp makes up for that, only a turn that works."""
        if self._failing is None:
            self._failing = self._clock(), f"{type(error).__name__}: {error}".rstrip(": ")

    def late(self) -> str | None:
        """Return why the work counts as stuck; None if its stamp is fresh and its turns work."""
        now, failing = self._clock(), self._failing
        silent_seconds = now - self._beat_at
        if silent_seconds > self.limit_seconds:
            return f"{self.name} has not moved for {silent_seconds:.0f} s"
        if failing is not None and now - failing[0] > self.limit_seconds:
            return f"{self.name} has failed at each turn for {now - failing[0]:.0f} s: {failing[1]}"
        return None

    def rest(self, wake: threading.Event, seconds: float | None) -> bool:
        """Wait for an event as `Event.wait` does, and write the stamp meanwhile.

        Args:
            wake: ends the wait.
            seconds: the longest wait; None: without an end.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            self.beat()
            left = until - time.monotonic()
            if wake.wait(max(0.0, min(left, LONGEST_REST_SECONDS))):
                return True
            if left <= LONGEST_REST_SECONDS:
                return False
