"""Which cgroups are audited, and what their limits are: brought up to date at each listing.

Audited is every level from kubepods to container, and the root; another cgroup if it has a quota or one below it has.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from slack.cfs.cgroup import Cgroup, Limits, Place, limits_of, quota_file, quota_of, wanted_files
from slack.cfs.cpustat import Malformed
from slack.cfs.descriptors import Descriptors, Gathered, gather
from slack.cfs.listing import Directory, Listing
from slack.cfs.mounts import CpuMounts
from slack.cfs.names import target_of
from slack.cfs.sample import Level, Target
from slack.cfs.troubles import is_gone, printable

MANY = 300
"""With more cgroups than these, the first walk, which somebody waits for, leaves burst and shares to the second: they
are half of its files and judge nothing."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a directory from one listing to the next."""

    directory: Directory
    path: str
    target: Target | None
    place: Place
    above: str
    """The path of the cgroup above; '' for the top."""
    cgroup: Cgroup | None = None


class Census:
    """The audited cgroups of one mount, by path, parents first."""

    def __init__(self, mounts: CpuMounts, descriptors: Descriptors, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.cgroups: dict[str, Cgroup] = {}
        self.troubles: list[tuple[str, str, OSError | Malformed | str]] = []
        """Path, file and error of what the last listing could not read."""
        self._mounts = mounts
        self._descriptors = descriptors
        self._known: dict[str, _Known] = {}
        self._whole = False
        self._listing = Listing(mounts.cpu.directory, self._cannot_list)

    @property
    def is_empty(self) -> bool:
        """Whether the mount itself could not be listed."""
        return self._listing.root is None

    def is_stale(self) -> bool:
        """Say whether a cgroup was made or removed since the last listing, or that left something to the next."""
        return not self._whole or self._listing.changed()

    def update(self) -> None:
        """List everything, read all limits."""
        self.troubles = []
        self._listing.refresh()
        before, self._known, self.cgroups = self._known, {}, {}
        by_directory = {id(known.directory): known for known in before.values()}
        for directory in self._listing.all:
            known = by_directory.get(id(directory)) or self._meet(directory)
            self._known.setdefault(known.path, known)
        wanted = self._wanted()
        self._whole = bool(before) or len(wanted) <= MANY
        chosen = [known for path, known in self._known.items() if path in wanted]
        # First all system calls, then all work on what they gave: see CgroupWalker.
        gathered = [self._gather(known) for known in chosen]
        for known, (at_seconds, files) in zip(chosen, gathered, strict=True):
            if files is not None:
                self._audit(known, files, at_seconds)
        for known in before.values():
            if known.cgroup is not None and self.cgroups.get(known.path) is not known.cgroup:
                known.cgroup.close()
        self._descriptors.want(sum(cgroup.files for cgroup in self.cgroups.values()))

    def drop(self, path: str) -> None:
        """A cgroup has gone."""
        self.cgroups.pop(path).close()
        self._listing.forget(self._known.pop(path).directory.path)

    def forget_gone(self) -> None:
        """What was gone at the last listing has been told; other troubles last until the next."""
        self.troubles = [told for told in self.troubles if isinstance(told[2], str) or not is_gone(told[2])]

    def directory(self, path: str) -> Directory | None:
        """Return a cgroup's directory."""
        known = self._known.get(path)
        return known.directory if known else None

    def close(self) -> None:
        """Let go of all descriptors."""
        for cgroup in self.cgroups.values():
            cgroup.close()
        self.cgroups, self._known = {}, {}

    def _meet(self, directory: Directory) -> _Known:
        cpu, usage = self._mounts.cpu, self._mounts.usage
        apart = f"{usage.directory}{directory.path}" if usage is not None and not cpu.is_v2 else None
        place = Place(cpu.directory + directory.path, apart, cpu.is_v2)
        path = printable(cpu.root.rstrip("/") + directory.path or "/")
        above = (path.rpartition("/")[0] or "/") if directory.path else ""
        return _Known(directory, path, target_of(path), place, above)

    def _wanted(self) -> set[str]:
        wanted = set()
        for known in reversed(self._known.values()):
            if known.target is None:
                continue
            if known.target.level is not Level.OTHER:
                wanted.add(known.path)
            elif known.path in wanted or self._has_quota(known):
                wanted.update((known.path, known.above) if known.above else (known.path,))
        return wanted

    def _has_quota(self, known: _Known) -> bool:
        """Say whether a cgroup that need not be audited has a quota; one that cannot be read is told."""
        try:
            files = gather(known.place.directory, [quota_file(is_v2=known.place.is_v2)])
            return quota_of(files, is_v2=known.place.is_v2) is not None
        except (OSError, Malformed) as error:
            self._tell(known, error)
            return False

    def _gather(self, known: _Known) -> tuple[float, Gathered | None]:
        """Read the limits, and the counters of one that was just met."""
        names = wanted_files(known.place, whole=self._whole, counters=known.cgroup is None)
        try:
            return self._clock(), gather(known.place.directory, names)
        except OSError as error:
            self._tell(known, error)
            return 0.0, None

    def _audit(self, known: _Known, files: Gathered, at_seconds: float) -> None:
        """Take the limits of an audited cgroup, and make it one if it was none."""
        target = known.target
        if target is None:
            return
        limits = self._limits(known, files)
        if target.level is Level.NODE and limits is not None and limits.quota_us is not None:
            # A machine's root has none: a container that sees itself as the root (a cgroup namespace).
            target = replace(target, level=Level.OTHER)
        cgroup, is_new = known.cgroup, known.cgroup is None
        if cgroup is None:
            cgroup = known.cgroup = Cgroup(target, known.place, self._descriptors)
        cgroup.above = self._above(known)
        cgroup.set_limits(limits)
        if is_new:
            cgroup.give(files, at_seconds)
        self.cgroups[known.path] = cgroup

    def _above(self, known: _Known) -> Cgroup | None:
        """Return the next audited cgroup above: one without a quota of its own may be left out between two."""
        path = known.above
        while path and path not in self.cgroups:
            path = self._known[path].above if path in self._known else ""
        return self.cgroups.get(path)

    def _limits(self, known: _Known, files: Gathered) -> Limits | None:
        def tell(file: str, error: OSError | Malformed) -> None:
            self.troubles.append((known.path, f"{known.place.directory}/{file}", error))

        try:
            return limits_of(files, tell, is_v2=known.place.is_v2)
        except (OSError, Malformed) as error:
            self._tell(known, error)
            return None

    def _tell(self, known: _Known, error: OSError | Malformed) -> None:
        name = quota_file(is_v2=self._mounts.cpu.is_v2)
        self.troubles.append((known.path, f"{known.place.directory}/{name}", error))

    def _cannot_list(self, path: str, error: OSError | str) -> None:
        self.troubles.append((path, self._mounts.cpu.directory + path.rstrip("/"), error))
