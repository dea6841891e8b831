"""One event that says: stop. Signals set it, and so does whoever finds that the process cannot go on.

The first reason given is kept, with the exit code that goes with it; later ones change nothing. Any thread may ask or
set it. The main thread waits on it and stops everything else in order.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ONE_WISH_SECONDS = 1.0
"""Signals that come within this time of the first say the same: `timeout` and terminals tell child and group."""


class Interrupted(BaseException):
    """A signal asked for the end while the process was being made; raised in the main thread."""


class Stopping:
    """Why and when the process ends.

    >>> stopping = Stopping()
    >>> stopping.request("the lease is lost", exit_code=1)
    >>> stopping.requested, stopping.exit_code, stopping.reason
    (True, 1, 'the lease is lost')
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.exit_code = 0
        self.reason = ""
        self._lock = threading.Lock()
        self._interrupts = False

    @property
    def requested(self) -> bool:
        """Whether somebody has asked for the end."""
        return self.event.is_set()

    def request(self, reason: str, *, exit_code: int = 0) -> None:
        """Ask for the end; only the first call counts."""
        with self._lock:
            if not self.event.is_set():
                self.reason, self.exit_code = reason, exit_code
                self.event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the end is asked for; False when the time ran out."""
        return self.event.wait(timeout)

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """Let a signal end what the main thread does meanwhile: whoever waits there looks at no event.

        Raises:
            Interrupted: a signal came.
        """
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def on_signals(self) -> None:
        """Let SIGTERM, SIGINT and SIGHUP ask for an orderly end. Main thread only.

        One more SIGTERM or SIGINT a second later ends at once. One more SIGHUP does not: a terminal that closes may
        send several, and nobody is there who could not wait. A SIGHUP that is ignored (`nohup`) stays ignored.
        """
        first_at: float | None = None

        def handle(number: int, _: FrameType | None) -> None:
            nonlocal first_at
            if first_at is not None:
                if (
                    number != signal.SIGHUP and time.monotonic() - first_at >= _ONE_WISH_SECONDS
                ):  # whoever signals again does not want to wait
                    signal.signal(number, signal.SIG_DFL)
                    os.kill(os.getpid(), number)
                return
            first_at, name = time.monotonic(), signal.Signals(number).name
            # the interrupted main thread may hold the lock of `request`: another thread takes it instead
            threading.Thread(target=self.request, args=(name,), name="stop", daemon=True).start()
            if self._interrupts:
                raise Interrupted

        for number in STOP_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handle)
