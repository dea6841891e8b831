"""What a load watcher tells, fetched in a thread of its own: the newest report of each window, however old.

How old a report may be is for those to judge who go by it (scores, the web page); a watcher that is away costs nothing
here but a line in the log. Both formats are read. Upstream's watcher answers every window with the same one, which is
then kept once.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import urllib3

from slack.loadwatcher.decoding import MOST_BYTES, InvalidPayload, decode
from slack.loadwatcher.payload import WINDOWS, LoadReport, RollupWindow
from slack.process.outages import Outages
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

TIMEOUT = urllib3.Timeout(connect=2.0, read=10.0)
FETCH_SECONDS = 120.0
"""A fetch that takes longer counts as stuck: each window is given up after `TIMEOUT`."""
_NOTHING_THERE = (404, 503)
KEPT_SECONDS = 3600.0
"""A window that did not come again for so long is forgotten: it names nodes that may be gone, and is too old to use."""

Count = Callable[[str], None]


class _UnexpectedStatus(InvalidPayload):
    """It answers something else than 200."""


_WORDS: dict[type[Exception], str] = {_UnexpectedStatus: "status", InvalidPayload: "payload"}


class LoadSource:
    """Asks until `stop`; `reports` may be read from any thread."""

    def __init__(
        self,
        url: str,
        interval_seconds: float,
        touch: Callable[[], None],
        *,
        authority: str | None = None,
        windows: Sequence[RollupWindow] = WINDOWS,
        most_bytes: int = MOST_BYTES,
        on_error: Count = lambda _: None,
        on_ignored: Callable[[str, int], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reports: Mapping[RollupWindow, LoadReport] = {}
        """Replaced, never changed."""
        self.failing: str | None = None
        """Why the last asking failed, as one word: unreachable, status, payload or mistake; None where it did not."""
        self._url = url
        self._windows = windows
        self._most_bytes = most_bytes
        self._interval = interval_seconds
        self._touch = touch
        self._on_error = on_error
        self._on_ignored = on_ignored
        self._clock = clock
        self._received_at: dict[RollupWindow, float] = {}
        self._outages = Outages(clock)
        self._http = urllib3.PoolManager(ca_certs=authority, retries=False, timeout=TIMEOUT)
        self._ended = threading.Event()
        heart = Heartbeat("the thread that asks the load watcher", FETCH_SECONDS)
        self._thread = SupervisedThread(self._run, name="load", heart=heart)

    def unhealthy(self) -> str | None:
        """Return why the load watcher is no longer asked; None if it is, or if asking has not begun."""
        return self._thread.unhealthy()

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self, timeout: float = 0.3) -> None:
        """End; nothing where it was never started. A request that hangs is left behind."""
        self._ended.set()
        self._thread.join(timeout)

    def fetch(self) -> None:
        """Ask for all windows once; a window that fails keeps what it had, for an hour."""
        found = dict(self.reports)
        problem: str | None = None
        failing: str | None = None
        for window in self._windows:
            try:
                report = self._window(window)
            except (urllib3.exceptions.HTTPError, InvalidPayload) as error:
                problem = f"{self._url}/watcher: {error}"
                failing = _WORDS.get(type(error), "unreachable")
                self._on_error(failing)
                continue
            if report is not None:
                found[report.window.duration] = report
                self._received_at[report.window.duration] = self._clock()
        for window in [window for window in found if self._clock() - self._received_at[window] > KEPT_SECONDS]:
            del found[window], self._received_at[window]
        self.failing = failing
        if problem is None:
            self._outages.end()
        elif self._outages.is_new(problem):
            log.warning("the load watcher's windows are kept as they were: %s", problem)
        if found != self.reports:
            self.reports = found
            self._touch()

    def _window(self, window: RollupWindow) -> LoadReport | None:
        answer = self._http.request(
            "GET",
            f"{self._url}/watcher",
            fields={"window": str(window)},
            headers={"Accept": "application/json"},
            redirect=False,
            preload_content=False,
        )
        try:
            body = answer.read(self._most_bytes + 1, decode_content=True)
        finally:
            answer.release_conn()
        if answer.status in _NOTHING_THERE:
            return None  # it has nothing yet
        if answer.status != 200:
            raise _UnexpectedStatus(f"the answer is {answer.status}")
        if len(body) > self._most_bytes:
            raise InvalidPayload(f"the payload is longer than {self._most_bytes >> 20} MiB")
        decoded = decode(body)
        for why, count in decoded.ignored.items():
            self._on_ignored(str(why), count)
        return decoded.report

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.fetch()
                self._thread.heart.worked()
            except Exception as error:
                log.exception("the load watcher could not be asked")
                self._thread.heart.failed(error)
                self.failing = "mistake"
                self._on_error(self.failing)
            self._thread.heart.rest(self._ended, self._interval)
