"""Which cgroups there are: directories below a mount, listed anew only where something changed.

A cgroup directory's time stamps do not move when a cgroup is made in it or removed (kernfs keeps them only where
somebody set an attribute), but its link count is always 2 + the cgroups in it (kernfs_refresh_inode). So a count of 2
is a leaf, which needs no listing, and a changed count is a changed directory. Whether link counts can be believed is
seen at the top: on other file systems, such as a recorded tree's, time stamps are used.

Each directory is opened once, from the one above it; whoever wants to read files in it is called meanwhile.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST_DEPTH = 32
"""Below kubepods there are four levels; what a container makes below its own cgroup need not be followed for ever."""
MOST_CGROUPS = 50_000
"""A node has some thousands; a container that makes a million must not fill the auditor's memory."""


_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(slots=True, eq=False)
class Directory:
    """One cgroup's."""

    path: str
    """Below the mount; '' for its top."""
    mark: tuple[int, ...]
    """What changes when something is made or removed in it."""
    below: dict[str, "Directory"] = field(default_factory=dict)

    def walk(self) -> Iterator["Directory"]:
        """Yield this one and all below, parents first, in the order of names."""
        yield self
        for name in sorted(self.below):
            yield from self.below[name].walk()


ReportProblem = Callable[[str, OSError | str], None]
"""Is told of a directory that cannot be listed, and why."""
Visit = Callable[[Directory, int], None]
"""Is called with each directory and a descriptor of it, which is closed afterwards."""


class Listing:
    """The directories below `top`. Nothing raises: what cannot be listed is told and left out."""

    def __init__(
        self, top: str, visit: Visit, report: ReportProblem, *, most_depth: int = MOST_DEPTH, most: int = MOST_CGROUPS
    ) -> None:
        self._top = top
        self._visit = visit
        self._report = report
        self._most_depth = most_depth
        self._most = most
        self._count = 0
        self._links_count = False
        self._inner: list[Directory] = []
        """Those that hold some, which are looked at to see what changed."""
        self._inner_paths: list[str] = []
        self.root: Directory | None = None

    def refresh(self) -> None:
        """List everything anew, parents first, in the order of names.

        Directories that are still there stay the same objects.
        """
        self._inner = []
        try:
            place = os.open(self._top, _FLAGS)
        except OSError as error:
            self._report("/", error)
            self.root = None
            return
        try:
            status = os.fstat(place)
            found = _folders(place)
        except OSError as error:
            self._report("/", error)
            self.root = None
        else:
            self._links_count = bool(found) and status.st_nlink == 2 + len(found)
            mark = self._mark(status)
            if self.root is None:
                self.root = Directory("", mark)
            self.root.mark, self._count = mark, 1
            self._visit(self.root, place)
            self._fill(self.root, place, found, 1)
        finally:
            os.close(place)
        self._inner_paths = [directory.path[1:] or "." for directory in self._inner]

    def changed(self) -> bool:
        """Say whether a cgroup was made or removed, by looking at those directories only that hold some."""
        if self.root is None:
            return True
        stat, mark = os.stat, self._mark
        try:
            top = os.open(self._top, _FLAGS)
            try:
                # First all system calls: see CgroupWalker. Without the way to the mount they take two thirds.
                found = [stat(path, dir_fd=top) for path in self._inner_paths]
            finally:
                os.close(top)
        except OSError:
            return True
        return any(mark(status) != directory.mark for status, directory in zip(found, self._inner, strict=True))

    def forget(self, path: str) -> None:
        """A cgroup has turned out to be gone: what has its name now is another."""
        above, _, name = path.rpartition("/")
        directory = self.root
        for part in above.split("/")[1:]:
            directory = directory.below.get(part) if directory else None
        if directory is not None:
            directory.below.pop(name, None)

    def _fill(self, directory: Directory, place: int, names: list[str], depth: int) -> None:
        """Go through what is in `directory`, which is open as `place`, and below."""
        before, directory.below = directory.below, {}
        if names or not self._links_count or depth == 1:
            self._inner.append(directory)
        names.sort()
        for name in names:
            path = f"{directory.path}/{name}"
            if self._count >= self._most or depth > self._most_depth:
                what = f"more than {self._most} cgroups" if self._count >= self._most else f"{depth} levels deep"
                self._report(path, f"left out with what is below: {what}")
                break
            try:
                inside = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=place)
            except OSError as error:
                self._report(path, error)
                continue
            try:
                child = self._entry(path, os.fstat(inside), before.get(name))
                inner = [] if self._links_count and child.mark[1] == 2 else _folders(inside)
                self._count += 1
                directory.below[name] = child
                self._visit(child, inside)
                if inner or child.below or not self._links_count:
                    self._fill(child, inside, inner, depth + 1)
            except OSError as error:
                self._report(path, error)
            finally:
                os.close(inside)

    def _entry(self, path: str, status: os.stat_result, known: Directory | None) -> Directory:
        """Return what is known of it, if it is still the same, or a new one."""
        mark = self._mark(status)
        if known is None or known.mark[0] != mark[0] or (not self._links_count and known.mark != mark):
            return Directory(path, mark)
        known.mark = mark
        return known

    def _mark(self, status: os.stat_result) -> tuple[int, ...]:
        if self._links_count:
            return status.st_ino, status.st_nlink
        return status.st_ino, status.st_nlink, status.st_mtime_ns


def _folders(directory: int) -> list[str]:
    """Return the names of the directories in one; symlinks are none."""
    with os.scandir(directory) as found:
        return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
