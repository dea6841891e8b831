"""A daemon thread with a liveness stamp: it is unhealthy once it has ended by itself, or its stamp is late."""

import logging
import threading
from collections.abc import Callable

from slack.supervision.heartbeat import Heartbeat

log = logging.getLogger(__name__)


class SupervisedThread:
    """Runs `work` once. `start`, `join` and `dismiss` belong to the owner; `work` writes `heart`."""

    def __init__(self, work: Callable[[], None], *, name: str, heart: Heartbeat) -> None:
        """Make a thread that is not started yet.

        Args:
            work: returns only after the owner has called `dismiss`, or the process is ending.
            name: of the thread.
            heart: the stamp that `work` writes.
        """
        self.heart = heart
        self._work = work
        self._dismissed = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self.heart.beat()
        self._thread.start()

    def dismiss(self) -> None:
        """Expect the end: from now on a thread that has ended is healthy."""
        self._dismissed = True

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end; return at once if the thread was never started or is the caller's own."""
        self.dismiss()
        if self.started and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def unhealthy(self) -> str | None:
        """Return why the thread does not work; None if it does, was never started or was dismissed."""
        if not self.started or self._dismissed:
            return None
        if not self._thread.is_alive():
            return f"{self.heart.name} has ended" + (f": {self._error}" if self._error else "")
        return self.heart.late()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # SystemExit would end a thread without a word
            self._error = f"{type(error).__name__}: {error}".rstrip(": ")
            log.exception("%s has ended", self.heart.name)
