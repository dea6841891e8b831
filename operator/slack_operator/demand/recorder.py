"""A run written down as it happens, in a thread of its own: the loop never waits for a disk.

What comes quicker than it can be written is left out and counted, and a disk that is full is told once and tried again.
A line that was cut off, by a kill or a full disk, goes before the next one is written: glued to it both were lost, and
the recording with them.
"""

import logging
import os
import queue
from pathlib import Path
from typing import Final

from slack.demand.trace import MOST_LINE_BYTES, Line, encode, is_cut
from slack.process.outages import Outages
from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

MOST_WAITING: Final = 256
WRITE_SECONDS: Final = 120.0
"""A write that takes longer counts as stuck."""
_BEGIN: Final = b'{"type"'
"""Of each line of ours."""
_PIECE_BYTES: Final = 1 << 20


class TraceRecorder:
    """Appends to one file until `stop`; `add` from any thread."""

    def __init__(self, file: Path) -> None:
        self.left_out = 0
        self._file = file
        self._waiting: queue.Queue[Line | None] = queue.Queue(MOST_WAITING)
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

    def add(self, line: Line) -> None:
        """Take a line; returns at once."""
        try:
            self._waiting.put_nowait(line)
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
                "%d ticks came quicker than they could be written, and are not in %s", self.left_out, self._file
            )

    def unhealthy(self) -> str | None:
        """Return why nothing is recorded any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def _run(self) -> None:
        whole = False  # whoever wrote to it before may have been killed on the way
        while True:
            self._thread.heart.beat()
            try:
                line = self._waiting.get(timeout=heartbeat.LONGEST_REST_SECONDS)
            except queue.Empty:
                continue
            if line is None:
                return
            try:
                if not whole:
                    end_last_line(self._file)
                whole = False
                with self._file.open("ab") as opened:
                    opened.write(encode(line))
                whole = True
                self._outages.end()
            except OSError as error:
                if self._outages.is_new(str(error)):
                    log.warning("%s: ticks cannot be written: %s", self._file, error.strerror or error)


def end_last_line(file: Path) -> None:
    """Make a file end with a whole line: one that was cut off goes, and one that only lacks its end gets it.

    What is no line of ours stays, whatever it is; so does all of what is no file, such as a pipe.

    Raises:
        OSError: it cannot be read or changed.
    """
    if not file.is_file():
        return
    with file.open("rb+") as opened:
        size = opened.seek(0, os.SEEK_END)
        begin, last = size, b""
        while begin > 0 and b"\n" not in last and len(last) <= MOST_LINE_BYTES:
            end, begin = begin, max(begin - _PIECE_BYTES, 0)
            opened.seek(begin)
            last = opened.read(end - begin) + last
        last = last.rpartition(b"\n")[2]
        if not last:
            return
        if (last.startswith(_BEGIN) or _BEGIN.startswith(last)) and is_cut(last):
            opened.truncate(size - len(last))
            log.warning("%s: its last line was cut off while it was written, and is taken away", file)
        else:
            opened.seek(0, os.SEEK_END)
            opened.write(b"\n")
