"""kopf's thread and its log: it watches objects of ours into `Desired`, see `kopf_operator`.

kopf is loaded in its thread, when there is something to watch: the first plan is made of a list and does not wait for
it, and a standby goes without. Of its log people get what is wrong, in our words and once an outage; at debug level
they get all of it.
"""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slack.kube.connection import Connection
from slack.kube.paths import resource_path
from slack.process.outages import Outages
from slack_operator.runtime.desired import Desired

log = logging.getLogger(__name__)

QUIET_SECONDS = 180.0
"""After so long without a complaint an outage is over; kopf waits up to 144 s between two tries."""
_ERROR = re.compile(r" -> (?P<type>\w+)\(")
_WORDS = {
    "ClientConnectorError": "no connection to the API server",
    "ServerDisconnectedError": "the API server has closed the connection",
    "TimeoutError": "the API server has not answered in time",
    "ServerTimeoutError": "the API server has not answered in time",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Which objects are watched."""

    api_version: str
    kind: str
    plural: str
    without: str
    """What is said when there is no CRD of it."""
    namespaces: tuple[str, ...] = ()
    """Where they are, each watched by itself, which takes rights there only; none: everywhere."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The collections: cluster-wide, or one a namespace."""
        if not self.namespaces:
            return (resource_path(self.api_version, self.plural),)
        return tuple(resource_path(self.api_version, self.plural, namespace=name) for name in self.namespaces)


class KopfLog(logging.Handler):
    """Takes all that kopf logs. Any thread may log, and say `well`."""

    def __init__(self, plural: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._plural = plural
        self._clock = clock
        self._outages = Outages(clock)
        self._complained_at = float("-inf")

    def install(self) -> None:
        """Take the place of what took kopf's lines before."""
        logger = logging.getLogger("kopf")
        logger.handlers[:] = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Say what is wrong when it begins; a mistake of ours or kopf's is told with its traceback."""
        if logging.getLogger("kopf").isEnabledFor(logging.DEBUG):
            logging.getLogger().handle(record)
            return
        error = record.exc_info[1] if record.exc_info else None
        if is_missing_crd(error) or record.levelno < logging.WARNING:
            return  # the lister says it, and starts kopf again when the CRD is back
        if error is not None and not _is_answer(error) and not isinstance(error, OSError):
            log.error("kopf has failed: %s", record.getMessage(), exc_info=record.exc_info)
            return
        self._complained_at = self._clock()
        if self._outages.is_new("watch"):
            log.warning("%s cannot be watched, which is tried again: %s", self._plural, _cause(record, error))

    def well(self) -> None:
        """The objects can be listed: says that the watch is well again when nothing was wrong for a while."""
        if self._clock() - self._complained_at >= QUIET_SECONDS and self._outages.end():
            log.info("%s are watched again", self._plural)


def is_missing_crd(error: BaseException | None) -> bool:
    """Whether it is kopf's error for a 404; it watches nothing but our kind, and does not export the class.

    When the CRD is deleted under its watch, kopf logs the same 404 twice, from its watcher and from the task above it.
    """
    return getattr(error, "status", None) == 404


def _is_answer(error: BaseException) -> bool:
    """Whether it is kopf's error for an answer of the API server."""
    return isinstance(getattr(error, "status", None), int)


def _cause(record: logging.LogRecord, error: BaseException | None) -> str:
    message = record.getMessage()
    kind = type(error).__name__ if error is not None else found["type"] if (found := _ERROR.search(message)) else ""
    status = getattr(error, "status", None)
    if isinstance(status, int):  # kopf's error for an answer of the API server
        return f"HTTP {status}: {error}"[:300]
    return _WORDS.get(kind) or (str(error) if error is not None else message)[:300]


class _Stop(threading.Event):
    """Whether kopf was told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.ending = threading.Event()
        """What kopf's worker thread waits for: also set if kopf ends by itself."""

    def set(self) -> None:
        super().set()
        self.ending.set()


class KopfWatch:
    """kopf's thread. `start` and `stop` belong to the policy source's."""

    def __init__(self, connection: Connection, desired: Desired[Any], kind: Kind) -> None:
        self.log = KopfLog(kind.plural)
        self._connection = connection
        self._desired = desired
        self._kind = kind
        self._stop = _Stop()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def died(self) -> bool:
        """Whether it has ended without having been told to."""
        return self._thread is not None and not self._thread.is_alive() and not self._stop.is_set()

    def start(self) -> None:
        """Begin to watch."""
        self.log.install()
        # it warns that signals are not its business outside the main thread, which is what we want
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        self._stop = _Stop()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="kopf", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 0.0) -> None:
        """End, and wait so long for it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, stop: _Stop) -> None:
        try:
            from slack_operator.runtime.kopf_operator import watch  # loads kopf, which takes a while

            asyncio.run(watch(self._desired, self._connection, self._kind, stop.ending))
        except Exception as error:
            if not stop.is_set():
                logging.getLogger("kopf").exception("it has ended: %s", error)
