"""A run written down as it happens, in a thread of its own: the loop never waits for a disk.

What comes quicker than it can be written is left out and counted, and a disk that is full is told once and tried again.
"""

import logging
import queue
import threading
from pathlib import Path
from typing import Final

from slack.demand.trace import Line, encode
from slack.process.outages import Outages

log = logging.getLogger(__name__)

MOST_WAITING: Final = 256


class TraceRecorder:
    """Appends to one file until `stop`; `add` from any thread."""

    def __init__(self, file: Path) -> None:
        self.left_out = 0
        self._file = file
        self._waiting: queue.Queue[Line | None] = queue.Queue(MOST_WAITING)
        self._outages = Outages()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin.

        Raises:
            OSError: the file cannot be appended to.
        """
        self._file.open("ab").close()
        self._thread.start()

    def add(self, line: Line) -> None:
        """Take a line; returns at once."""
        try:
            self._waiting.put_nowait(line)
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
                "%d ticks came quicker than they could be written, and are not in %s", self.left_out, self._file
            )

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                with self._file.open("ab") as opened:
                    opened.write(encode(line))
                self._outages.end()
            except OSError as error:
                if self._outages.is_new(str(error)):
                    log.warning("%s: ticks cannot be written: %s", self._file, error.strerror or error)
