"""Grants that outlive the agent: appended to a file in /run before a gate is told, read when an agent begins.

A grant is known by the container instance that it is the successor of, by its id (none for a first start): numbers of
an agent that was killed would mean nothing to the next. Times are of the monotonic clock, which a boot shares and no
jump of the wall clock moves; lines of another boot are not read. A line that is torn or garbled is left out, those
behind it are not. Where the file cannot be written, starts go on and the caller is told: what is lost then is found
again once the containers run, as with a journal that is gone.
"""

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from slack.process.atomic_write import write_atomically

MAX_BYTES = 16 << 20
"""A file beyond that is not ours."""
COMPACT_LINES = 32
"""A file of fewer lines is left as it is; a longer one until it is twice as long as it was rewritten last."""


class JournalLine(msgspec.Struct, frozen=True, gc=False):
    """One line."""

    boot: str
    uid: str
    container: str
    after: str
    """Id of the instance that it follows; empty: there was none."""
    at: float


_DECODER = msgspec.json.Decoder(JournalLine)


class Journal:
    """One file, of one agent at a time."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._lines = self._kept_lines = 0

    def read(self) -> dict[tuple[str, str], JournalLine]:
        """Return the newest grant of each container; nothing where there is no file that can be read."""
        try:
            if self._path.stat().st_size > MAX_BYTES:
                return {}
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return {}
        found: dict[tuple[str, str], JournalLine] = {}
        for line in filter(None, lines):
            self._lines += 1
            try:
                grant = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if grant.boot == self._boot:
                found[grant.uid, grant.container] = grant
        return found

    def append(self, grants: Iterable[tuple[str, str, str, float]]) -> None:
        """Write grants: uid, container, the instance before it, monotonic seconds.

        Raises:
            OSError: they are not written, and neither is a part of them.
        """
        rows = [JournalLine(self._boot, *grant) for grant in grants]
        # a line of its own first: whatever a torn write has left ends here
        data = b"\n" + b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            if os.write(descriptor, data) != len(data):
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise OSError(f"{self._path}: no room for {len(data)} bytes")
        finally:
            os.close(descriptor)
        self._lines += len(rows)

    def compact(self, uids: Collection[str]) -> None:
        """Keep only what is of these pods, once the file has doubled; a file that cannot be rewritten stays."""
        if self._lines < max(COMPACT_LINES, 2 * self._kept_lines):
            return
        self._lines = 0
        kept = [grant for grant in self.read().values() if grant.uid in uids]
        with contextlib.suppress(OSError):
            write_atomically(self._path, b"".join(msgspec.json.encode(grant) + b"\n" for grant in kept))
        self._lines = self._kept_lines = len(kept)
