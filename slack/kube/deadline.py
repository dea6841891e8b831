"""How long a command waits for a server: one deadline until its first answer, then as long as answers make progress.

A process of a cluster has none of this, it asks again for ever; a command has a person before it. Until the first whole
answer all requests together have `first_answer_seconds`; after it every `silent_seconds` must bring some KiB, so that
a list of many pages is never cut while it comes, and a byte a second is silence. After two seconds without an answer
the person is told once for whom they wait.

What waits is a thread of its own, which is left behind when the time is over: looking up a name, a proxy's answer and
a head that comes letter by letter have no timeout that bounds their whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from slack.kube.errors import Unreachable

T = TypeVar("T")

FIRST_ANSWER_SECONDS = 12.0
SILENT_SECONDS = 15.0
WORD_SECONDS = 2.0
LEAST_BYTES = 16 * 1024
"""In `SILENT_SECONDS`: what is slower is no network that anybody works with."""
_GLANCE_SECONDS = 0.25


class Deadline:
    """The time that one server gets from one command. Threads may share it: what one of them hears renews it for all.

    Usage:

        deadline = Deadline("the API server at https://10.0.0.1:6443", print)
        body = deadline.wait("GET /version", lambda: read_all(deadline.progress))
        deadline.answered()
    """

    def __init__(
        self,
        server: str,
        say: Callable[[str], None],
        *,
        first_answer_seconds: float | None = None,
        silent_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._say = say
        self._first_answer_seconds = FIRST_ANSWER_SECONDS if first_answer_seconds is None else first_answer_seconds
        self._silent_seconds = SILENT_SECONDS if silent_seconds is None else silent_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._answered = False
        self._heard_at = 0.0
        self._unheard_bytes = 0
        self._told = False
        self._given_up = threading.Event()

    def progress(self, size: int) -> None:
        """Count bytes of an answer that have come."""
        with self._lock:
            self._unheard_bytes += size
            if self._unheard_bytes >= LEAST_BYTES:
                self._unheard_bytes, self._heard_at = 0, self._clock()

    def answered(self) -> None:
        """Note a whole answer: the server is there, and from now on only its silence counts."""
        with self._lock:
            self._answered, self._unheard_bytes, self._heard_at = True, 0, self._clock()

    def give_up(self) -> None:
        """End all waiting, now and later."""
        self._given_up.set()

    def over(self, since: float) -> float:
        """Return how many seconds ago the time for a request that began then has ended; negative while it lasts.

        Args:
            since: by the same clock.
        """
        with self._lock:
            now = self._clock()
            if self._answered:
                return now - max(self._heard_at, since) - self._silent_seconds
            return now - (self._began if self._began is not None else since) - self._first_answer_seconds

    def wait(self, request: str, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises:
            Unreachable: the time is over, or `give_up` was called. `work` is left to itself.
        """
        began = self._clock()
        with self._lock:
            self._began = began if self._began is None else self._began
        attempt = _Attempt(work)
        attempt.start()
        while not attempt.done.wait(min(_GLANCE_SECONDS, max(0.0, -self.over(began)))):
            if self._given_up.is_set():
                raise Unreachable(f"{request}: given up")
            if self.over(began) >= 0:
                raise Unreachable(f"{request}: {self._words()}", timed_out=True)
            self._tell(self._clock() - began)
        return attempt.result()

    def _words(self) -> str:
        if self._answered:
            return f"no more of an answer for {self._silent_seconds:g} s"
        return f"no whole answer within {self._first_answer_seconds:g} s"

    def _tell(self, waited_seconds: float) -> None:
        with self._lock:
            due = waited_seconds >= WORD_SECONDS and not self._told
            self._told = self._told or due
        if due:
            self._say(f"waiting for {self._server}")


class _Attempt(Generic[T]):
    """One piece of work in a daemon thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.done = threading.Event()
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="request", daemon=True).start()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        finally:
            self.done.set()
