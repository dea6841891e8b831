"""Reports to a controller: one at a time, each made when it is sent, so nothing piles up while nobody answers."""

import logging
import random
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from slack.process.outages import Outages
from slack.process.reporting.posting import SENT, NotSent
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

LONGEST_BACK_OFF_SECONDS = 300.0
JITTER = 0.1
STANDBY = 503
"""Status of who does not lead; a Service may lead to the leader the next time."""
PUSH_SECONDS = 120.0
"""A report that takes longer counts as stuck: an exchange may take half a minute."""
STANDBYS = 10
"""In a row, that are asked again within a second or so."""
R = TypeVar("R")
A = TypeVar("A")


class Pusher(Generic[R, A]):
    """Sends a report every interval, in a thread of its own, until `stop`."""

    def __init__(
        self,
        send: Callable[[R], A],
        make: Callable[[], R | None],
        take: Callable[[A], float | None],
        *,
        interval_seconds: float,
        count: Callable[[str], None],
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """A thread that is not started yet.

        Args:
            send: sends a report; raises `NotSent`.
            make: makes the newest; None while there is none.
            take: takes an answer; says after how many seconds to report again, None: after the interval.
            interval_seconds: between reports.
            count: counts outcomes.
            spread: draws between two numbers, so that not all nodes send at once.
        """
        self._send = send
        self._make = make
        self._take = take
        self._interval = interval_seconds
        self._count = count
        self._spread = spread
        self._failures = self._standbys = 0
        self._outages = Outages()
        self._stopping = False
        self._wake = threading.Event()
        heart = Heartbeat("the thread that reports", PUSH_SECONDS)
        self._thread = SupervisedThread(self._run, name="push", heart=heart)

    def unhealthy(self) -> str | None:
        """Return why no report is sent any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def start(self) -> None:
        """Begin; the first report goes after a random part of the interval, so that not all nodes send at once."""
        self._thread.start()

    def stop(self, timeout: float = 0.3) -> None:
        """End; a report that is under way is left to the process's end."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)

    def hurry(self) -> None:
        """Report now: something of note has happened. Who calls it often is who paces it."""
        self._wake.set()

    def _run(self) -> None:
        wait = self._spread(0.0, min(self._interval, 30.0))
        while not self._stopping:
            self._thread.heart.rest(self._wake, wait)
            self._wake.clear()
            if not self._stopping:
                wait = self.push()

    def push(self) -> float:
        """Send the newest report, if there is one; returns the seconds until the next."""
        report = self._make()
        if report is None:
            return 1.0
        try:
            answer = self._send(report)
        except NotSent as problem:
            self._count(problem.outcome)
            if problem.status == STANDBY:
                self._standbys += 1
                if self._standbys <= STANDBYS:
                    return self._spread(0.5, 1.5)
            self._failures += 1
            if self._outages.is_new(str(problem)):
                log.warning("the controller has not taken the report: %s", problem)
            return self._back_off()
        self._count(SENT)
        self._failures = self._standbys = 0
        if self._outages.end():
            log.info("the controller takes reports again")
        interval = self._take(answer) or self._interval
        return self._spread(interval * (1 - JITTER), interval * (1 + JITTER))

    def _back_off(self) -> float:
        """Return the wait after failures in a row: a quarter of the interval, doubled each time, up to minutes."""
        longest = max(LONGEST_BACK_OFF_SECONDS, self._interval)
        wait = min(longest, self._interval / 4 * 2 ** min(self._failures - 1, 16))
        return self._spread(wait / 2, wait)
