"""Decisions written down as they are made, in a thread of its own: the extender never waits for a disk.

What comes quicker than it can be written is left out and counted, and a disk that is full is told once and tried again.
"""

import logging
import queue
import threading
from pathlib import Path

from slack.process.outages import Outages
from slack.scorer.record import line_of
from slack_operator.scorer.scores import Decision

log = logging.getLogger(__name__)

MOST_WAITING = 256


class Recorder:
    """Appends to one file until `stop`; `add` from any thread."""

    def __init__(self, file: Path) -> None:
        self.left_out = 0
        self._file = file
        self._waiting: queue.Queue[Decision | None] = queue.Queue(MOST_WAITING)
        self._outages = Outages()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin.

        Raises:
            OSError: the file cannot be appended to.
        """
        self._file.open("ab").close()
        self._thread.start()

    def add(self, decision: Decision) -> None:
        """Take a decision; returns at once."""
        try:
            self._waiting.put_nowait(decision)
        except queue.Full:
            self.left_out += 1

    def stop(self, timeout: float = 2.0) -> None:
        """Write what waits, and end; nothing where it was never started."""
        if self._thread.ident is None:
            return
        try:
            self._waiting.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)
        if self.left_out:
            log.warning(
                "%d decisions came quicker than they could be written, and are not in %s", self.left_out, self._file
            )

    def _run(self) -> None:
        while (decision := self._waiting.get()) is not None:
            try:
                line = line_of(
                    decision.at, decision.pod, decision.demand.placeholder, decision.standing.basis, decision.scores
                )
                with self._file.open("ab") as opened:
                    opened.write(line)
                self._outages.end()
            except OSError as error:
                if self._outages.is_new(str(error)):
                    log.warning("%s: decisions cannot be written: %s", self._file, error.strerror or error)
            except Exception:
                log.exception("a decision could not be written down")
