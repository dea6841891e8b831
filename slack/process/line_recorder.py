"""A record that grows by one line at a time, in a thread of its own: who adds to it never waits for a disk.

The demand controller records its ticks with it, the scorer its decisions. What it guarantees:

- Lines that come quicker than they can be written are left out and counted.
- A disk that is full is told once, and tried again with the next line.
- A line that was cut off, by a kill or a full disk, is removed before the next one is written. Otherwise both would be
  one line that nobody can read.
"""

import logging
import os
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from slack.process.outages import Outages
from slack.supervision import heartbeat
from slack.supervision.heartbeat import Heartbeat
from slack.supervision.threads import SupervisedThread

log = logging.getLogger(__name__)

MOST_WAITING: Final = 256
WRITE_SECONDS: Final = 120.0
"""A write that takes longer counts as stuck."""
MOST_LINE_BYTES: Final = 64 << 20
"""So far back the beginning of a last line is looked for."""
_PIECE_BYTES: Final = 1 << 20

Item = TypeVar("Item")


class LineRecorder(Generic[Item]):
    """Appends to one file until `stop`; `add_item` from any thread."""

    def __init__(
        self,
        file: Path,
        encode: Callable[[Item], bytes],
        *,
        what: str,
        begin: bytes,
        most_bytes: int | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            file: to append to.
            encode: gives an item's line, with its end; called in the recorder's thread.
            what: the items in the plural, for warnings: `ticks`.
            begin: how each line begins.
            most_bytes: a file that would be longer is renamed, with `.1` at its end, and another begun.
        """
        self.left_out = 0
        self._file = file
        self._encode = encode
        self._what = what
        self._begin = begin
        self._most_bytes = most_bytes
        self._whole = False  # whoever wrote to the file before may have been killed on the way
        self._waiting: queue.Queue[Item | None] = queue.Queue(MOST_WAITING)
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

    def add_item(self, item: Item) -> None:
        """Take an item; returns at once."""
        try:
            self._waiting.put_nowait(item)
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
            came = "%d %s came quicker than they could be written, and are not in %s"
            log.warning(came, self.left_out, self._what, self._file)

    def unhealthy(self) -> str | None:
        """Return why nothing is recorded any more; None if the thread works, or has not begun."""
        return self._thread.unhealthy()

    def _run(self) -> None:
        while True:
            self._thread.heart.beat()
            try:
                item = self._waiting.get(timeout=heartbeat.LONGEST_REST_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            self._take(item)

    def _take(self, item: Item) -> None:
        try:
            self._write(item)
            self._outages.end()
        except OSError as error:
            if self._outages.is_new(str(error)):
                log.warning("%s: %s cannot be written: %s", self._file, self._what, error.strerror or error)
        except Exception:
            log.exception("one of the %s could not be written down", self._what)

    def _write(self, item: Item) -> None:
        if not self._whole:
            end_last_line(self._file, self._begin)
        self._whole = False
        line = self._encode(item)
        with self._file.open("ab") as opened:
            fits = self._most_bytes is None or opened.tell() == 0 or opened.tell() + len(line) <= self._most_bytes
            if fits:
                opened.write(line)
        if not fits:
            self._file.replace(self._file.with_name(f"{self._file.name}.1"))
            self._file.write_bytes(line)
        self._whole = True


def end_last_line(file: Path, begin: bytes) -> None:
    """Make a file end with a whole line: remove one that was cut off, and give its end to one that only lacks it.

    What is no line of ours stays, whatever it is; so does all of what is no file, such as a pipe.

    Args:
        file: need not be there.
        begin: how each line of ours begins.

    Raises:
        OSError: it cannot be read or changed.
    """
    if not file.is_file():
        return
    with file.open("rb+") as opened:
        size = opened.seek(0, os.SEEK_END)
        start, last = size, b""
        while start > 0 and b"\n" not in last and len(last) <= MOST_LINE_BYTES:
            end, start = start, max(start - _PIECE_BYTES, 0)
            opened.seek(start)
            last = opened.read(end - start) + last
        last = last.rpartition(b"\n")[2]
        if not last:
            return
        if (last.startswith(begin) or begin.startswith(last)) and not _is_json(last):
            opened.truncate(size - len(last))
            log.warning("%s: its last line was cut off while it was written, and is taken away", file)
        else:
            opened.seek(0, os.SEEK_END)
            opened.write(b"\n")


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
