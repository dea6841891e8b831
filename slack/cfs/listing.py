"""Which cgroups there are: directories below a mount, listed anew only where something changed.

A cgroup directory's time stamps do not move when a cgroup is made in it or removed (kernfs keeps them only where
somebody set an attribute), but its link count is always 2 + the cgroups in it (kernfs_refresh_inode). So a count of 2
is a leaf, which needs no listing, and a changed count is a changed directory. Whether link counts can be believed is
seen at the top: on other file systems, such as a recorded tree's, time stamps are used.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MOST_DEPTH = 32
"""Below kubepods there are four levels; what a container makes below its own cgroup need not be followed for ever."""
MOST_CGROUPS = 50_000
"""A node has some thousands; a container that makes a million must not fill the auditor's memory."""


@dataclass(slots=True)
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


Told = Callable[[str, OSError | str], None]
"""Is told of a directory that cannot be listed, and why."""


class Listing:
    """The directories below `top`. Nothing raises: what cannot be listed is told and left out."""

    def __init__(self, top: str, told: Told, *, most_depth: int = MOST_DEPTH, most: int = MOST_CGROUPS) -> None:
        self._top = top
        self._told = told
        self._most_depth = most_depth
        self._most = most
        self._count = 0
        self._links_count = False
        self._inner: list[Directory] = []
        self.root: Directory | None = None
        self.all: list[Directory] = []
        """All of them, parents first, in the order of names."""

    def refresh(self) -> None:
        """List everything anew; directories that are still there stay the same objects."""
        try:
            status = os.stat(self._top)  # noqa: PTH116 - a path object each time is half of the cost
            found = _folders(self._top)
        except OSError as error:
            self._told("/", error)
            self.root, self._inner, self.all = None, [], []
            return
        self._links_count = bool(found) and status.st_nlink == 2 + len(found)
        if self.root is None:
            self.root = Directory("", self._mark(status))
        self._count, self._inner, self.all = 1, [], [self.root]
        self._fill(self.root, self._mark(status), found, 1)

    def changed(self) -> bool:
        """Say whether a cgroup was made or removed, by looking at those directories only that hold some."""
        if self.root is None:
            return True
        for directory in self._inner:
            try:
                status = os.stat(self._top + directory.path)  # noqa: PTH116 - as above
                if self._mark(status) != directory.mark:
                    return True
            except OSError:
                return True
        return False

    def forget(self, path: str) -> None:
        """A cgroup has turned out to be gone: what has its name now is another."""
        above, _, name = path.rpartition("/")
        directory = self.root
        for part in above.split("/")[1:]:
            directory = directory.below.get(part) if directory else None
        if directory is not None:
            directory.below.pop(name, None)

    def _fill(self, directory: Directory, mark: tuple[int, ...], names: list[str], depth: int) -> None:
        """Make `directory` what was just listed, and go on below."""
        directory.mark = mark
        below: dict[str, Directory] = {}
        names.sort()
        for name in names:
            path = f"{directory.path}/{name}"
            if self._count >= self._most or depth > self._most_depth:
                what = f"more than {self._most} cgroups" if self._count >= self._most else f"{depth} levels deep"
                self._told(path, f"left out with what is below: {what}")
                break
            try:
                status = os.lstat(self._top + path)
                inner = [] if self._links_count and status.st_nlink == 2 else _folders(self._top + path)
            except OSError as error:
                self._told(path, error)
                continue
            self._count += 1
            mark = self._mark(status)
            child = directory.below.get(name)
            if child is None or child.mark[0] != mark[0] or (not self._links_count and child.mark != mark):
                child = Directory(path, mark)
            below[name] = child
            self.all.append(child)
            if inner or child.below or not self._links_count:
                self._fill(child, mark, inner, depth + 1)
            else:
                child.mark = mark
        directory.below = below
        if below or not self._links_count or directory.path == "":
            self._inner.append(directory)

    def _mark(self, status: os.stat_result) -> tuple[int, ...]:
        if self._links_count:
            return status.st_ino, status.st_nlink
        return status.st_ino, status.st_nlink, status.st_mtime_ns


def _folders(directory: str) -> list[str]:
    """Return the names of the directories in one; symlinks are none."""
    with os.scandir(directory) as found:
        return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
