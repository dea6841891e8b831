"""Small files that are read again and again: kept open as far as descriptors reach, opened for each read otherwise.

A read of a kept descriptor costs a fifth of open, read and close, and the kernel says ENODEV when its cgroup is gone,
also when another of the same name was made. The price is memory of the kernel's, about 6 KiB a descriptor (a page of it
is the file's buffer, which is charged to the reader's memory cgroup), and v1 mounts that cannot be unmounted meanwhile.
"""

import errno
import os
import resource
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from slack.audit.sources.cpustat import Malformed

T = TypeVar("T")

_SPARE = 128
"""Descriptors left for the rest of the process: sockets, logs, what is opened for a moment."""
USUAL_BYTES = 478
"""Holds every file read here, cpu.stat of v2 with numbers of twenty digits too. Python takes a buffer as small as this
from its own pools, which is quicker."""
_MOST_BYTES = 2048
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# No symlink is followed, as cgroupfs has none, and a pipe in the place of a file must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW

_open, _pread, _close = os.open, os.pread, os.close

Read = bytes | OSError
"""What a file says, or why it cannot be read."""
Gathered = dict[str, Read]
"""Files of one directory by name."""


def read_once(path: str) -> bytes:
    """Return what is in a small file.

    Raises:
        OSError: It cannot be read.
        Malformed: It is longer than any file of the kernel's that is read here.
    """
    return _whole(read_at(path))


def gather_at(directory: str, names: Iterable[str]) -> Gathered:
    """Read several small files of one directory, without going through the whole path for each.

    Raises:
        OSError: The directory is not there, or is none.
    """
    place = os.open(directory, _FOLDER_FLAGS)
    try:
        return {name: read_at(name, place) for name in names}
    finally:
        os.close(place)


def read_at(name: str, place: int | None = None) -> Read:
    """Read a small file of the directory that is open as `place`, or of any by its whole path."""
    # All that runs between two entries of the kernel counts twice here: see CgroupWalker.
    data: Read
    try:
        descriptor = _open(name, _FLAGS, dir_fd=place)
    except OSError as error:
        return error
    try:
        data = _pread(descriptor, USUAL_BYTES, 0)
        if len(data) == USUAL_BYTES:
            data = _pread(descriptor, _MOST_BYTES, 0)
    except OSError as error:
        data = error
    _close(descriptor)
    return data


def content_of(files: Gathered, name: str) -> bytes:
    """Return what a gathered file says.

    Raises:
        OSError: It could not be read.
        Malformed: It is longer than any file of the kernel's that is read here.
    """
    return _whole(files[name])


def _all_of(descriptor: int) -> bytes:
    data = os.pread(descriptor, USUAL_BYTES, 0)
    return data if len(data) < USUAL_BYTES else os.pread(descriptor, _MOST_BYTES, 0)


def _whole(data: Read) -> bytes:
    if isinstance(data, OSError):
        raise data
    if len(data) == _MOST_BYTES:
        raise Malformed(f"is longer than {_MOST_BYTES - 1} bytes")
    return data


class Descriptors:
    """How many descriptors may be kept; raises the process's soft limit as far as needed and allowed."""

    def __init__(self, most: int | None = None) -> None:
        """`most` sets an own bound, below what the process's limit leaves."""
        self.kept = 0
        self.refused = 0
        """Reads that had to open their file as no descriptor was left to keep."""
        self.changes = 0
        """Goes up whenever one is kept or given back."""
        self._asked = most
        self._room = self._left(0) if most is None else min(most, self._left(most))

    def reserve(self, count: int) -> None:
        """Make room for as many kept ones in all, as far as it goes."""
        wanted = count if self._asked is None else min(count, self._asked)
        if wanted > self._room:
            self._room = min(wanted, self._left(wanted))

    def reserve_one(self) -> bool:
        """Say whether one more may be kept, and count it."""
        if self.kept >= self._room:
            self.refused += 1
            return False
        self.kept += 1
        self.changes += 1
        return True

    def release(self) -> None:
        """One less is kept."""
        self.kept -= 1
        self.changes += 1

    def shrink(self) -> None:
        """The process has run out of descriptors all the same: keep no more than now, less some room to work in."""
        self._room = max(0, self.kept - _SPARE)

    @property
    def too_many(self) -> int:
        """How many should be given back."""
        return max(0, self.kept - self._room)

    def _left(self, wanted: int) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        others = max(0, _open_now() - self.kept) + _SPARE
        if soft != resource.RLIM_INFINITY and wanted + others > soft:
            raised = wanted + others if hard == resource.RLIM_INFINITY else min(wanted + others, hard)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                soft = raised
            except (ValueError, OSError):
                pass  # a system-wide limit below the hard one: what there is must do
        return wanted + others if soft == resource.RLIM_INFINITY else max(0, soft - others)


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is wanted
    except OSError:
        return 64


class KeptFile(Generic[T]):
    """A file, how it is parsed, and what it said the last time: what has not changed is not parsed again."""

    __slots__ = ("_data", "_descriptors", "_keep", "_parse", "_value", "descriptor", "path")

    def __init__(self, path: str, parse: Callable[[bytes], T], descriptors: Descriptors, *, keep: bool = True) -> None:
        """One that is seldom read need not be kept; others are from the second read on, as the first costs more so."""
        self.path = path
        self.descriptor = -1
        """Where it is kept open, -1 where it is not."""
        self._keep = keep
        self._parse = parse
        self._descriptors = descriptors
        self._data = b""
        self._value: T | None = None

    def read(self) -> T:
        """Return what it says now.

        Raises:
            OSError: It cannot be read; ENODEV or ENOENT when the cgroup is gone.
            Malformed: It is not what a kernel writes.
        """
        return self.parsed(self.fetch())

    def fetch(self) -> Read:
        """Take what it says now, to be `understood` later."""
        try:
            return _all_of(self.descriptor) if self.descriptor >= 0 else self._open()
        except OSError as error:
            return error

    def parsed(self, data: Read) -> T:
        """Return what is meant by what was read, here or by somebody else: at most `USUAL_BYTES` are enough.

        Raises:
            OSError: It could not be read; ENODEV or ENOENT when the cgroup is gone.
            Malformed: It is not what a kernel writes.
        """
        if data == self._data and self._value is not None:
            return self._value
        whole = _whole(data)
        if len(whole) == USUAL_BYTES:
            whole = _whole(self.fetch())
        value = self._value = self._parse(whole)
        self._data = whole
        return value

    def _open(self) -> bytes:
        try:
            descriptor = os.open(self.path, _FLAGS)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._descriptors.shrink()
            raise
        try:
            data = _all_of(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if self._keep and self._value is not None and self._descriptors.reserve_one():
            self.descriptor = descriptor
        else:
            os.close(descriptor)
        return data

    def close(self) -> None:
        """Let go of the descriptor; the next read opens the file again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._descriptors.release()
