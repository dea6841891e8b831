"""Which cgroups are audited, and what their limits are: brought up to date at each listing.

Audited is every level from kubepods to container, and the root; another cgroup if it has a quota or one below it has.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slack.audit.findings.sample import CgroupLevel, CgroupTarget
from slack.audit.sources.cgroup import (
    LIMIT_FILES,
    Cgroup,
    CgroupLimits,
    CgroupPlace,
    is_unlimited,
    limits_of,
    other_files,
    quota_file,
    quota_of,
)
from slack.audit.sources.cgroup_names import target_of
from slack.audit.sources.cpustat import Malformed
from slack.audit.sources.descriptors import Descriptors, Gathered, Read, gather_at, read_at
from slack.audit.sources.listing import Directory, Listing
from slack.audit.sources.mounts import CpuMounts
from slack.audit.sources.read_errors import is_gone, printable

MANY = 300
"""With more cgroups than these, the first walk, which somebody waits for, leaves bursts to the second: they
are a fourth of its files and judge nothing."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a directory from one listing to the next."""

    directory: Directory
    path: str
    target: CgroupTarget | None
    place: CgroupPlace
    above: str
    """The path of the cgroup above; '' for the top."""
    cgroup: Cgroup | None = None
    at_seconds: float = 0.0
    """When the last listing read its files."""
    files: Gathered = field(default_factory=dict)
    """What they contents; of one that need not be audited the quota alone."""


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
        self._names: dict[tuple[bool, bool, bool], tuple[str, ...]] = {}
        self._before: dict[Directory, _Known] = {}
        self._whole = False
        self.version = 0
        """Goes up whenever `cgroups` changes."""
        self._quota_file = quota_file(is_v2=mounts.cpu.is_v2)
        is_apart = mounts.usage is not None and mounts.usage.directory != mounts.cpu.directory
        self._usage_apart = mounts.usage.directory if mounts.usage is not None and is_apart else None
        self._counters = ("cpu.stat",) if is_apart or mounts.cpu.is_v2 else ("cpu.stat", "cpuacct.usage")
        self._usage_top: int | None = None
        """Open while listing."""
        self._visited: list[tuple[Directory, float, Gathered]] = []
        self._alike: dict[tuple[Read | None, ...], CgroupLimits] = {}
        """Limits of this listing by what their files say: most pods have the same few."""
        self._listing = Listing(mounts.cpu.directory, self._visit, self._cannot_list)

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
        before, self._known, self.cgroups = self._known, {}, {}
        self._before = {known.directory: known for known in before.values()}
        self._whole = bool(before)
        self._list()
        for directory, at_seconds, files in self._visited:
            known = self._before.get(directory) or self._new_entry(directory)
            known.at_seconds, known.files = at_seconds, files
            self._known.setdefault(known.path, known)
        self._visited, self._before = [], {}
        paths = self._wanted()
        wanted = [known for path, known in self._known.items() if path in paths]
        is_more, self._whole = not self._whole and len(wanted) <= MANY, self._whole or len(wanted) <= MANY
        # First all system calls, then all work on what they gave: see CgroupWalker.
        for known in wanted:
            if is_more or len(known.files) == 1:
                self._complete(known)
        for known in wanted:
            self._audit(known)
        self._alike = {}
        for known in before.values():
            if known.cgroup is not None and self.cgroups.get(known.path) is not known.cgroup:
                known.cgroup.close()
        self._descriptors.reserve(sum(cgroup.files for cgroup in self.cgroups.values()))
        self.version += 1

    def drop(self, path: str) -> None:
        """A cgroup has gone."""
        self.cgroups.pop(path).close()
        self.version += 1
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
        self.version += 1

    def _new_entry(self, directory: Directory) -> _Known:
        cpu, usage = self._mounts.cpu, self._mounts.usage
        apart = f"{usage.directory}{directory.path}" if usage is not None and not cpu.is_v2 else None
        unified = self._mounts.unified
        waits = f"{unified.directory}{directory.path}" if unified is not None and unified.root == cpu.root else None
        place = CgroupPlace(cpu.directory + directory.path, apart, cpu.is_v2, waits)
        path = printable(cpu.root.rstrip("/") + directory.path or "/")
        above = (path.rpartition("/")[0] or "/") if directory.path else ""
        known = self._known.get(above)
        return _Known(directory, path, target_of(path, above=known.target if known else None), place, above)

    def _wanted(self) -> set[str]:
        wanted = set()
        for known in reversed(self._known.values()):
            if known.target is None:
                continue
            if known.target.level is not CgroupLevel.OTHER:
                wanted.add(known.path)
            elif known.path in wanted or self._may_have_quota(known):
                wanted.update((known.path, known.above) if known.above else (known.path,))
        return wanted

    def _may_have_quota(self, known: _Known) -> bool:
        """Say whether a cgroup that need not be audited has a quota, or an unreadable one (the audit will tell)."""
        try:
            return quota_of(known.files, is_v2=known.place.is_v2) is not None
        except (OSError, Malformed):
            return True

    def _list(self) -> None:
        """List everything; files of another mount are read from its top, as the way to it is long."""
        if self._usage_apart is not None:
            try:
                self._usage_top = os.open(self._usage_apart, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                self._usage_top = None  # each cgroup's own read will tell
        try:
            self._listing.refresh()
        finally:
            if self._usage_top is not None:
                os.close(self._usage_top)
                self._usage_top = None

    def _visit(self, directory: Directory, place: int) -> None:
        """Read the limits of a cgroup that is, or looks as if it will be, audited, and the counters of a new one."""
        at_seconds = self._clock()
        quota = read_at(self._quota_file, place)
        files = {self._quota_file: quota}
        known = self._before.get(directory)
        is_new = known is None or known.cgroup is None
        limited = not is_unlimited(quota)
        is_audited = not directory.path or "kubepods" in directory.path if known is None else not is_new
        if is_audited or (limited and isinstance(quota, bytes)):
            for name in self._files(limited=limited, is_new=is_new):
                files[name] = read_at(name, place)
            if is_new and self._usage_top is not None:
                files["cpuacct.usage"] = read_at(f".{directory.path}/cpuacct.usage", self._usage_top)
        self._visited.append((directory, at_seconds, files))

    def _complete(self, known: _Known) -> None:
        """Read what was not read while listing, as it was not known yet that it is wanted."""
        limited = not is_unlimited(known.files[self._quota_file])
        names = self._files(limited=limited, is_new=known.cgroup is None)
        try:
            known.files |= gather_at(known.place.directory, [name for name in names if name not in known.files])
        except OSError as error:
            self._report(known, error)

    def _files(self, *, limited: bool, is_new: bool) -> tuple[str, ...]:
        """Return the files to read beside the quota."""
        key = limited, is_new, self._whole
        if key not in self._names:
            counters = self._counters if is_new else ()
            is_v2 = self._mounts.cpu.is_v2
            self._names[key] = other_files(is_v2=is_v2, limited=limited, whole=self._whole, counters=counters)
        return self._names[key]

    def _audit(self, known: _Known) -> None:
        target = known.target
        if target is None:
            return
        limits = self._limits(known, known.files)
        if target.level is CgroupLevel.NODE and limits is not None and limits.quota_us is not None:
            # A machine's root has none: a container that sees itself as the root (a cgroup namespace).
            target = replace(target, level=CgroupLevel.OTHER)
        cgroup, is_new = known.cgroup, known.cgroup is None
        if cgroup is None:
            cgroup = known.cgroup = Cgroup(target, known.place, self._descriptors)
        cgroup.above = self._above(known)
        cgroup.set_limits(limits)
        if is_new:
            cgroup.preload(known.files, known.at_seconds)
        known.files = {}
        self.cgroups[known.path] = cgroup

    def _above(self, known: _Known) -> Cgroup | None:
        """Return the next audited cgroup above: one without a quota of its own may be left out between two."""
        path = known.above
        while path and path not in self.cgroups:
            path = self._known[path].above if path in self._known else ""
        return self.cgroups.get(path)

    def _limits(self, known: _Known, files: Gathered) -> CgroupLimits | None:
        contents = tuple(map(files.get, LIMIT_FILES[known.place.is_v2]))
        if (alike := self._alike.get(contents)) is not None:
            return alike
        problems = len(self.troubles)
        limits = self._worked_out(known, files)
        if limits is not None and len(self.troubles) == problems:
            self._alike[contents] = limits
        return limits

    def _worked_out(self, known: _Known, files: Gathered) -> CgroupLimits | None:
        def report(file: str, error: OSError | Malformed) -> None:
            self.troubles.append((known.path, f"{known.place.directory}/{file}", error))

        try:
            return limits_of(files, report, is_v2=known.place.is_v2)
        except (OSError, Malformed) as error:
            self._report(known, error)
            return None

    def _report(self, known: _Known, error: OSError | Malformed) -> None:
        self.troubles.append((known.path, f"{known.place.directory}/{self._quota_file}", error))

    def _cannot_list(self, path: str, error: OSError | str) -> None:
        self.troubles.append((path, self._mounts.cpu.directory + path.rstrip("/"), error))
