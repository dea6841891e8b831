"""The last events of one collection, for watches: where one begins, what it has missed, when it must list again."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from benchmarks.generator import Json

HISTORY_EVENTS = 20_000
"""A watch that asks for what is older gets a 410."""


class Happened(NamedTuple):
    """One entry of a collection's history."""

    version: int
    namespace: str
    line: bytes


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    @property
    def body(self) -> Json:
        """Return it as the API says it."""
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return head | {"message": str(self), "reason": self.reason, "code": self.code}


class History:
    """The last events of one collection; places in it are counted from the beginning of time."""

    def __init__(self, events: int = HISTORY_EVENTS) -> None:
        self._kept: deque[Happened] = deque(maxlen=events)
        self.end = 0
        self.compacted = 0
        """Versions before this one are gone."""

    def add(self, entry: Happened) -> None:
        """Append, and forget the oldest when there are too many."""
        if len(self._kept) == self._kept.maxlen:
            self.compacted = self._kept[0].version
        self._kept.append(entry)
        self.end += 1

    def compact(self, version: int) -> None:
        """Forget all up to a version: who asks for them gets a 410."""
        self._kept.clear()
        self.compacted = version

    def after(self, version: int) -> int:
        """Return the place of the first event after a version.

        Raises:
            Refused: 410.
        """
        if version < self.compacted:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        return self.end - sum(1 for entry in self._kept if entry.version > version)

    def since(self, place: int) -> Iterator[Happened]:
        """Yield what came from a place on.

        Raises:
            Refused: 410, when the reader was too slow.
        """
        count = self.end - place
        if count > len(self._kept):
            raise Refused(410, "Expired", "the watch is too slow: what it has not read is gone")
        return islice(self._kept, len(self._kept) - count, None)
