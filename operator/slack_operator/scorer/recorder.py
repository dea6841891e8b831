"""Decisions written down as they are made, in a thread of its own: the extender never waits for a disk.

What comes quicker than it can be written is left out and counted, and a disk that is full is told once and tried again.
"""

import logging
import queue
from pathlib import Path

from slack.process.outages import Outages
from slack.scorer.record import line_of
from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread
from slack_operator.scorer.scores import ScoringDecision

log = logging.getLogger(__name__)

MOST_WAITING = 256
MOST_FILE_BYTES = 256 << 20
"""A file that would be longer is renamed, with `.1` at its end, and another begun: so a disk holds twice as much."""
WRITE_SECONDS = 120.0
"""A write that takes longer counts as stuck."""


class DecisionRecorder:
    """Appends to one file until `stop`; `add` from any thread."""

    def __init__(self, file: Path, *, most_bytes: int = MOST_FILE_BYTES) -> None:
        self.left_out = 0
        self._most_bytes = most_bytes
        self._file = file
        self._waiting: queue.Queue[ScoringDecision | None] = queue.Queue(MOST_WAITING)
        self._outages = Outages()
        heart = Heartbeat("the thread that records", WRITE_SECONDS)
        self._thread = SupervisedThread(self._run, name="recorder", heart=heart)

    def start(self) -> None:
        """Begin.

        Raises:
            OSError: the file cannot be appended to.
        """
        self._file.open("ab").close()
        self._thread.start()

    def add(self, decision: ScoringDecision) -> None:
        """Take a decision; returns at once."""
        try:
            self._waiting.put_nowait(decision)
        except queue.Full:
            self.left_out += 1

    def stop(self, timeout: float = 2.0) -> None:
        """Write what waits, and end; nothing where it was never started."""
        if not self._thread.started:
            return
        self._thread.dismiss()
        try:
            self._waiting.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)
        if self.left_out:
            log.warning(
                "%d decisions came quicker than they could be written, and are not in %s", self.left_out, self._file
            )

    def unhealthy(self) -> str | None:
        """Return why nothing is recorded any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def _run(self) -> None:
        while True:
            self._thread.heart.beat()
            try:
                decision = self._waiting.get(timeout=heartbeat.LONGEST_REST_SECONDS)
            except queue.Empty:
                continue
            if decision is None:
                return
            self._take(decision)

    def _take(self, decision: ScoringDecision) -> None:
        try:
            placeholder, basis = decision.demand.placeholder, decision.standing.basis
            self._write(line_of(decision.at, decision.pod, placeholder, basis, decision.scores))
            self._outages.end()
        except OSError as error:
            if self._outages.is_new(str(error)):
                log.warning("%s: decisions cannot be written: %s", self._file, error.strerror or error)
        except Exception:
            log.exception("a decision could not be written down")

    def _write(self, line: bytes) -> None:
        with self._file.open("ab") as opened:
            if opened.tell() == 0 or opened.tell() + len(line) <= self._most_bytes:
                opened.write(line)
                return
        self._file.replace(self._file.with_name(f"{self._file.name}.1"))
        self._file.write_bytes(line)
