"""What could not be read in one walk: counted by cgroup and kind, with one example of each."""

import errno

from slack.audit.findings.sample import ReadError
from slack.audit.sources.cpustat import Empty, Malformed

_GONE = (errno.ENOENT, errno.ENODEV)
"""ENODEV is what a descriptor of a removed cgroup says."""
_FORBIDDEN = (errno.EACCES, errno.EPERM)


def is_gone(error: OSError | Malformed) -> bool:
    """Say whether the error means that the cgroup, or the file, is not there."""
    return isinstance(error, OSError) and error.errno in _GONE


class ReadErrorCounts:
    """Counts a cgroup once for each kind of trouble, however many of its files have it."""

    def __init__(self) -> None:
        self._seen: set[tuple[ReadError, str]] = set()
        self.counts: dict[ReadError, int] = {}
        self.examples: dict[ReadError, str] = {}

    def count_error(self, cgroup: str, file: str, error: OSError | Malformed | str) -> None:
        """Count it; `file` and the error's words become the example if it is the first of its kind."""
        kind = _kind(error)
        if (kind, cgroup) in self._seen:
            return
        self._seen.add((kind, cgroup))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        words = (error.strerror or type(error).__name__).lower() if isinstance(error, OSError) else str(error)
        self.examples.setdefault(kind, f"{printable(file)}: {words}")


def printable(path: str) -> str:
    """Return a path as it can be printed and sent: names of cgroups may be any bytes."""
    return path if path.isascii() and path.isprintable() else _escaped(path)


def _escaped(path: str) -> str:
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _kind(error: OSError | Malformed | str) -> ReadError:
    if isinstance(error, Empty):
        return ReadError.EMPTY
    if isinstance(error, Malformed):
        return ReadError.MALFORMED
    if isinstance(error, OSError):
        if error.errno in _GONE:
            return ReadError.GONE
        if error.errno in _FORBIDDEN:
            return ReadError.FORBIDDEN
    return ReadError.UNREADABLE
